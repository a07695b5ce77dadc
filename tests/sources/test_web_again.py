"""A second fetch takes only what changed, and keeps what does not answer."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.sources.web_servers import (
    Reply,
    WebServer,
    fetch_of,
    files_in,
    page,
    times_of,
    told_of,
)
from vikingd.sources.fetch_result import SourceFailed


def three(**changed: Reply | str) -> dict[str, Reply | str]:
    """Return a site of three pages with ETags."""
    pages: dict[str, Reply | str] = {
        "/": Reply(page("Start.", "/a", "/b"), has_tag=True),
        "/a": Reply(page("Oolong.", title="A"), has_tag=True),
        "/b": Reply(page("Sencha.", title="B"), has_tag=True),
    }
    return pages | {f"/{name}": reply for name, reply in changed.items()}


@pytest.mark.deep
def test_a_site_of_200_pages_is_fetched_again(tmp_path: Path) -> None:
    """Changed and new pages are written, missing ones removed; the others stay as they are."""
    names = [f"part{i % 10}/page{i}" for i in range(199)]
    pages: dict[str, Reply | str] = {
        f"/docs/{name}": Reply(page(f"Text of {name}."), has_tag=i % 2 == 0)
        for i, name in enumerate(names)
    }
    pages["/docs/"] = page("Start.", *names)
    with WebServer(pages) as server:
        fetch = fetch_of(server, tmp_path, "/docs/", below="/docs/")
        first = fetch()
        assert len(files_in(first)) == 200
        assert not first.is_unchanged
        before = times_of(first)
        again = fetch()
        assert again.is_unchanged
        assert times_of(again) == before
        changed = [f"/docs/{name}" for name in names[10:20]]
        server.pages |= {path: page(f"New text of {path}.") for path in changed}
        del server.pages[f"/docs/{names[0]}"]
        server.pages["/docs/new"] = page("A new page.")
        server.pages["/docs/"] = page("Start.", "new", *names[1:])
        third = fetch()
        files = files_in(third)
        assert not third.is_unchanged
        assert f"{names[0]}.html" not in files
        written = {path for path, time in times_of(third).items() if before.get(path) != time}
        assert written == {"new.html", *(f"{name}.html" for name in names[10:20])}
        assert not third.moved


def test_a_page_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    """The request has the ETag or the time of the former answer; 304 keeps the file."""
    time = "Wed, 21 Oct 2026 07:28:00 GMT"
    with WebServer(three(b=Reply(page("Sencha."), headers={"Last-Modified": time}))) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        first = fetch()
        assert first.origins["b.html"].time is not None
        assert first.origins["b.html"].time.isoformat() == "2026-10-21T07:28:00+00:00"
        server.requests.clear()
        server.pages["/b"] = lambda one: Reply(
            status=304 if one.headers.get("if-modified-since") == time else 500
        )
        again = fetch()
        assert again.is_unchanged
        assert again.origins == first.origins
        assert not again.not_taken
        sent = {one.path: one.headers for one in server.requests}
        assert "if-none-match" in sent["/"]
        assert "if-none-match" in sent["/a"]


def test_a_lost_or_changed_file_is_fetched_anew(tmp_path: Path) -> None:
    """A page is asked for without a condition if its file is not as it was written."""
    with WebServer(three()) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        first = files_in(fetched := fetch())
        (fetched.folder / "a.html").unlink()
        (fetched.folder / "b.html").write_text("something else")
        (fetched.folder / "stray.html").write_text("of nobody")
        assert files_in(fetch()) == first


def test_a_page_that_is_gone_loses_its_file_and_one_that_fails_keeps_it(tmp_path: Path) -> None:
    """404 and 410 are gone; an error of the server, a refusal and silence are for the moment."""
    pages = three() | {f"/{name}": page(f"Text of {name}.") for name in "cdef"}
    pages["/"] = page("Start.", *(f"/{name}" for name in "abcdef"))
    with WebServer(pages) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        first = files_in(fetch())
        server.pages |= {
            "/a": Reply(status=404),
            "/b": Reply(status=410),
            "/c": Reply(status=500),
            "/d": Reply(status=403),
            "/e": Reply(is_silent=True),
            "/f": Reply("not all of it", cut=3),
        }
        second = fetch(seconds=2.0)
        kept = {"index.html", "c.html", "d.html", "e.html", "f.html"}
        assert files_in(second) == {path: first[path] for path in kept}
        assert told_of(second, f"{server.url}/c") == "answers 500"
        assert told_of(second, f"{server.url}/d") == "answers 403"
        assert "in time" in told_of(second, f"{server.url}/e") or "2 s" in told_of(
            second, f"{server.url}/e"
        )
        assert told_of(second, f"{server.url}/f").startswith("cannot be fetched")
        assert not second.is_unchanged


def test_a_site_that_is_down_keeps_all_files(tmp_path: Path) -> None:
    """Nothing is removed though nothing answers."""
    with WebServer(three()) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        fetched = fetch()
        first = files_in(fetched)
    with pytest.raises(SourceFailed, match=f"{fetch.address} .*robots.txt cannot be fetched"):
        fetch()
    assert files_in(fetched) == first


def test_a_page_with_another_address_is_a_move(tmp_path: Path) -> None:
    """By a redirect, also to changed content, or by the same content at a new address."""
    with WebServer(three()) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        fetch()
        server.pages |= {
            "/": page("Start.", "/tea/a", "/tea/b"),
            "/a": Reply(status=301, headers={"Location": "/tea/a"}),
            "/tea/a": page("Oolong, steeped for longer.", title="A"),
            "/tea/b": page("Sencha.", title="B"),
        }
        del server.pages["/b"]
        fetched = fetch()
        assert fetched.moved == [("a.html", "tea/a.html"), ("b.html", "tea/b.html")]
        assert sorted(files_in(fetched)) == ["index.html", "tea/a.html", "tea/b.html"]


def test_a_page_alone_that_moves_is_a_move(tmp_path: Path) -> None:
    """Its former file does not stay beside the new one."""
    with WebServer({"/a": page("A.")}) as server:
        fetch = fetch_of(server, tmp_path, "/a")
        fetch()
        server.pages |= {"/a": Reply(status=308, headers={"Location": "/b"}), "/b": page("B.")}
        fetched = fetch()
        assert list(files_in(fetched)) == ["b.html"]
        assert fetched.moved == [("a.html", "b.html")]


def test_a_page_that_was_left_is_found_though_its_link_is_not_sent_again(tmp_path: Path) -> None:
    """A page that failed at first is waited for: the page with its link answers 304."""
    with WebServer(three(b=Reply(status=503))) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        assert sorted(files_in(fetch())) == ["a.html", "index.html"]
        server.pages["/b"] = page("Sencha.")
        assert sorted(files_in(fetch())) == ["a.html", "b.html", "index.html"]


def test_an_interrupted_fetch_keeps_what_there_is(tmp_path: Path) -> None:
    """Its result is whole: new pages, former ones, and the rest for the next time."""
    with WebServer(three()) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        fetch()
        server.pages |= {
            "/": page("Changed.", "/a", "/b", "/c"),
            "/a": Reply(is_silent=True),
            "/c": Reply(page("C."), pause=0.01),
        }

        def cancel() -> None:
            eventually(lambda: fetch.done >= 5 and "/c" in server.asked)
            fetch.cancelled.set()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        fetched = fetch()
        canceller.join()
        files = files_in(fetched)
        assert sorted(files) == ["a.html", "b.html", "index.html"]
        assert "Changed." in files["index.html"]
        assert "Oolong." in files["a.html"]
        assert "was interrupted: 2 links are left" in told_of(fetched, fetch.address)
        fetch.cancelled.clear()
        server.pages |= three(c=page("C.")) | {"/": server.pages["/"]}
        assert sorted(files_in(fetch())) == ["a.html", "b.html", "c.html", "index.html"]


def test_a_state_of_another_version_is_none(tmp_path: Path) -> None:
    """All pages are fetched anew."""
    with WebServer(three()) as server:
        fetch = fetch_of(server, tmp_path, "/", below="/")
        first = files_in(fetch())
        fetch.state = {"version": 99, "pages": 3}
        server.requests.clear()
        assert files_in(fetch()) == first
        assert not any("if-none-match" in one.headers for one in server.requests)
