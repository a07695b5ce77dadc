"""vikingctl export as JSON lines, and their import, against a real daemon."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.client.export_helpers import (
    EDITED,
    NOTES,
    TOP,
    Ctl,
    brought_back,
    clear,
    counted,
    lived,
    run,
    snapshot,
    written,
)
from tests.tiers import examples
from vikingd.client import Passage
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft, Entry
from vikingd.ingest.abstracts import derive_abstract
from vikingd.ingest.passages import split

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
    ".vikingd.jsonl",
    "x" * 256,
    "long" * 64 + ".md",
]


@st.composite
def files(draw: st.DrawFn, uri: str) -> Draft:
    """Return a file, in some cases with given passages and memory entries."""
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
    """Return contexts and the links between them."""
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


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees())
def test_json_lines_restore_every_tree(
    client: MessageClient, tree: tuple[list[Draft], list[tuple[str, str, str]]]
) -> None:
    """An import gives equal contexts and links, and the next export has equal bytes."""
    drafts, links = tree
    clear(client)
    if drafts:
        client.put(drafts)
    for link in links:
        client.link(*link)
    before = snapshot(client)
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch, "first.jsonl")
        lines = written(client, uris.ROOT, first)
        clear(client)
        brought_back(client, first)
        assert snapshot(client) == before
        again = brought_back(client, first)
        assert (again.created, again.updated) == (0, 0)
        assert written(client, uris.ROOT, Path(scratch, "second.jsonl")) == lines


def test_an_import_never_takes_back_what_was_counted_since_the_export(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An import never lowers a counter, restores a forgotten memory and skips equal contexts."""
    lived(client)
    out = tmp_path / "out.jsonl"
    run(ctl, "export", TOP, "--to", str(out))
    exported = counted(client)
    first, second, _ = (p.memory.id for p in client.get(NOTES).context.passages)
    client.reinforce(first, by=7)
    client.forget(second)
    later = counted(client)
    assert run(ctl, "import", str(out))["updated"] == 1
    assert counted(client) == [later[0], exported[1], later[1]]
    revision = client.stats().revision
    assert run(ctl, "import", str(out))["unchanged"] == 2
    assert client.stats().revision == revision
    client.put([Draft(NOTES, content="gone")])
    client.put([Draft(NOTES, content=EDITED)])
    assert run(ctl, "import", str(out))["updated"] == 1
    # The import restores the creation time of the export, but not the time of the rewrite.
    assert [(m[1], m[2], m[4]) for m in counted(client)] == [(m[1], m[2], m[4]) for m in exported]


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("name", ["out.jsonl", "out"])
def test_long_and_pinned_memories_come_back_as_they_were(
    ctl: Ctl, client: MessageClient, tmp_path: Path, name: str
) -> None:
    """A long memory and a pin survive an export and an import in both forms."""
    text = "A part of the voyage.\n\n" + "The crew of the boat rows on. " * 200
    client.remember("tea", uri=NOTES)
    client.remember(text, uri=NOTES, pinned=True)
    client.reinforce(client.recall("crew", no_touch=True).results[0].id, by=3)
    before, out = snapshot(client, TOP), tmp_path / name
    assert [p.get("continues") for p in before[NOTES]["passages"]][:3] == [None, None, True]
    run(ctl, "export", TOP, "--to", str(out))
    clear(client)
    run(ctl, "import", str(out), *([] if name.endswith("l") else [TOP]))
    after = snapshot(client, TOP)
    if name == "out":  # files of Markdown have no counters
        for file in (before, after):
            for passage in file[NOTES]["passages"]:
                passage.pop("memory", None)
            for key in ("reinforcement", "accessCount", "time"):
                file[NOTES].pop(key, None)
    assert after[NOTES] == before[NOTES]
    (found,) = client.recall("crew", no_touch=True, max_tokens=9999).results
    assert (found.content, found.pinned) == (text.strip(), True)


