"""The TLS certificate of the gateway, which may be renewed while it runs."""

from __future__ import annotations

import ssl
from typing import Any

from vikingd.system import pem
from vikingd.system.certificates import CertificateFiles


class HttpsCertificates(CertificateFiles[ssl.SSLContext]):
    """The certificate as an SSL context. After a renewal, open connections keep the old one."""

    def context(self) -> ssl.SSLContext:
        """Return an SSL context that uses the newest certificate for each new connection."""

        def greet(connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self.current()

        made = self._load()
        made.sni_callback = greet  # OpenSSL calls it at each handshake
        return made

    def _load(self) -> ssl.SSLContext:
        pem.read_pair(self._certificate, self._key)  # tells what is wrong
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificate, self._key)
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca:
            pem.read_authorities(self._client_ca)
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context
