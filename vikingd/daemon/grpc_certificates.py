"""The TLS certificate of a daemon for gRPC, which may be renewed while the daemon runs."""

from __future__ import annotations

import grpc

from vikingd.system import pem
from vikingd.system.certificates import CertificateFiles


class GrpcCertificates(CertificateFiles[grpc.ServerCertificateConfiguration]):
    """The certificate in gRPC's form. After a renewal, open connections keep the old one."""

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials for one address; each address needs credentials of its own."""
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
