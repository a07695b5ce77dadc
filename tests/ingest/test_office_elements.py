"""DOCX, ODT and EML files: text in elements that a simple reader skips."""

from __future__ import annotations

import io
import shutil
import time
import zipfile
from pathlib import Path

import openpyxl
import pytest
from openpyxl.chart import BarChart
from openpyxl.comments import Comment

from tests.ingest.formats_helpers import FILES, rewritten
from vikingd.ingest.formats import docx, eml, odt, pdf, pptx, xlsx
from vikingd.ingest.formats.document import Document, Failed

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
V = 'xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
C = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
CHART = f"""<c:chartSpace {C} {A}><c:chart>
<c:title><c:tx><c:rich><a:p><a:r><a:t>Tides</a:t></a:r></a:p></c:rich></c:tx></c:title>
<c:plotArea><c:lineChart><c:ser>
<c:tx><c:strRef><c:strCache><c:pt idx="0"><c:v>Höhe</c:v></c:pt></c:strCache></c:strRef></c:tx>
<c:cat><c:strRef><c:strCache><c:pt idx="0"><c:v>一月</c:v></c:pt>
<c:pt idx="2"><c:v>三月</c:v></c:pt>
</c:strCache></c:strRef></c:cat>
<c:val><c:numRef><c:numCache><c:pt idx="0"><c:v>4.4000000000000004</c:v></c:pt>
<c:pt idx="2"><c:v>7</c:v></c:pt></c:numCache></c:numRef></c:val>
</c:ser></c:lineChart></c:plotArea></c:chart></c:chartSpace>"""


def run(text: str) -> str:
    """Return a run of DOCX."""
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def term(text: str) -> str:
    """Return a run of a formula."""
    return f"<m:r><m:t>{text}</m:t></m:r>"


def docx_of(body: str, **parts: str) -> Document:
    """Read a DOCX file with this paragraph; `parts` are further members."""
    target = io.BytesIO()
    with zipfile.ZipFile(FILES / "pandoc-en.docx") as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name not in ("word/document.xml", "word/comments.xml", *parts):
                new.writestr(name, old.read(name))
        document = (
            f"<w:document {W} {M} {V} {R} {A} {C}><w:body><w:p>{body}</w:p></w:body></w:document>"
        )
        new.writestr("word/document.xml", document)
        for name, text in parts.items():
            new.writestr(name, text)
    target.seek(0)
    return docx.read(target)


FORMULAS = [
    (f"<m:f><m:num>{term('a+b')}</m:num><m:den>{term('2')}</m:den></m:f>", "(a+b)/2"),
    (f"<m:sSup><m:e>{term('x')}</m:e><m:sup>{term('2')}</m:sup></m:sSup>", "x^2"),
    (
        f"<m:sSubSup><m:e>{term('x')}</m:e><m:sub>{term('i')}</m:sub><m:sup>{term('n+1')}</m:sup></m:sSubSup>",
        "x_i^(n+1)",
    ),
    (f"<m:rad><m:deg>{term('3')}</m:deg><m:e>{term('x')}</m:e></m:rad>", "√[3]x"),
    (
        f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{term("k=0")}</m:sub>'
        f"<m:sup>{term('n')}</m:sup><m:e>{term('k')}</m:e></m:nary>",
        "∑_(k=0)^n k",
    ),
    (
        '<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr>'
        f"<m:e>{term('x')}</m:e></m:d>",
        "[x]",
    ),
    (f"<m:func><m:fName>{term('sin')}</m:fName><m:e>{term('α')}</m:e></m:func>", "sin α"),
    (
        f"<m:m><m:mr><m:e>{term('1')}</m:e><m:e>{term('0')}</m:e></m:mr>"
        f"<m:mr><m:e>{term('0')}</m:e><m:e>{term('1')}</m:e></m:mr></m:m>",
        "1, 0; 0, 1",
    ),
    (f"<m:acc><m:e>{term('e')}</m:e></m:acc>", "ê"),
]


@pytest.mark.parametrize(("formula", "text"), FORMULAS)
def test_formulas_of_a_text_are_typed(formula: str, text: str) -> None:
    """A formula stands in its sentence, in the notation that people type."""
    body = f"{run('Let ')}<m:oMath>{formula}</m:oMath>{run(' hold')}"
    document = docx_of(body)
    assert (document.text, document.lost) == (f"Let {text} hold\n", [])
    assert docx_of(f"<m:oMathPara><m:oMath>{formula}</m:oMath></m:oMathPara>").text == f"{text}\n"


