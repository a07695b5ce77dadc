"""RTF files: their text in all encodings, their structure, and what they lose."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from vikingd.domain.contexts import Draft
from vikingd.ingest.files import read_tree
from vikingd.ingest.formats import rtf
from vikingd.ingest.formats.document import Document, Failed
from vikingd.ingest.import_remarks import Unreadable

FONTS = (
    r"{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset128 Mincho;}{\f2\fcharset204 Arial Cyr;}"
    "\n"
    r"{\f3\fcharset134 SimSun;}}"
)


def rtf_of(body: str | bytes, head: str = r"\ansi\ansicpg1252\uc1") -> Document:
    """Read an RTF file with this body."""
    raw = body.encode("ascii") if isinstance(body, str) else body
    return rtf.read(io.BytesIO(f"{{\\rtf1{head}{FONTS}".encode() + raw + b"}"))


def bytes_of(text: str, codec: str) -> str:
    """Return a text as the escaped bytes of an encoding."""
    return "".join(f"\\'{byte:02x}" for byte in text.encode(codec))


TEXTS = [
    (bytes_of("Größe", "cp1252"), "Größe"),
    (r"\f1 " + bytes_of("港の灯", "cp932"), "港の灯"),
    (r"\f2 " + bytes_of("Привет", "cp1251"), "Привет"),
    (r"{\f3 " + bytes_of("灯塔", "gbk") + r"} A\'e9", "灯塔 Aé"),
    (r"\u28207?\u22612?, \u-10179 ?\u-8694 ?", "港塔, 😊"),
    (r"{\uc2\u1513\'f9\'f9}\u1500?", "של"),
    (r"a\~b\-c \{d\} \bullet", "a bc {d} •"),
    ("{\\f1 \\'83X\\'83g}", "スト"),  # the second byte of a character as a letter
    (b"\\f2 " + "Мир".encode("cp1251"), "Мир"),  # bytes that are not escaped
    (r"seen{\f0\*\cs7 too}", "seentoo"),
]


@pytest.mark.parametrize(("body", "text"), TEXTS)
def test_text_has_the_encoding_of_its_font(body: str | bytes, text: str) -> None:
    """Escaped bytes are read by the font, the code page or as Unicode; halves are joined."""
    document = rtf_of(body)
    assert (document.text, document.lost) == (f"{text}\n", [])


@pytest.mark.parametrize(
    ("page", "codec", "text"),
    [
        ("936", "gbk", "灯塔维护"),
        ("950", "big5", "燈塔"),
        ("949", "cp949", "등대"),
        ("1256", "cp1256", "ميناء"),
    ],
)
def test_text_without_a_font_has_the_code_page_of_the_file(
    page: str, codec: str, text: str
) -> None:
    """The parts that stand apart, such as notes and the title, have it too."""
    escaped = bytes_of(text, codec)
    body = rf"{{\info{{\title {escaped}}}}}{escaped}{{\footnote {escaped}}}"
    document = rtf.read(io.BytesIO(rf"{{\rtf1\ansi\ansicpg{page} {body}}}".encode()))
    assert (document.text, document.title) == (f"{text}[1]\n\n[1] {text}\n", text)


ROW = r"\trowd\cellx1\cellx2 {}\cell {}\cell\row "
STRUCTURES = [
    (
        r"\pard\outlinelevel0 One\par\pard\outlinelevel1 Two\par\pard three",
        "# One\n\n## Two\n\nthree",
    ),
    (r"{\pntext 1.\tab}{\*\pn\pnstart1{\pntxta \'2e}}a", "1. a"),
    (r"\u8226?\tab a\par \'b7\tab b\par 3.\tab c", "- a\n\n- b\n\n3. c"),
    (
        "x\\par" + ROW.format("a", r"b\par c") + ROW.format("1", "|") + "y",
        "x\n\n| a | b c |\n| --- | --- |\n| 1 | \\| |\n\ny",
    ),
    # Word writes the definition of a row again before its end.
    (
        r"\trowd\pard a\cell b\cell {\trowd\row}\pard c\cell d\cell {\trowd\row}",
        "| a | b |\n| --- | --- |\n| c | d |",
    ),
    (r'{\field{\*\fldinst{ HYPERLINK "http://a.org/"}}{\fldrslt{to a}}}', "[to a](http://a.org/)"),
    (r"{\*\shpinst{\sp\sv 1}{\shptxt in a box}}text", "text\n\nin a box"),
    (r"# no heading\par --- ", "\\# no heading\n\n\\---"),
]


@pytest.mark.parametrize(("body", "text"), STRUCTURES)
def test_structure_becomes_markdown(body: str, text: str) -> None:
    """Headings, lists, tables, links and boxes keep their text and their form."""
    document = rtf_of(body)
    assert (document.text, document.lost) == (f"{text}\n", [])


def test_losses_are_told_and_pictures_are_no_text() -> None:
    """Comments, hidden text and objects are counted; bytes of pictures are skipped."""
    body = (
        rb"{\stylesheet{\s1\v Bottom;}}{\info{\revtim\yr2014\mo5\dy27\hr23\min36}}{\header top}"
        rb"a{\*\annotation why}{\v secret}{\deleted gone}{\v }"
        rb"{\object{\*\objdata 00ff}{\result shown}}{\*\shppict{\pict ff00}}"
        rb"{\pict\bin4 }}}}}b"
    )
    document = rtf_of(body)
    assert document.text == "ashownb\n"
    assert document.lost == [
        "1 part that it hides from its readers left out",
        "1 comment is left out",
        "1 embedded object is left out",
    ]
    assert document.time == 1_401_233_760_000_000
    assert document.metadata == {"format": "rtf"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<p>a page</p>", "is no RTF"),
        (rb"{\rtf1{\pict 00}}", "has no text"),
        (b"{\\rtf1" + b"{" * 5000, "is nested too deeply"),
        (b"{\\rtf1 \\uc1\\u99999999 a}", "is damaged"),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, reason: str) -> None:
    """The reason says what is wrong with the file."""
    with pytest.raises(Failed, match=reason):
        rtf.read(io.BytesIO(data))


def test_no_source_of_rtf_is_stored(tmp_path: Path) -> None:
    """An import stores the text, also of a file that is cut, and nothing of one that fails."""
    (tmp_path / "a.rtf").write_bytes(rb"{\rtf1\ansi{\b The tide {\i is high")
    (tmp_path / "b.RTF").write_bytes(b"{\\rtf1}")
    found = list(read_tree(tmp_path, "viking://resources/t"))
    drafts = [one for one in found if isinstance(one, Draft) and not one.is_directory]
    assert [(one.content, one.metadata["format"]) for one in drafts] == [
        ("The tide is high\n", "rtf")
    ]
    assert [one.reason for one in found if isinstance(one, Unreadable)] == ["has no text"]
