"""PDF, HTML, DOCX, PPTX, XLSX and EPUB files of real programs as drafts."""

from __future__ import annotations

import datetime
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.chart import BarChart
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.ingest.formats_helpers import FILES, TITLES, expected, rewritten
from vikingd.client import Client
from vikingd.domain.contexts import Draft
from vikingd.ingest import file_syntax
from vikingd.ingest.files import read_tree
from vikingd.ingest.formats.document import Document, Failed, numbers, title_of
from vikingd.ingest.formats.document_reader import Documents
from vikingd.ingest.formats.table import FORMATS
from vikingd.ingest.import_remarks import LeftOut, Unreadable
from vikingd.ingest.selected_files import PAGE_FRAME

TOP = "viking://resources/papers"
Ctl = Callable[..., tuple[int, str, str]]
Read = Callable[[Path], Document]


@pytest.fixture(scope="module")
def read() -> Iterator[Read]:
    """Yield a function that reads a file in a child process."""

    def read_one(path: Path) -> Document:
        with path.open("rb") as file:
            return documents.read(file, file_syntax.document_format(path.name))

    with Documents() as documents:
        yield read_one


def joined(text: str) -> str:
    """Return Markdown without the line ends inside of paragraphs, which HTML has as it likes."""
    blocks = text.rstrip().split("\n\n")
    return "\n\n".join(b if b[0] in "-|1" else " ".join(b.split("\n")) for b in blocks) + "\n"


def test_every_format_has_a_parser() -> None:
    """Each ending of a document belongs to a format with a parser, and its content is Markdown."""
    assert set(file_syntax._DOCUMENTS.values()) == FORMATS
    assert all(
        file_syntax.syntax_of(f"a{end}") is file_syntax.Syntax.MARKDOWN
        for end in file_syntax._DOCUMENTS
    )
    assert file_syntax.document_format("A.PDF") == "pdf"
    assert file_syntax.document_format("a.pdf.txt") == file_syntax.document_format(".pdf") == ""


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        ("report-{}.docx", {"format": "docx"}),
        ("pandoc-{}.docx", {"format": "docx"}),
        ("report-{}.epub", {"format": "epub", "chapters": 4}),
        ("report-{}.html", {"format": "html"}),
    ],
)
def test_a_report_keeps_headings_lists_and_tables(
    read: Read, name: str, metadata: dict[str, Any], language: str
) -> None:
    """DOCX, EPUB and HTML become exactly the Markdown from which they were made."""
    document = read(FILES / name.format(language))
    assert joined(document.text) == expected(f"report-{language}")
    assert document.title == TITLES[f"report-{language}"]
    if name.endswith(".epub"):
        author, tag = {"en": ("Ada Marsh", "en"), "zh": ("马丽", "zh-CN")}[language]
        metadata = {**metadata, "author": author, "language": tag}
    assert (document.metadata, document.lost) == (metadata, [])


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["slides-{}.pptx", "pandoc-{}.pptx"])
def test_slides_have_headings_with_their_numbers(read: Read, name: str, language: str) -> None:
    """Each slide has a heading with number and title; lists, tables and notes are below it."""
    document = read(FILES / name.format(language))
    assert document.text == expected(f"slides-{language}")
    assert (document.title, document.lost) == (TITLES[f"slides-{language}"], [])
    assert document.metadata == {"format": "pptx", "slides": 4}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_sheets_are_tables(read: Read, language: str) -> None:
    """Each sheet is a table below its name, with dates, shares and the results of formulas."""
    document = read(FILES / f"ledger-{language}.xlsx")
    assert document.text == expected(f"ledger-{language}")
    assert (document.title, document.lost) == (TITLES[f"ledger-{language}"], [])
    assert document.metadata == {"format": "xlsx", "sheets": 2}