SKIPPED = [
    (f'<w:fldSimple w:instr="REF x">{run("Chapitre 3")}</w:fldSimple>', "Chapitre 3"),
    (f'<w:dir w:val="rtl">{run("الاحتفالات")}</w:dir>', "الاحتفالات"),
    (f'<w:bdo w:val="rtl"><w:bdo w:val="ltr">{run("שלום")}</w:bdo></w:bdo>', "שלום"),
    (
        f"<w:r><w:ruby><w:rubyPr/><w:rt>{run('かんじ')}</w:rt>"
        f"<w:rubyBase>{run('漢字')}</w:rubyBase></w:ruby></w:r>",
        "漢字（かんじ）",
    ),
    (
        f"<w:r><w:pict><v:group><v:oval><v:textbox><w:txbxContent><w:p>{run('संघ')}</w:p>"
        "</w:txbxContent></v:textbox></v:oval></v:group></w:pict></w:r>",
        "संघ",
    ),
    (
        '<w:r><w:pict><v:shape><v:textpath string="Заголовок"/></v:shape></w:pict></w:r>',
        "Заголовок",
    ),
]


@pytest.mark.parametrize(("body", "text"), SKIPPED)
def test_elements_that_the_parser_skips_are_read(body: str, text: str) -> None:
    """Fields, directions, ruby, shapes and artful headings keep their text, in any language."""
    assert docx_of(body).text == f"{text}\n"


def test_charts_of_a_text_are_tables() -> None:
    """A chart has its title and its values where it stands; a missing point is an empty cell."""
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId9" Type="chart" Target="charts/chart1.xml"/></Relationships>'
    )
    uri = "http://schemas.openxmlformats.org/drawingml/2006/chart"
    drawing = (
        f'<w:r><w:drawing><a:graphic><a:graphicData uri="{uri}"><c:chart r:id="rId9"/>'
        "</a:graphicData></a:graphic></w:drawing></w:r>"
    )
    parts = {"word/_rels/document.xml.rels": relations, "word/charts/chart1.xml": CHART}
    document = docx_of(run("Before") + drawing, **parts)
    rows = ["|  | Höhe |", "| --- | --- |", "| 一月 | 4.4 |", "|  |  |", "| 三月 | 7 |"]
    assert document.text == "Before\n\nTides\n\n" + "\n".join(rows) + "\n"
    assert document.lost == []
    document = docx_of(run("Before") + drawing)
    assert document.lost == ["1 chart or diagram is left out"]


def test_diagrams_of_a_text_are_paragraphs() -> None:
    """The texts of SmartArt stand behind its paragraph; a diagram without its part is told."""
    dgm = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId9" Type="diagramData" Target="diagrams/data1.xml"/></Relationships>'
    )
    points = "".join(
        f"<dgm:pt><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>"
        for text in ("Ebbe", "", "满潮")
    )
    drawing = (
        f'<w:r><w:drawing><a:graphic><a:graphicData uri="{dgm}">'
        f'<dgm:relIds xmlns:dgm="{dgm}" r:dm="rId9" r:lo="rId2"/>'
        "</a:graphicData></a:graphic></w:drawing></w:r>"
    )
    parts = {
        "word/_rels/document.xml.rels": relations,
        "word/diagrams/data1.xml": f'<dgm:dataModel xmlns:dgm="{dgm}" {A}>{points}</dgm:dataModel>',
    }
    document = docx_of(run("Before") + drawing, **parts)
    assert (document.text, document.lost) == ("Before\n\nEbbe\n\n满潮\n", [])
    assert docx_of(run("Before") + drawing).lost == ["1 chart or diagram is left out"]


@pytest.mark.parametrize(
    ("member", "comments"),
    [
        (
            "ppt/comments/comment1.xml",
            '<p:cmLst xmlns:p="p"><p:cm idx="1"/><p:cm idx="2"/></p:cmLst>',
        ),
        (
            "ppt/comments/modernComment_1.xml",
            '<p188:cmLst xmlns:p188="q"><p188:cm id="1"/>'
            "<p188:cm id='2'><p188:replyLst/></p188:cm></p188:cmLst>",
        ),
    ],
)
def test_comments_of_slides_are_counted(member: str, comments: str, tmp_path: Path) -> None:
    """Comments of old and of new programs are told, and are no text of a slide."""
    path = Path(shutil.copy(FILES / "slides-en.pptx", tmp_path))
    with path.open("rb") as file:
        before = pptx.read(file)
    rewritten(path, member, lambda _: comments.encode())
    with path.open("rb") as file:
        document = pptx.read(file)
    assert document.text == before.text
    assert document.lost == [*before.lost, "2 comments are left out"]


