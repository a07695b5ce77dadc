"""Remember by meaning: paraphrases, thresholds and a missing embedder."""

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


# By meaning


@pytest.fixture(scope="module")
def thinking() -> Iterator[MessageClient]:
    """Yield a client of a daemon with its embedder."""
    with serving("--provider", "e5") as where, MessageClient(where) as made:
        yield made


SAME = [
    ("The user likes green tea.", "The user really likes green tea."),
    ("Please keep answers short.", "Keep answers short"),
    ("The weekly review is on Friday.", "On Friday the weekly review is."),
    ("用户喜欢绿茶。", "用户很喜欢绿茶"),
]
OTHER = [
    ("Alice owes Bob 20 euros.", "Bob owes Alice 20 euros."),
    ("The user likes green tea.", "The user likes black tea."),
    ("The meeting is on Monday.", "The meeting is on Tuesday."),
    ("用户喜欢绿茶。", "用户不喜欢绿茶。"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_means_the_same_is_reinforced(thinking: MessageClient, one: str, other: str) -> None:
    """The reply has the old wording and its similarity, and the new wording is found by meaning."""
    uri = f"{USER}/same-{SAME.index((one, other))}.md"
    first = thinking.remember(one, uri=uri)
    reply = thinking.remember(other, uri=uri)
    assert (reply.outcome, reply.id, reply.reinforcement) == (REINFORCED, first.id, 1)
    assert reply.met == one
    assert 0.9 < reply.similarity <= 1
    assert known(thinking, uri) == {first.id: (other, 1)}
    assert not [*first.degraded, *reply.degraded]
    assert other in recalled(thinking, one)
    assert verified(thinking)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_is_near_but_another_fact_stays_apart(
    thinking: MessageClient, one: str, other: str
) -> None:
    """A similar memory with another fact is a new entry, and the reply may name the similar one."""
    uri = f"{USER}/other-{OTHER.index((one, other))}.md"
    thinking.remember(one, uri=uri)
    reply = thinking.remember(other, uri=uri)
    assert (reply.outcome, reply.reinforcement) == (ADDED, 0)
    if reply.met:
        assert reply.met == one
        assert 0.9 < reply.similarity < 1
    assert said(thinking, uri) == [(one, 0), (other, 0)]
    assert verified(thinking)


def test_a_near_wording_is_named(thinking: MessageClient) -> None:
    """The reply has the wording and the similarity of a similar memory that is another fact."""
    thinking.remember("Alice owes Bob 20 euros.", uri=f"{USER}/owes.md")
    reply = thinking.remember("Bob owes Alice 20 euros.", uri=f"{USER}/owes.md")
    assert reply.met == "Alice owes Bob 20 euros."
    assert 0.97 <= reply.similarity < 1


def test_an_exact_one_is_compared_by_its_wording(thinking: MessageClient) -> None:
    """An exact call compares wordings only, and its vector is computed after the reply."""
    uri = f"{USER}/exact.md"
    thinking.remember("The user likes green tea.", uri=uri, exact=True)
    assert (
        thinking.remember("The user really likes green tea.", uri=uri, exact=True).outcome == ADDED
    )
    assert thinking.remember("the user likes GREEN tea", uri=uri, exact=True).outcome == REINFORCED
    eventually(lambda: not thinking.stats().embedder.backlog)
    assert verified(thinking)


def test_the_same_meaning_in_another_file_is_another_memory(thinking: MessageClient) -> None:
    """Memories of equal meaning in two files are two entries."""
    thinking.remember("The user plays chess.", uri=f"{USER}/one.md")
    assert thinking.remember("The user plays chess!", uri=f"{USER}/two.md").outcome == ADDED


def test_many_wordings_of_one_meaning_at_once_leave_one_entry(thinking: MessageClient) -> None:
    """One of many concurrent paraphrases adds the memory, and all others reinforce it."""
    uri = f"{USER}/at-once.md"
    texts = ["The user likes tea.", "The user really likes tea.", "The user enjoys tea."] * 4

    patient = thinking.with_timeout(120)  # all are embedded, on a machine that may be busy
    with ThreadPoolExecutor(len(texts)) as pool:
        replies = list(pool.map(lambda text: patient.remember(text, uri=uri), texts))
    assert not any(reply.degraded for reply in replies)
    assert [reply.outcome for reply in replies].count(ADDED) == 1
    ((_, times),) = said(thinking, uri)
    assert times == len(texts) - 1
    assert verified(thinking)


def test_the_threshold_can_be_configured(tmp_path: Path) -> None:
    """With a configured threshold, the cosine alone decides."""
    config = tmp_path / "config.toml"
    config.write_text("[recall]\nsame_meaning = 0.5\n")
    with (
        serving("--provider", "e5", "--config", str(config)) as where,
        MessageClient(where) as client,
    ):
        client.remember("The user likes green tea.", uri=NOTES)
        reply = client.remember("The user likes black tea.", uri=NOTES)
        assert (reply.outcome, reply.met) == (REINFORCED, "The user likes green tea.")
        assert said(client) == [("The user likes black tea.", 1)]
        assert verified(client)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("threshold", [0.0, 0.9])
def test_without_its_embedder_a_daemon_remembers_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: float
) -> None:
    """Without a reachable model or a threshold, wordings are compared and the reply is degraded."""
    config = tmp_path / "config.toml"
    config.write_text(
        f'[recall]\nsame_meaning = {threshold}\n[embedding]\nprovider = "openai"\n'
        'openai_model = "m"\nopenai_base_url = "http://127.0.0.1:1/v1"\ndimension = 8\n'
        "retries = 0\n"
    )
    monkeypatch.delenv("VIKINGD_EMBEDDING__PROVIDER", raising=False)
    with serving("--config", str(config)) as where, MessageClient(where) as client:
        for text, outcome in (("Likes tea.", ADDED), ("likes TEA", REINFORCED)):
            reply = client.remember(text, uri=NOTES)
            assert reply.outcome == outcome
        first = client.remember("Likes rowing.", uri=NOTES)
        (note,) = first.degraded
        assert "wordings alone were compared" in note.detail
        assert ("can't be reached" if threshold else "recall.same_meaning") in note.detail
        assert "Likes rowing." in recalled(client, "rowing")
        assert verified(client)


def test_a_daemon_that_has_no_embedder_compares_wordings(client: MessageClient) -> None:
    """A daemon without an embedder compares wordings, and its reply is not degraded."""
    client.remember("The user likes green tea.", uri=NOTES)
    reply = client.remember("The user really likes green tea.", uri=NOTES)
    assert (reply.outcome, list(reply.degraded), reply.met) == (ADDED, [], "")
