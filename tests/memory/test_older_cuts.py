"""Memory files of versions that cut long memories and abstracts at other sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.memory.remember_helpers import NOTES, known, verified
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.domain import contexts
from vikingd.domain.contexts import Context, Entry, Passage
from vikingd.ingest.abstracts import derive_abstract, is_derived
from vikingd.ingest.jsonl import read_jsonl, record_of
from vikingd.ingest.passages import default_passages

pytestmark = pytest.mark.stores

LONG = " ".join(f"On day {day} the crew met Dr. Ames at the harbour of Visby." for day in range(99))
CONTENT = f"- a\n- {LONG}\n- {LONG} Again.\n- b\n"


def cut_elsewhere() -> tuple[Passage, ...]:
    """Return the passages of CONTENT, but the long memories are cut behind the first "Dr."."""
    cut = list(default_passages(NOTES, CONTENT))
    for i, (one, following) in enumerate(pairwise(cut)):
        if following.continues and not one.continues:
            end = CONTENT.index("Dr.", one.start) + 3
            cut[i] = replace(one, end=end)
            cut[i + 1] = replace(following, start=end + 1)
    return tuple(cut)


def test_a_long_memory_that_was_cut_elsewhere_keeps_its_state(client: MessageClient) -> None:
    """A put that cuts the file anew keeps ids and counters of the memories whose text stays."""
    client.put([Draft(NOTES, content=CONTENT, passages=cut_elsewhere())])
    first, long, longer, _ = known(client)
    client.reinforce(long, by=2)
    client.reinforce(longer, by=3)
    client.put([Draft(NOTES, content=f"- new\n{CONTENT}")])
    after = known(client)
    assert len(after) == 5
    assert after[first] == ("a", 0)
    assert after[long] == (LONG, 2)
    assert after[longer] == (f"{LONG} Again.", 3)
    assert verified(client)


def test_an_export_of_another_version_brings_the_states_of_long_memories(tmp_path: Path) -> None:
    """A record without passages, whose long memories begin otherwise, has all their states."""
    cut = [
        replace(one, entry=None if one.continues else Entry(reinforcement=i + 1))
        for i, one in enumerate(cut_elsewhere())
    ]
    record = record_of(
        Context(NOTES, False, "", "", {}, 1, 1, 1, 0, 0, b"", 1, "", CONTENT, tuple(cut)), ()
    )
    del record["passages"]  # They were those of that version.
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(record))
    (draft,) = read_jsonl(lines)
    assert isinstance(draft, contexts.Draft)
    counts = [one.entry.reinforcement for one in draft.passages or () if one.entry]
    assert counts == [one.entry.reinforcement for one in cut if one.entry]


def test_an_abstract_that_was_shortened_elsewhere_follows_the_content(
    client: MessageClient,
) -> None:
    """A Remember derives it again; an abstract of its own stays."""
    kept = CONTENT[2:].replace("\n- ", " ")
    shortened = kept[: kept.index("Dr.", 200) + 3]
    for abstract, follows in ((shortened, True), ("a", False), (f"{kept[:200]}, ", False)):
        client.put([Draft(NOTES, abstract=abstract, content=CONTENT)])
        client.remember("likes tea", uri=NOTES)
        context = client.get(NOTES).context
        derived = derive_abstract(context.content, "notes.md")
        assert context.abstract == (derived if follows else abstract)


def test_the_abstract_of_a_content_is_known_in_all_kinds_of_files() -> None:
    """It may be prose, a comment or front matter, cut at a word or a sentence."""
    prose = LONG[: LONG.index("Dr.", 300) + 3]
    words = f"{LONG[:399].rpartition(' ')[0]}…"
    for name, content in (
        ("a.md", f"# T\n\n{LONG}\n"),
        ("a.md", f"---\nsummary: {LONG}\n---\nText.\n"),
        ("a.py", f'"""{LONG}"""\n'),
        ("a.txt", LONG),
    ):
        assert is_derived(prose, content, name)
        assert is_derived(words, content, name)
        assert not is_derived(LONG[:40], content, name)
        assert not is_derived(f"The {prose}", content, name)