def test_what_a_text_loses_is_counted() -> None:
    """Objects of other programs, inserted documents and comments are told."""
    objects = '<w:r><w:object><o:OLEObject ProgID="Equation.3"/></w:object></w:r>' * 2
    comments = f"<w:comments {W}><w:comment w:id='1'/><w:comment w:id='2'/></w:comments>"
    document = docx_of(f"{run('x')}{objects}", **{"word/comments.xml": comments})
    assert document.lost == ["2 embedded objects are left out", "2 comments are left out"]


def test_a_slide_show_is_read(tmp_path: Path) -> None:
    """A presentation that opens as a show has slides as any other."""
    with zipfile.ZipFile(FILES / "pandoc-en.pptx") as old:
        members = {name: old.read(name) for name in old.namelist()}
    types = members["[Content_Types].xml"]
    members["[Content_Types].xml"] = types.replace(b"presentation.main+xml", b"slideshow.main+xml")
    assert types != members["[Content_Types].xml"]
    with zipfile.ZipFile(tmp_path / "a.pptx", "w") as new:
        for name, data in members.items():
            new.writestr(name, data)
    with (tmp_path / "a.pptx").open("rb") as show, (FILES / "pandoc-en.pptx").open("rb") as file:
        assert pptx.read(show).text == pptx.read(file).text


def test_what_stands_beside_the_cells_is_counted() -> None:
    """Comments, charts and text boxes of a workbook are told."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet["A1"] = 3
    sheet["A1"].comment = Comment("by hand", "a")
    sheet.add_chart(BarChart())
    target = io.BytesIO()
    book.save(target)
    box = "<xdr:sp><xdr:txBody><a:p><a:t>x</a:t></a:p></xdr:txBody></xdr:sp>"
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("xl/drawings/drawing7.xml", f"<r>{box}{box}</r>")
    assert xlsx.read(target).lost == [
        "1 comment is left out",
        "1 chart is left out",
        "2 text boxes are left out",
    ]


def pdf_of(text: str, more: str = "") -> Document:
    """Read a PDF file of one page with this text, in a font of 12 points."""
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 5 0 R{more}"
        "/Resources<</Font<</F 4 0 R>>>>>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Length {len(text) + 16}>>\nstream\nBT /F 12 Tf {text} ET\nendstream",
    ]
    parts = "".join(f"{i} 0 obj\n{one}\nendobj\n" for i, one in enumerate(objects, start=1))
    return pdf.read(io.BytesIO(f"%PDF-1.4\n{parts}trailer\n<</Root 1 0 R>>\n%%EOF\n".encode()))


@pytest.mark.parametrize(
    ("text", "more", "is_shown"),
    [
        ("1 0 0 1 72 -500 Tm (seven) Tj", "", False),
        ("1 0 0 1 700 300 Tm (seven) Tj", "", False),
        ("1 0 0 1 72 300 Tm (seven) Tj", "/CropBox[0 400 600 800]", False),
        ("1 0 0 1 72 300 Tm /F 0.01 Tf (seven) Tj", "", False),
        (".01 0 0 .01 72 300 Tm (seven) Tj", "", False),
        ("1 0 0 1 580 300 Tm (seven) Tj", "", True),
        ("1 0 0 1 72 300 Tm (seven) Tj", "/Rotate 90", True),
        ("0 1 -1 0 72 300 Tm (seven) Tj", "", True),
        ("12 0 0 12 72 300 Tm /F 1 Tf (seven) Tj", "", True),
        ("1 0 0 1 72 300 Tm /F 4 Tf (seven) Tj", "", True),
        (
            "1 0 0 1 72 -300 Tm (seven) Tj",
            "/CropBox[0 -400 600 800]/MediaBox[0 -400 600 800]",
            True,
        ),
        ("3 Tr 1 0 0 1 72 300 Tm (seven) Tj", "", True),  # the words of a scan
    ],
)
def test_text_beside_a_page_and_tiny_text_are_left_out(
    text: str, more: str, is_shown: bool
) -> None:
    """Text that no reader sees is counted; text in other directions and sizes is read."""
    document = pdf_of(f"1 0 0 1 72 700 Tm (berth - .) Tj {text}", more)
    assert "berth - ." in document.text
    assert ("seven" in document.text) == is_shown
    assert document.lost == ["1 part that it hides from its readers left out"] * (not is_shown)


def test_letters_without_a_width_are_told() -> None:
    """A page of which most letters have no width is told, since PDFium passes over them."""
    letters = " ".join(
        f"{0 if c == 'a' else 100} Tz 1 0 0 1 {9 * (i % 60)} {700 - i // 60 * 20} Tm ({c}) Tj"
        for i, c in enumerate("ab " * 180)
    )
    document = pdf_of(letters)
    assert "a" not in document.text.partition("Page 1")[2]
    assert document.lost == ["letters on page 1 are lost: their font has no widths"]


SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{of}:1.0"'
    for name, of in (
        *(("office", "office"), ("text", "text"), ("table", "table")),
        *(("style", "style"), ("draw", "drawing")),
    )
)


def odt_of(body: str, styles: str = "", **parts: str) -> Document:
    """Read an ODT file with this body."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as new:
        new.writestr(
            "content.xml",
            f'<office:document-content {SPACES} xmlns:xlink="http://www.w3.org/1999/xlink"'
            f' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0">'
            f"<office:automatic-styles>{styles}</office:automatic-styles>"
            f"<office:body><office:text>{body}</office:text></office:body>"
            "</office:document-content>",
        )
        for name, text in parts.items():
            new.writestr(name, text)
    target.seek(0)
    return odt.read(target)


