"""Comparisons of the second stage of a find with its plain twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import find as kernel
from viking_kernels.arrays import DENSE, FEEDBACK, FINAL, LEXICAL, TEXTS
from viking_kernels.scope import place

from tests.kernels import naive
from tests.kernels.naive import files_below
from tests.kernels.trees import LARGE, World, build, search, shapes
from tests.tiers import examples
from vikingd.index.snapshot import Snapshot

methods = st.sampled_from([kernel.EXACT, kernel.EXHAUSTIVE, kernel.BEST_FIRST])


def with_turns(world: World) -> tuple[Snapshot, dict[int, int]]:
    """Return the newest snapshot with random turns, and the turns by text id."""
    snapshot, tree = world.snapshot, world.snapshot.tree
    turn = (world.rng.random(len(tree.texts.turn)) < 0.2).astype(np.int32)
    first = snapshot.text_ordinal == 1
    turn[first] |= world.rng.integers(0, 3, int(first.sum())).astype(np.int32) << 1
    changed = replace(snapshot, tree=tree._replace(texts=tree.texts._replace(turn=turn)))
    living = tree.texts.tombstoned > snapshot.revision
    return changed, dict(zip(snapshot.text_id[living].tolist(), turn[living].tolist(), strict=True))


@examples(60)
@given(
    shapes,
    methods,
    st.integers(3, 12),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.2]),
    st.booleans(),
)
@example(LARGE, kernel.EXHAUSTIVE, 4, 9, 0.0, False)
@example(LARGE, kernel.BEST_FIRST, 4, 9, 0.0, True)
def test_the_second_stage_is_that_of_the_formulas(shape, method, adjusted, k, threshold, prefers):
    """The best files get the amounts of the twin, the others at most the least of their scores."""
    world = build(shape)
    snapshot, turns = with_turns(world)
    top, query = world.random_directory(), world.query()
    scope, _, _ = snapshot.scope(snapshot.find(top.uri))
    ends = scope.file_low, scope.file_high, scope.base_files
    plain = search(snapshot, top.uri, query, method)
    finals = dict(zip(plain.rows.tolist(), plain.parts[:, FINAL].tolist(), strict=True))
    told = dict(zip(plain.rows.tolist(), plain.parts[:, [LEXICAL, DENSE]].tolist(), strict=True))
    files = {file.id: file for file in files_below(top)}
    texts = {text.id: text for file in files.values() for text in file.texts}
    best_of = {
        row: texts.get(int(snapshot.text_id[text])) if text >= 0 else None
        for row, text in zip(plain.rows.tolist(), plain.best_text.tolist(), strict=True)
    }
    ordered = list(finals)
    last = finals[ordered[min(adjusted, len(ordered)) - 1]] if ordered else 0.0
    best = [row for row in ordered if finals[row] >= last]
    more = [row for row in ordered if world.rng.random() < 0.3]
    positions = sorted(place(row, *ends) for row in more)
    named = np.zeros(scope.file_high - scope.file_low + len(snapshot.file_id), np.uint8)
    named[positions] = 1
    factors = world.rng.choice([1.0, 0.8, 0.5], len(named)).astype(np.float32)
    of_kinds = {int(snapshot.file_id[row]): float(factors[place(row, *ends)]) for row in ordered}
    if not prefers:
        factors, of_kinds = np.zeros(0, np.float32), {}
    mean = naive.scope_centroids(top, world.prior.astype(float))
    whole = naive.find(top, query, world.prior.astype(float), gate=plain.gate)
    chosen = [row for row in ordered if row in best or row in more]
    expected = naive.adjust(
        [
            naive.Ranked(files[int(snapshot.file_id[row])], finals[row], best_of[row], *told[row])
            for row in chosen
        ],
        whole.scores,
        top,
        query,
        mean,
        turns,
        {int(snapshot.file_id[row]) for row in more},
        of_kinds,
    )
    found = search(
        snapshot,
        top.uri,
        query,
        method,
        k=k,
        threshold=threshold,
        adjusted=adjusted,
        named=named.tolist(),
        factors=factors.tolist(),
        more=positions,
    )
    scores = {row: expected[int(snapshot.file_id[row])][-1] for row in chosen}
    lowest = min((scores[row] for row in best), default=1.0)
    following = finals[ordered[len(best)]] if len(best) < len(ordered) else 0.0
    scale = min(1.0, lowest / following) if following else 1.0
    scores |= {row: scale * finals[row] for row in ordered if row not in scores}
    for row, parts in zip(found.rows.tolist(), found.parts, strict=True):
        if row in chosen:
            amounts = expected[int(snapshot.file_id[row])]
            assert parts[FEEDBACK:] == pytest.approx(amounts, abs=1e-5)
        else:
            assert not parts[FEEDBACK:FINAL].any()
            assert parts[FINAL] == pytest.approx(scores[row], abs=1e-5)
    returned = found.parts[:, FINAL]
    wanted = sorted((s for s in scores.values() if s > threshold), reverse=True)
    # A method of codes returns as many as wanted; the others were not looked at.
    assert len(returned) >= min(k, len([s for s in wanted if s > threshold + 1e-5]))
    n = min(k, len(returned))
    assert returned[:n] == pytest.approx(wanted[:n], abs=1e-5)
    assert (returned > threshold).all()
    world.close()


def test_results_do_not_depend_on_the_limit() -> None:
    """The first results of a larger limit are those of a smaller one."""
    world = build(replace(LARGE, steps=(25, 25, 25, 25)))
    snapshot, _ = with_turns(world)
    for _ in range(8):
        query = world.query()
        of = {
            k: search(snapshot, "viking://", query, kernel.EXHAUSTIVE, k=k, adjusted=8)
            for k in (1, 3, 5, 8, 40)
        }
        most = of[40].rows.tolist()
        assert world.snapshot.counts(0)[TEXTS] > 0
        for k in (1, 3, 5, 8):
            tied = of[k].parts[:, FINAL][k - 1 :]
            assert of[k].rows.tolist()[: k - 1] == most[: min(k, len(of[k].rows)) - 1][: k - 1]
            assert len(set(tied.tolist())) <= 1
    world.close()
