"""The choice of a tool by its description alone, as a model makes it before its first call.

The model is the packaged embedder, which is small: it knows how near two texts are in meaning, but
follows no thought. The descriptions were written with other tasks than these.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.mcp.test_mcp_tasks import TASKS
from vikingd.mcp.tool import DESCRIPTIONS
from vikingd.models.embed.e5 import E5

MEASURED = 16, 25
"""The tasks whose right tool comes first, and among the first two; by chance 2.7 and 5.3."""

SLACK = 2
"""The scores of two tools may be so near that another processor orders them otherwise."""


@pytest.mark.deep
def test_a_small_model_chooses_the_tool_by_the_descriptions() -> None:
    """The right tool is the first choice, and among the first two, in enough of the tasks."""
    embedder = E5(1)
    names = list(DESCRIPTIONS)
    # A task and a description are alike, so both are queries.
    described = np.array([embedder.embed_query(DESCRIPTIONS[name]) for name in names])
    ranks = []
    for task in TASKS:
        scores = described @ embedder.embed_query(task["task"])
        order = [names[at] for at in np.argsort(-scores)]
        ranks.append(order.index(task["tool"]))
    embedder.close()
    first, among_two = sum(rank == 0 for rank in ranks), sum(rank < 2 for rank in ranks)
    print(f"right first {first}, among the first two {among_two} of {len(TASKS)}")
    assert first >= MEASURED[0] - SLACK
    assert among_two >= MEASURED[1] - SLACK
