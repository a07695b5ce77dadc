"""Costly writes: the limits of their work, and the waiting time of other writers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.daemons import serving
from tests.patience import SECONDS
from tests.store.store_helpers import ONE, directory, file
from vikingd.client import Overloaded as ClientOverloaded
from vikingd.client import TooLarge as ClientTooLarge
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import Overloaded, TooLarge
from vikingd.ingest import markdown
from vikingd.ingest.abstracts import derive_abstract, derive_title
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.passages import split
from vikingd.lanes.call_pools import Threads
from vikingd.pb import contexts_pb2
from vikingd.store import Store, writer
from vikingd.store import store_writes as stores
from vikingd.wire import put_preparation

pytestmark = pytest.mark.stores

TOP = "viking://resources/top"

HOSTILE = {
    "lazy lines of nested quotations": ("> " * 15 + "a\n", "b\n" * 20),
    "lazy lines of quotations and lists": ("> - " * 9 + "a\n", "b\n" * 20),
    "lazy lines of nested lists": ("- " * 9 + "a\n", "b\n" * 20),
}
FOREVER: Any = SimpleNamespace(left=lambda: None)  # the deadline of a call without one
BRACKETS = ["[", "![", "[a][", "<![CDATA["]


def seconds(content: str) -> float:
    """Return the processor time of the preparation of a Markdown file."""
    before = time.process_time()
    prepare(Draft("viking://resources/a.md", content=content))
    return time.process_time() - before


@pytest.mark.parametrize(("start", "unit"), HOSTILE.values(), ids=HOSTILE.keys())
def test_nested_markdown_takes_steps_in_its_length(start: str, unit: str) -> None:
    """The parser refuses deeply nested Markdown as too costly."""
    content = (start + unit) * (40_000 // len(start + unit))
    with pytest.raises(markdown.TooCostly):
        markdown.blocks(content, 0, lambda _start, _end: True)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(("start", "unit"), HOSTILE.values(), ids=HOSTILE.keys())
def test_markdown_that_is_too_costly_is_cut_as_plain_text(start: str, unit: str) -> None:
    """Markdown that is too costly is split as plain text, and no word of it is lost."""
    content = "An introduction of more than some few words, as prose has them.\n\n" + (
        start + unit
    ) * (40_000 // len(start + unit))
    passages = split(content, "a.md")
    assert [(p.start, p.end) for p in passages] == [(p.start, p.end) for p in split(content, "a")]
    assert " ".join(content[p.start : p.end] for p in passages).split() == content.split()
    assert derive_title(content, "a.md") == ""
    assert derive_abstract(content, "a.md").startswith(
        "An introduction of more than some few words, as prose has them."
    )
    (first, *others) = markdown.outline(content, 0)
    assert (
        content[first.start : first.end]
        == "An introduction of more than some few words, as prose has them."
    )
    assert all(part.item < 0 and not part.level for part in others)


@pytest.mark.deep
def test_a_large_file_takes_no_more_steps_than_a_second_has() -> None:
    """The parser refuses 150,000 list items as too costly, and parses 20,000."""
    list_of_words = "- a word of a list\n" * 60_000
    with pytest.raises(markdown.TooCostly):
        markdown.blocks("- a\n" * 150_000, 0, lambda _start, _end: True)
    assert markdown.blocks(list_of_words[: 19 * 20_000], 0, lambda _start, _end: True)


@pytest.mark.parametrize(
    "content",
    [
        "- tea\n- cat\n" * 500,
        "1. one word\n   - and another\n     > said\n" * 500,
        "# Title\n\n## Part\n\nWords.\n\n" * 500,
        "| a | b |\n|---|---|\n" + "| c | d |\n" * 1000,
    ],
)
def test_dense_documents_are_still_parsed(content: str) -> None:
    """The parser accepts short items, nested items, many headings and many table rows."""
    assert markdown.blocks(content, 0, lambda _start, _end: True)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("sign", BRACKETS)
def test_headings_of_brackets_cost_no_more_than_emphasis(sign: str) -> None:
    """Headings of unclosed brackets take no longer than headings with emphasis."""
    heading = "# " + sign * (4000 // len(sign)) + "\n\n"
    plain = "# " + "*a b* " * (4000 // 6) + "\n\n"
    assert seconds(heading * 8) < 2 * seconds(plain * 8) + 0.1


def test_headings_do_not_multiply_with_the_passages_below_them() -> None:
    """Long headings above thousands of short passages do not multiply the size of the texts."""
    above = "".join(f"{'#' * level} {'heading ' * 15}\n\n" for level in range(1, 6))
    content = above + "".join(f"###### x{i}\n\nw\n\n" for i in range(4000))
    texts = prepare(Draft("viking://resources/a.md", content=content)).texts
    assert sum(len(text.text) for text in texts) <= 17 * len(content)
    few = above + "###### Short\n\nWords of a passage.\n"
    (text, *_) = prepare(Draft("viking://resources/a.md", content=few)).texts[-1:]
    assert text.section in text.text


# The daemon


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a daemon."""
    with serving("--provider", "none") as where:
        yield where


