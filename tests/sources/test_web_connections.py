"""Connections go to checked IP addresses, by the names of hosts, and answers are bounded."""

from __future__ import annotations

import gzip
import ssl
import tracemalloc
from pathlib import Path

import pytest

from tests.access.tls_helpers import Authority
from tests.sources.web_servers import Fetch, WebServer, files_in, page
from vikingd.sources import host_addresses
from vikingd.sources.fetch_result import SourceFailed
from vikingd.sources.web_requests import Unanswered, _Content


def test_a_certificate_is_for_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request has the name, too; a certificate of another name is refused."""
    authority = Authority(tmp_path, "ca")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    for name, is_good in (("localhost", True), ("other.example", False)):
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*authority.signed(name, f"DNS:{name}"))
        with WebServer({"/": page("Oolong.")}, tls=tls, name="localhost") as server:
            fetch = Fetch(f"{server.url}/", tmp_path / name, {})
            if is_good:
                assert files_in(fetch())
                assert server.requests[0].headers["host"] == f"localhost:{server.port}"
            else:
                with pytest.raises(SourceFailed, match="CERTIFICATE_VERIFY_FAILED"):
                    fetch()
                assert not server.requests


def test_a_connection_goes_to_the_address_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is resolved once, and nobody else resolves it; the request has the name."""
    answers = iter([[(0, 0, 0, "", ("127.0.0.1", 0))]])
    monkeypatch.setattr(host_addresses, "_look_up", lambda _: next(answers))
    with WebServer({"/": page("Oolong.", "/a"), "/a": page("A.")}) as server:
        fetched = Fetch(f"http://docs.invalid:{server.port}/", tmp_path, {"below": "/"})()
        assert len(files_in(fetched)) == 2
        assert {one.headers["host"] for one in server.requests} == {f"docs.invalid:{server.port}"}


def test_a_bomb_takes_no_room() -> None:
    """What is decompressed at a time is within the limit."""
    content = _Content(1 << 20, is_gzip=True)
    bomb = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(Unanswered, match="has more than 1,048,576 bytes"):
            content.add(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