@pytest.mark.parametrize("name", ["report-en.pdf", "chromium-en.pdf", "report-zh.pdf"])
def test_pdf_pages_and_bookmarks_are_headings(read: Read, name: str) -> None:
    """Each bookmark and each page of a PDF file is a heading, and all text is in its place."""
    document = read(FILES / name)
    language = "zh" if "zh" in name else "en"
    words = document.text.replace("•", "").split()
    assert words == expected(f"pages-{language}").split()
    assert (document.title, document.lost) == (TITLES[f"report-{language}"], [])
    assert document.metadata == {"format": "pdf", "pages": 4}


def test_pages_without_text_are_named(read: Read) -> None:
    """A PDF of pictures has no text; one scanned page among others is named, and the rest read."""
    with pytest.raises(Failed, match=r"^has no text: it may be a scan$"):
        read(FILES / "scan.pdf")
    document = read(FILES / "half-scan.pdf")
    headings = [line for line in document.text.split("\n") if line.startswith("#")]
    assert headings == ["## Page 1", "## Page 2", "## Page 3", "## Page 4"]
    assert "spring tide rises by 4.7 metres" in document.text.partition("## Page 4")[2]
    assert document.lost == ["page 3 has no text: it may be a scan"]
    with pytest.raises(Failed, match=r"^is encrypted: it needs a password$"):
        read(FILES / "locked.pdf")


def test_passages_name_their_pages(tmp_path: Path) -> None:
    """The section of a passage has the page, the slide or the sheet of its text."""
    for name in ("report-en.pdf", "slides-en.pptx"):
        shutil.copy(FILES / name, tmp_path)
    drafts = {draft.uri: draft for draft in read_tree(tmp_path, TOP) if isinstance(draft, Draft)}
    report = drafts[f"{TOP}/report-en.pdf"]
    sections = {p.section: report.content[p.start : p.end] for p in report.passages or ()}
    assert "Cormorant" in sections["Pilots > Page 3"]
    assert "310 crowns" in sections["Berths > Fees > Page 2"]
    slides = drafts[f"{TOP}/slides-en.pptx"]
    assert "Slide 4: The keeper" in [p.section for p in slides.passages or ()]
    assert (report.title, report.metadata) == (
        "The Harbour Report",
        {"kind": "documentation", "format": "pdf", "pages": 4},
    )
    day = datetime.datetime.fromtimestamp((report.time or 0) / 1e6, datetime.UTC)
    assert day.year == 2026


def test_html_is_the_main_part_of_a_page(tmp_path: Path, read: Read) -> None:
    """Navigation, scripts and hidden elements are left out; links, code and tables are kept."""
    page = tmp_path / "page.html"
    page.write_text(
        """<!doctype html><html><head><title>Ropes &amp; Knots</title>
<meta property="article:published_time" content="2025-04-01T10:00:00+02:00"></head>
<body><nav><a href="/">Home</a></nav><div role="banner">Shop</div>
<h1>Knots<a href="#knots">¶</a></h1><script>track()</script>
<p>See <a href="https://example.org/knots">the list</a> and <a href="/b">more</a>.</p>
<p># no heading</p><p hidden>secret</p><!-- remark --><p><img alt="a bowline" src="b.png"></p>
<pre><code>tie --twice a_b*c</code></pre>
<table><tr><th>Knot</th><th>a|b</th></tr><tr><td>snake_case</td><td>1</td></tr></table>
<blockquote><p>Tie it twice.</p></blockquote><footer>Imprint</footer></body></html>"""
    )
    document = read(page)
    assert document.text == (
        "# Knots\n\nSee [the list](https://example.org/knots) and more.\n\n\\# no heading\n\n"
        "a bowline\n\n```\ntie --twice a_b*c\n```\n\n"
        "| Knot | a\\|b |\n| --- | --- |\n| snake_case | 1 |\n\n> Tie it twice.\n"
    )
    assert document.title == "Ropes & Knots"
    assert document.time == 1_743_494_400_000_000
    page.write_text("<body><p>around</p><main><p>the core</p></main><p>around</p></body>")
    document = read(page)
    assert (document.text, document.around) == ("the core\n", len("aroundaround"))


