"""A batch whose caller goes away ends with the query at hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.answer.parts_helpers import NoDeadline, Store, fill, reader
from tests.patience import SECONDS
from vikingd.answer.find_hits import FindHits
from vikingd.domain.rights import CALLER
from vikingd.lanes.queues import HEAVY_THREADS
from vikingd.pb.retrieval_pb2 import BatchFindRequest, FindRequest
from vikingd.plan.find_plan import FindPlan
from vikingd.wire import retrieval_service


@pytest.mark.deep
def test_a_cancelled_batch_answers_no_further_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the cancellation no query of the batch is answered, except those at work."""
    store = Store(tmp_path)
    fill(store, 1, 0)
    begun, is_cancelled = threading.Event(), threading.Event()
    answered: list[int] = []
    find_all = retrieval_service.find_all

    def counted(plans: Sequence[FindPlan]) -> FindHits:
        answered.append(len(answered))
        begun.set()
        is_cancelled.wait(SECONDS)
        return find_all(plans)

    monkeypatch.setattr(retrieval_service, "find_all", counted)

    async def main() -> None:
        CALLER.set(reader("viking://"))
        request = BatchFindRequest(requests=[FindRequest(query="word")] * 200)
        batch = asyncio.create_task(store.service.BatchFind(request, NoDeadline()))  # type: ignore[arg-type]
        await asyncio.to_thread(begun.wait, SECONDS)
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        is_cancelled.set()
        # The next heavy call has the threads once the pieces of the first have ended.
        await store.service.BatchFind(
            BatchFindRequest(requests=[FindRequest(query="word")] * 40),
            NoDeadline(),  # type: ignore[arg-type]
        )

    try:
        asyncio.run(main())
    finally:
        store.close()
    assert len(answered) - 40 <= HEAVY_THREADS
