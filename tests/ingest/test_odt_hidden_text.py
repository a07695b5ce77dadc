"""Text of ODT files that is too small to read or in a hidden paragraph, and what stands in it."""

from __future__ import annotations

import pytest

from tests.ingest.test_office_elements import odt_of

_SIZES = (("Tiny", "1pt"), ("Big", "12pt"), ("Inch", "0.2in"), ("Bold", "100%"), ("Half", "50%"))
STYLES = "".join(
    f'<style:style style:name="{name}{family[0]}" style:family="{family}"><style:text-properties'
    f' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    f' fo:font-size="{size}"/></style:style>'
    for name, size in _SIZES
    for family in ("text", "paragraph")
)


def tiny(content: str, tag: str = "p") -> str:
    """Return a paragraph in a font of one point."""
    return f'<text:{tag} text:style-name="Tinyp">{content}</text:{tag}>'


def span(style: str, content: str) -> str:
    """Return a span of a paragraph."""
    return f'<text:span text:style-name="{style}">{content}</text:span>'


def frame(content: str) -> str:
    """Return a box of text."""
    return f"<draw:frame><draw:text-box><text:p>{content}</text:p></draw:text-box></draw:frame>"


def note(content: str) -> str:
    """Return a footnote."""
    body = f"<text:note-body><text:p>{content}</text:p></text:note-body>"
    return f"<text:note><text:note-citation>1</text:note-citation>{body}</text:note>"


MARK = '<text:hidden-paragraph text:is-hidden="true"/>'


@pytest.mark.parametrize(
    "body",
    [
        tiny(span("Bigt", "berth")),
        tiny(span("Incht", "berth")),
        tiny(span("Boldt", span("Bigt", "berth"))),
        tiny(frame("berth")),
        tiny(note("berth")),
        tiny(span("Bigt", "berth"), "h"),
        f"<text:p>{span('Tinyt', span('Bigt', 'berth'))}</text:p>",
        f"<text:p>{span('Tinyt', frame('berth'))}</text:p>",
        # A style of paragraphs is none of spans.
        f"<text:p>{span('Tinyp', 'berth')}</text:p>",
        f"<text:p>berth{frame(MARK)}</text:p>",
        f"<text:p>berth{note(MARK)}</text:p>",
    ],
)
def test_shown_text_of_a_tiny_or_hidden_part_is_kept(body: str) -> None:
    """A span, a box and a note have their own size; a mark hides its own paragraph alone."""
    found = odt_of(f"<text:p>quay</text:p>{body}", STYLES)
    assert "quay" in found.text
    assert "berth" in found.text
    assert found.lost == []


@pytest.mark.parametrize(
    "body",
    [
        tiny("secret"),
        tiny("secret", "h"),
        tiny(span("Boldt", "secret")),
        tiny(span("Halft", "secret")),
        tiny(f"{span('Bigt', 'berth')}secret"),
        tiny(frame("berth") + "secret"),
        f"<text:p>{frame('berth')}{span('Tinyt', 'secret')}</text:p>",
        f"<text:p>{frame(MARK + 'secret')}berth</text:p>",
        f"<text:p>{MARK}secret</text:p>",
        f"<text:p>{span('Bigt', MARK)}secret</text:p>",
        f"<text:list><text:list-item>{tiny('secret', 'h')}</text:list-item></text:list>",
    ],
)
def test_tiny_and_hidden_text_is_left_out(body: str) -> None:
    """Text in the size of a tiny paragraph, and a hidden paragraph, are counted."""
    found = odt_of(f"<text:p>quay</text:p>{body}", STYLES)
    assert "secret" not in found.text
    assert ("berth" in found.text) == ("berth" in body)
    assert found.lost == ["1 part that it hides from its readers left out"]