def test_the_report_tells_what_is_left_out_around_a_page(tmp_path: Path) -> None:
    """Navigation is counted in bytes, without white space; a page without any has no remark."""
    body = "<p>Tie it twice.</p>"
    (tmp_path / "bare.html").write_text(f"<body>{body}</body>")
    (tmp_path / "site.html").write_text(f"<body><nav>To <b>é</b></nav>{body}</body>")
    top = "viking://resources/site"
    told = [one for one in read_tree(tmp_path, top) if isinstance(one, LeftOut)]
    uri = f"{top}/site.html"
    assert told == [LeftOut(str(tmp_path / "site.html"), PAGE_FRAME, "", uri, len("Toé".encode()))]


def test_html_is_in_its_declared_encoding(tmp_path: Path, read: Read) -> None:
    """Chinese in GBK is read by its label or detected; what is not certain is refused."""
    page = tmp_path / "page.htm"
    page.write_bytes('<meta charset="gb2312"><p>防波堤和灯塔，镕</p>'.encode("gbk"))
    assert read(page).text == "防波堤和灯塔，镕\n"  # the last character is in GBK alone
    page.write_bytes("<p>防波堤和灯塔</p>".encode("gbk"))
    assert read(page).text == "防波堤和灯塔\n"
    assert (read(page).encoding, read(page).how) == ("GB18030", "detected")
    page.write_bytes(b"<p>a\x81\xff</p>")
    with pytest.raises(
        Failed, match=r"is no UTF-8 at byte 4, and its encoding is not certain: .* --e"
    ):
        read(page)
    page.write_bytes(b"<p> </p>")
    with pytest.raises(Failed, match=r"^has no text$"):
        read(page)


def test_a_sheet_that_cannot_be_read_is_named(tmp_path: Path, read: Read) -> None:
    """Charts, damaged sheets and formulas without values are named; other sheets are read."""
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    first = book.active
    assert first is not None
    first.title = "Good"
    first.append(["a|b", True, 0.1 + 0.2, datetime.datetime(2026, 1, 2, 3, 4), None, "x\ny"])
    first.append([])
    first.append([None, "second table"])
    first["B5"] = "=1+1"
    book.create_sheet("Bad").append(["gone"])
    book.create_chartsheet("Chart").add_chart(BarChart())
    book.save(path)
    document = read(rewritten(path, "xl/worksheets/sheet2.xml", lambda xml: xml[:-30]))
    assert document.text == (
        "## Good\n\n| a\\|b | TRUE | 0.3 | 2026-01-02 03:04:00 |  | x y |\n"
        "| --- | --- | --- | --- | --- | --- |\n\n| second table |\n| --- |\n\n## Bad\n\n## Chart\n"
    )
    formula, chart, bad = document.lost
    assert formula == "1 formula has no value: open and save the file in its program"
    assert bad.startswith("sheet 'Bad' cannot be read: ")
    assert chart == "sheet 'Chart' is a chart and left out"


def test_a_wrong_dimension_of_a_sheet_hides_nothing(tmp_path: Path, read: Read) -> None:
    """All cells are read, whatever dimension the sheet states."""
    path = Path(shutil.copy(FILES / "ledger-en.xlsx", tmp_path))
    rewritten(path, "xl/worksheets/sheet1.xml", lambda xml: xml.replace(b'"A1:C3"', b'"A1:A1"'))
    assert read(path).text == expected("ledger-en")


