"""A reader and a writer: real processes on one store, called over gRPC."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import numpy as np
import pytest

from tests.nodes.reader_helpers import ROOT, SMALL, answer, note, serving, uris, vector
from tests.patience import eventually
from vikingd.client import ClientError, Draft, Method
from vikingd.client.messages import MessageClient


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[MessageClient, MessageClient]]:
    """Yield clients of a writer and of a reader on a new store."""
    with serving(tmp_path, **SMALL) as writer, serving(tmp_path, "--reader") as reader:
        yield writer.client, reader.client


def test_a_reader_follows_within_a_fraction_of_a_second(
    pair: tuple[MessageClient, MessageClient],
) -> None:
    """A reader has each commit within a fraction of a second, and min_revision waits no longer."""
    writer, reader = pair
    lags, waits = [], []
    for number in range(20):
        writer.put([note(number)])
        lags.append(eventually(lambda n=number: f"{n}.md" in str(reader.find(f"word{n}", limit=1))))
        revision = writer.delete(note(number).uri).revision
        waits.append(eventually(lambda at=revision: reader.find("note", min_revision=at)))
    assert np.median(lags) < 0.3, lags
    assert np.median(waits) < 0.3, waits


@pytest.mark.parametrize("files", [6, pytest.param(25, marks=pytest.mark.deep)])
def test_what_was_acknowledged_holds_at_the_reader_with_its_revision(
    pair: tuple[MessageClient, MessageClient], files: int
) -> None:
    """A reader shows writes, moves, links and deletions at the acknowledged revision."""
    writer, reader = pair
    other = writer.put([note(1000, "other")]) and f"{ROOT}/0/other.md"
    for number in range(files):
        draft = note(number)
        at = writer.put([draft]).revision
        assert uris(reader.find(f"word{number}", limit=1, min_revision=at)) == [draft.uri]
        assert reader.get(draft.uri, min_revision=at).context.content == draft.content

        at = writer.link(draft.uri, other, "why").revision
        (match,) = reader.find(f"word{number}", limit=1, min_revision=at).resources
        assert [(r.uri, r.reason) for r in match.relations] == [(other, "why")]
        if number % 2:
            at = writer.unlink(draft.uri, other).revision
            (match,) = reader.find(f"word{number}", limit=1, min_revision=at).resources
            assert not match.relations

        moved = f"{ROOT}/moved/{number}.md"
        at = writer.move(draft.uri, moved).revision
        assert uris(reader.find(f"word{number}", limit=1, min_revision=at)) == [moved]
        listed = [c.uri for c in reader.list(f"{ROOT}/moved", min_revision=at)]
        assert moved in listed

        at = writer.delete(moved).revision
        found = reader.find(f"word{number}", vector=vector(number), limit=99, min_revision=at)
        assert moved not in uris(found)
        assert draft.uri not in uris(found)
        with pytest.raises(ClientError) as gone:
            reader.get(moved, min_revision=at)
        assert gone.value.reason == "NOT_FOUND"
        assert moved not in [c.uri for c in reader.tree(ROOT, min_revision=at)]
    report = reader.verify()
    assert report.ok, report.problems


def test_a_reader_refuses_every_write_and_says_where_the_writer_is(tmp_path: Path) -> None:
    """A refused write changes no context, and its error has the address of the writer."""
    with serving(tmp_path, "--writer-listen", "127.0.0.1:0") as writer:
        alone = writer.alone
        uri, other = note(1).uri, note(2).uri
        revision = writer.client.put([note(1), note(2)]).revision
        with (
            serving(
                tmp_path, "--reader", "--listen", writer.address, "--writer-listen", alone
            ) as shared,
            serving(tmp_path, "--reader", "--writer-listen", alone) as reader,
        ):
            assert shared.address == writer.address
            for write in (
                lambda c: c.put([note(3)]),
                lambda c: c.delete(uri),
                lambda c: c.move(uri, f"{ROOT}/x.md"),
                lambda c: c.link(uri, other, "why"),
                lambda c: c.unlink(uri, other),
                lambda c: c.optimize(),
                lambda c: c.reembed(),
            ):
                with pytest.raises(ClientError) as refused:
                    write(reader.client)
                assert refused.value.reason == "READ_ONLY"
                assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
                assert refused.value.metadata == {"writer": alone}
                assert alone in refused.value.message
            assert reader.client.stats().reader
            stats = writer.client.stats()
            assert not stats.reader
            assert stats.revision == revision


@pytest.mark.parametrize("turns", [1, pytest.param(8, marks=pytest.mark.deep)])
def test_a_killed_writer_is_followed_again_when_it_comes_back(tmp_path: Path, turns: int) -> None:
    """The reader answers while no writer runs, and follows the next writer after each kill."""
    options = ("--writer-listen", "127.0.0.1:0")
    with ExitStack() as stack:
        writer = stack.enter_context(serving(tmp_path, *options, **SMALL))
        where = ("--listen", writer.address)
        writer.client.put([note(number) for number in range(80)])
        reader = stack.enter_context(serving(tmp_path, "--reader", *where))
        for turn in range(1, turns + 1):
            word = f"word{1000 + turn}"
            revision = writer.client.put([note(1000 + turn)]).revision
            writer.kill()
            # The client connects here first, when no other process listens.
            found = reader.client.find(word, limit=1, min_revision=revision)
            assert uris(found) == [note(1000 + turn).uri]
            writer = stack.enter_context(serving(tmp_path, *where, *options, **SMALL))
            writer.client.delete(note(1000 + turn).uri)
            revision = writer.client.put([note(2000 + turn)]).revision
            found = reader.client.find("note", limit=99, min_revision=revision)
            assert note(2000 + turn).uri in uris(found)
            assert note(1000 + turn).uri not in uris(found)
        assert reader.client.stats().reader
        assert reader.client.verify().ok


def test_a_killed_reader_harms_nothing(
    pair: tuple[MessageClient, MessageClient], tmp_path: Path
) -> None:
    """A killed reader disturbs neither writer nor other readers, and a new one starts at once."""
    writer, reader = pair
    with serving(tmp_path, "--reader") as other:
        thread = threading.Thread(target=lambda: [writer.put([note(n)]) for n in range(50)])
        thread.start()
        other.kill()
        thread.join()
    revision = writer.put([note(60)]).revision
    assert uris(reader.find("word60", limit=1, min_revision=revision)) == [note(60).uri]
    with serving(tmp_path, "--reader") as third:
        assert uris(third.client.find("word60", limit=1)) == [note(60).uri]
        assert third.client.verify().ok
    assert writer.verify().ok


def test_a_reader_at_an_empty_store_learns_the_dimension(
    pair: tuple[MessageClient, MessageClient],
) -> None:
    """A reader of an empty store learns the dimension from the commit with the first vector."""
    writer, reader = pair
    assert not reader.find("nothing").resources
    revision = writer.put([Draft(f"{ROOT}/plain.md", content="without a vector")]).revision
    assert uris(reader.find("plain", min_revision=revision)) == [f"{ROOT}/plain.md"]
    revision = writer.put([note(number) for number in range(3)]).revision
    ours = answer(reader, 1, revision, Method.EXHAUSTIVE)
    assert ours == answer(writer, 1, revision, Method.EXHAUSTIVE)
    assert reader.stats().embedder.dimension == 16


def test_a_base_from_before_the_first_vector_is_passed_over(
    pair: tuple[MessageClient, MessageClient], tmp_path: Path
) -> None:
    """A reader that has vectors does not load a base from before the first vector."""
    writer, reader = pair
    writer.put([Draft(f"{ROOT}/plain.md", content="without a vector")])
    assert writer.optimize().generation == 1
    revision = writer.put([note(number) for number in range(3)]).revision
    assert reader.find("note", vector=vector(1), min_revision=revision).resources
    current = tmp_path / "index" / "CURRENT"
    again = current.with_name("again")
    again.write_text(current.read_text())
    again.rename(current)
    revision = writer.put([note(4)]).revision
    ours = answer(reader, 4, revision, Method.EXHAUSTIVE)
    assert ours == answer(writer, 4, revision, Method.EXHAUSTIVE)
    assert reader.verify().ok
