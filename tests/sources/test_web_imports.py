"""Imports of pages and sites from a local server, by vikingctl and the client, into a daemon."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ctl
from tests.sources.web_servers import Reply, WebServer, page
from vikingd.client import Client
from vikingd.client.messages import MessageClient
from vikingd.sources import source_fetches
from vikingd.sources.site_options import SiteOptions

pytestmark = pytest.mark.usefixtures("client")  # each test begins with an empty tree

TOP, OTHER = "viking://resources/guide", "viking://resources/other"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch without pauses, and wait for two seconds at most."""
    options = partial(SiteOptions, seconds=2.0, interval=0.0)
    monkeypatch.setattr(source_fetches, "SiteOptions", options)


def redirect(target: str) -> Reply:
    """Return a redirect."""
    return Reply(status=302, headers={"Location": target})


def site(count: int, *more: str) -> dict[str, Any]:
    """Return the pages of a site: the first one has links to all others."""
    pages: dict[str, Any] = {
        f"/docs/p{i}.html": Reply(page(f"Oolong number {i}.", title=f"Page {i}"), has_tag=True)
        for i in range(count)
    }
    return {"/docs/": Reply(page("Start.", *pages, *more), has_tag=True), **pages}


def link_again(server: WebServer) -> None:
    """Make the first page link to all others."""
    links = sorted(path for path in server.pages if path != "/docs/")
    server.pages["/docs/"] = Reply(page("Start.", *links), has_tag=True)


def imported(ctl: Ctl, address: str, *more: str) -> dict[str, Any]:
    """Import a site by vikingctl, and return the summary."""
    code, out, _ = ctl("import", address, TOP, "--below", "/docs/", "--json", *more)
    assert code == 0
    value: dict[str, Any] = json.loads(out)
    return value


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.deep)])
def test_a_site_is_imported_followed_and_removed(
    ctl: Ctl, typed: Client, client: MessageClient, count: int
) -> None:
    """A second import writes what changed alone: edited, renamed, gone and new pages."""
    with WebServer(site(count)) as server:
        address = f"{server.url}/docs/"
        first = imported(ctl, address)
        assert (first["created"], first["not_taken"]) == (count + 2, [])
        before = {one.uri: one for one in client.tree(TOP)}
        assert imported(ctl, address)["unchanged"] == count + 1
        assert {one.uri: one.revision for one in client.tree(TOP)} == {
            uri: one.revision for uri, one in before.items()
        }
        server.pages["/docs/p1.html"] = Reply(page("Sencha.", title="Page 1"), has_tag=True)
        server.pages["/docs/moved.html"] = server.pages.pop("/docs/p2.html")
        del server.pages["/docs/p3.html"]
        server.pages["/docs/new.html"] = Reply(page("Matcha.", title="New"), has_tag=True)
        link_again(server)
        second = imported(ctl, address, "--delete")
        assert {name: second[name] for name in ("created", "updated", "moved", "deleted")} == {
            "created": 1,
            "updated": 2,  # the edited page, and the address of the moved one
            "moved": 1,
            "deleted": 1,
        }
        assert {one["address"] for one in second["not_taken"]} == {
            f"{server.url}/docs/p2.html",
            f"{server.url}/docs/p3.html",
        }
        after = {one.uri: one for one in client.tree(TOP)}
        old, new = before[f"{TOP}/p2.html"], after[f"{TOP}/moved.html"]
        assert new.create_time == old.create_time
        assert after[f"{TOP}/p4.html"].revision == before[f"{TOP}/p4.html"].revision
        moved = f"{server.url}/docs/moved.html"
        [match] = typed.find("oolong", where={"source": moved}).contexts
        assert match.uri == new.uri
        assert client.verify().ok
    assert ctl("sources", "remove", address, "--delete", "--yes")[0] == 0
    assert client.stats().files == 0


@pytest.mark.deep
def test_each_misbehaviour_of_a_site_is_reported(ctl: Ctl) -> None:
    """The other pages come in; text and JSON name each address with its reason."""
    faults: dict[str, tuple[Any, str]] = {
        "/docs/private": (page("Private."), "robots.txt forbids it"),
        "/docs/inward": (redirect("http://127.0.0.2/"), "redirects to http://127.0.0.2/"),
        "/docs/huge": (Reply(bytes((10 << 20) + 1)), "at most 10,485,760 are taken"),
        "/docs/slow": (Reply("<p>tea", pause=1.0), "takes more than"),
        "/docs/loop": (redirect("/docs/loop"), "redirects in a circle"),
        "/docs/lie": (Reply(b"\x89PNG\r\n\x1a\n" * 9), "is binary, though it is called text/html"),
    }
    robots = Reply("User-agent: *\nDisallow: /docs/private\n", "text/plain")
    pages = {**site(2, *faults), "/robots.txt": robots}
    with WebServer(pages | {path: reply for path, (reply, _) in faults.items()}) as server:
        expected = {f"{server.url}{path}": reason for path, (_, reason) in faults.items()}
        found = imported(ctl, f"{server.url}/docs/")
        told = {one["address"]: one["reason"] for one in found["not_taken"]}
        assert told.keys() == expected.keys()
        assert all(reason in told[at] for at, reason in expected.items())
        assert found["created"] == 4
        code, _, err = ctl("import", f"{server.url}/docs/", OTHER, "--below", "/docs/")
        assert code == 0
        assert f"not taken: {len(faults)}\n" in err
        assert all(f"  {at}: {told[at]}" in err for at in expected)


