"""Writes that expect a revision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from tests.store.write_helpers import DOCS, NOTES, TEA, put
from vikingd.client import Client, ClientError, RevisionDiffers
from vikingd.client.messages import MessageClient
from vikingd.domain import errors
from vikingd.domain.contexts import Draft
from vikingd.domain.store_changes import PutOutcome
from vikingd.ingest.draft_preparation import prepare
from vikingd.store import Store

pytestmark = pytest.mark.stores("both")


def test_a_put_at_another_revision_writes_nothing(store: Store) -> None:
    """A put that expects another revision writes nothing, and its error names both revisions."""
    put(store, Draft(TEA, content="x", expected_revision=0))
    revision = store.get(TEA).revision
    for expected in (0, revision + 1):
        with pytest.raises(errors.RevisionDiffers) as caught:
            put(
                store,
                Draft(NOTES, content="y"),
                Draft(TEA, content="z", expected_revision=expected),
            )
        assert caught.value.metadata == {
            "uri": TEA,
            "expected_revision": str(expected),
            "revision": str(revision),
        }
    with pytest.raises(errors.NotFound):
        store.get(NOTES)
    with pytest.raises(errors.RevisionDiffers):
        put(store, Draft(NOTES, content="y", expected_revision=3))
    put(store, Draft(TEA, title="T", update_mask=["title"], expected_revision=revision))
    assert (store.get(TEA).content, store.get(TEA).title) == ("x", "T")


def test_writes_of_one_commit_see_each_others_revisions(tmp_path: Path) -> None:
    """The first of two writes with the same expected revision succeeds, even in one commit."""
    with closing(Store(tmp_path, model="none", dimension=None)) as store:
        batch = [prepare(Draft(TEA, content=text, expected_revision=0)) for text in "ab"]
        first, second = store.put(batch[:1]), store.put(batch[1:])
        store.start(lambda *_: None)
        assert first.result().outcomes == (PutOutcome.CREATED,)
        with pytest.raises(errors.RevisionDiffers):
            second.result()
        assert store.get(TEA).content == "a"


def test_move_and_delete_at_another_revision_do_nothing(store: Store) -> None:
    """A move or delete that expects another revision changes nothing."""
    put(store, Draft(DOCS, is_directory=True), Draft(f"{DOCS}/a.md", content="x"))
    revision = store.get(DOCS).revision
    put(store, Draft(f"{DOCS}/a.md", content="y"))
    assert store.get(DOCS).revision == revision
    for write in (
        lambda expected: store.move(DOCS, f"{DOCS}2", expected),
        lambda expected: store.delete([f"{DOCS}2"], expected),
    ):
        with pytest.raises((errors.RevisionDiffers, errors.NotFound)):
            write(revision + 99).result()
        revision = write(revision).result().revision
    assert [c.uri for c in store.tree("viking://resources", 0, "", 9)] == ["viking://resources"]


def test_delete_of_what_is_missing_can_be_allowed(store: Store) -> None:
    """With `allow_missing`, a delete removes the existing contexts only."""
    put(store, Draft(TEA, content="x"))
    with pytest.raises(errors.NotFound):
        store.delete([TEA, NOTES]).result()
    assert store.delete([TEA, NOTES], allow_missing=True).result().count == 1
    assert store.delete([TEA, NOTES], allow_missing=True).result().count == 0


@pytest.mark.deep_after(1)
def test_eight_threads_that_compare_and_set_count_right(typed: Client) -> None:
    """Concurrent compare-and-set updates from eight threads lose no increment."""
    typed.put([Draft(TEA, content="counter", metadata={"n": 0})])

    def count(_: int) -> None:
        done = 0
        while done < 10:
            now = typed.get(TEA)
            try:
                typed.put(
                    [
                        Draft(
                            TEA,
                            metadata={"n": now.metadata["n"] + 1},
                            update_mask=["metadata"],
                            expected_revision=now.revision,
                        )
                    ]
                )
            except RevisionDiffers:
                continue
            done += 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    after = typed.get(TEA)
    assert (after.metadata, after.content) == ({"n": 80}, "counter")


def test_a_client_error_tells_the_revisions(client: MessageClient) -> None:
    """The client error of a revision conflict has both revisions in its metadata."""
    client.put([Draft(TEA, content="x")])
    revision = client.get(TEA).context.revision
    with pytest.raises(ClientError) as caught:
        client.put([Draft(TEA, content="y", expected_revision=0)])
    assert caught.value.code is grpc.StatusCode.ABORTED
    assert caught.value.metadata == {
        "uri": TEA,
        "expected_revision": "0",
        "revision": str(revision),
    }
