"""The certificate of a daemon, for gRPC."""

from __future__ import annotations

import grpc

from vikingd.config import ConfigError
from vikingd.sections import Tls
from vikingd.system import pem
from vikingd.system.certificates import CertificateFiles


class Certificates:
    """The certificate of a server and its key, from PEM files.

    Each handshake looks whether the files have changed. Open connections keep their certificate.

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

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of one address; each address needs its own."""
        given = self._loaded.current()

        def changed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            now = self._loaded.current()
            if given is now:
                return None
            given = now
            return given

        # gRPC can demand a certificate of a client or ask for none, but cannot leave it open.
        return grpc.dynamic_ssl_server_credentials(
            given,
            changed,  # type: ignore[arg-type]  # None keeps the certificate
            require_client_authentication=bool(self._files.client_ca),
        )

    def _load(self) -> grpc.ServerCertificateConfiguration:
        """Read the files.

        Raises:
            ValueError: they cannot be used.
        """
        files = self._files
        certificate, key = pem.read_pair(files.certificate, files.key)
        authorities = pem.read_authorities(files.client_ca) if files.client_ca else None
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