def test_a_host_that_is_down_fails_the_refresh_and_keeps_the_pages(
    ctl: Ctl, client: MessageClient
) -> None:
    """The list shows the failure until the host is there again."""
    with WebServer(site(2)) as server:
        imported(ctl, f"{server.url}/docs/", "--delete")
    code, _, err = ctl("sources", "refresh", TOP)
    assert (code, "robots.txt cannot be fetched" in err) == (1, True)
    assert "robots.txt cannot be fetched" in ctl("sources", "list")[1].replace("\n", " ")
    assert client.get(f"{TOP}/p1.html")


def test_pages_that_fail_in_an_unchanged_site_are_told(ctl: Ctl) -> None:
    """A round that compares nothing names them, too."""
    with WebServer(site(2)) as server:
        imported(ctl, f"{server.url}/docs/")
        server.pages["/docs/p1.html"] = Reply(status=500)
        code, out, err = ctl("sources", "refresh", TOP)
        assert (code, "unchanged" in out) == (0, True)
        assert f"{server.url}/docs/p1.html: answers 500" in err


def test_two_sources_do_not_share_a_directory(ctl: Ctl, client: MessageClient) -> None:
    """Each would remove the files of the other; one source may have several directories."""
    with WebServer(site(2)) as server:
        imported(ctl, f"{server.url}/docs/")
        revision = client.stats().revision
        code, _, err = ctl("import", f"{server.url}/docs/p1.html", TOP)
        assert (code, "Invalid value for URI" in err) == (2, True)
        assert client.stats().revision == revision
        assert ctl("import", f"{server.url}/docs/p1.html", OTHER)[0] == 0
        assert ctl("import", f"{server.url}/docs/", f"{OTHER}2", "--below", "/docs/")[0] == 0
        assert ctl("sources", "remove", TOP)[0] == 0
        assert ctl("import", f"{server.url}/docs/p1.html", TOP)[0] == 0


def test_an_import_that_brings_nothing_leaves_nothing(ctl: Ctl, homes: Path) -> None:
    """Neither a cache, nor a record, nor a directory of the tree."""
    damaged = Reply(b"%PDF-1.4 damaged", "application/pdf")
    with WebServer({"/docs/tea.pdf": damaged, "/docs/": page("Start.")}) as server:
        for path in ("/docs/none", "/docs/"):
            more = ("--below", "/blog/") if path == "/docs/" else ()
            assert ctl("import", f"{server.url}{path}", TOP, *more)[0] in (1, 2)
        assert ctl("import", f"{server.url}/docs/", TOP, "--dry-run")[0] == 0
        assert not list((homes / "cache/vikingd/sources").iterdir())
        assert not (homes / "state").exists()
        assert ctl("import", f"{server.url}/docs/tea.pdf", TOP)[0] == 1
        assert ctl("get", TOP)[0] == 4


@pytest.mark.parametrize("below", ["https://ana:secret@127.0.0.1/docs/", "http://[", "a b", "x"])
def test_a_prefix_that_cannot_be_used_is_refused(ctl: Ctl, below: str) -> None:
    """The error names the option and no password."""
    code, _, err = ctl("import", "https://127.0.0.1/docs/", TOP, "--below", below)
    assert (code, "Invalid value for --below" in err, "secret" in err) == (2, True, False)


def test_a_disk_that_cannot_be_written_is_named(ctl: Ctl, homes: Path) -> None:
    """The error is that of the disk, and not that of the host; nothing is registered."""
    (homes / "cache").mkdir()
    (homes / "cache" / "vikingd").write_text("no directory")
    with WebServer(site(1)) as server:
        for path in ("/docs/", "/docs/tea.zip"):
            code, _, err = ctl("import", f"{server.url}{path}", TOP)
            assert (code, "Not a directory" in err) == (1, True)
        assert not server.requests
    assert json.loads(ctl("sources", "list", "--json")[1]) == {"sources": []}
