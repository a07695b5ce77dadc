"""Servers that misbehave: each fault is told, costs little, and leaves the rest of the site."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

import pytest

from tests.sources.web_servers import (
    HTML,
    Fetch,
    Reply,
    Request,
    WebServer,
    fetch_of,
    files_in,
    page,
    told_of,
)
from vikingd.sources.fetch_result import SourceFailed

LIMIT = 1 << 20


def to(address: str) -> Reply:
    """Return a redirect."""
    return Reply(status=302, headers={"Location": address})


def compressed(data: bytes, coding: str = "gzip") -> Reply:
    """Return a reply whose body is said to be compressed."""
    return Reply(data, headers={"Content-Encoding": coding})


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(bytes(LIMIT + 1)), "has 1,048,577 bytes, at most 1,048,576 are taken"),
        (Reply(b"a" * (LIMIT + 1), is_unsized=True), "has more than 1,048,576 bytes"),
        (compressed(gzip.compress(bytes(64 << 20))), "has more than 1,048,576 bytes"),
        (compressed(gzip.compress(gzip.compress(bytes(LIMIT)))), "is binary, though it is called"),
        (compressed(gzip.compress(b"<p>tea</p>" * 99)[:-20]), "is cut off"),
        (compressed(b"no gzip at all"), "has damaged compression"),
        (compressed(zlib.compress(b"<p>tea</p>"), "br"), "is compressed with br"),
        (Reply(b"<p>tea</p>", cut=3), "cannot be fetched"),
        pytest.param(
            *(Reply("<p>tea and more tea</p>", pause=0.2), "takes more than 2 s"),
            marks=pytest.mark.deep,
        ),
        pytest.param(
            *(Reply(is_silent=True), "gives no answer in time|takes more than 2 s"),
            marks=pytest.mark.deep,
        ),
        (Reply("tea", headers={f"X-{i}": "a" * 5000 for i in range(40)}), "cannot be fetched"),
        (Reply("tea", status=418), "answers 418"),
        (Reply(status=304), "answers 304"),
        (to("/page"), "redirects in a circle"),
        (to("/circle"), "redirects in a circle"),
        (to("/hop/0"), "redirects more than 5 times"),
        (to("file:///etc/passwd"), "redirects to no page"),
        (to(""), "redirects in a circle"),
        (Reply(status=302), "redirects in a circle|redirects to no page"),
        (Reply(b"\x89PNG\r\n\x1a\n" * 9, HTML), "is binary, though it is called text/html"),
        (Reply(b"GIF89a" * 9, ""), "is binary"),
    ],
)
def test_a_fault_is_told(tmp_path: Path, reply: Reply, reason: str) -> None:
    """The page does not come in, and the next page does."""

    def other(request: Request) -> Reply:
        if request.path.startswith("/hop/"):
            return to(f"/hop/{int(request.path.rpartition('/')[2]) + 1}")
        return Reply(status=404)

    pages = {"/": page("Start.", "/page", "/good"), "/page": reply, "/good": page("Good.")}
    with WebServer({**pages, "/circle": to("/page")}, other) as server:
        seconds = 2.0 if reply.pause or reply.is_silent else 60.0
        fetch = fetch_of(server, tmp_path, "/", below="/", max_page_bytes=LIMIT, seconds=seconds)
        fetched = fetch()
        assert sorted(files_in(fetched)) == ["good.html", "index.html"]
        (one,) = fetched.not_taken
        assert re.match(reason, one.reason)


def test_a_whole_page_in_gzip_is_taken(tmp_path: Path) -> None:
    """Also one in two parts, as some servers write them."""
    data = page("Oolong.").encode()
    body = gzip.compress(data[:50]) + gzip.compress(data[50:])
    with WebServer({"/": compressed(body)}) as server:
        (file,) = files_in(fetch_of(server, tmp_path)()).values()
        assert "Oolong." in file


@pytest.mark.parametrize("below", ["", "/"])
def test_a_redirect_to_another_machine_inside_is_refused(tmp_path: Path, below: str) -> None:
    """Only the host of the given address may be private, whatever name the other has."""
    with WebServer() as inner, WebServer() as server:
        inner.pages["/"] = page("A secret of this machine.")
        targets = {
            "/ip": f"http://127.0.0.2:{inner.port}/",
            "/name": f"http://localhost:{inner.port}/",
            "/mapped": f"http://[::ffff:127.0.0.1]:{inner.port}/",
            "/six": f"http://[::1]:{inner.port}/",
            "/number": f"http://2130706433:{inner.port}/",
            "/metadata": "http://169.254.169.254/latest/meta-data/",
        }
        server.pages |= {path: to(target) for path, target in targets.items()}
        server.pages["/"] = page("Start.", *targets)
        if below:
            fetched = fetch_of(server, tmp_path, "/", below=below)()
            assert sorted(files_in(fetched)) == ["index.html"]
            assert len(fetched.not_taken) == len(targets)
            assert all("is not below" in one.reason for one in fetched.not_taken)
        else:
            for path in targets:
                fetched = fetch_of(server, tmp_path / path[1:], path)()
                assert not files_in(fetched)
                (one,) = fetched.not_taken
                assert "is not public" in one.reason
        assert not inner.requests


def test_a_maze_of_links_ends(tmp_path: Path) -> None:
    """Each page links to new ones; the number of pages holds, and the rest is counted."""

    def maze(request: Request) -> Reply:
        return Reply(page(f"Room {request.path}.", *(f"{request.path}{i}/" for i in range(9))))

    with WebServer(otherwise=maze) as server:
        server.pages["/robots.txt"] = Reply(status=404)
        server.pages["/sitemap.xml"] = Reply(status=404)
        fetched = fetch_of(server, tmp_path, "/maze/", below="/maze/", max_pages=20)()
        assert len(files_in(fetched)) == 20
        assert len(server.requests) <= 2 + 20
        assert "max_pages is 20" in told_of(fetched, f"{server.url}/maze/")


def test_a_maze_of_missing_pages_ends(tmp_path: Path) -> None:
    """Links to pages that are not there do not count as pages, and are not followed without end."""
    with WebServer() as server:
        server.pages["/"] = page("Start.", *(f"/{i}" for i in range(1000)))
        fetched = fetch_of(server, tmp_path, "/", below="/", max_pages=10)()
        assert len(server.requests) <= 2 + 4 * 10 + 1
        assert fetched.not_taken[-1].reason.endswith("links are left: 41 addresses were asked for")


def test_a_busy_host_is_asked_again_when_it_wants(tmp_path: Path) -> None:
    """429 and 503 with Retry-After are waited for; too long a time is told."""
    replies = iter([Reply(status=429, headers={"Retry-After": "0"})] * 2)
    pages = {
        "/": page("Start.", "/busy", "/long", "/never"),
        "/busy": lambda _: next(replies, Reply(page("Busy."))),
        "/long": Reply(status=503, headers={"Retry-After": "86400"}),
        "/never": Reply(status=429, headers={"Retry-After": "0"}),
    }
    with WebServer(dict(pages)) as server:
        fetched = fetch_of(server, tmp_path, "/", below="/")()
        assert sorted(files_in(fetched)) == ["busy.html", "index.html"]
        assert told_of(fetched, f"{server.url}/long") == "answers 503 and asks to wait 86,400 s"
        assert told_of(fetched, f"{server.url}/never") == "answers 429"
        assert server.asked.count("/never") == 3


def test_a_host_that_is_unknown_or_closed_is_told(tmp_path: Path) -> None:
    """The reason names what failed."""
    with WebServer() as server:
        pass
    for address in (f"{server.url}/", "http://no-such-host.invalid/"):
        with pytest.raises(SourceFailed, match=f"{address} .*robots.txt cannot be fetched"):
            Fetch(address, tmp_path, {})()
