"""vikingctl export, and what an import makes of it, against a real daemon."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vikingd.client import ClientError, Draft, Passage
from vikingd.client.importing import Importer, ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.ctl.exporting import Exporter
from vikingd.domain import uri as uris
from vikingd.domain.model import ContextType, Entry
from vikingd.ingest.abstracts import derive_abstract
from vikingd.ingest.files import read_tree
from vikingd.ingest.jsonl import read_jsonl
from vikingd.ingest.passages import split
from vikingd.ingest.records import SIDECAR
from vikingd.pb import contexts_pb2, contexts_pb2_grpc

Ctl = Callable[..., tuple[int, str, str]]

TOP = "viking://user/memories"
NOTES = f"{TOP}/notes.md"
MOVING = {"revision", "updatedAt", "createdAt", "contentHash"}


def snapshot(
    client: MessageClient, top: str = uris.ROOT, *, hashes: bool = False
) -> dict[str, Any]:
    """All contexts below a top by URI, without what a Put cannot give."""
    found = {}
    for node in client.tree(top):
        context = MessageToDict(client.get(node.uri).context)
        for passage in context.get("passages", ()):
            passage.get("memory", {}).pop("id", None)
        left_out = MOVING - {"contentHash"} if hashes else MOVING
        found[node.uri] = {key: v for key, v in context.items() if key not in left_out}
    return found


def clear(client: MessageClient) -> None:
    """Empties the tree."""
    for context in list(client.list()):
        client.delete(context.uri)


def written(client: MessageClient, top: str, path: Path) -> dict[str, bytes]:
    """Exports to `path`: the files by their relative paths."""
    Exporter(client, top).write(path, lambda _: None)
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def brought_back(client: MessageClient, path: Path, top: str = uris.ROOT) -> ImportSummary:
    """Imports `path`; nothing of it may fail."""
    importer = Importer(client, top)
    items = read_jsonl(path) if path.suffix == ".jsonl" else read_tree(path, top)
    importer.run(items, lambda _: None)
    assert not importer.summary.failed
    assert not importer.summary.unreadable
    return importer.summary


numbers = st.one_of(
    st.integers(1 - 2**53, 2**53 - 1),
    st.floats(1 - 2**53, 2**53 - 1),
    st.sampled_from([0, 1, -0.0, 2.0, 1e-300, 2.0**53 - 1, 2**53 - 1]),
)
words = st.text(st.sampled_from('ab 中é👍"\\\r\n\t\u2028\ufeff'), max_size=6)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=5,
)
metadata = st.dictionaries(st.one_of(words, st.sampled_from(["n", "uri"])), values, max_size=3)
times = st.one_of(
    st.sampled_from([0, -62_135_596_800_000_000, 253_402_300_799_999_999]),
    st.integers(10**15, 2 * 10**15),
)
BLOCKS = [
    "# Title\n",
    "## 工作\n",
    "- drinks tea\n",
    "- drinks tea\n",
    "- 喝茶 👍\n",
    "* a\n  b\n",
    "Some prose about the tea that the user drinks in the morning.\n",
    "\n",
    "  \n",
    "```\n",
    "\ufeff",
    "a\u2028b\x0b\n",
    "no end of line",
]
HEADS = [
    "",
    "",
    "---\ntitle: Own\nn: 2.0\ndescription: Said.\n---\n",
    "---\nn: 1\n---\n",
    "---\ndate: 2024-05-06\n---\n",
    "\ufeff",
    "\ufeff\ufeff---\n",
]
contents = st.builds(
    lambda head, blocks, eol: (head + "".join(blocks)).replace("\n", eol),
    st.sampled_from(HEADS),
    st.lists(st.sampled_from(BLOCKS), max_size=7),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
entries = st.builds(Entry, st.just(0), st.integers(0, 3), st.integers(0, 1 << 40), times, times)
FOLDERS = [
    TOP,
    f"{TOP}/d",
    f"{TOP}/{'y' * 256}",
    f"{TOP}/.h/node_modules",
    "viking://projects/茶/memories",
    "viking://resources/r",
]
NAMES = [
    "a.md",
    ".b.md",
    "documents.jsonl",
    "c d.txt",
    "é👍.py",
    "e\\f.md",
    "g",
    SIDECAR,
    "x" * 256,
    "long" * 64 + ".md",
]


@st.composite
def files(draw: st.DrawFn, uri: str) -> Draft:
    """One file, cut by its writer or not, with what is known of its memories."""
    content, name = draw(contents), uris.name(uri)
    is_memory = uris.context_type(uri) is ContextType.MEMORY
    passages = split(content, name, entries=is_memory)
    if draw(st.booleans()):
        cuts = sorted(draw(st.sets(st.integers(0, len(content)), max_size=4)))
        section = draw(st.sampled_from(["", "S > 中"]))
        passages = [Passage(section, a, b) for a, b in pairwise(cuts)]
    if is_memory and draw(st.booleans()):
        passages = [Passage(p.section, p.start, p.end, b"", draw(entries)) for p in passages]
    derived = derive_abstract(content, name)
    return Draft(
        uri,
        abstract=draw(st.sampled_from(["", "", "Given.", derived])),
        overview=draw(st.sampled_from(["", "L1\r\n"])),
        content=content,
        title=draw(st.sampled_from(["", "T", "Own", "Title"])),
        metadata=draw(metadata),
        passages=draw(st.sampled_from([None, passages])) if passages else None,
        time=draw(st.one_of(st.none(), times)),
    )


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Draft], list[tuple[str, str, str]]]:
    """Contexts and links between them."""
    drafts: list[Draft] = []
    for folder in draw(st.lists(st.sampled_from(FOLDERS), min_size=1, unique=True)):
        if draw(st.booleans()):
            drafts.append(
                Draft(
                    folder,
                    True,
                    draw(words),
                    draw(words),
                    title=draw(words),
                    metadata=draw(metadata),
                    time=draw(st.one_of(st.none(), times)),
                )
            )
        names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
        drafts += [draw(files(f"{folder}/{name}")) for name in names]
    links = []
    if len(drafts) > 1:
        ends = st.sampled_from([draft.uri for draft in drafts])
        pairs = st.tuples(ends, ends, st.sampled_from(["", "Why\n中"]))
        links = [link for link in draw(st.lists(pairs, max_size=3)) if link[0] != link[1]]
    return drafts, links


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=trees())
def test_every_tree_survives_both_forms(
    client: MessageClient, tree: tuple[list[Draft], list[tuple[str, str, str]]]
) -> None:
    """Files, then JSON lines, then files again: equal contexts and links, equal bytes."""
    drafts, links = tree
    clear(client)
    if drafts:
        client.put(drafts)
    for link in links:
        client.link(*link)
    before = snapshot(client)
    with tempfile.TemporaryDirectory() as scratch:
        first = written(client, uris.ROOT, Path(scratch, "first"))
        clear(client)
        brought_back(client, Path(scratch, "first"))
        assert snapshot(client) == before
        hashed = snapshot(client, hashes=True)
        again = brought_back(client, Path(scratch, "first"))
        assert (again.created, again.updated) == (0, 0)
        lines = written(client, uris.ROOT, Path(scratch, "lines.jsonl"))
        clear(client)
        brought_back(client, Path(scratch, "lines.jsonl"))
        assert snapshot(client, hashes=True) == hashed
        assert written(client, uris.ROOT, Path(scratch, "second")) == first
        assert written(client, uris.ROOT, Path(scratch, "again.jsonl")) == lines


EDITED = "# Me\n\n- likes oolong\n- drives a bike\n- likes oolong\n"


def counted(client: MessageClient, uri: str = NOTES) -> list[tuple[str, int, int, int, int]]:
    """(text, reinforcement, accesses, time, creation) of each memory of a file."""
    context = client.get(uri).context
    return [
        (
            context.content[p.start : p.end],
            p.memory.reinforcement,
            p.memory.access_count,
            p.memory.time.ToMicroseconds(),
            p.memory.create_time.ToMicroseconds(),
        )
        for p in context.passages
    ]


def lived(client: MessageClient) -> None:
    """A file of memories that were reinforced and recalled."""
    client.put([Draft(NOTES, content=EDITED)])
    first, _, third = (p.memory.id for p in client.get(NOTES).context.passages)
    client.reinforce(first, by=2)
    client.reinforce(third, by=5)
    found = client.recall("oolong bike", with_global=True).results
    assert len(found) == 2  # what says the same is recalled once
    deadline = time.monotonic() + 5
    while client.get(NOTES).context.access_count < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def run(ctl: Ctl, *arguments: str) -> dict[str, Any]:
    """A command that succeeds: its summary."""
    code, out, err = ctl(*arguments, "--json")
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert isinstance(summary, dict)
    return summary


def edited_lines(path: Path, *lines: str) -> None:
    """Writes a file by hand."""
    path.write_text("\n".join(lines) + "\n")


def test_a_file_edited_by_hand_and_imported_keeps_what_is_known_of_its_memories(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """Reinforcement, accesses and creation stay with the unchanged texts, without an export too."""
    lived(client)
    before = counted(client)
    file = tmp_path / "notes.md"
    edited_lines(
        file,
        "# Me",
        "",
        "- plays chess",
        "- drives a bike",
        "",
        "## Tea",
        "",
        "- likes oolong",
        "- likes oolong",
    )
    assert run(ctl, "import", str(file), NOTES)["updated"] == 1
    chess, *kept = counted(client)
    assert kept == [before[1], before[0], before[2]]
    assert chess[:3] == ("plays chess", 0, 0)


def test_an_edited_export_keeps_what_is_known_of_unchanged_texts(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """Into an empty store; equal texts keep their states in order, new files are plain imports."""
    lived(client)
    before = counted(client)
    out = tmp_path / "out"
    assert run(ctl, "export", TOP, "--to", str(out))["memories"] == 3
    client.delete("viking://user")
    edited_lines(out / "notes.md", "# Me", "", "- likes oolong", "- plays chess", "- likes oolong")
    (out / "new").mkdir()
    edited_lines(out / "new" / "more.md", "# More", "", "- by hand")
    assert run(ctl, "import", str(out), TOP)["unreadable"] == []
    first, chess, third = counted(client)
    assert (first, third) == (before[0], before[2])
    assert chess[:3] == ("plays chess", 0, 0)
    assert client.get(f"{TOP}/new/more.md").context.title == "More"


def test_an_import_never_takes_back_what_was_counted_since_the_export(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """Counters only rise, a forgotten memory comes back, and what is known is not sent again."""
    lived(client)
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    exported = counted(client)
    first, second, _ = (p.memory.id for p in client.get(NOTES).context.passages)
    client.reinforce(first, by=7)
    client.forget(second)
    later = counted(client)
    assert run(ctl, "import", str(out), TOP)["updated"] == 1
    assert counted(client) == [later[0], exported[1], later[1]]
    revision = client.stats().revision
    assert run(ctl, "import", str(out), TOP)["unchanged"] == 2
    assert client.stats().revision == revision
    client.put([Draft(NOTES, content="gone")])
    client.put([Draft(NOTES, content=EDITED)])
    assert run(ctl, "import", str(out), TOP)["updated"] == 1
    # Said last when it was written anew, said first as the export knows.
    assert [(m[1], m[2], m[4]) for m in counted(client)] == [(m[1], m[2], m[4]) for m in exported]


@pytest.mark.parametrize(("old", "new"), [("\n", "\r\n"), ("\n  oolong", " oolong")])
def test_a_memory_whose_lines_an_editor_breaks_otherwise_is_known_in_an_empty_store(
    ctl: Ctl, client: MessageClient, tmp_path: Path, old: str, new: str
) -> None:
    """As in the store that it comes from."""
    client.put([Draft(NOTES, content="- plays chess\n- likes\n  oolong\n")])
    client.reinforce(*(p.memory.id for p in client.get(NOTES).context.passages), by=2)
    before = counted(client)
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    client.delete("viking://user")
    file = out / "notes.md"
    file.write_bytes(file.read_bytes().replace(old.encode(), new.encode()))
    run(ctl, "import", str(out), TOP)
    assert [known[1:] for known in counted(client)] == [known[1:] for known in before]


def test_an_import_takes_back_nothing_of_a_text_that_is_laid_out_otherwise_by_now(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """Wherever its lines are broken, it is the same memory."""
    client.put([Draft(NOTES, content="- likes\n  oolong\n")])
    (memory,) = (p.memory.id for p in client.get(NOTES).context.passages)
    client.reinforce(memory, by=2)
    run(ctl, "export", TOP, "--to", str(tmp_path / "out"))
    client.put([Draft(NOTES, content="- likes oolong\n")])
    client.reinforce(memory, by=7)
    run(ctl, "import", str(tmp_path / "out"), TOP)
    assert [m[:2] for m in counted(client)] == [("likes\n  oolong", 9)]


def test_an_edited_file_says_by_its_front_matter_what_the_record_said(
    client: MessageClient, tmp_path: Path
) -> None:
    """Else title, metadata, abstract, overview and time stay, and it is cut anew."""
    head = "---\ntitle: Own\nlang: de\n---\n"
    given = Draft(
        NOTES,
        abstract="Given.",
        overview="L1",
        content="one\n\ntwo\n",
        title="Given",
        metadata={"lang": "en", "n": 1},
        passages=[Passage("", 0, 1)],
        time=5,
    )
    followed = f"{TOP}/followed.md"
    client.put(
        [given, Draft(followed, content=head, title="Own", metadata={"title": "Own", "lang": "de"})]
    )
    out = tmp_path / "out"
    written(client, TOP, out)
    edited_lines(out / "notes.md", "three")
    edited_lines(out / "followed.md", "---", "year: 2024", "---", "# New")
    brought_back(client, out, TOP)
    found = client.get(NOTES).context
    assert (found.title, found.abstract, found.overview) == ("Given", "Given.", "L1")
    assert (found.metadata["n"], found.time.ToMicroseconds()) == (1, 5)
    assert [(p.start, p.end) for p in found.passages] == [(0, 5)]
    found = client.get(followed).context
    assert (found.title, MessageToDict(found.metadata)) == ("New", {"year": 2024})
    edited_lines(
        out / "notes.md",
        "---",
        "title: Own",
        "lang: de",
        "date: 2024-01-01",
        "summary: Said.",
        "---",
        "three",
    )
    brought_back(client, out, TOP)
    found = client.get(NOTES).context
    assert (found.title, found.abstract, found.overview) == ("Own", "Said.", "L1")
    assert (found.metadata["lang"], found.metadata["n"]) == ("de", 1)
    assert found.time.ToJsonString().startswith("2024-01-01")


def test_a_file_removed_from_an_export_is_not_brought_back(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """Neither is a link to it; with --delete it goes from the store."""
    other = f"{TOP}/other.md"
    client.put([Draft(NOTES, content="- a\n"), Draft(other, content="- b\n")])
    client.link(NOTES, other, "why")
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    (out / "other.md").unlink()
    assert run(ctl, "import", str(out), TOP, "--delete")["deleted"] == 1
    assert not client.get(NOTES).context.relations


def test_one_file_is_exported_and_leaves_its_directory_alone(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """The summary says where it belongs; the directory there keeps what was said of it."""
    client.put([Draft(f"{TOP}/d", True, "Kept.", "L1"), Draft(f"{TOP}/d/README.md", content="x")])
    out = tmp_path / "out"
    summary = run(ctl, "export", f"{TOP}/d/README.md", "--to", str(out))
    assert (summary["uri"], summary["files"], summary["directories"]) == (f"{TOP}/d", 1, 0)
    before = snapshot(client)
    client.delete(f"{TOP}/d/README.md")
    run(ctl, "import", str(out), summary["uri"])
    assert snapshot(client) == before
    assert client.get(f"{TOP}/d").context.abstract == "Kept."


def test_an_export_can_become_another_subtree(client: MessageClient, tmp_path: Path) -> None:
    """Links go with it; outside the memories nothing is known of them, and they are cut anew."""
    lived(client)
    client.put([Draft(f"{TOP}/b.md", content="b")])
    client.link(NOTES, f"{TOP}/b.md", "why")
    out = tmp_path / "out"
    written(client, TOP, out)
    brought_back(client, out, "viking://agent/memories/copy")
    assert counted(client, "viking://agent/memories/copy/notes.md") == counted(client)
    (link,) = client.get("viking://agent/memories/copy/b.md").context.relations
    assert (link.uri, link.reason) == ("viking://agent/memories/copy/notes.md", "why")
    brought_back(client, out, "viking://resources/copy")
    assert len(client.get("viking://resources/copy/notes.md").context.passages) == 1


def test_json_lines_go_to_stdout_and_are_read_as_before(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """In a line without an object `metadata` all other keys are metadata, `overview` among them."""
    lived(client)
    before = snapshot(client)
    code, out, err = ctl("export", TOP, "--to", "-")
    assert code == 0
    assert "1 files in 1 directories, 3 memories" in err
    lines = tmp_path / "lines.jsonl"
    plain = {"uri": f"{TOP}/plain.md", "text": "- p\n", "overview": "o", "metadata": "m", "n": 1}
    lines.write_text(out + json.dumps(plain) + "\n")
    clear(client)
    run(ctl, "import", str(lines))
    found = client.get(f"{TOP}/plain.md").context
    assert dict(found.metadata) == {"overview": "o", "metadata": "m", "n": 1}
    assert found.overview == ""
    client.delete(found.uri)
    assert snapshot(client)[NOTES] == before[NOTES]
    assert ctl("export", TOP, "--to", "-", "--json")[0] == 2


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({"memories": [{"sha256": "a", "reinforcement": -1}]}, "memories[0].reinforcement"),
        ({"memories": [{"reinforcement": 1}]}, "memories[0].sha256: is missing"),
        ({"memories": [1]}, "memories[0]: is no object"),
        ({"passages": [{"start": True, "end": 2}]}, "passages[0].start"),
        ({"relations": [{"reason": "r"}]}, "relations[0].to"),
        ({"time": "soon"}, "time: 'soon' is not ISO 8601"),
        ({"overveiw": "x"}, "overveiw: is no key that is known here"),
        ({"title": None}, "title: is no string"),
    ],
)
def test_a_record_at_fault_is_named_and_nothing_is_guessed(
    ctl: Ctl, client: MessageClient, tmp_path: Path, line: dict[str, Any], fault: str
) -> None:
    """A line of JSON lines is left out; a sidecar refuses the import of its directory."""
    client.put([Draft(NOTES, content="- a\n", title="Given")])
    out, lines = tmp_path / "out", tmp_path / "lines.jsonl"
    written(client, TOP, out)
    with (out / SIDECAR).open("a") as sidecar:
        sidecar.write(json.dumps({"path": "x.md", **line}) + "\n")
    revision = client.stats().revision
    code, _, err = ctl("import", str(out), TOP, "--json")
    assert code == 2
    assert f"{SIDECAR}:3: {fault}" in json.loads(err)["message"]
    assert client.stats().revision == revision
    lines.write_text(json.dumps({"uri": NOTES, "text": "x", "metadata": {}, **line}) + "\n")
    code, told, _ = ctl("import", str(lines), "--json")
    (unreadable,) = json.loads(told)["unreadable"]
    assert code == 1  # there was nothing else in it
    assert fault in unreadable["reason"]


def test_what_is_there_is_not_overwritten(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """Neither a file nor a directory with something in it; an empty directory is taken."""
    client.put([Draft(NOTES, content="- a\n"), Draft(f"{TOP}/d/b.md", content="- b\n")])
    lines, full, empty = tmp_path / "x.jsonl", tmp_path / "full", tmp_path / "empty"
    lines.write_text("mine")
    full.mkdir()
    empty.mkdir()
    (full / "mine").write_text("mine")
    for path in (lines, full, full / "mine", tmp_path / "none" / "below"):
        code, _, err = ctl("export", TOP, "--to", str(path), "--json")
        assert code == 1
        assert json.loads(err)["reason"] == "NOT_WRITTEN"
        assert str(path) in json.loads(err)["message"]
    assert [p.name for p in full.iterdir()] == ["mine"]
    assert lines.read_text() == "mine"
    run(ctl, "export", TOP, "--to", str(empty))
    assert sorted(p.name for p in empty.iterdir()) == [SIDECAR, "d", "notes.md"]


@pytest.mark.parametrize("name", ["x" * 300 + ".md", SIDECAR, f"{'d' * 300}/a.md"])
def test_a_name_that_no_file_can_have_is_exported_in_the_records(
    ctl: Ctl, client: MessageClient, tmp_path: Path, name: str
) -> None:
    """And comes back; --delete keeps it."""
    client.put([Draft(NOTES, content="- a\n"), Draft(f"{TOP}/{name}", content="# B\n\n- b\n")])
    before = snapshot(client, TOP)
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    assert sorted(p.name for p in out.iterdir()) == [SIDECAR, "notes.md"]
    assert run(ctl, "import", str(out), TOP, "--delete")["deleted"] == 0
    assert snapshot(client, TOP) == before
    clear(client)
    run(ctl, "import", str(out), TOP)
    assert snapshot(client, TOP) == before


def test_an_export_without_a_daemon_or_a_context_says_so(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """By the exit codes of every command, and no file is made."""
    del client
    assert ctl("export", f"{TOP}/none", "--to", str(tmp_path / "a"))[0] == 4
    code, _, err = ctl("--address", "127.0.0.1:9", "export", TOP, "--to", str(tmp_path / "a"))
    assert code == 3
    assert "no daemon answers" in err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_no_half_an_export(
    client: MessageClient, daemon: str, tmp_path: Path
) -> None:
    """It ends with 130 and says that nothing was written."""
    client.put([Draft(f"{TOP}/{i}.md", content=f"- note {i}\n") for i in range(1000)])
    command = [
        sys.executable,
        "-m",
        "vikingd.ctl.main",
        "--address",
        daemon,
        "export",
        TOP,
        "--to",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        while not list(tmp_path.glob(".vikingd-export-*/out/*.md")):
            assert running.poll() is None
            time.sleep(0.002)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert running.returncode == 130, err
    assert err == "stopped; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_what_goes_while_it_is_exported_is_left_out(client: MessageClient, tmp_path: Path) -> None:
    """A context that was listed and is gone by now is no error."""
    client.put([Draft(NOTES, content="- a\n"), Draft(f"{TOP}/zz.md", content="- b\n")])
    exporter = Exporter(client, TOP)
    client.delete(f"{TOP}/zz.md")
    done: list[int] = []
    exporter.write(tmp_path / "out", done.append)
    assert (exporter.summary.files, sum(done)) == (1, 3)
    assert [p.name for p in (tmp_path / "out").glob("*.md")] == ["notes.md"]


def test_a_text_that_the_daemon_made_goes_on_following_its_content(
    client: MessageClient, tmp_path: Path
) -> None:
    """A derived abstract and the daemon's own cut are in no record; given ones are."""
    prose = "The user drinks oolong tea in the morning, and only then.\n"
    client.put(
        [
            Draft(NOTES, content=prose),
            Draft(f"{TOP}/said.md", content=prose, abstract=prose.strip()),
        ]
    )
    assert len({context.abstract for context in client.list(TOP)}) == 1
    files = written(client, TOP, tmp_path / "out")
    _, notes, said = map(json.loads, files[SIDECAR].splitlines())
    assert not {"abstract", "passages", "title", "metadata"} & set(notes)
    assert said["abstract"] == prose.strip()