CELL = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"
OPEN_TEXTS = [
    ('<text:h text:outline-level="2">Ώρες</text:h><text:p>α</text:p>', "## Ώρες\n\nα\n"),
    ("<text:p>a<text:s/>b<text:tab/>c<text:line-break/>d</text:p>", "a b c\nd\n"),
    (
        "<text:list text:style-name='L1'><text:list-item><text:p>один</text:p></text:list-item>"
        "<text:list-item><text:p>два</text:p></text:list-item></text:list>",
        "1. один\n2. два\n",
    ),
    (
        "<table:table><table:table-row>"
        + CELL.format(' table:number-rows-spanned="2"', "남")
        + CELL.format("", "b")
        + "</table:table-row><table:table-row><table:covered-table-cell/>"
        + CELL.format(' table:number-columns-repeated="2"', "c")
        + "</table:table-row></table:table>",
        "| 남 | b |  |\n| --- | --- | --- |\n| 남 | c | c |\n",
    ),
    (
        "<text:p>See<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>Die Notiz.</text:p></text:note-body></text:note> there.</text:p>",
        "See [1] there.\n\n[1] Die Notiz.\n",
    ),
    (
        "<text:p><text:ruby><text:ruby-base>漢字</text:ruby-base><text:ruby-text>かんじ"
        "</text:ruby-text></text:ruby></text:p>",
        "漢字（かんじ）\n",
    ),
    (
        "<text:p><draw:frame><draw:text-box><text:p>กล่อง</text:p></draw:text-box></draw:frame></text:p>",
        "กล่อง\n",
    ),
    (
        "<text:p>x <draw:frame><draw:image/><svg:desc>A harbour</svg:desc></draw:frame></text:p>",
        "x A harbour\n",
    ),
    (
        "<text:tracked-changes><text:changed-region><text:p>gone</text:p></text:changed-region>"
        "</text:tracked-changes><text:p>left</text:p>",
        "left\n",
    ),
]


@pytest.mark.parametrize(("body", "text"), OPEN_TEXTS)
def test_parts_of_an_open_document_are_read(body: str, text: str) -> None:
    """Headings, lists, tables, notes, ruby and boxes of ODT become Markdown."""
    number = '<text:list-style style:name="L1"><text:list-level-style-number/></text:list-style>'
    document = odt_of(body, number)
    assert (document.text, document.lost) == (text, [])


