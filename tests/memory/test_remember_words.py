"""Remember by words: paraphrases, form, and an embedder that is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.daemons import serving
from tests.memory.remember_helpers import (
    ADDED,
    NOTES,
    REINFORCED,
    USER,
    known,
    recalled,
    said,
    verified,
)
from tests.patience import eventually
from vikingd.client.messages import MessageClient


@pytest.fixture
def client(client: MessageClient) -> Iterator[MessageClient]:
    """Yield a client of the daemon, and check afterwards that index and store agree."""
    yield client
    assert verified(client)


SAME = [
    ("The user likes green tea.", "The user really likes green tea."),
    ("Please keep answers short.", "Keep answers short"),
    ("The weekly review is on Friday.", "On Friday the weekly review is."),
    ("用户喜欢绿茶。", "用户很喜欢绿茶"),
]
OTHER = [
    ("Alice owes Bob 20 euros.", "Bob owes Alice 20 euros."),
    ("The user likes green tea.", "The user likes black tea."),
    ("Takes .5 mg of melatonin.", "Takes 5 mg of melatonin."),
    ("Ships only to US addresses.", "Ships only to us addresses."),
    ("用户喜欢绿茶。", "用户不喜欢绿茶。"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_says_the_same_is_reinforced(client: MessageClient, one: str, other: str) -> None:
    """The reply has the old wording, and the file the new one."""
    first = client.remember(one, uri=NOTES)
    assert (first.outcome, first.met, first.similarity) == (ADDED, "", 0)
    reply = client.remember(other, uri=NOTES)
    assert (reply.outcome, reply.id, reply.reinforcement) == (REINFORCED, first.id, 1)
    assert (reply.met, reply.similarity, list(reply.degraded)) == (one, 1, [])
    assert known(client) == {first.id: (other, 1)}


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_is_near_but_another_fact_stays_apart(
    client: MessageClient, one: str, other: str
) -> None:
    """A similar memory with another fact is a new entry."""
    client.remember(one, uri=NOTES)
    reply = client.remember(other, uri=NOTES)
    assert (reply.outcome, reply.reinforcement, reply.met) == (ADDED, 0, "")
    assert said(client) == [(one, 0), (other, 0)]


def test_an_equal_wording_comes_before_equal_words(client: MessageClient) -> None:
    """Of two entries with equal words, the one with the wording of the text is reinforced."""
    client.remember("The user likes tea.", uri=NOTES)
    client.remember("The user really likes tea.", uri=NOTES, exact=True)
    reply = client.remember("the user really likes tea", uri=NOTES)
    assert reply.met == "The user really likes tea."
    assert said(client) == [("The user likes tea.", 0), ("the user really likes tea", 1)]


def test_an_exact_one_is_compared_by_its_wording(client: MessageClient) -> None:
    """An exact call compares wordings only."""
    client.remember("The user likes green tea.", uri=NOTES, exact=True)
    other = client.remember("The user really likes green tea.", uri=NOTES, exact=True)
    assert other.outcome == ADDED
    again = client.remember("the user likes  green tea", uri=NOTES, exact=True)
    assert again.outcome == REINFORCED


def test_the_same_words_in_another_file_are_another_memory(client: MessageClient) -> None:
    """Memories of equal words in two files are two entries."""
    client.remember("The user plays chess.", uri=f"{USER}/one.md")
    assert client.remember("The user plays chess!", uri=f"{USER}/two.md").outcome == ADDED


def test_many_wordings_of_one_fact_at_once_leave_one_entry(client: MessageClient) -> None:
    """One of many concurrent paraphrases adds the memory, and all others reinforce it."""
    texts = ["The user likes tea.", "The user really likes tea.", "The user enjoys tea."] * 4
    with ThreadPoolExecutor(len(texts)) as pool:
        replies = list(pool.map(lambda text: client.remember(text, uri=NOTES), texts))
    assert [reply.outcome for reply in replies].count(ADDED) == 1
    ((_, times),) = said(client)
    assert times == len(texts) - 1


def test_a_memory_is_found_by_words_at_once_and_by_meaning_soon() -> None:
    """The vector of a new memory, and of a newer wording, is made after the reply."""
    with serving("--provider", "e5") as where, MessageClient(where) as client:
        for text in ("The user likes green tea.", "The user really likes green tea."):
            reply = client.remember(text, uri=NOTES)
            found = client.recall("green tea", min_revision=reply.revision, no_touch=True)
            assert [memory.content for memory in found.results] == [text]
            eventually(lambda: not client.stats().embedder.backlog)
            eventually(lambda text=text: text in recalled(client, "用户喜欢喝什么"))
        assert said(client) == [(text, 1)]
        assert verified(client)


@pytest.mark.deep_after(1)
def test_an_embedder_that_cannot_be_reached_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Remember asks no embedder."""
    config = tmp_path / "config.toml"
    config.write_text(
        '[embedding]\nprovider = "openai"\n'
        'openai_model = "m"\nopenai_base_url = "http://127.0.0.1:1/v1"\ndimension = 8\n'
        "retries = 0\n"
    )
    monkeypatch.delenv("VIKINGD_EMBEDDING__PROVIDER", raising=False)
    with serving("--config", str(config)) as where, MessageClient(where) as client:
        for text, outcome in (("Likes tea.", ADDED), ("Really likes tea.", REINFORCED)):
            reply = client.remember(text, uri=NOTES)
            assert (reply.outcome, list(reply.degraded)) == (outcome, [])
        assert "Really likes tea." in recalled(client, "tea")
        assert verified(client)
