"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """An authority that signs certificates; `certificate` is the file of its own."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self.certificate, self._key = self._made(name, "basicConstraints=critical,CA:TRUE")

    def signed(
        self, name: str, *alternatives: str, days: int = 90, subject: str = ""
    ) -> tuple[Path, Path]:
        """Return the files of a new certificate and its key.

        Args:
            name: of the files.
            alternatives: names of the subject, such as DNS:localhost or IP:127.0.0.1.
            days: until the certificate ends.
            subject: as openssl takes it; "": /CN= and the name.
        """
        by = ("-CA", str(self.certificate), "-CAkey", str(self._key))
        names = f"subjectAltName={','.join(alternatives)}"
        by += ("-subj", subject, "-utf8") if subject else ()
        return self._made(name, "basicConstraints=critical,CA:FALSE", names, options=by, days=days)

    def _made(
        self, name: str, *extensions: str, options: tuple[str, ...] = (), days: int = 90
    ) -> tuple[Path, Path]:
        certificate, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        command = ["openssl", "req", "-x509", "-noenc", "-newkey", "ec", "-subj", f"/CN={name}"]
        command += ["-pkeyopt", "ec_paramgen_curve:P-256", "-days", str(days), *options]
        command += ["-out", str(certificate), "-keyout", str(key)]
        for extension in extensions:
            command += ["-addext", extension]
        # openssl reads no configuration, so that only these extensions are in the certificate.
        subprocess.run([*command, "-config", "/dev/null"], check=True, capture_output=True)
        return certificate, key
