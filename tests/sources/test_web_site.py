"""A site: which pages are taken, under which addresses, into which files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.sources.web_servers import (
    HTML,
    Fetch,
    Reply,
    WebServer,
    fetch_of,
    files_in,
    page,
    told_of,
)
from vikingd.domain.errors import InvalidField


def test_a_page_alone_is_one_file(tmp_path: Path) -> None:
    """Links are not followed; the file is named by the last step of the path."""
    with WebServer({"/docs/tea/": page("Oolong.", "/docs/b", title="Tea")}) as server:
        fetched = fetch_of(server, tmp_path, "/docs/tea/?utm_source=mail#top")()
        assert list(files_in(fetched)) == ["tea.html"]
        origin = fetched.origins["tea.html"]
        assert (origin.address, origin.title) == (f"{server.url}/docs/tea/", "Tea")
        assert server.asked == ["/robots.txt", "/docs/tea/"]
        assert not fetched.is_unchanged
        assert not fetched.not_taken


def test_a_site_is_what_is_linked_below_its_prefix(tmp_path: Path) -> None:
    """Pages elsewhere are not asked for; files have the paths of the pages."""
    pages = {
        "/docs/": page("Start.", "a", "/docs/b/", "/blog/x", "//other.example/docs/y", "c.md?v=2"),
        "/docs/a": page("A.", "../docs/deep/d.html", "/docs2/no"),
        "/docs/b/": page("B.", "/docs/missing", "/docs/picture"),
        "/docs/c.md?v=2": Reply("# C\n", "text/markdown"),
        "/docs/deep/d.html": page("D.", "/docs/"),
        "/docs/picture": Reply(b"\x89PNG\r\n", "image/png"),
    }
    with WebServer(pages) as server:
        fetch = fetch_of(server, tmp_path, "/docs/", below="/docs/")
        fetched = fetch()
        files = files_in(fetched)
        named = [path for path in files if path.startswith("c.md-v=2~") and path.endswith(".md")]
        assert sorted(files) == sorted(
            ["index.html", "a.html", "b/index.html", "deep/d.html", *named]
        )
        assert files[named[0]] == "# C\n"
        assert fetched.origins["deep/d.html"].address == f"{server.url}/docs/deep/d.html"
        assert not {"/blog/x", "/docs2/no"} & set(server.asked)
        assert told_of(fetched, f"{server.url}/docs/missing") == "answers 404: it is not there"
        assert told_of(fetched, f"{server.url}/docs/picture") == "is image/png, which is not taken"
        assert fetch.done == 7


def test_depth_and_number_of_pages_are_limits_that_are_told(tmp_path: Path) -> None:
    """The links that are left are counted, and fetched the next time."""
    pages = {f"/{i}": page(f"Page {i}.", f"/{i + 1}", f"/x{i}") for i in range(6)}
    pages |= {f"/x{i}": page(f"Other page {i}.") for i in range(6)}
    with WebServer(dict(pages)) as server:
        shallow = fetch_of(server, tmp_path / "shallow", "/0", below="/", depth=1)()
        assert sorted(files_in(shallow)) == ["0.html", "1.html", "x0.html"]
        assert told_of(shallow, f"{server.url}/0") == "2 links are left: depth is 1"
        some = fetch_of(server, tmp_path / "some", "/0", below="/", max_pages=4)
        fetched = some()
        assert len(files_in(fetched)) == 4
        assert "links are left: max_pages is 4" in told_of(fetched, f"{server.url}/0")
        assert len(files_in(some(max_pages=50))) == 12


def test_sitemaps_are_further_beginnings(tmp_path: Path) -> None:
    """Those of robots.txt, with an index, gzip and a loop; others are told."""
    with WebServer({"/docs/": page("Start.")}) as server:
        url = server.url
        listed = "".join(
            f"<url><loc>{url}{path}</loc></url>" for path in ("/docs/one", "/docs/two", "/no")
        )
        loop = f"<sitemap><loc>{url}/index.xml</loc></sitemap>"
        more = f"<sitemap><loc>{url}/pages.xml.gz</loc></sitemap>"
        kind = "application/xml"
        server.pages |= {
            "/robots.txt": Reply(
                f"Sitemap: {url}/index.xml\nSitemap: http://cdn.example/s.xml\n"
                f"Sitemap: {url}/bad.xml\nSitemap: {url}/bomb.xml.gz",
                "text/plain",
            ),
            "/index.xml": Reply(f"<sitemapindex>{loop}{more}</sitemapindex>", kind),
            "/pages.xml.gz": Reply(gzip.compress(f"<urlset>{listed}</urlset>".encode()), kind),
            "/bad.xml": Reply("<html></html>", kind),
            "/bomb.xml.gz": Reply(gzip.compress(bytes(1 << 21)), kind),
            "/docs/one": page("One."),
            "/docs/two": page("Two."),
        }
        fetch = fetch_of(server, tmp_path, "/docs/", below="/docs/", max_page_bytes=1 << 20)
        fetched = fetch()
        assert sorted(files_in(fetched)) == ["index.html", "one.html", "two.html"]
        assert server.asked.count("/index.xml") == 1
        assert "/no" not in server.asked
        assert "another host" in told_of(fetched, "http://cdn.example/s.xml")
        assert told_of(fetched, f"{url}/bad.xml") == "is no sitemap"
        assert "more than 1,048,576 bytes" in told_of(fetched, f"{url}/bomb.xml.gz")


def test_one_file_for_each_page_of_several_addresses(tmp_path: Path) -> None:
    """An address by the page's own word, by a redirect or by its content is told or followed."""

    def stated(address: str) -> str:
        return f'<link rel="canonical" href="{address}">'

    pages: dict[str, Reply | str] = {
        "/": page("Start.", "/a?print=1", "/moved", "/index.html", "/c", "/d", "/blank"),
        "/index.html": page("Start.", "/a?print=1", "/moved", "/index.html", "/c", "/d", "/blank"),
        "/a?print=1": page("A, to print.", head=stated("/a")),
        "/a": page("A.", head=stated("/a")),
        "/moved": Reply(status=301, headers={"Location": "/b"}),
        "/b": page("B."),
        "/c": page("C.", head=stated("https://production.example/c")),
        "/d": page("D.", head=stated("/")),
        "/blank": page("", head="<meta http-equiv=refresh content='0;url=/b'>"),
    }
    with WebServer(dict(pages)) as server:
        fetched = fetch_of(server, tmp_path, "/", below="/")()
        assert {path: one.address for path, one in fetched.origins.items()} == {
            "index.html": f"{server.url}/",
            "a.html": f"{server.url}/a",
            "b.html": f"{server.url}/b",
            "c.html": f"{server.url}/c",
            "d.html": f"{server.url}/d",
        }
        assert "states that its address is" in told_of(fetched, f"{server.url}/a?print=1")
        assert "has the same content as" in told_of(fetched, f"{server.url}/index.html")
        assert server.asked.count("/b") == 1
        files_in(fetched)


