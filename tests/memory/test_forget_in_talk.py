"""Requests to forget in conversations: what goes, what is proposed, and what must stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.memory.extract_helpers import asking, note, noted, session
from tests.nodes.reader_helpers import serving
from vikingd.client import Client, ExtractResult, InvalidField, Session
from vikingd.domain.spoken_text import without_speaker

DATA = Path(__file__).parent / "requests_to_forget.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield a client of a daemon without an embedder."""
    with (
        serving(tmp_path_factory.mktemp("store"), "--provider", "none") as daemon,
        Client(daemon.address) as client,
    ):
        yield client


@pytest.fixture
def client(started: Client) -> Iterator[Client]:
    """Yield the client of an empty daemon, and compare index and store afterwards."""
    for context in list(started.list()):
        started.delete(context.uri)
    yield started
    assert started.verify().ok


def know(client: Client, *texts: str, kind: str = "profile", **how: Any) -> list[int]:
    """Remember texts and return their ids."""
    return [client.remember(text, kind, exact=True, **how).id for text in texts]


def ask(client: Client, *said: str | tuple[str, str], **how: Any) -> ExtractResult:
    """Extract from messages, after a dry run that must show the same and change nothing."""
    before = known(client), turns(client)
    shown = client.extract(session(*said), dry_run=True, **how)
    assert (known(client), turns(client)) == before
    done = client.extract(session(*said), **how)
    assert [one.id for one in shown.forgotten] == [one.id for one in done.forgotten]
    assert [one.reason for one in shown.to_forget] == [one.reason for one in done.to_forget]
    return done


def known(client: Client) -> dict[int, str]:
    """Return all memories by id, without the turns of episodes."""
    return {one.id: one.text for one in client.memories() if "/session-" not in one.uri}


def turns(client: Client) -> list[str]:
    """Return the turns of all episodes, without speaker and time."""
    found = [one.text for one in client.memories() if "/session-" in one.uri]
    return [without_speaker(text) for text in found]


def gone(result: ExtractResult) -> set[int]:
    """Return the ids of the forgotten memories."""
    return {one.id for one in result.forgotten}


def proposed(result: ExtractResult) -> set[int]:
    """Return the ids of the proposed memories."""
    return {memory.id for one in result.to_forget for memory in one.memories}


@pytest.mark.deep_after(12)
@pytest.mark.parametrize("line", LINES, ids=lambda line: line["id"])
def test_a_labelled_request(client: Client, line: dict[str, Any]) -> None:
    """A request is done, proposed or nothing, as people judged; nothing else is deleted.

    Of a line that is missed, only the latter holds.
    """
    ids = [
        client.remember(one["text"], one["type"], section=one["section"], exact=True).id
        for one in line["memories"]
    ]
    said = [(one["role"], one["content"]) for one in line["messages"]]
    result = ask(client, *said)
    meant = {ids[number] for number in line["forget"]}
    if "missed" in line:
        assert set(ids) - meant <= set(known(client))
        return
    done = "done" if result.forgotten else "proposed" if proposed(result) else "nothing"
    assert done in line.get("accept", [line["outcome"]])
    left = known(client)
    if done == "done":
        assert gone(result) == meant
        assert set(ids) - meant == set(ids) & set(left)
    else:
        assert set(ids) <= set(left)
    if done == "proposed":
        assert proposed(result) <= set(ids)
        assert len(proposed(result) & meant) > 1
    texts = [*left.values(), *turns(client)]
    assert not [one for one in line.get("unkept", []) if any(one in text for text in texts)]


# Safety: what must not be deleted.


@pytest.mark.parametrize(
    ("memories", "said"),
    [
        (["The user's brother lives in York."], "Forget that I live in York."),
        (["The user's sister is a vegetarian."], "Please forget that I'm a vegetarian."),
        (["The user does not like jazz."], "Forget that I like jazz."),
        (["The user's mother has her birthday on May 3."], "Forget my birthday."),
        (["Tom's phone number is 555-0119."], "Delete my phone number from your memory."),
        (["The user lives in Leeds.", "The user's office is in Leeds."], "Forget Leeds."),
        (["用户的妹妹住在上海。"], "忘了我住在上海这件事"),
        (["用户妈妈的生日是5月3日。"], "别再记着我的生日了"),
        (["用户不喜欢咖啡。"], "请忘掉我喜欢咖啡这件事"),
        (
            ["The user likes tea.", "The user lives in Rome."],
            "Forget everything you know about me.",
        ),
        (["The user's car is a Saab.", "The user sold their car."], "Forget my car."),
        (["The user's dentist appointment is on Tuesday."], "Delete my dentist appointment."),
    ],
)
def test_what_is_not_meant_stays(client: Client, memories: list[str], said: str) -> None:
    """A memory of somebody else, of the contrary, or one of several different ones is kept."""
    know(client, *memories)
    before = known(client)
    assert ask(client, said).forgotten == ()
    assert known(client) == before


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("The user likes the lasagne recipe.", ("I like soup.", "Forget that recipe.")),
        ("The user lives in Leeds.", ("I live in Leeds.", "Forget that recipe.")),
        ("The user plays chess with Anna.", ("Ben plays chess with Anna.", "Forget that chess.")),
        ("The user plays chess with Anna.", ("My aunt plays chess with Anna.", "Forget that.")),
        ("The user's sister lives in York.", ("That was my sister. Please forget it.",)),
        ("The user's name is Ray.", ("Forget my name, forget my face,\nforget the place, uh",)),
        ("The user's schedule for Friday is full.", ("Clear my schedule for Friday.",)),
        (
            "The user has an account at Netflix.",
            ("Is there a way to delete my account at Netflix?",),
        ),
        ("用户的名字叫小军。", ("请帮我写一句：忘掉我的名字",)),
        ("用户的护照明年到期。", ("请移除我的护照号码",)),
        ("用户喜欢红烧肉。", ("冰箱里的红烧肉别留着",)),
    ],
)
def test_what_was_said_of_something_else_stays(
    client: Client, memory: str, said: tuple[str, ...]
) -> None:
    """Neither "that" with a noun nor what was said of others deletes another memory."""
    know(client, memory)
    assert ask(client, *said).forgotten == ()


