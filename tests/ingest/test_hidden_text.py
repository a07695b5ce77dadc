"""Text that office files hide, move, merge or keep beside pictures and charts."""

from __future__ import annotations

import zipfile
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from typing import Any

import openpyxl
import pptx
import pytest
from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Pt

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
SECRET = "".join(
    f'<w:style w:type="character" w:styleId="{name}">{facts}</w:style>'
    for name, facts in (
        ("Secret", "<w:rPr><w:vanish/></w:rPr>"),
        ("Badge", '<w:rPr><w:shd w:val="clear" w:fill="1F4E79"/></w:rPr>'),
        ("Label", '<w:basedOn w:val="Badge"/><w:rPr><w:b/></w:rPr>'),
        ("Marked", '<w:rPr><w:highlight w:val="black"/></w:rPr>'),
        ("Plain", '<w:basedOn w:val="Badge"/><w:rPr><w:shd w:val="clear" w:fill="auto"/></w:rPr>'),
        ("Strong", "<w:rPr><w:b/></w:rPr>"),
    )
)


def read_docx(body: str) -> Document:
    """Return the document of a body in XML, beside styles of characters."""
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


W14 = 'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
WHITE = '<w:color w:val="FFFFFF"/>'


@pytest.mark.parametrize(
    ("facts", "is_hidden"),
    [
        (WHITE + '<w:shd w:val="clear" w:color="auto" w:fill="FFFFFF"/>', True),
        (WHITE + '<w:shd w:val="clear" w:color="auto" w:fill="auto"/>', True),
        (WHITE + '<w:highlight w:val="white"/>', True),
        (WHITE + '<w:vanish w:val="0"/>', True),
        ('<w:color w:val="FFFFFF" w:themeColor="background1"/>', True),
        (f"<w14:textFill {W14}><w14:noFill/></w14:textFill>", True),
        (WHITE + '<w:shd w:val="clear" w:color="auto" w:fill="1F4E79"/>', False),
        (WHITE + '<w:shd w:val="solid" w:color="000000" w:fill="FFFFFF"/>', False),
        (WHITE + '<w:shd w:val="clear" w:fill="FFFFFF" w:themeFill="accent1"/>', False),
        (WHITE + '<w:highlight w:val="black"/>', False),
        ('<w:color w:val="FFFFFF" w:themeColor="background1" w:themeShade="80"/>', False),
        ('<w:color w:val="FFFFFF" w:themeColor="text1"/>', False),
        (
            f"<w14:textOutline {W14}/><w14:textFill {W14}><w14:noFill/></w14:textFill>",
            False,
        ),
    ],
)
def test_docx_leaves_out_text_without_a_visible_color(facts: str, is_hidden: bool) -> None:
    """White on white and text without a fill are hidden; on another color they are shown."""
    found = read_docx(f"<w:p>{run('berth ')}{run('seven', facts)}</w:p>")
    assert ("seven" not in found.text) == is_hidden
    assert found.lost == ["1 part that it hides from its readers left out"] * is_hidden


@pytest.mark.parametrize(
    ("style", "is_hidden"),
    [
        ("Badge", False),
        ("Label", False),
        ("Marked", False),
        ("Plain", True),
        ("Strong", True),
        ("Unknown", True),
    ],
)
def test_docx_shows_white_text_on_the_color_of_its_style(style: str, is_hidden: bool) -> None:
    """A style of characters may have a color of its own, or by its base."""
    facts = f'<w:rStyle w:val="{style}"/>{WHITE}'
    found = read_docx(f"<w:p>{run('berth ')}{run('seven', facts)}</w:p>")
    assert ("seven" not in found.text) == is_hidden
    assert found.lost == ["1 part that it hides from its readers left out"] * is_hidden


def anchor(behind: str) -> str:
    """Return a run with a drawing that stands behind the text ("1") or not ("0")."""
    of = "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
    drawing = f'<wp:anchor xmlns:wp="{of}" behindDoc="{behind}"/>'
    return f"<w:r><w:drawing>{drawing}</w:drawing></w:r>"


