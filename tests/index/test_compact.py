"""Compaction in depth-first order, and the resulting arrays."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import compact

from tests.kernels import naive
from tests.kernels.naive import walk
from tests.kernels.trees import build, shapes
from tests.tiers import examples
from vikingd.index.compaction import compacted
from vikingd.index.lexicon.tokens import as_titles, term_hash


@examples(25)
@given(shapes)
def test_a_new_base_is_the_tree_in_order(shape):
    """A new base is in depth-first order: the files of a directory, then its subdirectories."""
    world = build(shape)
    base, _, _ = compacted(world.snapshot)
    directories = list(walk(world.root))
    assert base.dir_id[1:].tolist() == [d.id for d in directories[1:]]
    assert base.file_id.tolist() == naive.order_files(world.root)
    assert base.text_id.tolist() == naive.order_texts(world.root)
    at = {d.id: i for i, d in enumerate(directories)}
    parents = [-1 if d.parent is None else at[d.parent.id] for d in directories]
    assert base.dir_parent.tolist() == parents
    assert base.dir_end.tolist() == [i + len(list(walk(d))) for i, d in enumerate(directories)]
    by_file = {f.id: naive.texts_of_files([f]) for f in naive.files_below(world.root)}
    for i, key in enumerate(base.file_id.tolist()):
        low, high = base.file_texts[i]
        assert base.text_id[low:high].tolist() == by_file[key]
    for i, directory in enumerate(directories):
        own = base.text_id[base.dir_texts[i] : base.dir_texts[i + 1]]
        assert own.tolist() == [t.id for t in naive.texts_in(directory)]
        names = base.dir_names[base.dir_name_at[i] : base.dir_name_at[i + 1]]
        assert names.tobytes().decode() == directory.name
        counts = [*naive.count_nodes(directory), *naive.count_texts(directory)]
        assert base.counts[i].tolist() == counts
        for script, slot in enumerate(base.mean_slot[i].tolist()):
            count, total = naive.sum_vectors(directory, script)
            assert (int(base.mean_count[slot]) if slot >= 0 else 0) == count
            if slot >= 0:
                np.testing.assert_allclose(base.mean[slot], total / count, atol=1e-6)
    world.close()


@examples(25)
@given(shapes)
def test_new_postings_are_those_of_the_living(shape):
    """A new base has the postings of base and tail by term and text, without deleted texts."""
    world = build(shape)
    base, _, _ = compacted(world.snapshot)
    wanted = {}
    for (term, titled), found in naive.merge_postings(world.root).items():
        key = np.array([term_hash(term)], np.uint64)
        wanted[int((as_titles(key) if titled else key)[0])] = found
    assert base.term_key.tolist() == sorted(wanted)
    for i, key in enumerate(base.term_key.tolist()):
        part = slice(int(base.term_at[i]), int(base.term_at[i + 1]))
        got = list(
            zip(base.posting_text[part].tolist(), base.posting_tf[part].tolist(), strict=True)
        )
        assert got == wanted[key]
    world.close()


@examples(50)
@given(st.lists(st.text(max_size=5), max_size=8), st.integers(0, 8), st.data())
def test_strings_are_gathered(strings, base, data):
    """Gathered strings of base and tail are in the order of the given rows."""
    row = st.integers(0, len(strings) - 1)
    rows = data.draw(st.lists(row)) if strings else []
    parts: list[np.ndarray] = []
    for part in (strings[:base], strings[base:]):
        coded = [s.encode() for s in part]
        parts.append(np.cumsum([0, *map(len, coded)]).astype(np.int64))
        parts.append(np.frombuffer(b"".join(coded), np.uint8).copy())
    bounds, out = compact.gather_strings(*parts, np.array(rows, np.int32))
    got = [out[a:b].tobytes().decode() for a, b in itertools.pairwise(bounds)]
    assert got == naive.gather_strings(strings, rows)


@examples(50)
@given(st.data(), st.integers(1, 12))
def test_counts_are_summed_up(data, size):
    """Every directory gets the sum of the counts in its subtree."""
    parents = [-1, *(data.draw(st.integers(0, i - 1)) for i in range(1, size))]
    counts = data.draw(st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=size, max_size=size))
    array = np.array(counts, np.int64)
    compact.sum_up(np.array(parents, np.int32), array)
    assert array.tolist() == naive.sum_up(parents, counts)


@examples(30)
@given(shapes)
def test_own_counts_are_of_a_directory_alone(shape):
    """The own counts of a directory are its texts, lengths, abstracts and texts by script."""
    world = build(shape)
    base, _, _ = compacted(world.snapshot)
    counts = compact.own_counts(
        base.text_dir, base.text_file, base.text_length, base.text_script, base.dir_parent
    )
    for i, directory in enumerate(walk(world.root)):
        texts, length, document, abstracts, scripts = naive.own_counts(directory)
        assert counts[i, [2, 3, 5, 6]].tolist() == [texts, length, document, abstracts]
        assert counts[i, 7:].tolist() == scripts
    assert Counter(base.text_dir.tolist()) == Counter(
        {i: int(n) for i, n in enumerate(counts[:, 2]) if n}
    )
    world.close()