def test_a_pinned_memory_is_proposed(client: Client) -> None:
    """A pinned memory goes by its id alone."""
    [tea] = know(client, "The user likes tea.", kind="preferences", pinned=True)
    result = ask(client, "Forget that I like tea.")
    assert (gone(result), proposed(result)) == (set(), {tea})
    assert result.to_forget[0].reason == "it is pinned"


def test_a_memory_of_health_goes_only_if_the_request_names_it(client: Client) -> None:
    """A topic that only touches on health proposes; a statement of health is done."""
    [trip] = know(client, "The user saw a doctor in Bristol.")
    result = ask(client, "Forget what I said about Bristol.")
    assert (gone(result), proposed(result)) == (set(), {trip})
    assert "health" in result.to_forget[0].reason
    [nuts] = know(client, "The user is allergic to nuts.")
    assert gone(ask(client, "Please forget that I'm allergic to nuts.")) == {nuts}


def test_a_memory_that_was_said_later_stays(client: Client) -> None:
    """A request in an older conversation does not delete what was said since."""
    asked = datetime(2026, 3, 1, tzinfo=UTC)
    [home] = know(client, "The user lives in Rome.", time=asked + timedelta(days=1))
    result = ask(client, "Forget that I live in Rome.", time=asked)
    assert (gone(result), proposed(result)) == (set(), {home})
    assert gone(ask(client, "Forget that I live in Rome.", time=asked + timedelta(days=2))) == {
        home
    }


def test_what_is_said_again_after_the_request_is_kept(client: Client) -> None:
    """A statement behind the request is written."""
    result = ask(client, "Forget that I live in Rome.", "I live in Rome.")
    assert [one.text for one in result] == ["The user lives in Rome."]
    result = ask(client, "Forget where I live. I live in Oslo.")
    assert "The user lives in Oslo." in known(client).values()


def test_what_the_same_call_says_is_taken_back(client: Client) -> None:
    """A fact of the call before the request is refused, and one after it is written."""
    result = ask(client, "I live in Paris. Scratch that, forget it. I live in Lyon.")
    assert [one.text for one in result] == ["The user lives in Lyon."]
    assert [(one.text, one.reason) for one in result.refused] == [
        ("The user lives in Paris.", "the user asks to forget it")
    ]
    assert list(known(client).values()) == ["The user lives in Lyon."]
    assert turns(client) == ["I live in Lyon."]


def test_history_and_the_note_on_the_change_go_too(client: Client) -> None:
    """A forgotten fact is gone below Earlier and in the journal, and the present one stays."""
    client.extract(session("I live in Paris."))
    client.extract(session("I moved to Lyon."))
    assert sum("Paris" in text for text in known(client).values()) == 2
    result = ask(client, "Forget that I lived in Paris.", "Forget that I live in Paris.")
    assert len(result.forgotten) == 3
    assert list(known(client).values()) == ["The user lives in Lyon."]
    assert turns(client) == ["I moved to Lyon."]


def test_a_change_and_a_request_of_one_call(client: Client) -> None:
    """The older entry moves below Earlier and is forgotten in the same transaction."""
    client.extract(session("I live in Paris."))
    result = ask(client, "I moved to Lyon. Please forget that I live in Paris.")
    assert [one.text for one in result] == ["The user lives in Lyon."]
    assert [one.content.split(": ")[-1] for one in result.forgotten] == [
        "The user lives in Paris.",
        "I live in Paris.",
    ]
    texts = list(known(client).values())
    assert "The user lives in Lyon." in texts
    assert "The user lives in Paris." not in texts


