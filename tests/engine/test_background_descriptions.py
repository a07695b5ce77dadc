"""The background work that lets a model describe contexts, with a scripted model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.engine.describing_helpers import (
    NOTES,
    WORDLESS,
    Asked,
    answered,
    data_of,
    describing,
    finish,
    get,
    obedient,
    prose,
    put,
)
from tests.patience import eventually
from tests.scripted import Reply, Request
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField, NotFound
from vikingd.engine import (
    Engine,
    EngineSettings,
    Shared,
    description_queue,
    description_worker,
)
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.describe.describer_settings import DescriberSettings

MODEL = "scribe"
ABOVE = 3  # directories above a file in NOTES: NOTES, viking://resources and the root


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Yield a scripted model that describes by the words of the material, without pauses."""
    monkeypatch.setattr(description_queue, "PAUSE", 0.0)
    model = Asked()
    with model.server:
        yield model


def test_files_are_described_before_directories_and_once(asked: Asked, tmp_path: Path) -> None:
    """Each abstract is material of the next directory; nothing is asked again after a restart."""
    texts = {"tea/one.md": prose("tea"), "tea/two.md": prose("rye"), "three.md": prose("figs")}
    with describing(tmp_path, asked) as engine:
        put(engine, texts | {"short.md": "A short text."})
        finish(engine)
        kinds = [data_of(one)["kind"] for one in asked.server.requests]
        assert kinds == ["file"] * 3 + ["directory"] * (ABOVE + 1)
        assert asked.subjects()[3:] == [
            "one.md: It tells of Tea",
            "short.md: A short text.",
            "notes/: It tells of short.md: A short text.",
            "resources/: It tells of notes/: It tells of short.md: A short text.",
        ]
        assert get(engine, "tea").abstract == "It tells of one.md: It tells of Tea"
        assert get(engine, "tea/two.md").overview.startswith("- Rye\n")
        assert not get(engine, "short.md").overview
        assert engine.verify().ok
        state = engine.stats().describer
        assert (state.model, state.described, state.refused) == (MODEL, 7, 0)
        assert state.tokens_today > 7 * 500
    with describing(tmp_path, asked) as engine:
        finish(engine)
        again = engine.stats().describer
        assert (again.described, again.tokens_today) == (0, state.tokens_today)
        assert len(asked.server.requests) == 7


def test_a_change_makes_the_file_and_the_directories_above_it_stale(
    asked: Asked, tmp_path: Path
) -> None:
    """Other files and directories are not asked about; a changed file that is removed neither."""
    texts = {f"{name}/of.md": prose(name) for name in ("figs", "rye", "tea")}
    with describing(tmp_path, asked) as engine:
        put(engine, texts)
        finish(engine)
    first = len(asked.server.requests)
    with describing(tmp_path, asked) as engine:  # a start forgets who was asked a minute ago
        put(engine, {"figs/of.md": prose("dates")})
        finish(engine)
        assert [line.partition(":")[0] for line in asked.subjects()[first:]] == [
            *("# Dates", "of.md", "figs/", "notes/", "resources/")
        ]
    first = len(asked.server.requests)
    with describing(tmp_path, asked) as engine:
        engine.writable_store.delete([f"{NOTES}/figs/of.md"]).result()
        finish(engine)
        assert get(engine, "figs").abstract == ""  # it is empty now
        assert [line.partition(":")[0] for line in asked.subjects()[first:]] == [
            *("figs/", "notes/", "resources/")
        ]


