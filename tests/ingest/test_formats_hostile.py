"""Documents that attack their parser, limits of the parser's process, and its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.ingest.formats_helpers import FILES, rewritten
from tests.patience import eventually
from vikingd.domain.contexts import Draft
from vikingd.ingest.file_syntax import document_format
from vikingd.ingest.files import read_tree
from vikingd.ingest.formats import zips
from vikingd.ingest.formats.document import Failed
from vikingd.ingest.formats.document_reader import Documents, Limits
from vikingd.ingest.import_remarks import Unreadable
from vikingd.system.install_command import install_command

TOP = "viking://resources/papers"
LIMITS = Limits(seconds=60, memory=256 << 20)
OFFICE = ["report-en.docx", "slides-en.pptx", "ledger-en.xlsx", "report-en.epub"]
PART = {
    "docx": "word/document.xml",
    "pptx": "ppt/slides/slide2.xml",
    "xlsx": "xl/worksheets/sheet1.xml",
    "epub": "EPUB/text/ch001.xhtml",
}
CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
ONE_PAGE = b"<</Type/Pages/Count 1/Kids[3 0 R]>>"


@pytest.fixture(scope="module")
def documents() -> Iterator[Documents]:
    """Yield a reader with a small memory."""
    with Documents(LIMITS) as made:
        yield made


def reason_of(path: Path, documents: Documents) -> str:
    """Return the reason why a file is not read, after a check that the next file is."""
    with path.open("rb") as file, pytest.raises(Failed) as caught:
        documents.read(file, document_format(path.name))
    with (FILES / "report-en.html").open("rb") as file:
        assert "Cormorant" in documents.read(file, "html").text
    return str(caught.value)


def pdf(objects: Sequence[bytes]) -> bytes:
    """Return a PDF file with these objects, the first of which is the catalog."""
    data, places = bytearray(b"%PDF-1.7\n"), []
    for number, one in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    table = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return bytes(data) + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, table)


def page(more: bytes) -> bytes:
    """Return the object of a page."""
    return b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]%b>>" % more


def stream(data: bytes, more: bytes = b"") -> bytes:
    """Return the object of a stream."""
    return b"<</Length %d%b>>\nstream\n%b\nendstream" % (len(data), more, data)


def deflate_bomb() -> bytes:
    """Return a PDF whose page is two gigabytes after two decompressions."""
    packer, part = zlib.compressobj(9), b"BT (x) Tj ET\n" * 80_000
    once = b"".join(packer.compress(part) for _ in range(2_000)) + packer.flush()
    packed = stream(zlib.compress(once, 9), b"/Filter[/FlateDecode/FlateDecode]")
    return pdf([CATALOG, ONE_PAGE, page(b"/Contents 4 0 R"), packed])


def doubling_forms() -> bytes:
    """Return a PDF whose page draws a form 2^40 times."""
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
    uses = b"/Resources<</XObject<</A %d 0 R>>>>"
    first = page(b"/Contents 4 0 R" + uses % 5)
    forms = [stream(b"/A Do /A Do ", form + uses % (6 + i)) for i in range(40)]
    objects = [CATALOG, ONE_PAGE, first, stream(b"/A Do"), *forms]
    return pdf([*objects, stream(b"BT (x) Tj ET", form)])


def nested() -> bytes:
    """Return a PDF with an array that is a million levels deep."""
    deep = b"[" * 1_000_000 + b"]" * 1_000_000
    return pdf([CATALOG, ONE_PAGE, page(b"/Deep " + deep)])


def page_cycle(count: int) -> bytes:
    """Return a PDF whose page tree contains itself and claims a number of pages."""
    top = b"<</Type/Pages/Count %d/Kids[2 0 R 3 0 R 2 0 R]>>" % count
    return pdf([CATALOG, top, b"<</Type/Pages/Count 9/Parent 2 0 R/Kids[2 0 R]>>"])


@pytest.mark.deep_after(5)
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (nested, "has no text"),
        (lambda: b"", "is damaged, or no PDF"),
        (lambda: b"%PDF-1.7\n" + bytes(range(256)) * 99, "is damaged, or no PDF"),
        (lambda: (FILES / "report-en.pdf").read_bytes()[:9000], "is damaged, or no PDF"),
        (lambda: page_cycle(10**6), "at most 20,000 are allowed"),
        (lambda: page_cycle(10_000), "is damaged: no page is read"),
        (doubling_forms, "needs more than 256 MiB of memory to read"),
        (deflate_bomb, "needs more than 256 MiB of memory to read"),
    ],
    ids=["nested", "empty", "junk", "cut", "claim", "cycle", "forms", "deflate"],
)
def test_hostile_pdf_files_are_refused(
    documents: Documents, tmp_path: Path, make: Callable[[], bytes], reason: str
) -> None:
    """Bombs, cycles and damage in PDF files are refused with a reason; the next file is read."""
    (tmp_path / "a.pdf").write_bytes(make())
    assert reason in reason_of(tmp_path / "a.pdf", documents)


def test_bookmarks_that_contain_themselves_end(documents: Documents, tmp_path: Path) -> None:
    """A circle of bookmarks does not keep the parser busy."""
    mark = b"<</Title(Loop)/Next 4 0 R/First 4 0 R/Parent 3 0 R/Dest[5 0 R/Fit]>>"
    path = tmp_path / "a.pdf"
    path.write_bytes(
        pdf(
            [
                b"<</Type/Catalog/Pages 2 0 R/Outlines 3 0 R>>",
                b"<</Type/Pages/Count 1/Kids[5 0 R]>>",
                b"<</Type/Outlines/First 4 0 R/Last 4 0 R/Count 1>>",
                mark,
                page(b"/Contents 6 0 R/Resources<</Font<</F 7 0 R>>>>"),
                stream(b"BT /F 9 Tf (hello) Tj ET"),
                b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            ]
        )
    )
    with path.open("rb") as file:
        assert documents.read(file, "pdf").text == "## Loop\n\n###### Page 1\n\nhello\n"


def zeros(path: Path, member: str, size: int) -> Path:
    """Put a member of white space into an archive, which takes a thousandth of its size there."""
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open(member, "w", force_zip64=True) as file,
    ):
        for _ in range(size >> 20):
            file.write(b" " * (1 << 20))
    return path


@pytest.mark.parametrize("name", OFFICE)
def test_an_archive_beyond_its_limits_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Bytes, bytes of XML, members and names outside of the archive are checked first."""
    path = tmp_path / name
    for limit, value, reason in (
        ("MAX_BYTES", 1000, "bytes unpacked, at most 1,000 are allowed"),
        ("MAX_XML_BYTES", 1000, "bytes of XML unpacked, at most 1,000 are"),
        ("MAX_MEMBERS", 2, "members, at most 2 are allowed"),
        ("", 0, "has a member outside of itself: "),
    ):
        shutil.copy(FILES / name, path)
        with monkeypatch.context() as patch, path.open("rb") as file:
            if limit:
                patch.setattr(zips, limit, value)
            else:
                rewritten(path, "../../outside.xml", lambda _: b"<a/>")
            with pytest.raises(Failed, match=reason), zips.checked(file, doctype=True):
                pass


