"""The terms of new texts and their postings, compared with a plain computation."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import postings as kernels
from viking_kernels import word_hash_table

from tests.kernels import naive
from tests.tiers import examples
from vikingd.index.lexicon import tail_postings as postings
from vikingd.index.lexicon import tokens, vocabulary
from vikingd.index.lexicon.vocabulary import Vocabulary

some = examples(50)

ALPHABET = "aB é1_.-,'(&#+:/@\\用中ー\u0301\u0661\u00a0\u3000\n\t\x1c\x1f\x00"
said = st.text(ALPHABET, max_size=30) | st.sampled_from(["the cat", "a cats' cat", "of", "E4102"])
texts = st.lists(st.tuples(said, said, said), max_size=6)
term = st.integers(1, 9) | st.integers(2**64 - 5, 2**64 - 2)
terms_of_texts = st.lists(st.lists(term, max_size=12), max_size=5)


def plain_hashes(parts):
    """Return the terms of one text, as verification does."""
    return np.frombuffer(b"".join(map(tokens.hashes, parts)), "<u8").tolist()


def divided(values, lengths):
    """Return the values of each text."""
    return (
        [part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])]
        if len(lengths)
        else []
    )


@some
@given(st.lists(texts, max_size=4))
def test_a_word_that_is_known_has_the_terms_that_it_had(batches):
    """A known word keeps its terms, for any number of repeats and any script."""
    known = Vocabulary()
    for batch in batches:
        parts = [tokens.parts(*text) for text in batch]
        found = divided(*known.hashes(parts))
        assert list(map(sorted, found)) == [sorted(plain_hashes(text)) for text in parts]


@pytest.fixture
def learned(monkeypatch):
    """Return a list that receives every text whose terms are computed."""
    said, make = [], tokens.hashes

    def hashes(text):
        said.append(text)
        return make(text)

    monkeypatch.setattr(tokens, "hashes", hashes)
    return said


@pytest.mark.parametrize(("limit", "most"), [("_KEPT_WORDS", 40), ("_KEPT_BYTES", 200)])
def test_a_vocabulary_that_is_full_begins_anew(monkeypatch, learned, limit, most):
    """A full vocabulary is emptied, and computes the same terms again."""
    monkeypatch.setattr(vocabulary, limit, most)
    known, counts = Vocabulary(), []
    for first in (0, 0, 20, 10, 40, 50, 0):
        text = (" ".join(f"w{i}" for i in range(1000 + first, 1020 + first)),)
        learned.clear()
        found = divided(*known.hashes([text]))
        counts.append(len(learned))
        assert found == [plain_hashes(text)]
    assert counts == [20, 0, 20, 0, 20, 20, 20]


def test_a_word_is_learned_once(learned):
    """A word is learned once, also after the table grew; texts without blanks are not kept."""
    known = Vocabulary()
    for i in range(200):
        known.hashes([(f"a{i} a{i // 2}",), ("一个很长的词",)])
    assert Counter(learned) == {"一个很长的词": 200, **{f"a{i}": 1 for i in range(200)}}


@some
@given(st.lists(st.binary(min_size=1, max_size=3), unique=True, max_size=20), st.data())
def test_words_are_found_by_their_bytes(said, data):
    """All known words are found in an almost full table, and unknown words are not."""
    new = [word for word in said if naive.words_of(word) == [word]]
    pieces = st.sampled_from([b" ", b"\x1d", b"nobody", b"(x", b"1,2", b"\x01f(", *said])
    texts = [b" ".join(text) for text in data.draw(st.lists(st.lists(pieces), max_size=5))]
    at = np.cumsum([0, *map(len, new)])
    table = word_hash_table.Words(
        np.full(1 << len(new).bit_length(), -1, np.int32),
        np.empty(len(new), np.uint64),
        at,
        np.frombuffer(b"".join(new), np.uint8).copy(),
        np.arange(len(new) + 1),
        np.arange(len(new), dtype=np.uint64),
    )
    word_hash_table.add_words(table, 0, len(new))
    assert [int(key) for key in table.keys] == [naive.key_of(word) for word in new]
    known = naive.add_words([], new)
    for word in [*new, b"unknown"]:
        number = word_hash_table.number_of(np.frombuffer(word, np.uint8), 0, len(word), table)
        assert number == naive.number_of(word, known)
    joined = b"".join(texts)
    bounds = np.cumsum([0, *map(len, texts)])
    found, counts, missing = word_hash_table.look_up(np.frombuffer(joined, np.uint8), bounds, table)
    expected = naive.look_up(texts, known)
    assert divided(found, counts) == expected
    lacking = [word for text in texts for word in naive.words_of(text) if word not in known]
    assert [joined[start:end] for _, start, end in missing.tolist()] == lacking
    assert missing[:, 0].tolist() == np.flatnonzero(found < 0).tolist()
    if not lacking:
        got = divided(*word_hash_table.terms_of(found, counts, table))
        assert got == naive.terms_of(expected, [[i] for i in range(len(new))])


def test_words_of_one_hash_are_told_apart():
    """Two words with the same hash keep their own terms."""
    table = word_hash_table.Words(
        np.array([1, 0], np.int32),
        np.full(2, naive.key_of(b"ab"), np.uint64),
        np.array([0, 2, 4]),
        np.frombuffer(b"abcd", np.uint8).copy(),
        np.arange(3),
        np.arange(2, dtype=np.uint64),
    )
    table.slots[:] = (1, 0) if naive.key_of(b"ab") % 2 == 0 else (0, 1)
    found, _, _ = word_hash_table.look_up(np.frombuffer(b"ab", np.uint8), np.array([0, 2]), table)
    assert found.tolist() == [0]


def made(texts, first):
    """Return the postings from the kernel."""
    terms = np.array([term for text in texts for term in text], np.uint64)
    return kernels.grouped(terms, np.array(list(map(len, texts)), np.int64), first)


def shown(found):
    """Return postings in the form of the plain twins."""
    packed = [(int(p) >> 16, int(p) & 0xFFFF) for p in found.packed.tolist()]
    bounds = found.at.tolist()
    return {
        key: packed[start:end]
        for key, start, end in zip(found.keys.tolist(), bounds, bounds[1:], strict=False)
    }


@some
@given(terms_of_texts, st.integers(0, 2**31 - 10))
def test_postings_are_grouped_by_term(texts, first):
    """Postings ascend by term, then by text, each with its frequency."""
    got, expected = shown(made(texts, first)), naive.grouped(texts, first)
    assert list(got.items()) == list(expected.items())


def test_a_count_is_kept_in_16_bits():
    """A frequency above 65,535 saturates, and does not change the row."""
    assert shown(made([[7] * 70_000, [7]], 3)) == {7: [(3, 65_535), (4, 1)]}


@some
@given(st.lists(terms_of_texts, max_size=12), st.lists(term, max_size=4), st.booleans())
def test_levels_hold_all_postings(commits, asked, small):
    """Levels hold all postings after any merges, and older levels stay the same."""
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(postings, "_SMALL", 6)
            patch.setattr(postings, "_MIDDLE", 20)
        levels, expected, first = postings.EMPTY, {}, 0
        before = []
        for texts in commits:
            before.append((levels, list(map(shown, levels))))
            levels = postings.added(levels, made(texts, first))
            expected = naive.merged(expected, naive.grouped(texts, first))
            first += len(texts)
    for older, was in before:
        assert list(map(shown, older)) == was
    assert shown(postings.as_one(levels)) == expected
    bounds, rows, counts = kernels.of_terms(np.array(asked, np.uint64), levels)
    got = [
        list(zip(rows[a:b].tolist(), counts[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(bounds)
    ]
    assert got == naive.of_terms(asked, list(map(shown, levels)))
    assert got == [expected.get(key, []) for key in asked]


def test_the_terms_of_titles_are_postings():
    """Each title term has a posting with the number of the title's terms."""
    found = postings.of_titles([(9, 4, 2), (5, 4, 2), (9, 6, 1)])
    assert shown(found) == {5: [(4, 2)], 9: [(4, 2), (6, 1)]}