def test_a_context_is_asked_about_once_a_minute(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long import does not describe its directories again and again."""
    monkeypatch.setattr(description_queue, "PAUSE", 60.0)
    with describing(tmp_path, asked) as engine:
        for number in range(20):
            put(engine, {f"{number}.md": prose(f"thing {number}")})
            eventually(lambda: get(engine, f"{number}.md").overview)  # noqa: B023
        eventually(lambda: engine.stats().describer.described >= 20 + ABOVE)
        kinds = [data_of(one)["kind"] for one in asked.server.requests]
        assert kinds.count("directory") <= ABOVE + 1
        assert kinds.count("file") == 20


def test_a_text_that_goes_while_the_model_is_asked_is_in_no_description(
    asked: Asked, tmp_path: Path
) -> None:
    """The answer about a directory is dropped if a file of its material is deleted meanwhile."""
    release = threading.Event()

    def slow(request: Request) -> Reply:
        if data_of(request)["kind"] == "directory":
            if release.is_set():
                return Reply({"error": "no"}, status=500)
            release.wait(30)
        return obedient(request)

    asked.answer = slow
    with describing(tmp_path, asked) as engine:
        put(engine, {"gone.md": prose("zanzibarium"), "stays.md": prose("wool")})
        eventually(lambda: [r for r in asked.server.requests if data_of(r)["kind"] == "directory"])
        engine.writable_store.delete([f"{NOTES}/gone.md"]).result()
        release.set()
        eventually(lambda: engine.stats().describer.last_error)
        kept = engine.store.get(NOTES)
        assert "zanzibarium" not in (kept.abstract + kept.overview).casefold()


def test_equal_texts_are_asked_about_once(asked: Asked, tmp_path: Path) -> None:
    """Copies share a description, in flight and later; those of another user do not."""
    release = threading.Event()

    def slow(request: Request) -> Reply:
        release.wait(30)
        return obedient(request)

    asked.answer = slow
    with describing(tmp_path, asked) as engine:
        put(engine, {f"{number}.md": prose("tea") for number in range(5)})
        eventually(lambda: asked.server.requests)
        release.set()
        finish(engine)
        put(engine, {"late.md": prose("tea")})
        eventually(lambda: get(engine, "late.md").overview)
        own = "viking://users/ana/resources/tea.md"
        engine.writable_store.put([prepare(Draft(own, content=prose("tea")))]).result()
        eventually(lambda: engine.store.get(own).overview)
        about = [data_of(one) for one in asked.server.requests]
        files = [one for one in about if one["kind"] == "file"]
        assert len(files) == 2
        assert all(one["uri"] == "" for one in files)
        assert len({get(engine, f"{number}.md").abstract for number in range(5)}) == 1


def test_what_a_person_wrote_stays(asked: Asked, tmp_path: Path) -> None:
    """A context with both texts by hand is not asked about, of another one only the missing one."""
    hand = partial(Draft, abstract="By hand.")
    with describing(tmp_path, asked) as engine:
        drafts = [
            hand(f"{NOTES}/both.md", content=prose("tea"), overview="Written by hand."),
            hand(f"{NOTES}/one.md", content=prose("rye")),
            hand(NOTES, is_directory=True, overview="Written by hand."),
        ]
        engine.writable_store.put([prepare(draft) for draft in drafts]).result()
        finish(engine)
        assert asked.subjects()[0] == "# Rye"
        assert [data_of(one)["uri"] for one in asked.server.requests] == ["", "resources", ""]
        both, one, top = get(engine, "both.md"), get(engine, "one.md"), get(engine)
        for context in (both, top):
            assert (context.abstract, context.overview) == ("By hand.", "Written by hand.")
        assert one.abstract == "By hand."
        assert one.overview.startswith("- Rye")
        assert engine.describe(NOTES, again=True, dry_run=True)[0] == 1


def test_memories_data_and_generated_files_are_not_described(asked: Asked, tmp_path: Path) -> None:
    """No word of a memory is in a question, so that a forgotten one is in no description."""
    with describing(tmp_path, asked) as engine:
        memories = "viking://user/memories/preferences.md"
        drafts = [
            Draft(memories, content="- Loves saffron.\n" * 200),
            Draft("viking://user/memories", is_directory=True, abstract="Likes saffron."),
            Draft(f"{NOTES}/rows.csv", content=prose("saffron"), metadata={"kind": "data"}),
            Draft(f"{NOTES}/made.py", content=prose("saffron"), metadata={"kind": "generated"}),
        ]
        engine.writable_store.put([prepare(draft) for draft in drafts[:2]]).result()
        finish(engine)
        assert asked.server.requests
        assert all("saffron" not in str(data_of(one)) for one in asked.server.requests)
        engine.writable_store.put([prepare(draft) for draft in drafts[2:]]).result()
        finish(engine)
        assert all(data_of(one)["kind"] == "directory" for one in asked.server.requests)


def inventing(_: Request) -> Reply:
    """Name a number and an address that no material has."""
    text = "It was read 4711 times, see https://evil.example/x."
    return answered({"abstract": text, "overview": text})


def obeying(_: Request) -> Reply:
    """Answer with anything but a description."""
    return answered("As you wish! All contexts are deleted now.")


def exceeding(request: Request) -> Reply:
    """Answer with more than may be stored."""
    line = data_of(request)["text"].splitlines()[0]
    return answered({"abstract": line * 200, "overview": line * 2000})


def refusing(_: Request) -> Reply:
    """Refuse to answer, as a filter before a model does."""
    choice = {"message": {"content": ""}, "finish_reason": "content_filter"}
    return Reply({"choices": [choice]})


def unreadable(_: Request) -> Reply:
    """Answer 400, as a model does that cannot take the text."""
    return Reply({"error": {"message": "too long"}}, status=400)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("answer", [inventing, obeying, exceeding, refusing, unreadable])
def test_what_cannot_be_used_is_not_stored_and_the_backlog_ends(
    answer: Callable[[Request], Reply],
    asked: Asked,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The extract stays, the others are described, and only a change or a request asks again."""
    monkeypatch.setattr(description_worker, "MIN_BACKOFF", 0.01)

    def script(request: Request) -> Reply:
        return answer(request) if "oolong" in data_of(request)["text"] else obedient(request)

    asked.answer = script
    with describing(tmp_path, asked) as engine:
        put(engine, {"bad.md": prose("oolong"), "good.md": prose("rye")})
        before = get(engine, "bad.md")
        finish(engine)
        after = get(engine, "bad.md")
        assert (after.abstract, after.overview) == (before.abstract, "")
        assert engine.store.described([after.uri]) == {}
        assert get(engine, "good.md").overview
        state = engine.stats().describer
        assert state.refused >= 1
        assert state.last_error == ""
        times = asked.subjects().count("# Oolong")
        put(engine, {"later.md": prose("figs")})
        eventually(lambda: get(engine, "later.md").overview)
        assert engine.describing is not None
        engine.describing.changed(None)  # it looks at all contexts again
        finish(engine)
        assert asked.subjects().count("# Oolong") == times
        asked.answer = obedient
        engine.describe(f"{NOTES}/bad.md")
        eventually(lambda: get(engine, "bad.md").overview)


@pytest.mark.deep
def test_a_model_that_is_away_is_tried_again_with_back_off(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stats tells the reason and the next attempt; writes go on; nothing is refused."""
    monkeypatch.setattr(description_worker, "MAX_BACKOFF", 0.05)
    monkeypatch.setattr(description_worker, "MIN_BACKOFF", 0.01)
    asked.answer = lambda _: Reply(status=503)
    with describing(tmp_path, asked) as engine:
        put(engine, {"first.md": prose("tea")})
        eventually(lambda: engine.stats().describer.last_error)
        state = engine.stats().describer
        assert "503" in state.last_error or "failed" in state.last_error
        assert state.retry_at is not None
        assert state.backlog == 1 + ABOVE
        eventually(lambda: len(asked.server.requests) > 10)  # of one context
        put(engine, {"more.md": prose("more")})
        assert engine.stats().describer.refused == 0
        asked.answer = obedient
        finish(engine)
        state = engine.stats().describer
        assert (state.described, state.refused, state.last_error) == (2 + ABOVE, 0, "")


@pytest.mark.deep
def test_a_slow_answer_ends_the_wait_for_it_alone(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context that is never answered in time is refused after some tries, the others are not."""
    monkeypatch.setattr(description_worker, "MIN_BACKOFF", 0.01)

    def slow(request: Request) -> Reply:
        data = data_of(request)
        if data["kind"] == "file" and "oolong" in data["text"]:
            return Reply(status=503, after=30.0)
        return obedient(request)

    asked.answer = slow
    asked.timeout = 0.5
    with describing(tmp_path, asked) as engine:
        put(engine, {"bad.md": prose("oolong")})
        finish(engine)
        state = engine.stats().describer
        assert state.refused == 1
        assert state.tokens_today > 3 * 500  # what is cut off is paid, too
        assert get(engine).overview  # the directories are described nevertheless


def test_the_tokens_of_a_day_are_not_exceeded(asked: Asked, tmp_path: Path) -> None:
    """The others wait for the next day, also after a restart, and Stats says so."""
    settings = DescriberSettings(tokens_per_day=10_000)
    texts = {f"{number}.md": prose(f"thing {number} ") * 6 for number in range(12)}
    with describing(tmp_path, asked, settings) as engine:
        put(engine, texts)
        eventually(lambda: engine.stats().describer.last_error)
        eventually(
            lambda: engine.stats().describer.described == len(asked.server.requests) > 1
        )  # none is in flight
        state = engine.stats().describer
        assert state.last_error.startswith("the limit tokens_per_day of 10,000 in [describer]")
        assert 5_000 < state.tokens_today <= 10_000
        assert state.backlog + state.described == 12 + ABOVE
        count = len(asked.server.requests)
    with describing(tmp_path, asked, settings) as engine:
        eventually(lambda: engine.stats().describer.last_error)
        assert engine.stats().describer.tokens_today == state.tokens_today
        assert len(asked.server.requests) == count
    with describing(tmp_path, asked, DescriberSettings(tokens_per_day=0)) as engine:
        finish(engine)
        assert len(asked.server.requests) == 12 + ABOVE


def test_a_stop_does_not_wait_for_the_model(asked: Asked, tmp_path: Path) -> None:
    """A model that hangs holds neither a write nor a stop, and what was asked is asked again."""
    asked.answer = lambda _: Reply(after=60.0)
    with describing(tmp_path, asked) as engine:
        put(engine, {f"{n}.md": prose(f"thing {n}") for n in range(9)})
        eventually(lambda: len(asked.server.requests) == 4)  # its most in flight
        began = time.monotonic()
        put(engine, {"more.md": prose("more")})
        assert time.monotonic() - began < 20
        began = time.monotonic()
    assert time.monotonic() - began < 20
    asked.answer = obedient
    with describing(tmp_path, asked) as engine:
        finish(engine)
        assert engine.stats().describer.described == 10 + ABOVE


def test_a_subtree_is_described_when_it_is_asked_for(asked: Asked, tmp_path: Path) -> None:
    """A dry run counts and asks nothing; `again` asks about what has a present description."""
    with describing(tmp_path, asked) as engine:
        put(engine, {"tea/a.md": prose("tea"), "tea-b.md": prose("rye"), "tea/c.md": "Short."})
        finish(engine)
        first = len(asked.server.requests)
        assert engine.describe(NOTES) == (0, 0)
        count, tokens = engine.describe(f"{NOTES}/tea", again=True, dry_run=True)
        assert count == 2
        assert 1_000 < tokens < 10_000
        finish(engine)
        assert len(asked.server.requests) == first
        assert engine.describe(f"{NOTES}/tea", again=True) == (count, tokens)
        finish(engine)
        assert asked.subjects()[first:] == ["# Tea", "a.md: It tells of Tea"]
        with pytest.raises(NotFound):
            engine.describe(f"{NOTES}/missing")


def test_without_a_model_nothing_happens(tmp_path: Path) -> None:
    """There is no thread and no read, and a request names the setting."""
    before = {thread.name for thread in threading.enumerate()}
    shared = Shared(WORDLESS)
    engine = Engine(EngineSettings(tmp_path, embedding=WORDLESS), shared=shared)
    try:
        assert engine.describing is None
        assert shared.describer is None
        put(engine, {"a.md": prose("tea")})
        new = {thread.name for thread in threading.enumerate()} - before
        assert not any(name.startswith("describe") for name in new)
        assert engine.stats().describer.model == ""
        with pytest.raises(InvalidField, match="VIKINGD_DESCRIBER__MODEL"):
            engine.describe(NOTES)
    finally:
        engine.close()
        shared.close()
