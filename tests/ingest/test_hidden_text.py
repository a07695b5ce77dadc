"""Text that office files hide, move, merge or keep beside pictures and charts."""

from __future__ import annotations

import zipfile
from base64 import b64decode
from collections.abc import Callable
from io import BytesIO
from typing import Any

import openpyxl
import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE

from vikingd.ingest.formats.document import Document
from vikingd.ingest.formats.table import parser_of


def read(save: Callable[[BytesIO], Any], format_: str) -> Document:
    """Return the document that a library saves, as the parser reads it."""
    file = BytesIO()
    save(file)
    file.seek(0)
    return parser_of(format_)(file)


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
SECRET = '<w:style w:type="character" w:styleId="Secret"><w:rPr><w:vanish/></w:rPr></w:style>'


def read_docx(body: str) -> Document:
    """Return the document of a body in XML, beside a hidden character style."""
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"

    def save(file: BytesIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(
                "[Content_Types].xml",
                f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="'
                'application/vnd.openxmlformats-package.relationships+xml"/><Override PartName='
                f'"/word/document.xml" ContentType="{kind}.document.main+xml"/></Types>',
            )
            for path, target in (
                ("_rels/", "word/document"),
                ("word/_rels/document.xml", "styles"),
            ):
                name = target.rpartition("/")[2].replace("document", "officeDocument")
                archive.writestr(
                    f"{path}.rels",
                    f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
                    f'Type="{OFFICE}/{name}" Target="{target}.xml"/></Relationships>',
                )
            archive.writestr("word/styles.xml", f"<w:styles {W}>{SECRET}</w:styles>")
            archive.writestr(
                "word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>"
            )

    return read(save, "docx")


def run(text: str, facts: str = "", tag: str = "t") -> str:
    """Return a run in XML."""
    return f'<w:r><w:rPr>{facts}</w:rPr><w:{tag} xml:space="preserve">{text}</w:{tag}></w:r>'


def test_docx_leaves_out_hidden_text() -> None:
    """Text is hidden by itself or by its style; "hidden: off" shows text of a hidden style."""
    style = '<w:rStyle w:val="Secret"/>'
    runs = [
        run("berth "),
        run("direct", "<w:vanish/>"),
        run("seven "),
        run("styled", style),
        run("open", f'{style}<w:vanish w:val="0"/>'),
    ]
    found = read_docx(f"<w:p>{''.join(runs)}</w:p>")
    assert found.text == "berth seven open\n"
    assert found.lost == ["2 parts that it hides from its readers left out"]


def test_docx_shows_the_last_revision() -> None:
    """Deleted text is gone; moved text stands in its new place alone."""
    body = ""
    for kind, text in (("moveFrom", "moved"), ("moveTo", "moved"), ("del", "gone"), ("ins", "new")):
        changed = run(text, tag="delText" if kind == "del" else "t")
        body += f'<w:p>{run(kind + ": ")}<w:{kind} w:id="1">{changed}</w:{kind}></w:p>'
    lines = read_docx(body).text.split("\n\n")
    assert [line.strip() for line in lines] == ["moveFrom:", "moveTo: moved", "del:", "ins: new"]


def test_docx_repeats_merged_cells() -> None:
    """A cell over two rows stands in both, and the columns behind it stay in their places."""

    def cell(text: str, facts: str = "") -> str:
        return f"<w:tc><w:tcPr>{facts}</w:tcPr><w:p>{run(text)}</w:p></w:tc>"

    rows = [
        cell("ship") + cell("wide", '<w:gridSpan w:val="2"/>'),
        cell("tall", '<w:vMerge w:val="restart"/>') + cell("11") + cell("12"),
        cell("", "<w:vMerge/>") + cell("21") + cell("22"),
    ]
    table = "".join(f"<w:tr>{row}</w:tr>" for row in rows)
    lines = read_docx(f"<w:tbl>{table}</w:tbl>").text.splitlines()
    assert lines[-2:] == ["| tall | 11 | 12 |", "| tall | 21 | 22 |"]
    assert lines[0].count("|") == 4


def test_xlsx_leaves_out_what_is_hidden() -> None:
    """Hidden sheets are named, hidden rows and columns counted, merged cells repeated."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["ship", "x", "berth"], ["Heron", "x", 7], ["Tern", "x", 8], ["", "x", 9]):
        sheet.append(row)
    sheet.row_dimensions[2].hidden = True
    sheet.column_dimensions["B"].hidden = True
    sheet.merge_cells("A3:A4")
    book.create_sheet("Secret").append(["hush"])
    book["Secret"].sheet_state = "hidden"
    found = read(book.save, "xlsx")
    table = "| ship | berth |\n| --- | --- |\n| Tern | 8 |\n| Tern | 9 |\n"
    assert found.text == f"## Sheet\n\n{table}"
    assert found.lost == [
        "sheet 'Secret' is hidden and left out",
        "1 hidden row is left out",
        "1 hidden column is left out",
    ]


def test_pptx_tells_hidden_slides_and_shapes() -> None:
    """Hidden slides are named; hidden shapes are counted, and groups with all they hold."""
    show = pptx.Presentation()
    for title in ("Harbour", "Secret"):
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = title
    slide.element.set("show", "0")
    shapes = show.slides[0].shapes
    shown, alone = (shapes.add_textbox(0, 0, 9, 9) for _ in range(2))
    group = shapes.add_group_shape()
    within = group.shapes.add_textbox(0, 0, 9, 9)
    for shape, text in ((shown, "berths"), (alone, "hush"), (within, "quiet")):
        shape.text_frame.text = text
    for shape in (alone, group):
        shape._element.xpath("./*/p:cNvPr")[0].set("hidden", "1")
    found = read(show.save, "pptx")
    assert found.text == "## Slide 1: Harbour\n\nberths\n"
    assert found.lost == [
        "slide 2 is hidden and left out",
        "2 parts that it hides from its readers left out",
    ]


def test_pptx_keeps_the_words_of_pictures_and_charts() -> None:
    """The text for a picture is kept, and so are the values of a chart of any type."""
    show = pptx.Presentation()
    shapes = show.slides.add_slide(show.slide_layouts[6]).shapes
    picture = shapes.add_picture(BytesIO(PIXEL), 0, 0)
    picture._element.nvPicPr.cNvPr.set("descr", "A crane at the quay")
    data = CategoryChartData()
    data.categories = ["May", "June"]
    data.add_series("Ships", (3, 4.5))
    chart = shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, data).chart
    plot = chart._chartSpace.xpath(".//c:barChart")[0]
    plot.tag = plot.tag.replace("barChart", "bar3DChart")  # the library does not know it
    found = read(show.save, "pptx")
    assert "A crane at the quay" in found.text
    assert "|  | Ships |" in found.text
    assert "| May | 3 |\n| June | 4.5 |" in found.text
    assert found.lost == []
