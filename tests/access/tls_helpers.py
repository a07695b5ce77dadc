"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

Files: TypeAlias = tuple[Path, Path]
"""A certificate and its key."""

_REQUEST = [
    *("openssl", "req", "-new", "-noenc", "-config", "/dev/null"),
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
]
_OPENSSL_CA = """
[ca]
default_ca = it
[it]
database = {directory}/index
new_certs_dir = {directory}
default_md = sha256
policy = any
rand_serial = yes
unique_subject = no
x509_extensions = extensions
[any]
commonName = supplied
[extensions]
basicConstraints = critical,CA:FALSE
subjectAltName = {names}
"""


class Authority:
    """An authority that signs certificates; `certificate` is the file of its own."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self.certificate, self._key = self._made(name, "basicConstraints=critical,CA:TRUE")

    def signed(self, name: str, *alternatives: str, days: int = 90, subject: str = "") -> Files:
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

    def dated(self, name: str, alternative: str, begin: datetime, end: datetime) -> Files:
        """Return the files of a new certificate with any times, and its key."""
        certificate, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        request, settings = certificate.with_suffix(".csr"), certificate.with_suffix(".conf")
        settings.write_text(_OPENSSL_CA.format(directory=self._directory, names=alternative))
        (self._directory / "index").touch()
        asked = [*_REQUEST, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)]
        given = ["-in", str(request), "-out", str(certificate), "-config", str(settings)]
        times = [f"{time:%Y%m%d%H%M%SZ}" for time in (begin, end)]
        given += ["-startdate", times[0], "-enddate", times[1]]
        by = ["-cert", str(self.certificate), "-keyfile", str(self._key)]
        for command in (asked, ["openssl", "ca", "-batch", "-notext", *given, *by]):
            subprocess.run(command, check=True, capture_output=True)
        return certificate, key

    def _made(
        self, name: str, *extensions: str, options: tuple[str, ...] = (), days: int = 90
    ) -> Files:
        certificate, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        command = ["openssl", "req", "-x509", "-noenc", "-newkey", "ec", "-subj", f"/CN={name}"]
        command += ["-pkeyopt", "ec_paramgen_curve:P-256", "-days", str(days), *options]
        command += ["-out", str(certificate), "-keyout", str(key)]
        for extension in extensions:
            command += ["-addext", extension]
        # openssl reads no configuration, so that only these extensions are in the certificate.
        subprocess.run([*command, "-config", "/dev/null"], check=True, capture_output=True)
        return certificate, key
