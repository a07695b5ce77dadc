"""A client certificate counts as a key by its whole subject, or by a name of its subjectAltName."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.access.tls_helpers import Authority
from tests.commands import serve_only
from vikingd.access.peers import subjects_of
from vikingd.client import Client
from vikingd.client.method_declarations import Stubs
from vikingd.pb import admin_pb2

KEYS = ("CN=ana", "CN=ana,O=Acme", "CN=Änne", "robot.example", "a\\\\C3")
ALLOWED = [
    ("/CN=ana", "DNS:x", True),
    ("/O=Acme/CN=ana", "DNS:x", True),
    ("/CN=Änne", "DNS:x", True),
    ("/CN=other", "DNS:robot.example", True),
    ("/O=x/CN=ana", "DNS:x", False),
    ("/CN=ana/O=x", "DNS:x", False),
    ("/CN=ana/CN=eve", "DNS:x", False),
    ("/CN=eve/CN=ana", "DNS:x", False),
    ("/CN=ana+O=x", "DNS:x", False),
    ("/CN=ana,O=Acme", "DNS:x", False),
    ("/CN=ana ", "DNS:x", False),
    ("/CN=Ana", "DNS:x", False),
    ("/CN=aná", "DNS:x", False),
    ("/O=x", "DNS:CN=ana", False),
    ("/O=x", "URI:CN=ana", False),
    ("/CN=robot.example", "DNS:x", False),
    ("/emailAddress=ana/CN=eve", "DNS:x", False),
]


class Server:
    """A daemon that demands client certificates, with a key for each of KEYS."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory, "ca")
        certificate, key = self.authority.signed("localhost", "DNS:localhost", "IP:127.0.0.1")
        options = ("--tls-certificate", certificate, "--tls-key", key)
        options += ("--tls-client-ca", self.authority.certificate)
        command = serve_only(directory / "store", "--provider", "none")
        command += ["--listen", "vikings://127.0.0.1:0", "--listen", f"unix:{directory}/socket"]
        self.process = subprocess.Popen(
            [*command, *map(str, options)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        self.address = next(word for word in said.split() if word.startswith("vikings://"))
        with Client(f"unix:{directory}/socket") as client:
            operator = client.create_key(operator=True).secret
        with Client(f"unix:{directory}/socket", key=operator) as client:
            for subject in KEYS:
                client.create_key(read=("viking://resources",), certificate_subject=subject)

    def lets_in(self, certificate: Path, key: Path) -> bool:
        """Return True if a certificate counts as a key."""
        credentials = grpc.ssl_channel_credentials(
            self.authority.certificate.read_bytes(), key.read_bytes(), certificate.read_bytes()
        )
        with grpc.secure_channel(self.address.removeprefix("vikings://"), credentials) as channel:
            try:
                Stubs(channel).admin.Stats(admin_pb2.StatsRequest())
            except grpc.RpcError as error:
                return bool(error.code() is not grpc.StatusCode.UNAUTHENTICATED)
        return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield the daemon."""
    made = Server(tmp_path_factory.mktemp("subjects"))
    yield made
    made.process.terminate()
    made.process.communicate()


@pytest.mark.deep_after(6)
@pytest.mark.parametrize(("subject", "alternative", "is_allowed"), ALLOWED)
def test_subjects(subject: str, alternative: str, server: Server, *, is_allowed: bool) -> None:
    """The certificates of exactly this subject count, in all forms that OpenSSL makes."""
    number = ALLOWED.index((subject, alternative, is_allowed))
    files = server.authority.signed(f"client{number}", alternative, subject=subject)
    assert server.lets_in(*files) is is_allowed


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (rb"CN=ana", "CN=ana"),
        (rb"CN=ana\00.eve", r"CN=ana\00.eve"),
        (rb"CN=ana\,O=x", r"CN=ana\,O=x"),
        (rb"CN=a\\C3\C3\84", r"CN=a\\C3Ä"),
        (rb"CN=\E2\80\AEana", r"CN=\E2\80\AEana"),
        (rb"CN=\FF", r"CN=\FF"),
        (b"CN=\xff", r"CN=\xff"),
    ],
)
def test_characters(subject: bytes, name: str) -> None:
    """Printable characters are unescaped; all others stay escaped, so that no two names are one."""
    assert list(subjects_of({"x509_subject": [subject]})) == [name]


def test_names_that_look_like_subjects() -> None:
    """A name of the subjectAltName cannot pass for a subject."""
    names = [b"CN=ana", b"2.5.4.3=ana", b"", b"spiffe://a/b?c=d", b"ana@example.org", b"a\0b"]
    found = list(subjects_of({"x509_subject": [b""], "x509_subject_alternative_name": names}))
    assert found == ["spiffe://a/b?c=d", "ana@example.org", "a\0b"]
