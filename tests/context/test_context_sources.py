"""The sources of a context from a find, in less room than they need."""

from __future__ import annotations

from pathlib import Path

from vikingd.answer.context_sources import _of_find
from vikingd.answer.find_answer import find
from vikingd.domain.answers import Stage
from vikingd.domain.contexts import Draft
from vikingd.domain.find_query import FindQuery
from vikingd.domain.rights import LOCAL
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.plan.find_plan import compile_find


def test_a_hit_whose_passages_do_not_fit_is_a_whole_context(tmp_path: Path) -> None:
    """URIs take their room first: no hit is lost because a passage before it is long."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    drafts = [Draft(f"viking://resources/{i}.md", content=f"harbour {i} " * 300) for i in range(5)]
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()
    found = find(compile_find(engine, FindQuery("harbour", limit=5), LOCAL))
    sources = _of_find(engine, found, Stage("embed", 0.0, 0.0), 2000)
    uris = [found.snapshot.uri(hit.row) for hit in found.hits]
    assert list(dict.fromkeys(piece.uri for piece in sources.pieces)) == uris
    whole = [piece.uri for piece in sources.pieces if not piece.text]
    assert whole == uris[-len(whole) :]
    assert len(whole) > 1
    assert "0 results are left out" in sources.degraded[-1].detail
    engine.close()
