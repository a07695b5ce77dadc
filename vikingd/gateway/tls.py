"""The certificate of the gateway, for HTTPS."""

from __future__ import annotations

import ssl
from typing import Any

from vikingd.config import ConfigError
from vikingd.sections import Tls
from vikingd.system import pem
from vikingd.system.certificates import CertificateFiles


class Certificates:
    """The certificate of a server and its key, from PEM files.

    Each handshake looks whether the files have changed. Open connections keep their certificate.

    Attributes:
        context: for the server.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, files: Tls) -> None:
        self._files = files
        try:
            self._loaded = CertificateFiles(
                files.certificate, files.key, files.client_ca, self._load
            )
        except ValueError as error:
            raise ConfigError(f"tls: {error}") from None
        self.watch = self._loaded.watch
        self.context = self._load()
        self.context.sni_callback = self._greet

    def _greet(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        """Use the newest certificate; OpenSSL calls this at each handshake."""
        connection.context = self._loaded.current()

    def _load(self) -> ssl.SSLContext:
        """Read the files.

        Raises:
            ValueError: they cannot be used.
        """
        files = self._files
        pem.read_pair(files.certificate, files.key)  # tells what is wrong
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(files.certificate, files.key)
        context.set_alpn_protocols(["http/1.1"])
        if files.client_ca:
            pem.read_authorities(files.client_ca)
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context
