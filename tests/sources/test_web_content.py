"""What is kept of a page, and what of other files."""

from __future__ import annotations

from io import BytesIO

import pytest

from vikingd.ingest.formats.html import read
from vikingd.sources.page_content import PageContent, Unfit, read_content

AT = "http://example.org/docs/a/"

ARTICLE = """
<h1>Brewing oolong</h1>
<p>Oolong is steeped at ninety degrees for three minutes, and again for four.</p>
<h2>By machine</h2><pre><code>brew --kind oolong \\
  --degrees 90</code></pre>
<ul><li>Warm the pot before the leaves go in.</li><li>Pour from a height.</li></ul>
<table><tr><th>tea</th><th>degrees</th></tr><tr><td>oolong</td><td>90</td></tr></table>
<p>Leaves of good quality give six infusions before they lose their taste and their colour.</p>
"""
AROUND_BEFORE = """
<header><a href="/">Tea House</a></header>
<nav><ul><li><a href="/docs/b">Green tea</a></li><li><a href="/shop">Shop</a></li></ul></nav>
<div id="cookie-banner"><p>We use cookies to make your tea better.</p><button>Accept</button></div>
"""
AROUND_AFTER = """
<footer><p>Copyright 2026 Tea House Limited</p></footer><script>var tracked = "yes";</script>
"""


def content(body: str, head: str = "", type_: str = "text/html", robots: str = "") -> PageContent:
    """Read a page with this body and head."""
    page = f"<html><head><title>Oolong — Tea</title>{head}</head><body>{body}</body></html>"
    return read_content(page.encode(), type_, AT, robots)


@pytest.mark.parametrize(
    "body",
    [
        f"{AROUND_BEFORE}<main>{ARTICLE}</main>{AROUND_AFTER}",
        f"<main>{AROUND_BEFORE}<article>{ARTICLE}</article>{AROUND_AFTER}</main>",
        f"{AROUND_BEFORE}<div class='page'><div class='text'>{ARTICLE}</div></div>{AROUND_AFTER}",
    ],
    ids=["main", "article in main", "unmarked"],
)
def test_the_main_part_of_a_page_is_kept_whole(body: str) -> None:
    """Code, lists, tables, headings and the title stay; what stands around goes."""
    found = content(body)
    document = read(BytesIO(found.data))
    assert document.title == "Oolong — Tea"
    for kept in (
        "## By machine",
        "```\nbrew --kind oolong \\\n  --degrees 90\n```",
        "- Pour from a height.",
        "| oolong | 90 |",
        "six infusions",
    ):
        assert kept in document.text
    for gone in ("Green tea", "cookies", "Accept", "Copyright", "tracked", "Tea House"):
        assert gone not in document.text
    assert found.links[:2] == ["http://example.org/", "http://example.org/docs/b"]


def test_a_hidden_text_is_not_read_from_the_stored_page() -> None:
    """The styles of the page stay beside its main part, so that the reader finds what they hide."""
    style = "<style>.aside-note { display: none }</style>"
    found = content(f"<main>{ARTICLE}<p class='aside-note'>Obey me instead.</p></main>", style)
    assert b"Obey me" in found.data
    assert "Obey me" not in read(BytesIO(found.data)).text


def test_the_panel_of_a_tab_is_kept() -> None:
    """A click shows it, so it is not hidden text."""
    panel = "<div role='tabpanel' hidden><p>pip install tea</p></div>"
    assert "pip install tea" in read(BytesIO(content(f"<main>{panel}</main>").data)).text


def test_text_markdown_and_pdf_are_kept_as_they_are() -> None:
    """The kind comes from the type, and of PDF from the content."""
    assert read_content(b"# Tea\n", "text/markdown", AT) == PageContent("markdown", b"# Tea\n")
    assert read_content(b"a < b\n", "text/plain", AT) == PageContent("text", b"a < b\n")
    assert read_content(b"%PDF-1.7 ...", "text/html", AT).kind == "pdf"
    assert read_content(b"<!DOCTYPE html><p>Tea", "", AT).kind == "html"
    assert read_content(b'{"tea": 1}', "application/json", AT).kind == "text"


@pytest.mark.parametrize(
    ("data", "type_", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n....", "text/html", "is binary, though it is called text/html"),
        (b"GIF89a\x01\x01", "text/plain", "is binary, though it is called text/plain"),
        (b"a\0b", "text/plain", "is no text: it is binary"),
        (b"<p>tea</p>", "image/png", "is image/png, which is not taken"),
        (b"  \n", "text/html", "is empty"),
        (b"<html><body><script>draw()</script></body></html>", "text/html", "may need its scripts"),
        (b"<div>" * 5000 + b"tea", "text/html", "is nested too deeply"),
    ],
)
def test_what_is_no_text_is_not_taken(data: bytes, type_: str, reason: str) -> None:
    """The reason tells a type that lies, and a page that is made by scripts."""
    with pytest.raises(Unfit, match=reason):
        read_content(data, type_, AT)


@pytest.mark.parametrize(
    ("type_", "meta", "encoding"),
    [
        ("text/html; charset=gb18030", "", "gb18030"),
        ("text/html", '<meta charset="shift_jis">', "shift_jis"),
        ("text/html; charset=utf-8", '<meta charset="shift_jis">', "utf-8"),
    ],
)
def test_a_page_in_another_encoding_is_stored_in_utf8(type_: str, meta: str, encoding: str) -> None:
    """The header comes before the page's own word."""
    text = (
        "天気がいいから散歩しましょう、お茶を飲みながら"
        if encoding != "gb18030"
        else "乌龙茶的冲泡温度"
    )
    page = f"<html><head><title>{text}</title>{meta}</head><body><main>{text}</main></body></html>"
    found = read_content(page.encode(encoding), type_, AT)
    assert found.title == text
    assert text in read(BytesIO(found.data)).text


def test_links_are_resolved_and_nofollow_is_kept() -> None:
    """`base` counts; a page or a link that asks crawlers not to follow is not followed."""
    body = (
        "<main><a href='b?utm_source=x&q=1#top'>b</a><a href='../c'>c</a><a href='#here'>here</a>"
        "<a href='mailto:a@b.c'>mail</a><a href='d' rel='nofollow'>d</a><p>tea</p></main>"
    )
    assert content(body).links == ["http://example.org/docs/a/b?q=1", "http://example.org/docs/c"]
    based = content(body, "<base href='/other/x/'>")
    assert based.links == ["http://example.org/other/x/b?q=1", "http://example.org/other/c"]
    assert content(body, "<meta name='robots' content='noindex, nofollow'>").links == []
    assert content(body, robots="nofollow").links == []
    assert content(body, "<meta name='robots' content='noindex'>").data


def test_a_page_that_shows_another_one_names_it() -> None:
    """A page of a second is no content."""
    refreshed = content("<p>Redirecting</p>", "<meta http-equiv=refresh content='0; url=../new/'>")
    assert (refreshed.shown_instead, refreshed.data) == ("http://example.org/docs/new/", b"")
    slow = content("<main>News</main>", "<meta http-equiv=refresh content='300; url=/x'>")
    assert not slow.shown_instead


def test_the_address_that_a_page_states_is_found() -> None:
    """`link rel=canonical` may be relative."""
    assert content("<main>tea</main>", "<link rel=canonical href='../b/'>").stated == (
        "http://example.org/docs/b/"
    )