def test_slides_show_groups_and_charts(tmp_path: Path, read: Read) -> None:
    """Texts of grouped shapes and the numbers of charts are read; footers are not."""
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Catch\nof the year"
    group = slide.shapes.add_group_shape()
    box = group.shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1))
    box.text_frame.text = "# inside a group"
    data = CategoryChartData()
    data.categories = ["cod", "eel"]
    data.add_series("tons", (3.5, 12))
    data.add_series("boats", (4, None))
    place = (Inches(2), Inches(2), Inches(3), Inches(3))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data)
    deck.core_properties.title = "PowerPoint Presentation"
    path = tmp_path / "a.pptx"
    deck.save(str(path))
    document = read(path)
    assert document.text == (
        "## Slide 1: Catch of the year\n\n\\# inside a group\n\n"
        "|  | tons | boats |\n| --- | --- | --- |\n| cod | 3.5 | 4 |\n| eel | 12 |  |\n"
    )
    assert document.title == "Catch of the year"


def test_chapters_that_cannot_be_read_are_named(tmp_path: Path, read: Read) -> None:
    """A missing and an encrypted chapter are named; a chapter without headings gets its name."""
    path = tmp_path / "a.epub"
    shutil.copy(FILES / "report-en.epub", path)
    encryption = '<e><CipherReference URI="EPUB/text/ch002.xhtml"/></e>'
    rewritten(path, "META-INF/encryption.xml", lambda _: encryption.encode())
    rewritten(path, "EPUB/text/ch003.xhtml", lambda xml: xml.replace(b"h1", b"p"))
    rewritten(path, "EPUB/text/ch001.xhtml", None)
    document = read(path)
    assert document.lost == [
        "chapter 'EPUB/text/ch001.xhtml' cannot be read: is damaged: a member is missing",
        "chapter 'EPUB/text/ch002.xhtml' cannot be read: is encrypted",
    ]
    assert "# Tides\n\nTides\n\nThe spring tide" in document.text
    assert "Cormorant" not in document.text


@pytest.mark.deep
def test_reading_again_gives_equal_drafts(tmp_path: Path) -> None:
    """Drafts of the same files are equal, so that a second import writes nothing."""
    shutil.copytree(FILES, tmp_path / "files", ignore=shutil.ignore_patterns("sources", "expected"))
    first, second = (list(read_tree(tmp_path / "files", TOP)) for _ in range(2))
    assert first == second
    reasons = {item.uri.rpartition("/")[2]: item.reason for item in first if not is_draft(item)}
    assert reasons == {
        "half-scan.pdf": "page 3 has no text: it may be a scan; the rest is imported",
        "locked.pdf": "is encrypted: it needs a password",
        "scan.pdf": "has no text: it may be a scan",
    }


def is_draft(item: Draft | Unreadable) -> bool:
    """Return True for a draft."""
    return isinstance(item, Draft)


def test_vikingctl_loads_no_parser_before_it_meets_a_document() -> None:
    """The import of vikingctl loads no package of the extra, and the parent never loads one."""
    program = f"""
import sys
from pathlib import Path
import vikingd.ctl.main
from vikingd.ingest.files import read_tree
assert list(read_tree(Path({str(FILES / "report-en.docx")!r}), "viking://resources/a.docx"))
packages = ("bs4", "lxml", "mammoth", "markdownify", "openpyxl", "pptx", "pypdfium2")
print([name for name in packages if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_no_document_means_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without documents starts no process."""
    monkeypatch.setattr(Documents, "_start", lambda _: pytest.fail("a child was started"))
    (tmp_path / "a.md").write_text("# A\n\ntext")
    (tmp_path / "b.py").write_text("print()")
    assert all(map(is_draft, read_tree(tmp_path, TOP)))