@pytest.mark.deep
@pytest.mark.parametrize("name", OFFICE)
def test_zip_bombs_are_refused(documents: Documents, tmp_path: Path, name: str) -> None:
    """A huge member, huge XML, too many members and names outside of the archive are refused."""
    source = FILES / name
    path = Path(shutil.copy(source, tmp_path))
    zeros(path, "media/bomb.bin", zips.MAX_BYTES)
    assert "bytes unpacked, at most 536,870,912 are allowed" in reason_of(path, documents)
    zeros(Path(shutil.copy(source, path)), "bomb.xml", zips.MAX_XML_BYTES + (1 << 20))
    assert "bytes of XML unpacked, at most 134,217,728 are" in reason_of(path, documents)
    shutil.copy(source, path)
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(zips.MAX_MEMBERS):
            archive.writestr(f"m/{number}", b"")
    assert "members, at most 10,000 are allowed" in reason_of(path, documents)
    for outside in ("../../outside.xml", "/etc/outside.xml", "a\\..\\..\\outside.xml"):
        shutil.copy(source, path)
        rewritten(path, outside, lambda _: b"<a/>")
        assert "has a member outside of itself: " in reason_of(path, documents)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("name", OFFICE)
def test_a_member_that_is_larger_than_it_says_is_damaged(
    documents: Documents, tmp_path: Path, name: str
) -> None:
    """A member that unpacks to more than the archive states is reported within the limits."""
    path = Path(shutil.copy(FILES / name, tmp_path))
    member = PART[path.suffix[1:]]
    rewritten(path, member, lambda xml: xml + b" " * (64 << 20))
    data = bytearray(path.read_bytes())
    size = zipfile.ZipFile(path).getinfo(member).file_size.to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (500).to_bytes(4, "little")))
    with path.open("rb") as file:
        try:
            lost = documents.read(file, document_format(name)).lost
        except Failed as error:
            lost = [str(error)]
    reasons = ("is damaged", "cannot be read", "of memory")
    assert any(reason in one for one in lost for reason in reasons)


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha" * 100}">' for i in range(10))