@given(st.integers(0, 127))
def test_blanks_are_those_of_python(byte):
    """Blanks of the kernel are the ASCII characters at which `str.split` splits."""
    assert word_hash_table.is_blank(byte) == naive.is_blank(byte)
    assert word_hash_table.may_be_digit(byte) == naive.may_be_digit(byte)


@given(st.binary(min_size=1, max_size=4), st.data())
def test_a_word_ends_where_the_twin_says(text, data):
    """Of the signs in a text, a comma between digits is in a word."""
    at = data.draw(st.integers(0, len(text) - 1))
    start = data.draw(st.integers(0, at))
    got = word_hash_table.ends_word(np.frombuffer(text, np.uint8), at, start, len(text))
    assert got == naive.ends_word(text, at, start)


@pytest.mark.parametrize(
    ("text", "learned_words"),
    [
        ('request.getHeader("X-Foo").isPresent();', ["request.getHeader", "X-Foo", "isPresent"]),
        ("1,250,000 and a,b or 'quoted'", ["1,250,000", "and", "a", "b", "or", "quoted"]),
        ("see (C++, F#): R&D/x.", ["see", "C++", "F#", "R&D/x"]),
        ("\x01operator() (a\x01b(c", ["\x01operator()", "a\x01b(c"]),
        ("- .. ::", []),
    ],
)
def test_signs_that_join_nothing_are_in_no_word(learned, text, learned_words):
    """Code has few words that are not known, since they are divided at its signs."""
    found = divided(*Vocabulary().hashes([(text,)]))
    assert learned == learned_words
    assert found == [plain_hashes((text,))]