@pytest.mark.deep
def test_a_small_put_does_not_wait_for_a_large_one(address: str) -> None:
    """Small Puts complete while a large Put is in preparation."""
    unit = "> " * 15 + "a\n" + "b\n" * 20
    large = [Draft(f"{TOP}/large{i}.md", content=unit * (250_000 // len(unit))) for i in range(14)]
    with MessageClient(address, timeout=120) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.put, large)
        others = 0
        while not waiting.done():
            client.put([Draft(f"{TOP}/small{others}.md", content="- tea\n- cat\n" * 80)])
            others += 1
        assert len(waiting.result().outcomes) == 14
    assert others >= 3  # a Put that waited for the large one would complete only once


def test_more_preparation_than_may_wait_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Excess preparations are refused with a time to retry, and later requests find room again."""
    held, begun = threading.Event(), threading.Event()

    def slow(draft: Draft, _ask: Any) -> Any:
        begun.set()
        held.wait(30)
        return prepare(Draft(draft.uri, content="words"))

    monkeypatch.setattr("vikingd.ingest.draft_preparation.prepare", slow)
    threads = Threads()
    queue = put_preparation.Preparing(threads)
    request = contexts_pb2.PutRequest(
        contexts=[contexts_pb2.ContextInput(uri=f"{TOP}/a.txt", content="words " * 340_000)]
    )

    async def run() -> None:
        calls = [asyncio.create_task(queue.contexts(request, None, FOREVER)) for _ in range(40)]
        while not begun.is_set():
            await asyncio.sleep(0.01)
        refused = [call for call in calls if call.done()]
        assert 1 <= len(refused) < 40
        for call in refused:
            with pytest.raises(Overloaded) as caught:
                call.result()
            assert caught.value.retry_after > 0
        held.set()
        for call in calls:
            if call not in refused:
                assert len(await call) == 1
        assert len(await queue.contexts(request, None, FOREVER)) == 1

    asyncio.run(run())
    threads.shutdown()


def put_of(name: str, words: int, count: int = 1) -> contexts_pb2.PutRequest:
    """Return a Put of files in the directory `name`, each with so many words."""
    return contexts_pb2.PutRequest(
        contexts=[
            contexts_pb2.ContextInput(uri=f"{TOP}/{name}/{i}.txt", content="word " * words)
            for i in range(count)
        ]
    )


def test_a_small_put_has_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small Put is prepared during a slice of a large one."""
    begun, small_came = threading.Event(), threading.Event()
    came_meanwhile: list[bool] = []

    def watched(draft: Draft, _ask: Any) -> Any:
        if "/small/" in draft.uri:
            small_came.set()
        else:
            begun.set()
            came_meanwhile.append(small_came.wait(SECONDS))
        return prepare(Draft(draft.uri, content="words"))

    monkeypatch.setattr("vikingd.ingest.draft_preparation.prepare", watched)
    threads = Threads()
    queue = put_preparation.Preparing(threads)

    async def run() -> None:
        large = asyncio.create_task(queue.contexts(put_of("large", 100_000), None, FOREVER))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        await queue.contexts(put_of("small", 2000), None, FOREVER)
        await large

    asyncio.run(run())
    threads.shutdown()
    assert came_meanwhile == [True]


def test_large_puts_take_turns_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large Put waits for one slice of another large one, not for all of its contexts."""
    order: list[str] = []

    def costly(draft: Draft, _ask: Any) -> Any:
        order.append(draft.uri.removeprefix(f"{TOP}/"))
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        return prepare(Draft(draft.uri, content="words"))

    monkeypatch.setattr("vikingd.ingest.draft_preparation.prepare", costly)
    threads = Threads()
    queue = put_preparation.Preparing(threads)

    async def run() -> None:
        await asyncio.gather(
            queue.contexts(put_of("first", 20_000, 4), None, FOREVER),
            queue.contexts(put_of("second", 20_000), None, FOREVER),
        )

    asyncio.run(run())
    threads.shutdown()
    assert order == ["first/0.txt", "second/0.txt", *(f"first/{i}.txt" for i in (1, 2, 3))]


# The store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store that is not started."""
    with closing(Store(tmp_path / "data", model="none", dimension=None)) as made:
        yield made


def test_a_subtree_too_large_for_one_call_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large subtree is refused with count and limit; its parts can be moved and deleted."""
    store.start(lambda _changes, _revision: None)
    monkeypatch.setattr("vikingd.store.writes.subtrees.MAX_MOVE", 20)
    monkeypatch.setattr("vikingd.store.writes.subtrees.MAX_DELETE", 30)
    store.put([file(f"{TOP}/{i}/{j}", "words") for i in range(4) for j in range(4)]).result()
    before = store.revision
    with pytest.raises(TooLarge, match=r"21 contexts, one call moves at most 20"):
        store.move(TOP, f"{TOP}2").result()
    with pytest.raises(TooLarge, match=r"21 contexts and at least 1\d .* removes at most 30"):
        store.delete([TOP, f"{TOP}/1"]).result()
    assert store.revision == before
    assert store.move(f"{TOP}/1", f"{TOP}2/1").result().count == 5
    assert store.delete([f"{TOP}/0", f"{TOP}/2"]).result().count == 10


def test_one_file_is_never_too_large(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single large context is accepted, because it has no parts."""
    store.start(lambda _changes, _revision: None)
    monkeypatch.setattr("vikingd.store.writes.subtrees.MAX_MOVE", 20)
    monkeypatch.setattr("vikingd.store.writes.subtrees.MAX_DELETE", 20)
    monkeypatch.setattr(stores, "MAX_PUT", 20)
    many = file(f"{TOP}/many", "line\n" * 100)
    store.put([many]).result()
    assert store.move(f"{TOP}/many", f"{TOP}/other").result().count == 1
    assert store.delete([f"{TOP}/other"]).result().count == 1
    with pytest.raises(TooLarge, match=r"2 contexts with 101 .* at most 20"):
        store.put([many, file(f"{TOP}/few", "line")]).result()


def test_vectors_of_a_large_subtree_are_dropped_in_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors are dropped in parts of whole contexts, and each vector is dropped once."""
    changed: list[str] = []
    store.start(
        lambda changes, _revision: changed.extend(getattr(change, "uri", "") for change in changes)
    )
    monkeypatch.setattr("vikingd.store.writes.vector_writes._MOST_VECTORS", 5)
    one = b"\0\0\x80?\0\0\0\0"  # of length 1
    files = [file(f"{TOP}/{i}", "a\nb\n", vector=one) for i in range(9)]
    store.put([directory(TOP, abstract="all", vector=one), *files]).result()
    store.fill([(waiting.text_id, one) for waiting in store.backlog(100)]).result()
    texts = [text for context in store.scan() for text in context.texts]
    vectors = sum(bool(text.vector and text.embeddable) for text in texts)
    total, last, parts = 0, "", 0
    changed.clear()
    while True:
        done = store.drop_vectors("viking://", last).result()
        total, last, parts = total + done.count, done.last, parts + 1
        if not last:
            break
    assert total == vectors == len(store.backlog(100)) > 10
    assert parts >= total // 5
    assert changed == sorted(set(changed))


def test_more_writes_than_may_wait_are_refused_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue refuses writes above its limit of contexts and passages, and writes the others."""
    monkeypatch.setattr(writer, "MAX_WAITING", 50)
    futures = [store.put([file(f"{TOP}/{i}", "a\nb\nc\n")]) for i in range(30)]
    refused = [future for future in futures if future.done()]
    size = 1 + 3  # the context and its passages
    assert len(futures) - len(refused) == 50 // size
    for future in refused:
        with pytest.raises(Overloaded, match="limit is 50") as caught:
            future.result()
        assert caught.value.retry_after > 0
    # The daemon's own writes are never refused.
    own = [store.touch({1: 1}) for _ in range(50)] + [store.fill([(1, ONE)] * 60)]
    store.start(lambda _changes, _revision: None)
    for future in own:
        future.result()
    assert all(future.result().revision for future in futures if future not in refused)
    store.put([file(f"{TOP}/again", "a\n" * 100)]).result()  # the queue has room again


def test_a_group_ends_where_its_texts_are_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of writes ends where its contexts and passages reach the limit of a commit."""
    monkeypatch.setattr(writer, "_MAX_GROUP_SIZE", 50)
    futures = [store.put([file(f"{TOP}/{i}", "a\n" * 40)]) for i in range(6)]
    store.start(lambda _changes, _revision: None)
    assert len({future.result().revision for future in futures}) == 3


@pytest.mark.deep
def test_a_large_subtree_is_removed_in_parts(address: str, ctl_on: Any) -> None:
    """Vikingctl removes a large subtree in parts; Move and Delete refuse it with the limit."""
    top = f"{TOP}/subtree"
    with MessageClient(address, timeout=120) as client:
        for part in range(27):
            client.put(
                [Draft(f"{top}/deep{part % 3}/{part}/{i}", content="words") for i in range(1000)]
            )
        with pytest.raises(ClientTooLarge, match=r"27,0\d\d contexts.* 20,000"):
            client.move(top, f"{top}2")
        with pytest.raises(ClientTooLarge):
            client.delete(top)
        code, out, _ = ctl_on(address, "rm", "-r", "--yes", top)
        assert code == 0
        assert "removed 27," in out
        assert [context.uri for context in client.list(TOP) if context.uri == top] == []
    assert ClientOverloaded.__doc__


@pytest.fixture
def ctl_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs vikingctl and returns exit code, stdout and stderr."""
    from vikingd.ctl import main

    def run(where: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("VIKINGCTL_ADDRESS", where)
        monkeypatch.setattr("sys.argv", ["vikingctl", *arguments])
        monkeypatch.setenv("GRPC_VERBOSITY", "ERROR")  # vikingctl would set it for good
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run