@pytest.mark.parametrize("name", OFFICE)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_entities_are_refused(
    documents: Documents, tmp_path: Path, name: str, encoding: str
) -> None:
    """Entities that grow, and those that name other files, are refused before XML is parsed."""
    (tmp_path / "secret.txt").write_text("the secret word")
    for entities in (LAUGHS, f'<!ENTITY l9 SYSTEM "file://{tmp_path}/secret.txt">'):
        path = Path(shutil.copy(FILES / name, tmp_path))
        text = f"<!DOCTYPE a [{entities}]><a>&l9;</a>".encode(encoding)
        rewritten(path, PART[path.suffix[1:]], lambda _, text=text: text)  # type: ignore[misc]
        assert reason_of(path, documents).startswith("declares XML entities in ")


def test_a_document_type_without_entities_is_refused_in_office_files(
    documents: Documents, tmp_path: Path
) -> None:
    """An external document type is refused in office files; books have it and it is not loaded."""
    doctype = b'<!DOCTYPE html SYSTEM "file:///dev/zero">'
    path = Path(shutil.copy(FILES / "report-en.docx", tmp_path))
    rewritten(path, PART["docx"], lambda xml: xml.replace(b"?>", b"?>" + doctype, 1))
    assert reason_of(path, documents).startswith("has a document type in ")
    path = Path(shutil.copy(FILES / "report-en.epub", tmp_path))
    rewritten(path, PART["epub"], lambda xml: xml.replace(b"<!DOCTYPE html>", doctype, 1))
    with path.open("rb") as file:
        assert "eleven berths" in documents.read(file, "epub").text


def test_html_neither_nests_nor_grows_without_end(documents: Documents, tmp_path: Path) -> None:
    """HTML with a deep tree, or with too much text, is refused."""
    path = tmp_path / "a.html"
    path.write_text("<b>" * 20_000 + "x")
    assert reason_of(path, documents) == "is nested too deeply"
    path.write_text("<p>" + "word " * 500_000)
    assert reason_of(path, documents) == "has more than 2,097,152 bytes of text; split the file"


def test_a_sheet_with_a_distant_cell_is_small(documents: Documents, tmp_path: Path) -> None:
    """One cell in the last corner of a sheet takes little memory and is refused or read."""
    path = Path(shutil.copy(FILES / "ledger-en.xlsx", tmp_path))
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    rewritten(path, PART["xlsx"], lambda xml: xml.replace(b"</sheetData>", far))
    assert reason_of(path, documents) == "has a sheet with more than 1,000 columns"


def test_too_much_memory_ends_the_child_alone(tmp_path: Path) -> None:
    """A file that needs more memory than allowed is refused, and the next child reads on."""
    (tmp_path / "a.html").write_text("<i>x</i>" * 150_000)
    with Documents(Limits(memory=100 << 20)) as documents:
        assert "needs more than 100 MiB of memory to read" in reason_of(
            tmp_path / "a.html", documents
        )


def test_a_child_that_hangs_or_dies_is_replaced() -> None:
    """A file that takes too long, and one that ends its parser, are refused; the next is read."""
    with Documents(Limits(seconds=20)) as documents:
        before = read_one(documents)
        assert read_one(documents) == before  # one child for many files
        os.kill(before, signal.SIGSEGV)
        with pytest.raises(Failed, match=r"^ends its parser \(SIGSEGV\): it is damaged, or"):
            read_one(documents)
        after = read_one(documents)
        documents._limits = Limits(seconds=0.3)
        os.kill(after, signal.SIGSTOP)
        with pytest.raises(Failed, match=r"^takes more than 0\.3 seconds to read$"):
            read_one(documents)
        assert not Path(f"/proc/{after}").exists()
        documents._limits = Limits()
        last = read_one(documents)
    assert len({before, after, last}) == 3
    assert not Path(f"/proc/{last}").exists()


def read_one(documents: Documents) -> int:
    """Read a file and return the process id of the child."""
    with (FILES / "report-en.pdf").open("rb") as file:
        documents.read(file, "pdf")
    assert documents._child is not None
    return documents._child.pid


@pytest.mark.deep
def test_a_hostile_file_stops_no_import(tmp_path: Path) -> None:
    """A tree with a bomb gives all its other files, and ends its child."""
    (tmp_path / "b.pdf").write_bytes(deflate_bomb())
    for name in ("a.pdf", "c.pdf"):
        shutil.copy(FILES / "report-en.pdf", tmp_path / name)
    others = children_of(os.getpid())
    items = list(read_tree(tmp_path, TOP, LIMITS))
    (fault,) = (item for item in items if isinstance(item, Unreadable))
    assert fault.path == str(tmp_path / "b.pdf")
    assert {f"{TOP}/a.pdf", f"{TOP}/c.pdf"} <= {i.uri for i in items if isinstance(i, Draft)}
    assert children_of(os.getpid()) == others