def test_an_open_document_tells_its_losses() -> None:
    """Hidden text and comments are counted, a formula is typed, and encryption is named."""
    hidden = (
        '<style:style style:name="T1"><style:text-properties text:display="none"/></style:style>'
    )
    math = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><msup><mi>x</mi><mn>2</mn></msup></math>'
    )
    body = (
        '<text:p>a<text:span text:style-name="T1">b</text:span>'
        "<office:annotation><text:p>c</text:p></office:annotation> "
        '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>'
        '<draw:frame><draw:object xlink:href="./Object 2"/></draw:frame></text:p>'
    )
    document = odt_of(body, hidden, **{"Object 1/content.xml": math})
    assert document.text == "a x^2\n"
    assert document.lost == [
        "1 part that it hides from its readers left out",
        "1 comment is left out",
        "1 embedded object is left out",
    ]
    manifest = {"META-INF/manifest.xml": "<m><encryption-data/></m>"}
    with pytest.raises(Failed, match="is encrypted: it needs a password"):
        odt_of(body, **manifest)


HEAD = "From: =?utf-8?b?5bGx55Sw?= <y@example.org>\nSubject: =?iso-2022-jp?b?GyRCMnE1RBsoQg==?=\n"
FLOWED = b"Content-Type: text/plain; charset=utf-8; format=flowed"
MAILS = [
    (b"Content-Type: text/plain; charset=koi8-r\n\n" + "Привет".encode("koi8-r"), "Привет"),
    (
        b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
        b"15nXqdec15XXnQ==\n",
        "ישלום",
    ),
    (FLOWED + b"\n\nA long \nline of text.\nThe next.\n", "A long line of text.\nThe next."),
    (FLOWED + b"; DelSp=yes\n\nEin lan \nges Wort  \n und.\n", "Ein langes Wort und."),
    (FLOWED + b"\n\n> one \n> two\n>> three \nfour\n", "> one two\n>> three \nfour"),
    (FLOWED + b"\n\nEnd \n-- \nAna \nB.\n", "End \n\\-- \nAna B."),
    (FLOWED + b"\n\n From here \n on.\n", "From here on."),
    (FLOWED + b"\n\nHi Bob, \n\nthe plan \nholds.\n", "Hi Bob, \n\nthe plan holds."),
    (FLOWED + b"\n\n> one \n>\n> two \n> three\n", "> one \n> \n> two three"),
    (FLOWED + b"; DelSp=yes\n\nHi \n\nlan \nges.\n", "Hi\n\nlanges."),
    (b"Content-Type: text/plain\n\nA long \nline.\n", "A long \nline."),
    (b"Content-Type: text/html; charset=big5\n\n<p>" + "港口".encode("big5") + b"</p>", "港口"),
    (
        b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\nplain\n"
        b"--b\nContent-Type: text/html\n\n<b>rich</b>\n--b--\n",
        "plain",
    ),
]


@pytest.mark.parametrize(("rest", "text"), MAILS)
def test_messages_are_decoded(rest: bytes, text: str) -> None:
    """Fields and texts have their encodings; of two forms of a text the plain one is read."""
    document = eml.read(io.BytesIO(HEAD.encode() + rest))
    assert document.title == "会議"
    assert document.text == f"# 会議\n\nFrom: 山田 <y@example.org>\n\n{text}\n"
    assert document.lost == []


@pytest.mark.parametrize("keeps", [b"", b"; DelSp=yes"])
def test_a_long_flowed_paragraph_takes_linear_time(keeps: bytes) -> None:
    """A paragraph of two million characters is joined in seconds."""
    mail = HEAD.encode() + FLOWED + keeps + b"\n\n" + b"quay \n" * 400_000 + b"end\n"
    started = time.process_time()
    text = eml.read(io.BytesIO(mail)).text
    assert time.process_time() - started < 10
    assert text.endswith("quay quay end\n" if not keeps else "quayquayend\n")


def test_attachments_and_unreadable_parts_are_told() -> None:
    """An attached message is read, a file is named, and noise is no text."""
    mail = (
        b"Subject: a\nContent-Type: multipart/mixed; boundary=b\n\n"
        b"--b\nContent-Type: message/rfc822\n\nSubject: inner\n\ntold\n"
        b"--b\nContent-Type: application/pdf\n"
        b"Content-Disposition: attachment; filename=x.pdf\n\n%\n"
        b"--b\nContent-Type: text/plain\n\n\x81\xff\xfe\x90\n--b--\n"
    )
    document = eml.read(io.BytesIO(mail))
    assert document.text == "# a\n\n## inner\n\ntold\n"
    assert document.lost[0].startswith("a part is no UTF-8")
    assert document.lost[1:] == ["1 attachment left out: 'x.pdf'"]
    with pytest.raises(Failed, match="is no message"):
        eml.read(io.BytesIO(b"just text\n"))
