"""The certificate of a daemon: loaded again when its files change."""

from __future__ import annotations

import asyncio
import os
import threading
from datetime import UTC, datetime, timedelta

import grpc
import structlog

from vikingd.config import ConfigError, Tls
from vikingd.system import pem

_SOON = timedelta(days=14)
_DAY = 24 * 3600.0  # seconds

_log = structlog.stdlib.get_logger("vikingd")


class Certificates:
    """The certificate of a server and its key, from PEM files.

    Each handshake looks whether the files have changed. Files that cannot be used are logged once,
    and the certificate before them stays. Open connections keep theirs.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, files: Tls) -> None:
        self._files = files
        self._paths = [path for path in (files.certificate, files.key, files.client_ca) if path]
        self._lock = threading.Lock()  # gRPC's threads ask
        self._seen = self._stamps()
        try:
            self._current = self._load()
        except ValueError as error:
            raise ConfigError(f"tls: {error}") from None

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of one address; each address needs its own."""
        given = self._current

        def changed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            with self._lock:
                self._look()
                if given is self._current:
                    return None
                given = self._current
                return given

        # gRPC can demand a certificate of a client or ask for none, but cannot leave it open.
        return grpc.dynamic_ssl_server_credentials(
            given,
            changed,  # type: ignore[arg-type]  # None keeps the certificate
            require_client_authentication=bool(self._files.client_ca),
        )

    async def watch(self) -> None:
        """Warn of a certificate that ends soon, now and once a day, until cancelled."""
        while True:
            self._warn()
            await asyncio.sleep(_DAY)

    def _look(self) -> None:
        """Load the files if they have changed."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        fault, loaded = "", self._current
        try:
            loaded = self._load()
        except ValueError as error:
            fault = str(error)
        if self._stamps() != stamps:
            return  # they change just now; the next handshake looks again
        self._seen, self._current = stamps, loaded
        if fault:
            _log.warning("the new certificate is refused, the old stays", reason=fault)
            return
        _log.info("certificate loaded", file=self._files.certificate, ends=self._end.isoformat())
        self._warn()

    def _load(self) -> grpc.ServerCertificateConfiguration:
        """Read the files.

        Raises:
            ValueError: they cannot be used.
        """
        files = self._files
        certificate, key = pem.read_pair(files.certificate, files.key)
        authorities = pem.read_authorities(files.client_ca) if files.client_ca else None
        self._end = pem.not_after(certificate)
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """Return what changes when a file is written or replaced."""
        return [_stamp(path) for path in self._paths]

    def _warn(self) -> None:
        left = self._end - datetime.now(UTC)
        if left < _SOON:
            event = "certificate expired" if left <= timedelta(0) else "certificate expires soon"
            _log.warning(event, file=self._files.certificate, ends=self._end.isoformat())


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
