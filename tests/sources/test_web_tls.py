"""TLS: a host is connected to by its checked IP address, and shows a certificate for its name."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.access.tls_helpers import Authority
from tests.sources.web_servers import Fetch, WebServer, files_in, page, told_of


def test_a_certificate_is_for_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request has the name, too; a certificate of another name is refused."""
    authority = Authority(tmp_path, "ca")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    for name, is_good in (("localhost", True), ("other.example", False)):
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*authority.signed(name, f"DNS:{name}"))
        with WebServer({"/": page("Oolong.")}, tls=tls, name="localhost") as server:
            fetched = Fetch(f"{server.url}/", tmp_path / name, {})()
            assert bool(files_in(fetched)) is is_good
            if is_good:
                assert server.requests[0].headers["host"] == f"localhost:{server.port}"
            else:
                assert "CERTIFICATE_VERIFY_FAILED" in told_of(fetched, f"{server.url}/")
                assert not server.requests