def test_an_import_takes_back_nothing_of_a_text_that_is_laid_out_otherwise_by_now(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An import finds a memory with other line breaks and keeps its higher counter."""
    client.put([Draft(NOTES, content="- likes\n  oolong\n")])
    (memory,) = (p.memory.id for p in client.get(NOTES).context.passages)
    client.reinforce(memory, by=2)
    run(ctl, "export", TOP, "--to", str(tmp_path / "out.jsonl"))
    client.put([Draft(NOTES, content="- likes oolong\n")])
    client.reinforce(memory, by=7)
    run(ctl, "import", str(tmp_path / "out.jsonl"))
    assert [m[:2] for m in counted(client)] == [("likes\n  oolong", 9)]


def test_json_lines_go_to_stdout_and_are_read_as_before(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An export to stdout can be imported; without an object `metadata`, all keys are metadata."""
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
        ({"overveiw": "x"}, "overveiw: is an unknown key"),
        ({"title": None}, "title: is no string"),
    ],
)
def test_a_record_at_fault_is_named_and_nothing_is_guessed(
    ctl: Ctl, client: MessageClient, tmp_path: Path, line: dict[str, Any], fault: str
) -> None:
    """A record with a fault is left out and reported with the fault."""
    client.put([Draft(NOTES, content="- a\n", title="Given")])
    revision = client.stats().revision
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"uri": NOTES, "text": "x", "metadata": {}, **line}) + "\n")
    code, told, _ = ctl("import", str(lines), "--json")
    (unreadable,) = json.loads(told)["unreadable"]
    assert code == 1  # the file has no other line
    assert fault in unreadable["reason"]
    assert client.stats().revision == revision


def test_a_text_that_the_daemon_made_goes_on_following_its_content(
    client: MessageClient, tmp_path: Path
) -> None:
    """An export omits a derived abstract and derived passages, and has a given abstract."""
    prose = "The user drinks oolong tea in the morning, and only then.\n"
    client.put(
        [
            Draft(NOTES, content=prose),
            Draft(f"{TOP}/said.md", content=prose, abstract=prose.strip()),
        ]
    )
    assert len({context.abstract for context in client.list(TOP)}) == 1
    lines = written(client, TOP, tmp_path / "out.jsonl")[""]
    _, notes, said = map(json.loads, lines.splitlines())
    assert not {"abstract", "passages", "title"} & set(notes)
    assert said["abstract"] == prose.strip()


@pytest.mark.parametrize("ends", ["/", ""])
def test_a_link_of_json_lines_holds_however_its_ends_are_written(
    ctl: Ctl, client: MessageClient, tmp_path: Path, ends: str
) -> None:
    """A link of JSON lines is restored even if its URIs end in a slash."""
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
    """An invalid link target in JSON lines is reported with its field."""
    del client
    lines = tmp_path / "lines.jsonl"
    record = {"uri": f"{TOP}/a", "metadata": {}, "relations": [{"to": "../b"}]}
    lines.write_text(json.dumps(record) + "\n")
    code, out, _ = ctl("import", str(lines), "--json")
    assert code == 1
    (fault,) = json.loads(out)["unreadable"]
    assert "relations[0].to" in fault["reason"]


LONG = "\n\n".join(f"Part {n} of the voyage. " + "The boat rows on. " * 60 for n in range(4))


def test_an_import_gives_a_memory_that_a_long_one_repeats_its_counter(
    client: MessageClient, tmp_path: Path
) -> None:
    """A short memory with the text of a long one's last passage comes back reinforced."""
    client.remember(LONG, uri=NOTES)
    context = client.get(NOTES).context
    last = context.passages[-1]
    assert last.continues
    short = client.remember(context.content[last.start : last.end], uri=NOTES)
    client.reinforce(short.id, by=4)
    before = snapshot(client, TOP)
    written(client, TOP, tmp_path / "out.jsonl")
    clear(client)
    brought_back(client, tmp_path / "out.jsonl")
    assert snapshot(client, TOP) == before


def test_a_long_memory_among_resources_is_exported_and_imported(
    client: MessageClient, tmp_path: Path
) -> None:
    """A file that was moved away from the memories comes back as it was."""
    client.remember(LONG, uri=NOTES)
    client.move(NOTES, "viking://resources/notes.md")
    before = snapshot(client, "viking://resources")
    assert len(before["viking://resources/notes.md"]["passages"]) > 1
    written(client, "viking://resources", tmp_path / "out.jsonl")
    clear(client)
    brought_back(client, tmp_path / "out.jsonl")
    after = snapshot(client, "viking://resources")
    for passage in before["viking://resources/notes.md"]["passages"]:
        passage.pop("memory", None)  # what is no memory is exported without its state
    assert after == before
