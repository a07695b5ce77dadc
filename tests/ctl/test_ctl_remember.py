"""vikingctl recall, remember, reinforce and forget on a real daemon."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

import pytest

from vikingd.client.messages import MessageClient

Ctl = Callable[..., tuple[int, str, str]]
NOTES = ("--type", "notes")


def test_a_memory_from_first_to_last(client: MessageClient, ctl: Ctl) -> None:
    """The commands remember, recall, reinforce and forget work on one memory and print results."""
    code, out, err = ctl("remember", "Likes tea.", *NOTES, "--section", "Drinks")
    assert (code, err) == (0, "")
    assert "added" in out
    assert "viking://user/memories/notes.md" in out
    code, out, _ = ctl("remember", "likes *tea*", *NOTES)
    assert (code, "said 2 times; it met Likes tea." in out) == (0, True)
    code, out, err = ctl("recall", "tea", "--no-touch")
    assert (code, "likes *tea*" in out, "hybrid" in err) == (0, True, True)
    (found,) = client.recall("tea", no_touch=True).results
    code, out, _ = ctl("reinforce", str(found.id), "--by", "3")
    assert (code, f"{found.id} now 4" in out) == (0, True)
    code, out, err = ctl("forget", str(found.id), "--dry-run")
    assert (code, "would forget 1 memory" in err) == (0, True)
    assert client.recall("tea", no_touch=True).results
    code, out, err = ctl("forget", str(found.id))
    assert (code, "forgot 1 memory" in err) == (0, True)
    assert not client.recall("tea", no_touch=True).results


def test_each_speaks_json(client: MessageClient, ctl: Ctl) -> None:
    """Each memory command prints its reply as JSON with --json."""
    _, out, _ = ctl("remember", "Likes tea.", *NOTES, "--json")
    said = json.loads(out)
    assert said["outcome"] == "REMEMBER_OUTCOME_ADDED"
    _, out, _ = ctl("recall", "tea", "--no-touch", "--json")
    assert [memory["id"] for memory in json.loads(out)["results"]] == [said["id"]]
    _, out, _ = ctl("reinforce", said["id"], "--json")
    assert json.loads(out)["reinforcements"] == ["1"]
    _, out, _ = ctl("forget", said["id"], "--json")
    assert [memory["content"] for memory in json.loads(out)["forgotten"]] == ["Likes tea."]
    assert not client.recall("tea", no_touch=True).results


def test_pinned_and_used_memories(client: MessageClient, ctl: Ctl) -> None:
    """A pin is set, shown and removed; forget says what it spares; used ids are counted."""
    assert ctl("remember", "The safe code.", *NOTES, "--pinned", "--time", "900d")[0] == 0
    assert ctl("remember", "Old news.", *NOTES, "--time", "900d")[0] == 0
    code, _, err = ctl("forget", "--older-than", "90d", "--dry-run")
    assert (code, "would forget 1 memory" in err) == (0, True)
    assert "spared 1 memory, which only an id forgets:" in err
    assert "The safe code. (it is pinned)" in err
    code, out, _ = ctl("recall", "safe code", "--no-touch")
    assert (code, "📌 The safe code." in out) == (0, True)
    kept = client.recall("safe code", no_touch=True).results[0].id
    code, out, _ = ctl("reinforce", "--used", str(kept))
    assert (code, f"counted {kept} as used at revision" in out) == (0, True)
    assert client.recall("safe code", no_touch=True).results[0].access_count == 1
    assert ctl("recall", "anything", "--used", str(kept))[0] == 0
    assert ctl("remember", "The safe code.", *NOTES, "--no-pinned", "--time", "900d")[0] == 0
    code, _, err = ctl("forget", "--older-than", "90d", "--yes")
    assert (code, "spared" in err) == (0, False)


def test_an_age_is_in_days(client: MessageClient, ctl: Ctl) -> None:
    """Ages are in days, and a forget removes older memories only."""
    assert ctl("remember", "Old news.", *NOTES, "--time", "100d")[0] == 0
    assert ctl("remember", "New plans.", *NOTES, "--time", "2d")[0] == 0
    code, out, _ = ctl("forget", "--older-than", "90d", "--dry-run")
    assert (code, "Old news." in out, "New plans." in out) == (0, True, False)
    code, _, err = ctl("forget", "--older-than", "90d", "--yes")
    assert (code, "forgot 1 memory" in err) == (0, True)
    assert "New plans." in client.get("viking://user/memories/notes.md").context.content
    for wrong in ("90 days", "ninety", "999999999999d"):
        assert ctl("forget", "--older-than", wrong, "--dry-run")[0] == 2


def test_stdin_is_remembered(
    client: MessageClient, ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command `remember -` stores all lines of stdin and refuses invalid UTF-8."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\r\ntwo\r\n")))
    assert ctl("remember", "-", *NOTES)[0] == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    assert ctl("remember", "-", *NOTES)[0] == 2
    assert "- one\n  two\n" in client.get("viking://user/memories/notes.md").context.content


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("remember", "x"), 2, "is needed, such as --type preferences"),
        (("remember", "...", "--type", "notes"), 2, "text: "),
        (("remember",), 2, "remember --help"),
        (("reinforce", "987654321"), 4, "there is no memory 987654321"),
        (("reinforce", "x"), 2, "reinforce --help"),
        (("reinforce", "1", "--by", "0"), 2, "by"),
        (("forget", "987654321"), 4, "there is no memory 987654321"),
        (("forget",), 2, "are needed, or criteria: older_than"),
        (("forget", "1", "--older-than", "9d"), 2, "exclude criteria"),
        (("forget", "--below-salience", "2", "--dry-run"), 2, "below_salience: "),
        (("recall", "x", "--tokenizer", "nobody"), 2, "tokenizer: "),
    ],
)
def test_what_is_wrong_is_told_with_its_exit_code(
    ctl: Ctl, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """An invalid call has exit code 2, a missing memory has exit code 4, and stdout is empty."""
    ended, out, err = ctl(*arguments)
    assert (ended, out) == (code, "")
    assert said in err