def test_a_redirect_out_of_the_site_is_told(tmp_path: Path) -> None:
    """A page alone may redirect; a page of a site may not leave it."""
    pages = {
        "/docs/": page("Start.", "out"),
        "/docs/out": Reply(status=302, headers={"Location": "/login?next=/docs/out"}),
        "/login?next=/docs/out": page("Sign in."),
    }
    with WebServer(dict(pages)) as server:
        fetched = fetch_of(server, tmp_path / "site", "/docs/", below="/docs/")()
        assert list(files_in(fetched)) == ["index.html"]
        reason = told_of(fetched, f"{server.url}/docs/out")
        assert reason.startswith(f"redirects to {server.url}/login")
        assert reason.endswith(f"which is not below 127.0.0.1:{server.port}/docs/")
        assert server.asked.count("/login?next=/docs/out") == 0
        alone = fetch_of(server, tmp_path / "page", "/docs/out")()
        (origin,) = alone.origins.values()
        assert origin.address == f"{server.url}/login?next=/docs/out"


@pytest.mark.parametrize(
    ("address", "options", "field"),
    [
        ("ftp://example.org/", {}, "path"),
        ("http://example.org/docs/", {"below": "/blog/"}, "below"),
        ("http://example.org/docs/", {"below": "docs"}, "below"),
        ("http://example.org/docs/", {"below": "https://other.example/docs/"}, "below"),
        ("http://example.org/docs/", {"below": "/", "max_pages": 0}, "max_pages"),
        ("http://example.org/docs/", {"below": "/", "depth": -1}, "depth"),
        ("http://example.org/docs/", {"depth": 1}, "depth"),
    ],
)
def test_a_wrong_argument_is_refused(
    tmp_path: Path, address: str, options: dict[str, object], field: str
) -> None:
    """The error names the field; nothing is written."""
    with pytest.raises(InvalidField) as caught:
        Fetch(address, tmp_path / "new", options)()
    assert caught.value.field == field
    assert not (tmp_path / "new").exists()


def test_links_with_a_password_lose_it(tmp_path: Path) -> None:
    """Neither a file, an origin, a state nor a request has it."""
    with WebServer({"/a": page("A.")}) as server:
        place = server.url.removeprefix("http://")
        server.pages["/"] = Reply(page("Start.", f"http://ana:secret@{place}/a"), HTML)
        fetch = fetch_of(server, tmp_path, "/", below="/")
        fetched = fetch()
        assert len(files_in(fetched)) == 2
        assert "secret" not in f"{fetched}"
        assert all("authorization" not in one.headers for one in server.requests)
