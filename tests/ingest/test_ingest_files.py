"""Directory trees, files and JSON lines read as drafts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vikingd
from tests.ingest.ingest_helpers import FILE
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft, Passage
from vikingd.domain.text import HAN, LATIN
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.files import read_tree
from vikingd.ingest.import_remarks import LeftOut, Unreadable
from vikingd.ingest.jsonl import is_jsonl, read_jsonl


@pytest.mark.parametrize("uri", ["viking://user/memories/a.md", FILE])
def test_only_memories_have_entries(uri: str, tmp_path: Path) -> None:
    """Only memories are split into entries, in Puts, files and JSON lines."""
    content = "- likes tea\n- hates noise"
    is_memory = uris.context_type(uri) is ContextType.MEMORY
    expected = ["likes tea", "hates noise"] if is_memory else [content]
    (tmp_path / "a.md").write_text(content)
    (tmp_path / "a.jsonl").write_text(json.dumps({"uri": uri, "text": content}))
    for drafts in (
        [Draft(uri, content=content)],
        read_tree(tmp_path / "a.md", uri),
        read_jsonl(tmp_path / "a.jsonl"),
    ):
        (draft,) = drafts
        assert isinstance(draft, Draft)
        found = [content[t.start : t.end] for t in prepare(draft).texts if t.ordinal]
        assert found == expected


def make_tree(root: Path) -> None:
    """Make a small tree with the kinds of files that a real one can have."""
    files: dict[str, bytes] = {
        "README.md": b"# Handbook\n\nHow we work here, in a few short pages.\n",
        "b.md": b"---\ndate: 2024-05-01\ntags: [x]\n---\n# B\n\nText of b.\n",
        "a.txt": "\ufeffNotes".encode(),
        "bad.txt": "caf\u00e9".encode("latin-1"),
        "big.txt": b"x" * ((2 << 20) + 1),
        "binary.png": b"\x89PNG\0\0",
        "wide.txt": "宽字符".encode("utf-16"),
        "Makefile": b"all:\n\ttrue\n",
        ".hidden.md": b"# hidden",
        "sub/one.md": b"# One",
        "sub/two.md": b"# Two",
        "sub/deep/three.py": b'"""Third."""\n',
        ".git/config": b"x",
        "node_modules/x/index.js": b"x",
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "empty").mkdir()
    (root / "out.md").symlink_to("/etc/hostname")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe.txt")
    (root / "line\nbreak.md").write_bytes(b"x")
    os.rename(root / "sub/two.md", os.fsencode(root) + b"/sub/caf\xe9.md")


def read(path: Path, uri: str) -> tuple[dict[str, Draft], dict[str, str]]:
    """Return drafts by URI, and reasons by the name of the unreadable file."""
    items = [item for item in read_tree(path, uri) if not isinstance(item, LeftOut)]
    drafts = {item.uri: item for item in items if isinstance(item, Draft)}
    faults = {os.path.basename(i.path): i.reason for i in items if isinstance(i, Unreadable)}
    assert len(drafts) + len(faults) == len(items)
    return drafts, faults


def test_a_tree_is_read_in_order_without_what_is_hidden(tmp_path: Path) -> None:
    """A tree is read in order, without symbolic links, hidden files and empty directories."""
    make_tree(tmp_path)
    drafts, _ = read(tmp_path, "viking://resources/h")
    names = [
        "",
        "/Makefile",
        "/README.md",
        "/a.txt",
        "/b.md",
        "/wide.txt",
        "/sub/one.md",
        "/sub/deep/three.py",
    ]
    assert list(drafts) == [f"viking://resources/h{name}" for name in names]


def test_the_records_of_a_former_export_are_reported_as_ignored(tmp_path: Path) -> None:
    """A former export's record file is reported as ignored; a pipe of that name is not opened."""
    os.mkfifo(tmp_path / ".vikingd.jsonl")
    (tmp_path / "a.txt").write_text("a")
    drafts, faults = read(tmp_path, "viking://resources/h")
    assert list(drafts) == ["viking://resources/h/a.txt"]
    assert faults[".vikingd.jsonl"].startswith("is ignored: ")


