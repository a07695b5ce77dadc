"""The TLS certificate of a server; it is loaded again when its files change."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

import structlog

from vikingd.system import pem

_SOON = timedelta(days=14)
_DAY = 24 * 3600.0  # seconds
_OF_OTHERS = stat.S_IROTH | stat.S_IWOTH

_log = structlog.stdlib.get_logger("vikingd")

Loaded = TypeVar("Loaded")


class CertificateFiles(ABC, Generic[Loaded]):
    """The PEM files of a certificate, its key and the authority of clients, loaded for a server.

    Each handshake checks whether the files have changed. Files that cannot be used are logged once,
    and the previous certificate stays in use.

    Args:
        certificate, key, client_ca: the paths; "": there is no such file.

    Raises:
        ValueError: the files cannot be used.
    """

    def __init__(self, certificate: str, key: str, client_ca: str) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._paths = [path for path in (certificate, key, client_ca) if path]
        self._lock = threading.Lock()  # gRPC's threads ask
        self._seen = self._stamps()
        self._now, self._period = self._loaded()

    @abstractmethod
    def _load(self) -> Loaded:
        """Read the files, and return them in the form that the server's TLS library takes.

        Raises:
            ValueError: they cannot be used.
        """

    def current(self) -> Loaded:
        """Return the loaded certificate; load it again first if the files have changed."""
        with self._lock:
            self._reload_if_changed()
            return self._now

    async def watch(self) -> None:
        """Log a warning, now and once a day, if the certificate expires soon or the key is exposed.

        It runs until cancelled.
        """
        while True:
            self._warn()
            await asyncio.sleep(_DAY)

    def _reload_if_changed(self) -> None:
        """Load the files again if they have changed; on failure, log it and keep the old ones."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        fault, loaded = "", (self._now, self._period)
        try:
            loaded = self._loaded()
        except ValueError as error:
            fault = str(error)
        if self._stamps() != stamps:
            return  # they change just now; the next handshake looks again
        self._seen, (self._now, self._period) = stamps, loaded
        if fault:
            _log.warning("the new certificate is refused, the old stays", reason=fault)
            return
        _log.info("certificate loaded", file=self._certificate, ends=self._period[1].isoformat())
        self._warn()

    def _loaded(self) -> tuple[Loaded, tuple[datetime, datetime]]:
        loaded = self._load()
        return loaded, pem.period_of(self._certificate)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """Return a stamp of each file, None if it is missing; a changed file has another stamp."""
        return [_stamp(path) for path in self._paths]

    def _warn(self) -> None:
        begin, end = self._period
        now = datetime.now(UTC)
        if now < begin:
            _log.warning(
                "certificate is not valid yet: clients refuse it; use another, or set the clock",
                file=self._certificate,
                begins=begin.isoformat(),
            )
        if end - now < _SOON:
            event = "certificate expired" if end <= now else "certificate expires soon"
            _log.warning(event, file=self._certificate, ends=end.isoformat())
        with suppress(OSError):
            mode = os.stat(self._key).st_mode
            if mode & _OF_OTHERS:
                _log.warning(
                    "the key of the certificate is open to all users of the machine: chmod o= FILE",
                    file=self._key,
                    mode=f"{stat.S_IMODE(mode):04o}",
                )


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
