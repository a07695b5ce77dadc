"""Calls of the program git, with limits and without prompts, hooks and redirects."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from vikingd.sources.addresses import Address
from vikingd.sources.fetch_result import SourceFailed

MAX_SECONDS = 3600.0
"""The most seconds of one call of git."""
MAX_PACKS = 4 << 30
"""Limit of the bytes of all packs of a checkout."""

_POLL, _LOOK = 0.05, 1.0  # seconds
_PATIENCE = 2.0  # seconds that an ended git may tidy up
_MAX_OUTPUT = 1 << 20
_MAX_ERRORS = 16 << 10
# "Receiving objects:  12% (34/280)".
_RECEIVED = re.compile(rb"(?:Receiving objects|Counting objects):\s+\d+% \((\d+)/")
_KEPT = re.compile(
    r"GIT_(?:ASKPASS|SSH(?:_COMMAND|_VARIANT)?|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)|EXEC_PATH"
    r"|(?:PROXY_)?SSL_\w+)"
)
"""Variables of git that say how to reach and to trust a server; others name repositories."""
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.autocrlf": "false",
    "core.sparseCheckout": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.fsckObjects": "false",
    "transfer.bundleURI": "false",
    "protocol.version": "2",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "60",
    "gc.autoDetach": "false",
    "gc.reflogExpire": "now",
    "core.logAllRefUpdates": "false",
    "advice.detachedHead": "false",
}
_FAILURES = (
    (r"does not (?:appear to be|exist)", "is not there"),
    (
        r"could not read (?:Username|Password)|Authentication failed|Permission denied|"
        r"terminal prompts disabled|returned error: 40[13]|correct access rights|tory not found",
        "wants credentials, or does not exist: give git a credential helper (git config --global "
        "credential.helper), or use git+ssh:// with a key that ssh-agent has",
    ),
    (r"Host key verification failed", "has a host key that ssh does not know: ssh to it once"),
    (
        r"returned error: 30\d|unable to update url base from redirection",
        "redirects elsewhere: import the address that it has now",
    ),
    (r"couldn't find remote ref|not our ref|no such remote ref", "has no such ref"),
    (r"not found|returned error: 404", "is not there"),
    (r"transport '\S+' not allowed", "leads to a transport that is not allowed"),
    (
        r"unable to access|Could not resolve|timed out|Connection refused|early EOF",
        "is not reached",
    ),
)
_SECRET = re.compile(r"(://)[^/\s@']+@")


class GitFailed(SourceFailed):
    """A call of git that failed."""


class Git:
    """The program git for one checkout and one address.

    Attributes:
        directory: the top of the checkout.
    """

    def __init__(self, directory: Path, address: Address, cancelled: threading.Event) -> None:
        program = shutil.which("git")
        if program is None:
            raise SourceFailed("git is not installed, or not on PATH: install it to import git+...")
        self.directory = directory
        self._program = program
        self._address = address
        self._cancelled = cancelled

    def succeeds(self, *arguments: str) -> bool:
        """Return True if a call ends with success."""
        try:
            self.run(*arguments)
        except GitFailed:
            return False
        return True

    def run(
        self,
        *arguments: str,
        most: int = _MAX_OUTPUT,
        advance: Callable[[int], None] | None = None,
    ) -> bytes:
        """Run a command of git, and return its output.

        Args:
            arguments: the command and its arguments.
            most: the limit of the bytes of the output.
            advance: called with the number of objects that just came.

        Raises:
            GitFailed: it failed; the message has the last error message of git.
            SourceFailed: it takes too long, or brings too much.
            InterruptedError: the work was cancelled.
        """
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(
                [self._program, "--literal-pathspecs", *settings, *arguments],
                cwd=self.directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                start_new_session=True,  # ssh finds no terminal to ask on, and Ctrl-C is ours
            )
            assert child.stderr is not None
            words = bytearray()
            reader = threading.Thread(
                target=_read, args=(child.stderr, words, advance), daemon=True
            )
            reader.start()
            try:
                with _guarded(child):
                    self._wait(child, out, most)
            finally:
                if child.poll() is None:
                    _end(child)
                reader.join(_PATIENCE)
                child.stderr.close()
            if child.returncode:
                raise self._failure(arguments[0], words.decode(errors="replace"))
            self._check_output(out, most)
            out.seek(0)
            return out.read()

    def _wait(self, child: subprocess.Popen[bytes], out: IO[bytes], most: int) -> None:
        """Wait for the end of git; end it when it exceeds a limit."""
        began = looked = time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_POLL)
                return
            now = time.monotonic()
            if self._cancelled.is_set():
                raise InterruptedError
            self._check_output(out, most)
            if now - began > MAX_SECONDS:
                raise SourceFailed(f"{self._address.text} takes more than {MAX_SECONDS:,.0f} s")
            if now - looked > _LOOK:
                looked = now
                if self._packs() > MAX_PACKS:
                    raise SourceFailed(
                        f"{self._address.text} is larger than the limit of {MAX_PACKS >> 30} GiB"
                    )

    def _check_output(self, out: IO[bytes], most: int) -> None:
        if os.fstat(out.fileno()).st_size > most:
            raise SourceFailed(f"{self._address.text} has more names than the limits allow")

    def _packs(self) -> int:
        """Return the size of all packs in bytes, including those that are being received."""
        total = 0
        for one in (self.directory / ".git" / "objects" / "pack").glob("*"):
            with suppress(FileNotFoundError):
                total += one.stat().st_size
        return total

    def _environment(self) -> dict[str, str]:
        scheme = urlsplit(self._address.url).scheme
        known = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or _KEPT.fullmatch(name)
        }
        made = known | {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": scheme,
            "GIT_DIR": str(self.directory / ".git"),
            "GIT_WORK_TREE": str(self.directory),
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "SSH_ASKPASS_REQUIRE": "never",
            "LC_ALL": "C",
        }
        if self._address.credentials:  # not among the arguments, which others see
            secret = base64.b64encode(unquote(self._address.credentials).encode()).decode()
            made |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": f"http.{self._address.url}.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: Basic {secret}",
            }
        return made

    def _failure(self, command: str, words: str) -> GitFailed:
        """Return the error for a failed call, with a remedy for frequent failures."""
        said = _SECRET.sub(r"\1", words)
        lines = [line.strip() for line in re.split(r"[\r\n]+", said) if line.strip()]
        telling = [line for line in lines if line.startswith(("fatal:", "error:"))]
        last = (telling or lines or [f"git {command} failed"])[-1][:500]
        why = next((about for form, about in _FAILURES if re.search(form, said)), "")
        text = self._address.text
        return GitFailed(f"{text} {why} ({last})" if why else f"{text}: git {command}: {last}")


def _read(stderr: IO[bytes], words: bytearray, advance: Callable[[int], None] | None) -> None:
    """Store the last lines of git's messages, and report its progress."""
    before = 0
    with suppress(ValueError):  # it was closed
        while piece := os.read(stderr.fileno(), 4096):
            words += piece
            del words[:-_MAX_ERRORS]
            if advance and (found := _RECEIVED.findall(piece)):
                done = int(found[-1])
                if done > before:
                    advance(done - before)
                before = max(before, done)


@contextmanager
def _guarded(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Start a shell for the time of the block, which ends git if this process is killed.

    The shell ends git with all programs that git started.
    """
    command = ["/bin/sh", "-c", 'read _; kill -- "-$0"', str(child.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:
        try:
            yield
        finally:
            guard.kill()


def _end(child: subprocess.Popen[bytes]) -> None:
    """End git and the programs that it runs."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE)
            return
