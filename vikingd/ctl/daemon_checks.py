"""The checks of the daemon at an address: does it answer, its version, its store, the key."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import grpc

import vikingd
from vikingd.client import ClientError, Mode
from vikingd.client.credentials import Credentials
from vikingd.client.messages import MessageClient
from vikingd.client.unreachable_daemon import unreachable
from vikingd.client.users_daemon import version_difference
from vikingd.ctl.doctor_checks import OK, WARN, WRONG, Check
from vikingd.domain.daemon_addresses import UNIX, USER
from vikingd.pb.admin_pb2 import StatsResponse
from vikingd.system import daemon_lock
from vikingd.system.user_paths import user_socket

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_SKEW = 1.0  # seconds
_PAID = "openai"
_SEE_MODELS = "see the section [embedding] of its configuration, and its log"
_GIVE_KEY = "export VIKINGD_KEY_FILE=FILE, or --key-file FILE"
_NEW_KEY = f"{_GIVE_KEY} with a key of this daemon; vikingctl keys create makes one"
_NO_KEY = grpc.StatusCode.UNAUTHENTICATED
_NO_RIGHT = grpc.StatusCode.PERMISSION_DENIED


class DaemonChecks:
    """The checks of the daemon at an address, and its answers to them.

    Attributes:
        stats: the reply of the RPC Stats; None if the daemon does not answer, or the key may not
            see its state.
        serves: True if it answers.
    """

    def __init__(self, address: str, credentials: Credentials, timeout: float) -> None:
        self.stats: StatsResponse | None = None
        self.serves = False
        self._address = address
        self._credentials = credentials
        self._timeout = timeout

    def check(self) -> Iterator[Check]:
        """Check whether the daemon answers, its version and its state; set `serves` and `stats`."""
        with MessageClient(self._address, self._timeout, **asdict(self._credentials)) as client:
            yield from self._reached(client)
            if self.serves:
                yield from self._state(client)

    def embedder(self, *, may_pay: bool) -> Iterator[Check]:
        """Check whether the daemon can embed a text, and whether texts wait for a vector.

        A paid endpoint is called only with `may_pay`.
        """
        if self.stats is None:
            if self.serves:
                yield self._health_of_embedder()
            return
        own = self.stats.embedder
        name = f"{own.provider} {own.model}, {own.dimension or 'not yet known'} dimensions"
        if own.provider == "none":
            found = "the daemon has no embedder: texts are found by words alone"
            yield Check(WARN, "embedder", found, "vikingd serve --provider e5")
            return
        if own.stalled or own.last_error:
            yield Check(WRONG, "embedder", f"{name}: {own.last_error or own.stalled}", _SEE_MODELS)
        elif own.provider == _PAID and not may_pay:
            yield Check(OK, "embedder", f"{name}; not asked: --models asks the endpoint")
        else:
            yield self._embedded(name)
        if own.backlog:
            found = f"{own.backlog:,} texts wait for a vector; words alone find them so far"
            yield Check(WARN, "vectors", found, "wait; vikingctl stats shows the time left")

    def _health_of_embedder(self) -> Check:
        """Return the check of the embedder's health, which needs no key."""
        with MessageClient(self._address, self._timeout, **asdict(self._credentials)) as client:
            state = client.health("viking.embedder")
        if state == "SERVING":
            return Check(OK, "embedder", "the daemon says that it works")
        found = f"the daemon says {state}: texts are found by words alone"
        return Check(WRONG, "embedder", found, _SEE_MODELS)

    def _embedded(self, name: str) -> Check:
        """Return the check whether the daemon embeds a text that it has not seen before."""
        text = f"vikingctl doctor {time.time_ns()}"
        with MessageClient(self._address, self._timeout, **asdict(self._credentials)) as client:
            began = time.monotonic()
            try:
                client.retrieve(text, mode=Mode.VECTOR, top_k=1)
            except ClientError as error:
                return Check(WRONG, "embedder", f"{name}: {error.message}", _SEE_MODELS)
        took = 1e3 * (time.monotonic() - began)
        return Check(OK, "embedder", f"{name}; a query took {took:.0f} ms")

    def _reached(self, client: MessageClient) -> Iterator[Check]:
        try:
            state = client.health()
        except ClientError as error:
            yield self._unreached(error)
            return
        self.serves = True
        if state == "SERVING":
            yield Check(OK, "daemon", f"serves at {self._address}")
        else:
            found = f"answers at {self._address}, and does not serve: {state}"
            yield Check(WRONG, "daemon", found, "see its log")

    def _unreached(self, error: ClientError) -> Check:
        if self._address == USER:
            return Check(OK, "daemon", "yours does not run; any call starts it")
        if error.code is not grpc.StatusCode.UNAVAILABLE:
            found = f"{self._address}: {error.message}"
            return Check(WRONG, "daemon", found, "--address HOST:PORT says where it is")
        reason, hint = unreachable(error.message, self._address)
        return Check(WRONG, "daemon", f"none answers at {self._address} ({reason})", hint)

    def _state(self, client: MessageClient) -> Iterator[Check]:
        try:
            self.stats = client.stats()
        except ClientError as error:
            yield self._refused(error)
            return
        yield Check(
            OK, "key", "the daemon accepts it" if self._credentials.key else "none is needed"
        )
        own = vikingd.__version__
        if self.stats.version != own:
            found = f"the daemon is vikingd {self.stats.version}, and this is {own}"
            remedy = "vikingctl stop" if self._address == USER else "start the daemon again"
            yield Check(WARN, "version", found, remedy)
        ahead = self.stats.start_time.ToMicroseconds() / 1e6 - time.time()
        if ahead > _SKEW:
            found = f"the daemon's clock is at least {ahead:,.0f} s ahead of this one"
            yield Check(WARN, "clock", found, "set both by NTP: keys expire by the daemon's clock")
        yield from self._processes(self.stats.answering_processes, self.stats.processes)
        if self.stats.problem:
            found = f"writes are refused: {self.stats.problem}"
            yield Check(WRONG, "writes", found, "make room on its disk, or restore a backup")
        if self.stats.index.problem:
            yield Check(WRONG, "index", self.stats.index.problem, "vikingctl verify; see its log")

    @staticmethod
    def _processes(answering: int, whole: int) -> Iterator[Check]:
        if whole > 1:
            found = f"{answering} of {whole} answer"
            state, remedy = (OK, "") if answering == whole else (WARN, "see its log")
            yield Check(state, "processes", found, remedy)

    def _refused(self, error: ClientError) -> Check:
        if error.code is _NO_RIGHT:
            return Check(OK, "key", "valid, and may not see the state of the daemon")
        if error.code is _NO_KEY:
            given = bool(self._credentials.key)
            return Check(WRONG, "key", error.message, _NEW_KEY if given else _GIVE_KEY)
        return Check(WRONG, "daemon", error.message, "see its log")


def key_file(path: Path | None) -> Iterator[Check]:
    """Yield the check whether other users can read the file of the key."""
    named = path or Path(os.environ.get("VIKINGD_KEY_FILE", ""))
    if named != Path() and named.is_file() and named.stat().st_mode & _OTHERS:
        yield Check(WARN, "key file", f"other users have access to {named}", f"chmod 600 {named}")


def users_socket() -> Iterator[Check]:
    """Yield the check of the socket of this user's own daemon."""
    try:
        path = user_socket()
    except ValueError as error:
        found, _, remedy = str(error).rpartition(": ")
        yield Check(WRONG, "socket", found, remedy)
        return
    if daemon_lock.listens(path):
        if difference := version_difference(path):
            found, _, remedy = difference.partition(": ")
            yield Check(WARN, "socket", found, remedy)
        else:
            yield Check(OK, "socket", f"your daemon listens at {UNIX}{path}")
    elif os.path.lexists(path):
        found = f"nobody listens at {path}, which a killed daemon left"
        yield Check(WARN, "socket", found, "the next start of your daemon takes it over")
    else:
        yield Check(OK, "socket", "no daemon of your own runs; --address user starts it")
