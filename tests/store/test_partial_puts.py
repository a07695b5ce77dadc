"""Puts of which the store writes all contexts that it does not refuse."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.store.store_helpers import CREATED, TWO, UPDATED, vector
from tests.store.write_helpers import DOCS, NOTES, TEA, put
from vikingd.domain import errors
from vikingd.domain.contexts import Draft, Prepared
from vikingd.domain.store_changes import Committed, PutOutcome, PutRefusal
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.masks import Masked
from vikingd.store import Store

pytestmark = pytest.mark.stores("both")

REFUSED = PutOutcome.REFUSED


def put_partly(store: Store, *drafts: Draft | PutRefusal) -> Committed:
    """Write what can be written of drafts."""
    contexts: list[Prepared | Masked | PutRefusal] = [
        draft
        if isinstance(draft, PutRefusal)
        else (prepare(draft) if draft.update_mask is None else Masked.of(draft))
        for draft in drafts
    ]
    return store.put(contexts, partial=True).result()


def test_each_refused_context_is_named_and_the_others_are_written(store: Store) -> None:
    """Every kind of refusal leaves the rest of its batch alone, in one commit."""
    put(store, Draft(f"{DOCS}/file.md", content="old"), Draft(f"{DOCS}/full.md", content="old"))
    first = store.get(f"{DOCS}/file.md").revision
    earlier = PutRefusal(1, "INVALID_FIELD", "metadata.a", "is nan")
    done = put_partly(
        store,
        Draft(NOTES, content="new"),
        earlier,
        Draft(f"{DOCS}/file.md", content="new", expected_revision=first + 7),
        Draft(f"{DOCS}/file.md/below/x.md", content="new"),
        Draft(f"{DOCS}/missing.md", title="T", update_mask=["title"]),
        Draft(f"{DOCS}/full.md"),
        Draft(f"{DOCS}/file.md", is_directory=True),
        Draft(f"{DOCS}/sound.md", content="new", expected_revision=0),
    )
    assert done.outcomes == (CREATED, *[REFUSED] * 6, CREATED)
    assert [(one.index, one.reason, one.field) for one in done.refusals] == [
        (1, "INVALID_FIELD", "metadata.a"),
        (2, "REVISION_DIFFERS", ""),
        (3, "INVALID_FIELD", "uri"),
        (4, "NOT_FOUND", ""),
        (5, "INVALID_FIELD", "content"),
        (6, "INVALID_FIELD", "uri"),
    ]
    assert f"{DOCS}/missing.md does not exist" in done.refusals[3].message
    assert {store.get(uri).revision for uri in (NOTES, f"{DOCS}/sound.md")} == {done.revision}
    assert [store.get(f"{DOCS}/{name}.md").content for name in ("file", "full")] == ["old"] * 2
    assert len(store.tree(DOCS, 0, "", 100)) == 4


def test_a_refused_context_sets_no_dimension(tmp_path: Path) -> None:
    """The first vector that is written sets the dimension, not that of a refused context."""
    with closing(Store(tmp_path, model="none", dimension=None)) as store:
        store.start(lambda *_: None)
        put(store, Draft(f"{DOCS}/dir", is_directory=True))
        done = put_partly(
            store,
            Draft(f"{DOCS}/dir", content="x", vector=vector(1, 0, 0)),
            Draft(TEA, content="x", vector=TWO),
        )
        assert done.outcomes == (REFUSED, CREATED)
        assert store.dimension == 2


def test_a_batch_of_refused_contexts_writes_nothing(store: Store) -> None:
    """A batch may be refused whole, and the next one is not touched by it."""
    done = put_partly(store, Draft(f"{DOCS}/a.md", title="T", update_mask=["title"]))
    assert (done.outcomes, done.revision) == ((REFUSED,), store.revision)
    with pytest.raises(errors.NotFound):
        store.get(DOCS)
    assert put_partly(store, Draft(TEA, content="x")).outcomes == (CREATED,)
    assert put_partly(store, Draft(TEA, content="y")).outcomes == (UPDATED,)


def test_a_lost_race_is_told_before_any_other_fault(store: Store) -> None:
    """A whole batch fails for its revision, also if an earlier context is at fault."""
    put(store, Draft(TEA, content="x"))
    with pytest.raises(errors.RevisionDiffers):
        put(
            store,
            Draft(f"{DOCS}/none.md", title="T", update_mask=["title"]),
            Draft(TEA, content="y", expected_revision=99),
        )
