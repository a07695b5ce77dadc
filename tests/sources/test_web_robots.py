"""robots.txt and the pace of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.web_servers import Reply, WebServer, fetch_of, files_in, page, told_of
from vikingd import __version__
from vikingd.sources.fetch_result import SourceFailed


def robots(text: str) -> Reply:
    """Return a robots.txt."""
    return Reply(text, "text/plain")


def test_what_robots_txt_forbids_is_not_asked_for(tmp_path: Path) -> None:
    """Rules for vikingd come before those for all; a redirect is checked again."""
    rules = (
        "User-agent: *\nDisallow: /\n\nUser-agent: vikingd\nDisallow: /private/\nAllow: /private/x"
    )
    pages = {
        "/robots.txt": robots(rules),
        "/": page("Start.", "/private/a", "/private/x", "/to"),
        "/private/a": page("Private."),
        "/private/x": page("Allowed."),
        "/to": Reply(status=302, headers={"Location": "/private/a"}),
    }
    with WebServer(dict(pages)) as server:
        fetched = fetch_of(server, tmp_path, "/", below="/")()
        assert sorted(files_in(fetched)) == ["index.html", "private/x.html"]
        assert "/private/a" not in server.asked
        told = [one.reason for one in fetched.not_taken]
        assert set(told) == {"is not fetched: robots.txt forbids it"}
        agents = {one.headers["user-agent"] for one in server.requests}
        assert agents == {f"vikingd/{__version__}"}


def test_a_page_alone_keeps_to_robots_txt(tmp_path: Path) -> None:
    """The rules are for all that programs fetch."""
    pages = {"/robots.txt": robots("User-agent: *\nDisallow: /a"), "/a": page("A.")}
    with WebServer(dict(pages)) as server:
        fetched = fetch_of(server, tmp_path, "/a")()
        assert not files_in(fetched)
        assert told_of(fetched, f"{server.url}/a") == "is not fetched: robots.txt forbids it"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(status=503), "is not fetched, since its robots.txt answers 503"),
        (Reply(status=500), "is not fetched, since its robots.txt answers 500"),
        (
            Reply(is_silent=True),
            "its robots.txt (gives no answer|takes more)",
        ),
        (robots("User-agent: *\nCrawl-delay: 3600"), "asks for 3,600 s between two requests"),
    ],
)
def test_a_site_without_readable_rules_is_not_fetched(
    tmp_path: Path, reply: Reply, reason: str
) -> None:
    """Nothing but robots.txt is asked for, and former files stay."""
    with WebServer({"/": page("Start."), "/robots.txt": Reply(status=404)}) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        fetched = fetch()
        first = files_in(fetched)
        server.requests.clear()
        server.pages["/robots.txt"] = reply
        with pytest.raises(SourceFailed, match=reason):
            fetch(seconds=0.5)
        assert set(server.asked) == {"/robots.txt"}
        assert files_in(fetched) == first


@pytest.mark.parametrize("status", [404, 403])
def test_a_site_without_rules_allows_all(tmp_path: Path, status: int) -> None:
    """So does one whose rules are behind a redirect to nothing."""
    with WebServer({"/": page("Start."), "/robots.txt": Reply(status=status)}) as server:
        assert files_in(fetch_of(server, tmp_path)())
        server.pages["/robots.txt"] = Reply(status=301, headers={"Location": "/robots.txt"})
        assert files_in(fetch_of(server, tmp_path)())


def test_requests_to_a_host_run_four_at_a_time_or_one_by_one(tmp_path: Path) -> None:
    """A Crawl-delay makes them one by one."""
    names = [f"/{i}" for i in range(8)]
    pages: dict[str, Reply | str] = {name: Reply(page(f"{name}."), pause=0.0004) for name in names}
    pages["/"] = page("Start.", *names)
    with WebServer(dict(pages)) as server:
        assert len(files_in(fetch_of(server, tmp_path / "fast", "/", below="/")())) == 9
        assert 2 <= server.most_at_once <= 4
    pages["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.01")
    with WebServer(dict(pages)) as server:
        assert len(files_in(fetch_of(server, tmp_path / "slow", "/", below="/")())) == 9
        assert server.most_at_once == 1