def test_what_cannot_be_read_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    """Each unreadable file is reported with a printable name and the reason."""
    make_tree(tmp_path)
    _, faults = read(tmp_path, "viking://resources/h")
    assert set(faults) == {
        "bad.txt",
        "big.txt",
        "binary.png",
        "pipe.txt",
        "line\\nbreak.md",
        "caf\\udce9.md",
        "out.md",
        "loop",
    }
    assert faults["out.md"] == faults["loop"] == "is a symbolic link"
    assert "UTF-8" in faults["bad.txt"]
    assert "2,097,152" in faults["big.txt"]
    assert "binary" in faults["binary.png"]
    assert "regular" in faults["pipe.txt"]
    assert "control character" in faults["line\\nbreak.md"]
    assert "Unicode" in faults["caf\\udce9.md"]


def test_a_name_that_is_no_text_spoils_nothing_beside_it(tmp_path: Path) -> None:
    """Names that are not Unicode and a README that is a link do not change directory abstracts."""
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("# Secret\n\nNobody may know of this here.")
    (tmp_path / "tree/sub/README.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "tree/sub/one.md").write_text("# One")
    odd = os.fsencode(tmp_path / "tree") + b"/caf\xe9"
    os.mkdir(odd)
    (tmp_path / "tree/two.md").write_text("# Two")
    for name in (b"/x.md", b"/bin\xfe"):
        with open(odd + name, "wb") as file:
            file.write(b"\0")
    with open(os.fsencode(tmp_path / "tree") + b"/bin\xfe", "wb") as file:
        file.write(b"\0")
    items = list(read_tree(tmp_path / "tree", "viking://resources/h"))
    abstracts = {item.uri: item.abstract for item in items if isinstance(item, Draft)}
    assert abstracts.keys() == {"viking://resources/h/two.md", "viking://resources/h/sub/one.md"}
    unreadable = [item for item in items if isinstance(item, Unreadable)]
    assert [item.uri for item in unreadable] == ["", "", "viking://resources/h/sub/README.md"]
    assert all(item.path.isprintable() for item in unreadable)


def test_files_become_drafts_with_all_that_they_say(tmp_path: Path) -> None:
    """A draft has title, time, metadata and passages of its file, decoded from UTF-8 or UTF-16."""
    make_tree(tmp_path)
    drafts, _ = read(tmp_path, "viking://resources/h")
    b = drafts["viking://resources/h/b.md"]
    assert (b.title, b.time) == ("B", 1_714_521_600_000_000)
    assert b.metadata == {"kind": "documentation", "date": "2024-05-01", "tags": ["x"]}
    assert b.passages is not None
    assert [b.content[p.start : p.end] for p in b.passages] == ["Text of b."]
    assert drafts["viking://resources/h/a.txt"].content == "Notes"
    assert drafts["viking://resources/h/wide.txt"].content == "宽字符"
    assert drafts["viking://resources/h/sub/deep/three.py"].title == "deep/three.py"


def test_only_its_readme_describes_a_directory(tmp_path: Path) -> None:
    """A directory has title and abstract of its README; one without a README is no draft."""
    make_tree(tmp_path)
    for name, text in (("titled", "# Title alone"), ("said", ""), ("index", "# Index\n\nOf it.")):
        (tmp_path / f"sub/{name}").mkdir()
        file = "index.md" if name == "index" else "README.md"
        (tmp_path / f"sub/{name}/{file}").write_text(text)
    drafts, _ = read(tmp_path, "viking://resources/h")
    described = {uri: (d.title, d.abstract) for uri, d in drafts.items() if d.is_directory}
    assert described == {
        "viking://resources/h": ("Handbook", "How we work here, in a few short pages."),
        "viking://resources/h/sub/index": ("Index", "Of it."),
        "viking://resources/h/sub/said": ("", ""),
        "viking://resources/h/sub/titled": ("Title alone", ""),
    }


def test_directories_that_imports_share_are_left_as_they_are(tmp_path: Path) -> None:
    """A root that imports share is imported only with a README; files above roots are reported."""
    for name in ("resources/x/a.md", "user/memories/m.md", "agent/skills/README.md", "stray.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("All the skills that there are, in one place.")
    drafts, faults = read(tmp_path, "viking://")
    assert [uri for uri, draft in drafts.items() if draft.is_directory] == [
        "viking://agent/skills",
    ]
    assert list(faults) == ["stray.md"]


def test_one_file_takes_the_uri_or_goes_into_the_directory(tmp_path: Path) -> None:
    """A file is imported at a file URI or into a directory; a missing file is reported."""
    path = tmp_path / "a.md"
    path.write_text("Text")
    assert list(read(path, "viking://resources/b.md")[0]) == ["viking://resources/b.md"]
    assert list(read(path, "viking://resources/b/")[0]) == ["viking://resources/b/a.md"]
    assert list(read(path, "viking://resources")[0]) == ["viking://resources/a.md"]
    assert read(tmp_path / "none.md", "viking://resources/b.md")[1]["none.md"].startswith("No such")


def test_an_unchanged_file_is_an_equal_draft(tmp_path: Path) -> None:
    """A new modification time does not change a draft."""
    make_tree(tmp_path)
    before, _ = read(tmp_path, "viking://resources/h")
    os.utime(tmp_path / "b.md", (1, 1))
    after, _ = read(tmp_path, "viking://resources/h")
    assert before == after


# JSON lines


def test_json_lines_become_drafts_and_faults_are_numbered(tmp_path: Path) -> None:
    """A faulty JSON line is reported with its number, and all other lines become drafts."""
    lines = [
        '{"uri": "viking://resources/s", "abstract": "All of it"}',
        '{"uri": "viking://resources/s/1", "text": "One.", "title": "T", '
        '"time": "2023-05-08T13:56:00Z", "lang": "en"}',
        "{broken",
        "",
        '["no object"]',
        '{"uri": "viking://resources/s/2"}',
        '{"uri": "viking://resources/s/3", "text": 3}',
        '{"uri": "viking://resources/s/4", "text": "x", "time": "soon"}',
        '{"uri": "viking://resources/s/../5", "text": "x"}',
        '{"uri": "viking://resources/s/1/", "text": "again"}',
        '{"uri": "viking://resources/s/1/below", "text": "below a file"}',
        '{"uri": "viking://resources/s", "text": "a directory"}',
        '{"uri": "viking://resources/s/6", "text": "x", "score": NaN}',
        '{"uri": "viking://resources/s/7", "text": "\\ud800"}',
        "[" * 100_000,
        '{"uri": "viking://resources/s/八/九", "text": "九"}',
        '{"uri": "viking://resources/s/八", "text": "stands above a file"}',
    ]
    path = tmp_path / "s.jsonl"
    path.write_bytes("\r\n".join(lines).encode() + b'\n{"uri": "\xff"}\n')
    items = list(read_jsonl(path))
    drafts = [item for item in items if isinstance(item, Draft)]
    assert [draft.uri for draft in drafts] == [
        f"viking://resources/s{name}" for name in ("", "/1", "/八/九")
    ]
    assert drafts[0].is_directory
    assert drafts[1] == Draft(
        "viking://resources/s/1",
        content="One.",
        title="T",
        time=1_683_554_160_000_000,
        metadata={"lang": "en"},
        passages=(Passage("", 0, 4),),
    )
    numbers = [int(i.path.rpartition(":")[2]) for i in items if isinstance(i, Unreadable)]
    assert numbers == [3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18]


def test_a_directory_of_json_lines_gives_its_directories_first(tmp_path: Path) -> None:
    """Drafts of directories.jsonl precede those of documents.jsonl, which alone is enough."""
    assert not is_jsonl(tmp_path)
    (tmp_path / "documents.jsonl").write_text('{"uri": "viking://resources/s/1", "text": "x"}')
    assert is_jsonl(tmp_path)
    assert len(list(read_jsonl(tmp_path))) == 1
    record = {"uri": "viking://resources/s", "abstract": ""}
    (tmp_path / "directories.jsonl").write_text(json.dumps(record))
    assert [d.is_directory for d in read_jsonl(tmp_path) if isinstance(d, Draft)] == [True, False]


# The package


def test_the_demo_tree_is_small_bilingual_and_whole() -> None:
    """The demo tree has 25 to 40 files of all types in two scripts, with at most 70 texts."""
    root = Path(vikingd.__file__).parent / "demo_tree"
    drafts, faults = read(root, uris.ROOT)
    prepared = [prepare(draft) for draft in drafts.values()]
    files = [p for p in prepared if not p.draft.is_directory]
    assert not faults
    assert 25 <= len(files) <= 40
    assert sum(len(p.texts) for p in prepared) <= 70
    assert all(p.abstract for p in prepared)
    scripts = [p.texts[-1].script for p in files]
    assert min(scripts.count(LATIN), scripts.count(HAN)) >= 10
    types = {uris.context_type(p.draft.uri) for p in files}
    assert types == {ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL}


def test_the_client_can_read_files_without_the_server_s_packages() -> None:
    """Modules of ingest import no numpy, numba, faiss, gRPC, protobuf or sqlite3."""
    program = (
        "import sys, vikingd.ingest.files, vikingd.ingest.jsonl, vikingd.ingest.draft_preparation\n"
        "print({'numpy', 'numba', 'faiss', 'grpc', 'google', 'sqlite3'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "set()"