@pytest.mark.parametrize(
    ("state", "is_hidden"), [("1", False), ("true", False), ("0", True), ("false", True)]
)
def test_docx_shows_white_text_over_a_picture(state: str, is_hidden: bool) -> None:
    """White text is seen where a picture may stand behind it; text without a size never is."""
    white = '<w:color w:val="FFFFFF" w:themeColor="background1"/>'
    texts = run("berth ") + run("seven", white) + run("!") + run("tiny", '<w:sz w:val="2"/>')
    found = read_docx(f"<w:p>{anchor(state)}{texts}</w:p>")
    assert ("seven" not in found.text) == is_hidden
    assert "tiny" not in found.text
    count = "2 parts" if is_hidden else "1 part"
    assert found.lost == [f"{count} that it hides from its readers left out"]


def test_docx_shows_the_box_of_a_white_run() -> None:
    """A run without a visible color may hold a box whose text has one; a hidden run hides it."""
    box = (
        '<w:pict xmlns:v="urn:schemas-microsoft-com:vml"><v:shape><v:textbox><w:txbxContent><w:p>'
        f"{run('seven')}</w:p></w:txbxContent></v:textbox></v:shape></w:pict>"
    )
    for facts in (WHITE, '<w:sz w:val="2"/>'):
        texts = f"{run('berth ')}<w:r><w:rPr>{facts}</w:rPr><w:t>secret</w:t>{box}</w:r>"
        found = read_docx(f"<w:p>{texts}</w:p>")
        assert found.text.split() == ["berth", "seven"]
        assert found.lost == ["1 part that it hides from its readers left out"]
    hidden = f"<w:r><w:rPr><w:vanish/></w:rPr>{box}</w:r>"
    found = read_docx(f"<w:p>{run('berth ')}{hidden}</w:p>")
    assert found.text == "berth\n"
    assert found.lost == ["1 part that it hides from its readers left out"]


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        (["secret"], 1),
        (["secret", "more"], 1),
        (["- ", "secret"], 1),
        (["- ", "secret", " - ", "more"], 1),
        (["- "], 0),
    ],
)
def test_docx_counts_all_that_it_removes(texts: list[str], count: int) -> None:
    """Hidden runs side by side are one part, also at the start and behind a sign."""
    hidden = "".join(run(text, "<w:vanish/>") for text in texts)
    found = read_docx(f"<w:p>{hidden}</w:p><w:p>{run('berth')}</w:p>")
    assert found.text == "berth\n"
    assert found.lost == ["1 part that it hides from its readers left out"] * count


def test_docx_rows() -> None:
    """A hidden row is left out; columns that a row leaves free stay free."""

    def row(cells: str, facts: str = "") -> str:
        cells = "".join(f"<w:tc><w:p>{run(text)}</w:p></w:tc>" for text in cells.split())
        return f"<w:tr><w:trPr>{facts}</w:trPr>{cells}</w:tr>"

    rows = [
        row("a b c"),
        row("d e f", "<w:hidden/>"),
        row("g h i", '<w:hidden w:val="0"/>'),
        row("j", '<w:gridBefore w:val="2"/>'),
    ]
    found = read_docx(f"<w:tbl>{''.join(rows)}</w:tbl>")
    assert found.text.splitlines()[2:] == ["| g | h | i |", "|  |  | j |"]
    assert found.lost == ["1 part that it hides from its readers left out"]


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


