"""Text of PDF files within and beside the box of a page, in the forms in which files state it."""

from __future__ import annotations

import io

import pytest

from vikingd.ingest.formats import pdf
from vikingd.ingest.formats.document import Document


def read(page: str, text: str, above: str = "", form: str = "") -> Document:
    """Read a PDF file.

    Args:
        page: more entries of its only page.
        text: what the page draws.
        above: more entries of the node above the page.
        form: what the form /X draws.
    """
    font = "/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>"
    objects = (
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count 1/Kids[3 0 R]{above}>>",
        f"<</Type/Page/Parent 2 0 R/Contents 4 0 R{font}{page}>>",
        f"<</Length {len(text)}>>\nstream\n{text}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Type/XObject/Subtype/Form/BBox[0 0 600 900]/Resources<</Font<</F 5 0 R>>>>"
        f"/Length {len(form)}>>\nstream\n{form}\nendstream",
    )
    body = "".join(f"{number} 0 obj\n{one}\nendobj\n" for number, one in enumerate(objects, 1))
    return pdf.read(io.BytesIO(f"%PDF-1.4\n{body}trailer\n<</Root 1 0 R>>\n%%EOF\n".encode()))


def at(x: float, y: float, word: str, size: float = 12) -> str:
    """Return the drawing of a word."""
    return f"BT /F {size} Tf {x} {y} Td ({word}) Tj ET\n"


A4 = "/MediaBox[0 0 595 842]"
BOXES = [
    # (box of the page, box above it, a place on the page, a place beside it)
    ("", A4, (50, 810), (50, 900)),
    ("", "/MediaBox[0 0 1191 842]", (900, 400), (1300, 400)),
    ("", "/MediaBox[-1000 -1000 0 0]", (-500, -400), (50, 50)),
    ("", f"{A4}/CropBox[0 0 300 300]", (50, 50), (400, 400)),
    ("/MediaBox[0 842 595 0]", "", (50, 810), (50, 900)),
    ("/MediaBox[595 842 0 0]", "", (50, 810), (700, 810)),
    (f"{A4}/CropBox[0 0 0 0]", "", (50, 810), (50, 900)),
    (f"{A4}/CropBox[0 0 2000 2000]", "", (50, 810), (50, 900)),
    (f"{A4}/Rotate 90", "", (50, 810), (810, 50)),
    ("", "", (50, 700), (50, 810)),
]


@pytest.mark.parametrize(("page", "above", "within", "beside"), BOXES)
def test_the_box_of_a_page_is_the_one_that_is_shown(
    page: str, above: str, within: tuple[int, int], beside: tuple[int, int]
) -> None:
    """A box may stand above the page, have any order of corners, or be empty."""
    found = read(page, at(*within, "berth") + at(*beside, "secret"), above)
    assert found.text == "## Page 1\n\nberth\n"
    assert found.lost == ["1 part that it hides from its readers left out"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("/MediaBox[0 0 8.5 11]/UserUnit 72", at(1, 9, "berth", 0.15) + at(1, 5, "berth", 0.2)),
        (f"{A4}/CropBox[1000 1000 2000 2000]", at(50, 400, "berth") + at(50, 300, "berth")),
        (A4, at(50, 400, "berth", 0.5) + at(50, 300, "berth", 0.5)),
    ],
)
def test_a_page_keeps_its_text_if_its_measures_mislead(page: str, text: str) -> None:
    """Units may be large, a box may have no area, and a layer of text may be small."""
    found = read(page, text)
    assert found.text.split() == ["##", "Page", "1", "berth", "berth"]
    assert found.lost == []


def test_text_of_a_form_is_shown_text() -> None:
    """A page whose other text is in a form shows something, so that hidden text is left out."""
    found = read(A4, "/X Do\n" + at(50, 900, "secret"), form=at(50, 400, "berth"))
    assert found.text == "## Page 1\n\nberth\n"
    assert found.lost == ["1 part that it hides from its readers left out"]