def test_a_file_documents_jsonl_in_an_export_is_a_file(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """The directory around it is not read as JSON lines."""
    client.put([Draft(f"{TOP}/documents.jsonl", content="{}\n"), Draft(NOTES, content="- a\n")])
    before = snapshot(client, TOP)
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    client.delete("viking://user")
    run(ctl, "import", str(out), TOP)
    assert snapshot(client, TOP) == before


def test_metadata_that_only_look_like_the_front_matter_are_kept(
    client: MessageClient, tmp_path: Path
) -> None:
    """A number is no truth value; but a whole number is what it is with a point."""
    head = "---\na: 1\nb: 2.0\n---\n"
    client.put(
        [
            Draft(NOTES, content=head, metadata={"a": True, "b": 2}),
            Draft(f"{TOP}/same.md", content=head, metadata={"a": 1, "b": 2}),
        ]
    )
    before = snapshot(client, TOP)
    files = written(client, TOP, tmp_path / "out")
    assert ["metadata" in json.loads(line) for line in files[SIDECAR].splitlines()[1:]] == [
        True,
        False,
    ]
    clear(client)
    brought_back(client, tmp_path / "out", TOP)
    assert snapshot(client, TOP) == before


class _Hostile(contexts_pb2_grpc.ContextsServicer):
    """A daemon that names whatever it likes."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.answers: dict[str, str] = {}

    def Tree(  # noqa: N802
        self, _: contexts_pb2.TreeRequest, __: grpc.ServicerContext
    ) -> contexts_pb2.TreeResponse:
        """The nodes, the first a directory."""
        return contexts_pb2.TreeResponse(
            contexts=[contexts_pb2.Context(uri=uri, is_directory=uri == TOP) for uri in self.nodes]
        )

    def Get(  # noqa: N802
        self, request: contexts_pb2.GetRequest, _: grpc.ServicerContext
    ) -> contexts_pb2.GetResponse:
        """A file of any name."""
        uri = self.answers.get(request.uri, request.uri)
        return contexts_pb2.GetResponse(
            context=contexts_pb2.Context(uri=uri, is_directory=uri == TOP, content="mine")
        )


@pytest.fixture
def hostile() -> Iterator[tuple[_Hostile, str]]:
    """Such a daemon, and where it listens."""
    servicer = _Hostile()
    server = grpc.server(ThreadPoolExecutor(2))
    contexts_pb2_grpc.add_ContextsServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize("form", ["out", "out.jsonl"])
@pytest.mark.parametrize(
    "nodes",
    [
        [TOP, "{}/taken"],
        [TOP, f"{TOP}/../../taken"],
        [TOP, f"{TOP}//taken"],
        [TOP, f"{TOP}/{{}}/taken"],
        [TOP, "viking://taken"],
        [TOP, f"{TOP}x/taken"],
        [TOP, f"{TOP}/a/"],
        [TOP, f"{TOP}/a\nb"],
        [TOP, ""],
        ["viking://user", f"{TOP}/a"],
        [f"{TOP}/a"],
        [],
    ],
)
def test_a_daemon_writes_nowhere_but_below_the_target(
    hostile: tuple[_Hostile, str], tmp_path: Path, nodes: list[str], form: str
) -> None:
    """A name that is no URI below what was asked for is refused before anything is written."""
    daemon, where = hostile
    target = tmp_path / "a" / "b"
    target.mkdir(parents=True)
    daemon.nodes = [node.replace("{}", str(tmp_path)) for node in nodes]
    with MessageClient(where) as client, pytest.raises(ClientError, match="the daemon"):
        Exporter(client, TOP).write(target / form, lambda _: None)
    assert [p for p in tmp_path.rglob("*") if not p.is_dir()] == []
    assert list(target.iterdir()) == []


def test_a_daemon_that_answers_with_another_context_is_not_believed(
    hostile: tuple[_Hostile, str], tmp_path: Path
) -> None:
    """The name of the file is that of the answer."""
    daemon, where = hostile
    daemon.nodes = [TOP, f"{TOP}/a"]
    daemon.answers = {f"{TOP}/a": f"{TOP}/../../taken"}
    with MessageClient(where) as client, pytest.raises(ClientError, match="when asked for"):
        Exporter(client, TOP).write(tmp_path / "out", lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_daemon_that_names_a_context_twice_overwrites_nothing(
    hostile: tuple[_Hostile, str], tmp_path: Path
) -> None:
    """A file that has to be a directory too is refused by its name."""
    daemon, where = hostile
    daemon.nodes = [TOP, f"{TOP}/a", f"{TOP}/a/b"]
    with MessageClient(where) as client, pytest.raises(ClientError, match=f"{TOP}/a/b: "):
        Exporter(client, TOP).write(tmp_path / "out", lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_records_that_are_a_link_are_not_followed(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """The import is refused: without its records it would overwrite what they say."""
    client.put([Draft(NOTES, content="- a\n")])
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    (out / SIDECAR).rename(tmp_path / "elsewhere")
    (out / SIDECAR).symlink_to(tmp_path / "elsewhere")
    code, _, err = ctl("import", str(out), TOP)
    assert code == 2
    assert "symbolic link" in err


@pytest.mark.parametrize("name", ["a.md", "d"])
def test_delete_keeps_what_became_a_link(
    ctl: Ctl, client: MessageClient, tmp_path: Path, name: str
) -> None:
    """It is reported, as it is not followed."""
    client.put([Draft(f"{TOP}/a.md", content="- a\n"), Draft(f"{TOP}/d/b.md", content="- b\n")])
    before = snapshot(client, TOP)
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    summary = run(ctl, "import", str(out), TOP, "--delete")
    assert summary["deleted"] == 0
    assert [u["reason"] for u in summary["unreadable"]] == ["is a symbolic link"]
    assert snapshot(client, TOP) == before


@pytest.mark.parametrize("ends", ["/", ""])
def test_a_link_of_json_lines_holds_however_its_ends_are_written(
    ctl: Ctl, client: MessageClient, tmp_path: Path, ends: str
) -> None:
    """A slash at the end of a URI names the same context."""
    lines = tmp_path / "lines.jsonl"
    records = [
        {
            "uri": f"{TOP}/a{ends}",
            "metadata": {},
            "abstract": "A.",
            "relations": [{"to": f"{TOP}/b{ends}", "reason": "why"}],
        },
        {"uri": f"{TOP}/b{ends}", "metadata": {}, "abstract": "B."},
    ]
    lines.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run(ctl, "import", str(lines))["linked"] == 1
    (link,) = client.get(f"{TOP}/a").context.relations
    assert (link.uri, link.reason) == (f"{TOP}/b", "why")


def test_a_link_of_json_lines_to_no_uri_is_reported(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """By its line and its place."""
    del client
    lines = tmp_path / "lines.jsonl"
    record = {"uri": f"{TOP}/a", "metadata": {}, "relations": [{"to": "../b"}]}
    lines.write_text(json.dumps(record) + "\n")
    code, out, _ = ctl("import", str(lines), "--json")
    assert code == 1
    (fault,) = json.loads(out)["unreadable"]
    assert "relations[0].to" in fault["reason"]