def test_exported_documents_can_be_imported(ctl: Ctl, typed: Client, tmp_path: Path) -> None:
    """An export writes the Markdown of a document; an import reads it, with its metadata."""
    shutil.copy(FILES / "report-en.pdf", tmp_path)
    typed.import_path(tmp_path, TOP)
    context = typed.get(f"{TOP}/report-en.pdf")
    out = tmp_path / "out"
    assert ctl("export", TOP, "--to", str(out))[0] == 0
    (draft,) = (item for item in read_tree(out, TOP) if is_draft(item) and item.uri != TOP)
    assert isinstance(draft, Draft)
    assert draft.title == "The Harbour Report"
    assert draft.metadata["format"] == "pdf"
    assert draft.metadata["pages"] == 4
    assert draft.content.endswith(context.content)
    (out / "report-en.pdf").write_text("---\nformat: docx\n---\nno PDF")
    (fault,) = (item for item in read_tree(out, TOP) if isinstance(item, Unreadable))
    assert fault.reason == "is damaged, or no PDF"


PAPERS = {"docx", "epub", "html", "pdf"}
QUESTIONS = [
    ("wreck buoy pilot fog", {"report-en", "pandoc-en", "chromium-en"}, PAPERS),
    ("沉船浮标附近登船", {"report-zh", "pandoc-zh"}, PAPERS),
    ("spare bulb in the cellar", {"slides-en", "pandoc-en"}, {"pptx"}),
    ("地下室的备用灯泡", {"slides-zh", "pandoc-zh"}, {"pptx"}),
    ("Grey Heron arrival", {"ledger-en"}, {"xlsx"}),
    ("苍鹭号到达", {"ledger-zh"}, {"xlsx"}),
]


@pytest.mark.deep
@pytest.mark.usefixtures("typed")
def test_vikingctl_imports_and_finds_documents(ctl: Ctl, tmp_path: Path) -> None:
    """Vikingctl imports all documents, finds a sentence of each, and writes nothing again."""
    papers = tmp_path / "papers"
    shutil.copytree(
        FILES, papers, ignore=shutil.ignore_patterns("sources", "expected", "README.md")
    )
    planned = json.loads(ctl("import", str(papers), TOP, "--dry-run", "--json")[1])
    assert ["create", f"{TOP}/report-zh.pdf"] in planned["planned"]
    code, _, err = ctl("import", str(papers), TOP)
    assert code == 0
    assert "scan.pdf: has no text: it may be a scan" in err
    assert "half-scan.pdf: page 3 has no text: it may be a scan; the rest is imported" in err
    for question, stems, endings in QUESTIONS:
        found = json.loads(ctl("find", question, "--limit", "12", "--json")[1])["resources"]
        names = {match["uri"].rpartition("/")[2] for match in found}
        missing = {f"{stem}.{end}" for stem in stems for end in endings}
        assert {n for n in missing if (papers / n).exists()} <= names, question
    again = json.loads(ctl("import", str(papers), TOP, "--json")[1])
    assert (again["created"], again["updated"], again["revision"]) == (0, 0, 0)
    (papers / "ledger-zh.xlsx").unlink()
    last = json.loads(ctl("import", str(papers), TOP, "--delete", "--json")[1])
    assert (last["deleted"], last["created"]) == (1, 0)
    one = json.loads(ctl("import", str(papers / "half-scan.pdf"), f"{TOP}/one.pdf", "--json")[1])
    assert (one["created"], len(one["unreadable"])) == (1, 1)


def test_numbers_and_titles() -> None:
    """Numbers are listed as ranges; titles that programs write by themselves count as none."""
    assert numbers([1]) == "1"
    assert numbers([9, 2, 4, 5, 6, 7]) == "2, 4-7 and 9"
    assert title_of("Microsoft Word - a.doc") == title_of("无标题") == title_of(None) == ""
    assert title_of(" A\n title\0") == "A title"
    assert len(title_of("港" * 1000).encode()) <= 1024


def test_a_zip_without_the_parts_of_its_format_is_refused(tmp_path: Path, read: Read) -> None:
    """A zip archive with the name of an office file is refused with a reason."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.txt", "a")
    for name in ("a.docx", "a.pptx", "a.xlsx", "a.epub"):
        (tmp_path / name).write_bytes(data.getvalue())
        with pytest.raises(Failed, match=r"^is damaged: "):
            read(tmp_path / name)