def test_xlsx_leaves_out_rows_and_columns_without_a_size() -> None:
    """A row without a height and a column without a width are hidden; small ones are read."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for line in (["ship", "x", "berth"], ["Heron", "x", 7], ["Tern", "x", 8]):
        sheet.append(line)
    sheet.row_dimensions[2].height = 77
    sheet.row_dimensions[3].height = 0.75
    sheet.column_dimensions["B"].width = 77
    sheet.column_dimensions["C"].width = 0.5

    def save(file: BytesIO) -> None:
        whole = BytesIO()
        book.save(whole)
        with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(file, "w") as copy:
            for name in archive.namelist():  # openpyxl writes no size of 0
                copy.writestr(name, archive.read(name).replace(b'="77"', b'="0"'))

    found = read(save, "xlsx")
    assert found.text == "## Sheet\n\n| ship | berth |\n| --- | --- |\n| Tern | 8 |\n"
    assert found.lost == ["1 hidden row is left out", "1 hidden column is left out"]


@pytest.mark.parametrize(
    ("epoch", "day"), [(WINDOWS_EPOCH, "1900-01-00"), (MAC_EPOCH, "1904-01-01")]
)
def test_xlsx_shows_the_number_0_as_a_day(epoch: datetime, day: str) -> None:
    """The number 0 in the format of a day is the first day, and in that of a time a time."""
    book = openpyxl.Workbook()
    book.epoch = epoch
    sheet = book.active
    assert sheet is not None
    sheet.append([0, 0.5, 0.5])
    for cell, code in zip(sheet[1], ("yyyy-mm-dd", "d/m/yy h:mm", "h:mm"), strict=True):
        cell.number_format = code
    assert f"| {day} | {day} 12:00:00 | 12:00 |" in read(book.save, "xlsx").text


def test_odt_leaves_out_what_is_hidden() -> None:
    """Hidden paragraphs, collapsed rows and tiny text are counted; what is shown is read."""
    of = "urn:oasis:names:tc:opendocument:xmlns"
    spaces = " ".join(
        f'xmlns:{name}="{of}:{uri}:1.0"'
        for name, uri in (
            ("office", "office"),
            ("text", "text"),
            ("table", "table"),
            ("style", "style"),
            ("fo", "xsl-fo-compatible"),
        )
    )

    def row(text: str, state: str) -> str:
        cell = f"<table:table-cell><text:p>{text}</text:p></table:table-cell>"
        return f'<table:table-row table:visibility="{state}">{cell}</table:table-row>'

    def mark(state: str) -> str:
        return f'<text:hidden-paragraph text:is-hidden="{state}"/>'

    styles = "".join(
        f'<style:style style:name="{name}" style:family="text">'
        f'<style:text-properties fo:font-size="{size}"/></style:style>'
        for name, size in (("Tiny", "1pt"), ("Small", "6pt"), ("Half", "50%"))
    )
    body = (
        f"<text:p>one{mark('false')}</text:p><text:p>{mark('true')}secret</text:p>"
        + "".join(
            f'<text:p><text:span text:style-name="{name}">{text}</text:span></text:p>'
            for name, text in (("Tiny", "secret"), ("Small", "two"), ("Half", "three"))
        )
        + "<table:table>"
        + "".join(
            row(*one) for one in (("four", "visible"), ("secret", "collapse"), ("five", "filter"))
        )
        + "</table:table>"
    )

    def save(file: BytesIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
            archive.writestr(
                "content.xml",
                f"<office:document-content {spaces}><office:automatic-styles>{styles}"
                f"</office:automatic-styles><office:body><office:text>{body}</office:text>"
                "</office:body></office:document-content>",
            )

    found = read(save, "odt")
    assert found.text == "one\n\ntwo\n\nthree\n\n| four |\n| --- |\n| five |\n"
    assert found.lost == ["3 parts that it hides from its readers left out"]


def test_pptx_leaves_out_tiny_text() -> None:
    """Text of at most two points is counted; small print is read."""
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "Harbour"
    for text, points in (("secret", 1), ("print", 4)):
        box = slide.shapes.add_textbox(0, 0, 99, 99)
        box.text_frame.text = text
        box.text_frame.paragraphs[0].runs[0].font.size = Pt(points)
    found = read(show.save, "pptx")
    assert found.text == "## Slide 1: Harbour\n\nprint\n"
    assert found.lost == ["1 part that it hides from its readers left out"]


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
