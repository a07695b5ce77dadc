"""Arabic words of PDF files, whose glyphs are in the order of the eye."""

from __future__ import annotations

import pypdfium2
import pytest

from vikingd.ingest.formats.pdf_order import in_reading_order, plain_letters

# The letters of each glyph, as the map of a font gives them: b and e are ligatures.
_GLYPHS = {
    "a": "\u0627", "b": "\u0644\u0625", "c": "\u0646", "d": "\u062a", "e": "\u0644\u0627",
    "f": "\u0644",
}  # fmt: skip


def _file(shown: str) -> bytes:
    """Return a PDF file of one page that shows glyphs from left to right."""
    pairs = "".join(f"<{ord(c):02x}> <{t.encode('utf-16-be').hex()}>\n" for c, t in _GLYPHS.items())
    letters = (
        "begincmap 1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(_GLYPHS)} beginbfchar\n{pairs}endbfchar endcmap"
    )
    page = f"BT /F 20 Tf 50 100 Td ({shown}) Tj ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R "
        "/Resources << /Font << /F 5 0 R >> >> >>",
        f"<< /Length {len(page)} >>\nstream\n{page}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
        f"<< /Length {len(letters)} >>\nstream\n{letters}\nendstream",
    )
    body = "%PDF-1.4\n"
    places = []
    for number, one in enumerate(objects, 1):
        places.append(f"{len(body):010d} 00000 n \n")
        body += f"{number} 0 obj\n{one}\nendobj\n"
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{''.join(places)}"
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return (body + table + trailer).encode()


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        ("dcba", "\u0627\u0644\u0625\u0646\u062a"),  # one glyph for lam and alef
        ("dcefa", "\u0627\u0644\u0644\u0627\u0646\u062a"),
        ("dcfa", "\u0627\u0644\u0646\u062a"),  # two glyphs: alef before lam stays
        ("ce", "\u0644\u0627\u0646"),
        ("dc eb", "\u0644\u0625\u0644\u0627 \u0646\u062a"),
    ],
)
def test_lam_and_alef_of_one_glyph_are_in_the_order_of_reading(shown: str, word: str) -> None:
    """A ligature keeps the order of its letters when a word is turned."""
    with pypdfium2.PdfDocument(_file(shown)) as pdf:
        page = pdf[0].get_textpage()
        text, is_ordered = in_reading_order(page, page.get_text_range())
    assert plain_letters(text).split() == word.split()
    assert is_ordered