def test_an_iterator_that_is_dropped_ends_its_child(tmp_path: Path) -> None:
    """The child ends with the iterator of a tree that is not read to its end."""
    for name in ("a.pdf", "b.pdf"):
        shutil.copy(FILES / "report-en.pdf", tmp_path / name)
    others = children_of(os.getpid())
    items = read_tree(tmp_path, TOP)
    next(items)
    assert len(children_of(os.getpid())) == len(others) + 1
    del items
    assert children_of(os.getpid()) == others


def test_the_child_starts_with_the_import_of_a_document(tmp_path: Path) -> None:
    """It is ready when the first document comes; a tree without a document has no child."""
    others = children_of(os.getpid())
    (tmp_path / "a.txt").write_text("A pier.\n")
    for name, count in (("b.txt", 0), ("c.svg", 1)):
        (tmp_path / name).write_text("<svg></svg>")
        items = read_tree(tmp_path, TOP)
        assert isinstance(next(items), Draft)
        assert len(children_of(os.getpid())) == len(others) + count
        del items


def children_of(parent: int) -> list[int]:
    """Return the process ids of the parsers that a process started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and b"vikingd.ingest.formats.child" in command:
            found.append(int(status.parent.name))
    return found


@pytest.mark.deep
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_no_child_outlives_vikingctl(daemon: str, tmp_path: Path, ending: signal.Signals) -> None:
    """After Ctrl-C, and even after SIGKILL, no parser is left, and Ctrl-C tells what is done."""
    for number in range(200):
        shutil.copy(FILES / "slides-en.pptx", tmp_path / f"{number}.pptx")
    environment = {**os.environ, "VIKINGCTL_ADDRESS": daemon}
    command = [sys.executable, "-m", "vikingd.ctl.main", "import", str(tmp_path), TOP, "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as running:
        eventually(lambda: children_of(running.pid))
        (child,) = children_of(running.pid)
        assert os.getpgid(child) != os.getpgid(running.pid)  # Ctrl-C does not reach it
        if ending is signal.SIGINT:
            os.kill(child, signal.SIGSTOP)  # vikingctl waits for a file
            time.sleep(0.2)
        running.send_signal(ending)
        out, _ = running.communicate(timeout=60)
    if ending is signal.SIGINT:
        assert running.returncode == 130
        assert json.loads(out)["end"] == "interrupted"
    eventually(lambda: not Path(f"/proc/{child}").exists())


@pytest.mark.deep
def test_an_idle_child_ends_with_its_parent() -> None:
    """A child that waits for the next file ends when its parent is killed."""
    program = f"""
import time
from vikingd.ingest.formats.document_reader import Documents
documents = Documents()
documents.read(open({str(FILES / "report-en.pdf")!r}, "rb"), "pdf")
print(documents._child.pid, flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        child = int(running.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        running.kill()
    eventually(lambda: not Path(f"/proc/{child}").exists())


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a package the reason names the extra; formats with their packages are read."""
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/mammoth.py").write_text("raise ImportError('No module named mammoth')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "absent"))
    papers = tmp_path / "papers"
    papers.mkdir()
    for name in ("report-en.docx", "report-en.pdf"):
        shutil.copy(FILES / name, papers)
    items = list(read_tree(papers, TOP))
    (fault,) = (item for item in items if isinstance(item, Unreadable))
    assert fault == Unreadable(
        str(papers / "report-en.docx"),
        f"needs {install_command('files')} (No module named mammoth)",
        f"{TOP}/report-en.docx",
    )
    assert f"{TOP}/report-en.pdf" in {item.uri for item in items if isinstance(item, Draft)}


def test_the_child_has_no_network_no_programs_and_no_files_to_write(tmp_path: Path) -> None:
    """In the child, the kernel refuses sockets, programs and written files."""
    program = f"""
import socket, subprocess, os
from vikingd.system import platform
platform.confine(1 << 30)
for attempt in (
    lambda: socket.socket(),
    lambda: socket.socketpair(),
    lambda: os.execv("/bin/true", ["true"]),
    lambda: os.write(os.open({str(tmp_path / "a")!r}, os.O_CREAT | os.O_WRONLY), b"x"),
):
    try:
        attempt()
    except OSError as error:
        print(error.errno)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["13", "13", "13", "27"]


def test_the_current_directory_gives_no_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import from a folder with a Python file named like a package does not run that file."""
    (tmp_path / "lxml.py").write_text("open('ran', 'w')")
    (tmp_path / "pypdfium2.py").write_text("open('ran', 'w')")
    shutil.copy(FILES / "report-en.pdf", tmp_path)
    monkeypatch.chdir(tmp_path)
    items = list(read_tree(Path("."), TOP))
    assert f"{TOP}/report-en.pdf" in {item.uri for item in items if isinstance(item, Draft)}
    assert not (tmp_path / "ran").exists()
