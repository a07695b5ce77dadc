"""The certificate of a daemon, for gRPC."""

from __future__ import annotations

import grpc

from vikingd.system import pem
from vikingd.system.certificates import CertificateFiles


class GrpcCertificates(CertificateFiles[grpc.ServerCertificateConfiguration]):
    """The certificate as gRPC takes it; open connections keep theirs."""

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of one address; each address needs its own."""
        given = self.current()

        def changed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            now = self.current()
            if given is now:
                return None
            given = now
            return given

        # gRPC can demand a certificate of a client or ask for none, but cannot leave it open.
        return grpc.dynamic_ssl_server_credentials(
            given,
            changed,  # type: ignore[arg-type]  # None keeps the certificate
            require_client_authentication=bool(self._client_ca),
        )

    def _load(self) -> grpc.ServerCertificateConfiguration:
        certificate, key = pem.read_pair(self._certificate, self._key)
        authorities = pem.read_authorities(self._client_ca) if self._client_ca else None
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