def test_a_request_without_a_match_is_told(client: Client) -> None:
    """The reply names the request, its message and the reason."""
    know(client, "The user lives in Turin.")
    result = ask(client, "Hi!", "Please forget my passport number.")
    [doubt] = result.to_forget
    assert (doubt.request, doubt.message, doubt.memories, doubt.reason) == (
        "Please forget my passport number.",
        1,
        (),
        "nothing known matches",
    )


def test_a_repeated_call_gets_the_kept_reply(client: Client) -> None:
    """With the same request id nothing is decided again, also if nothing was written."""
    one, two = know(client, "The user's car is a Saab.", "The user's car is in Rome.")
    said = session("Forget my car.")
    first = client.extract(said, request_id="r-1")
    assert proposed(first) == {one, two}
    client.forget(one)
    assert client.extract(said, request_id="r-1") == first
    assert set(known(client)) == {two}
    assert gone(client.extract(said, request_id="r-2")) == {two}
    assert client.extract(said, request_id="r-2").forgotten[0].id == two
    with pytest.raises(InvalidField):
        client.extract(session("Forget my dog."), request_id="r-1")


def test_only_what_the_caller_may_write_is_forgotten(tmp_path: Path) -> None:
    """A shared memory that the caller may only read stays, and the reason says so."""
    with serving(tmp_path, "--provider", "none") as daemon:
        with Client(daemon.address) as first:
            operator = first.create_key(operator=True).secret
        with Client(daemon.address, key=operator) as client:
            [shared] = know(client, "The user lives in Rome.")
            ana = client.create_key(
                user="ana", read=["viking://user/memories"], write=["viking://users/ana"]
            ).secret
            with Client(daemon.address, key=ana) as own:
                [mine] = know(own, "The user likes tea.", kind="preferences")
                result = own.extract(session("Forget that I live in Rome. Forget that I like tea."))
            assert gone(result) == {mine}
            [doubt] = result.to_forget
            assert (doubt.memories, doubt.reason) == (
                (),
                "the caller may not write the memory that matches",
            )
            assert shared in known(client)


def test_requests_act_with_a_model_and_need_none(tmp_path: Path) -> None:
    """The rules read the requests; the model's proposals that they mean are dropped."""
    with asking(tmp_path) as asked:
        [home] = know(asked.client, "The user lives in Rome.")
        tea = note("preferences", "The user likes tea.", 0)
        result = asked.extract(
            noted(tea, note("profile", "The user lives in Rome.", 0)),
            "I live in Rome and I like tea. Forget that I live in Rome.",
        )
        assert [one.text for one in result] == ["The user likes tea."]
        assert gone(result) == {home}
        result = asked.extract(noted(), "Forget that I like tea.")
        assert not asked.model.requests
        assert [one.content for one in result.forgotten] == ["The user likes tea."]


def test_a_commit_counts_the_messages_of_the_whole_session(client: Client) -> None:
    """The indices of requests in doubt are those of the session."""
    talk = Session()
    talk.add("user", "Hi!")
    client.commit(talk).result()
    talk.add("user", "Forget my passport number.")
    assert [one.message for one in client.commit(talk).result().to_forget] == [1]


# Turns of episodes.


def test_turns_that_say_it_are_forgotten(client: Client) -> None:
    """The turns of earlier calls go with the fact that they say; those of other facts stay."""
    know(client, "The user's sister's birthday is May 3.", kind="entities")
    client.extract(
        session(
            "My sister's birthday is May 3.",
            ("assistant", "Noted: your sister's birthday is May 3."),
            "My mother's birthday is May 9.",
            "I like tea.",
        )
    )
    result = ask(client, "Please forget my sister's birthday. What is a good gift?")
    assert [one.content.split(": ", 1)[-1] for one in result.forgotten] == [
        "The user's sister's birthday is May 3.",
        "My sister's birthday is May 3.",
        "Noted: your sister's birthday is May 3.",
    ]
    assert sorted(turns(client)) == [
        "I like tea.",
        "My mother's birthday is May 9.",
        "What is a good gift?",
    ]


def test_a_turn_that_no_fact_says_is_forgotten_by_its_words(client: Client) -> None:
    """One turn goes without doubt; several different ones are proposed."""
    client.extract(session("By the way, the code of my locker was changed to 7093 by the pool."))
    result = ask(client, "Forget the code of my locker.")
    assert len(result.forgotten) == 1
    assert turns(client) == []
    client.extract(
        session("The code of my locker at school is 1111.", "And I lost the code of my locker!")
    )
    result = ask(client, "Forget the code of my locker.")
    assert (len(gone(result)), len(proposed(result))) == (0, 2)


def test_a_long_turn_is_kept_but_for_the_sentences(client: Client) -> None:
    """Of the messages of the call itself only the sentences that say it are left out."""
    ask(
        client,
        "The bookcase is up. I live in Leeds. What wax is good for oak?",
        ("assistant", "Beeswax. You live in Leeds, so the shop is near."),
        "Forget that I live in Leeds. Thanks!",
    )
    assert turns(client) == ["The bookcase is up. What wax is good for oak?", "Beeswax.", "Thanks!"]
