"""Plain twins of the kernels: each by its name, in float64, straight from the formulas.

What a kernel does with rows, ranges and chains is done here with objects that point to each other.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Row = TypeVar("Row")

SCRIPTS = 8
ENOUGH = 30
PRIOR_WEIGHT = 5.0
DENSE_WEIGHT = 0.5
PARENT_WEIGHT = 0.5
NEIGHBOUR_WEIGHT = 0.2
ICC_FULL = 0.25
SAMPLE_FILES = 2048
K1 = 1.2
B = 0.75
LEAST_BEST = 0.2
TITLE = 0.1
NEGLIGIBLE = 1e-4
CODES_TELL = 0.1


@dataclass(eq=False)
class Text:
    """An abstract or a passage; `terms` are in order, with repeats."""

    id: int
    script: int
    terms: list[str]
    vector: F64 | None


@dataclass(eq=False)
class File:
    """A file with its texts by ordinal."""

    id: int
    uri: str
    name: str
    parent: Directory
    texts: list[Text] = field(default_factory=list)
    title: frozenset[str] = frozenset()  # its terms


@dataclass(eq=False)
class Directory:
    """A directory; `parent` is None for the root of the tree."""

    id: int
    uri: str
    name: str
    parent: Directory | None
    abstract: Text | None = None
    files: dict[str, File] = field(default_factory=dict)
    directories: dict[str, Directory] = field(default_factory=dict)


@dataclass
class Query:
    """A query; `vector` of any length, `terms` with how often each was said."""

    vector: F64 | None
    script: int
    terms: Mapping[str, float]
    use_dense: bool = True
    use_lexical: bool = True


# The tree


def walk(top: Directory) -> Iterator[Directory]:
    """A directory and all below it, depth-first, by name."""
    yield top
    for _, child in sorted(top.directories.items()):
        yield from walk(child)


def files_in(directory: Directory) -> list[File]:
    """The files right in a directory, by name."""
    return [file for _, file in sorted(directory.files.items())]


def files_below(top: Directory) -> list[File]:
    """All files below a directory."""
    return [file for directory in walk(top) for file in files_in(directory)]


def texts_in(directory: Directory) -> list[Text]:
    """A directory's abstract and the texts of its files."""
    own = [directory.abstract] if directory.abstract else []
    return own + [text for file in files_in(directory) for text in file.texts]


def texts_below(top: Directory) -> list[Text]:
    """All texts below a directory, its own abstract included."""
    return [text for directory in walk(top) for text in texts_in(directory)]


def document(directory: Directory) -> list[str]:
    """The terms of a directory as a document: its texts and the abstracts of its directories."""
    below = [child.abstract for child in directory.directories.values() if child.abstract]
    return [term for text in texts_in(directory) + below for term in text.terms]


# quantize


def quantize_rows(raw: F64) -> tuple[npt.NDArray[np.int64], F64, F64]:
    """(codes, scales, lengths of what they leave out)."""
    codes = np.zeros(raw.shape, np.int64)
    scale, error = np.zeros(len(raw)), np.zeros(len(raw))
    for i, row in enumerate(raw):
        scale[i] = max((abs(x) for x in row), default=0.0) / 127
        if scale[i] > 0:
            codes[i] = [round(x / scale[i]) for x in row]
        error[i] = math.dist(row, scale[i] * codes[i])
    return codes, scale, error


# scope: rows are low..high - 1 of the base, then base, base + 1, ... of the tail


def place(row: int, low: int, high: int, base: int) -> int:
    """Where a row stands among the scope's."""
    return [*range(low, high), *range(base, max(base, row) + 1)].index(row)


def row_at(position: int, low: int, high: int, base: int) -> int:
    """The row at a position."""
    return [*range(low, high), *range(base, base + position + 1)][position]


def directory_inside(directory: int, top: Directory) -> bool:
    """Whether a directory of that id is alive below `top`."""
    return directory in {d.id for d in walk(top)}


def tail_directories(tail: Sequence[int], top: Directory) -> list[bool]:
    """Which of these directories are."""
    return [directory_inside(d, top) for d in tail]


def list_files(chain: Sequence[int], alive: Collection[int]) -> list[int]:
    """The living files of a directory, in the order of its chain."""
    return [file for file in chain if file in alive]


def next_file(chain: Sequence[int], at: int, alive: Collection[int]) -> int:
    """The first living one of chain[at:], -1 for none."""
    return next((file for file in chain[at:] if file in alive), -1)


def previous_file(chain: Sequence[int], at: int, alive: Collection[int]) -> int:
    """The last living one of chain[: at + 1], -1 for none."""
    return next((file for file in reversed(chain[: at + 1]) if file in alive), -1)


# select


def push_smallest(values: Iterable[float], k: int) -> list[float]:
    """The k largest values, rising."""
    return sorted(sorted(values, reverse=True)[:k])


def above(scores: Sequence[float], first: int, limit: float) -> list[int]:
    """Which of the next 64 scores are above a limit, as far as there are so many."""
    return [i for i, score in enumerate(scores[first : first + 64]) if score > limit]


def lowest(mask: int) -> int:
    """The number of the lowest bit that is 1."""
    return next(i for i in range(64) if mask >> i & 1)


def best_positions(scores: Sequence[float], k: int) -> list[int]:
    """The k best that are not below 0, ties by position."""
    return sorted((i for i, s in enumerate(scores) if s >= 0), key=lambda i: (-scores[i], i))[:k]


def sort_rising(values: Sequence[int]) -> list[int]:
    """Rising, each as often as before."""
    return sorted(values)


def best_rows(scores: Sequence[float], k: int, threshold: float) -> list[int]:
    """The k best above the threshold and all as good as the last of them, ties by position."""
    able = [i for i, score in enumerate(scores) if score > threshold]
    kept = [i for i in able if sum(scores[j] > scores[i] for j in able) < k]
    return sorted(kept, key=lambda i: (-scores[i], i))


# bm25


def postings(texts: Sequence[Text], term: str) -> list[tuple[int, int]]:
    """(position, tf) of the texts that have a term."""
    counted = [(i, text.terms.count(term)) for i, text in enumerate(texts)]
    return [(i, tf) for i, tf in counted if tf]


def lower_bound(values: Sequence[int], low: int, high: int, wanted: int) -> int:
    """First index in [low, high) whose value is not below `wanted`."""
    return next((i for i in range(low, high) if values[i] >= wanted), high)


def idf(documents: float, df: float) -> float:
    """Lucene's."""
    return math.log(1 + (documents - df + 0.5) / (df + 0.5))


def norm_of(average: float) -> tuple[float, float]:
    """What a text's tf is weighed against: (whatever its length, for each term of it)."""
    return K1 * (1 - B), K1 * B / average


def gain(tf: int, length: int, weight: float, level: float, slope: float) -> float:
    """What a term adds to the score of a text that has it `tf` times."""
    return weight * tf / (tf + level + slope * length)


def bm25(documents: Mapping[int, list[str]], terms: Mapping[str, float]) -> dict[int, float]:
    """BM25 of each document over the ideal."""
    average = max(1.0, sum(map(len, documents.values())) / max(1, len(documents)))
    counted = {key: Counter(words) for key, words in documents.items()}
    gains = {
        term: weight * idf(len(documents), sum(term in words for words in counted.values()))
        for term, weight in terms.items()
    }
    scores = {}
    for key, words in counted.items():
        norm = norm_of(average)
        score = sum(gain(words[t], len(documents[key]), w, *norm) for t, w in gains.items())
        scores[key] = score / sum(gains.values()) if gains else 0.0
    return scores


def score_scope(
    top: Directory, terms: Mapping[str, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """(scores of texts, of directories) by id."""
    texts = {text.id: text.terms for text in texts_below(top)}
    return bm25(texts, terms), bm25({d.id: document(d) for d in walk(top)}, terms)


def ranges_of(
    postings_of: Iterable[Sequence[tuple[int, int]]], low: int, high: int
) -> list[list[tuple[int, int]]]:
    """The postings of each term that are of the texts [low, high)."""
    return [[p for p in postings if low <= p[0] < high] for postings in postings_of]


def is_crowded(ranges: Sequence[tuple[int, int]], size: int) -> bool:
    """Whether there is more than one posting to sixteen scores."""
    return 16 * sum(last - first for first, last in ranges) > size


def forget(lexical: Sequence[float]) -> list[float]:
    """No text has a score."""
    return [0.0 for _ in lexical]


# words and postings of new texts


def is_blank(byte: int) -> bool:
    """Where `str.split` divides ASCII."""
    return not chr(byte).split()


def key_of(word: bytes) -> int:
    """FNV-1a of 64 bits, its upper half mixed into the lower."""
    key = 0xCBF29CE484222325
    for byte in word:
        key = (key ^ byte) * 0x100000001B3 % 2**64
    return key ^ key >> 32


def number_of(word: bytes, known: Sequence[bytes]) -> int:
    """Where a word stands among the known ones, -1 where it does not."""
    return known.index(word) if word in known else -1


def add_words(known: Sequence[bytes], new: Sequence[bytes]) -> list[bytes]:
    """The words that are known then, by number."""
    return [*known, *new]


def look_up(texts: Sequence[bytes], known: Sequence[bytes]) -> list[list[int]]:
    """The numbers of the words of each text."""
    return [[number_of(word, known) for word in split_at_blanks(text)] for text in texts]


def split_at_blanks(text: bytes) -> list[bytes]:
    """The words of a text."""
    spaced = bytes(32 if byte < 128 and is_blank(byte) else byte for byte in text)
    return [word for word in spaced.split(b" ") if word]


def terms_of(numbers: Sequence[Sequence[int]], terms: Sequence[Sequence[int]]) -> list[list[int]]:
    """The terms of the words of each text."""
    return [[term for number in text for term in terms[number]] for text in numbers]


def grouped(texts: Sequence[Sequence[int]], first: int) -> dict[int, list[tuple[int, int]]]:
    """(row, count) of the texts that have a term, by term."""
    return {
        term: [(first + i, text.count(term)) for i, text in enumerate(texts) if term in text]
        for term in sorted({term for text in texts for term in text})
    }


def merged(
    older: Mapping[int, list[tuple[int, int]]], newer: Mapping[int, list[tuple[int, int]]]
) -> dict[int, list[tuple[int, int]]]:
    """All postings of both."""
    return {term: older.get(term, []) + newer.get(term, []) for term in sorted({*older, *newer})}


def of_terms(
    keys: Sequence[int], levels: Sequence[Mapping[int, list[tuple[int, int]]]]
) -> list[list[tuple[int, int]]]:
    """The postings of each term, of all levels."""
    return [[posting for level in levels for posting in level.get(key, [])] for key in keys]


# dense


def to_int8(x: F64) -> tuple[list[int], float, float]:
    """(codes, step, length of what they leave out)."""
    if not x.any():
        return [0] * len(x), 0.0, 0.0
    step = max(abs(x)) / 127
    codes = [round(float(value) / step) for value in x]
    return codes, step, math.dist(x, [step * code for code in codes])


def code_means(mean: F64) -> list[tuple[list[int], float, float, float]]:
    """(codes, step, what they leave out, length) of each mean."""
    return [(*to_int8(row), float(np.linalg.norm(row))) for row in mean]


def products_int8(
    code: Sequence[int], direction: Sequence[int], mean: Sequence[int]
) -> tuple[int, int]:
    """Both scalar products."""
    return (
        sum(int(a) * int(b) for a, b in zip(code, direction, strict=True)),
        sum(int(a) * int(b) for a, b in zip(code, mean, strict=True)),
    )


def multiply_codes(
    codes: Iterable[Sequence[int]], direction: Sequence[int], mean: Sequence[int]
) -> list[tuple[int, int]]:
    """Both scalar products of each."""
    return [products_int8(code, direction, mean) for code in codes]


def against(query: Query, mean: F64, script: int) -> tuple[float, float]:
    """(direction . m', 1 + |m'|^2) of a script."""
    centre = mean[script]
    return float(direction_of(query, mean) @ centre), 1 + float(centre @ centre)


def centred(x: F64, direction: F64, mean: F64) -> tuple[float, float]:
    """(x - mean) . direction and the square of what is left of x."""
    return float((x - mean) @ direction), float((x - mean) @ (x - mean))


def cosine(x: F64, mean: F64, direction: F64) -> float:
    """max(0, cos(direction, x - mean)), 0 where nothing of x is left."""
    difference = x - mean
    length = math.sqrt(difference @ difference)
    return 0.0 if length <= NEGLIGIBLE else min(max(0.0, direction @ difference / length), 1.0)


def raw_cosine(text: Text, query: Query, mean: F64) -> float:
    """Dense of a text, 0 without a vector."""
    if text.vector is None:
        return 0.0
    return cosine(text.vector, mean[text.script], direction_of(query, mean))


def coded_parts(
    code: Sequence[int], scale: float, query: Query, mean: F64, script: int
) -> tuple[float, float]:
    """What `clipped` takes, of what codes stand for, as if the text's were of unit length."""
    x, centre = scale * np.array(code), mean[script]
    direction = direction_of(query, mean)
    above = decoded(direction) @ x - direction @ centre
    return float(above), 1 - 2 * float(decoded(centre) @ x) + float(centre @ centre)


def parts_of_code(
    code: Sequence[int], scale: float, query: Query, mean: F64, script: int
) -> tuple[float, float]:
    """The same of one code, which is all that a twin knows."""
    return coded_parts(code, scale, query, mean, script)


def decoded(x: F64) -> F64:
    """What the int8 code of a vector stands for."""
    codes, step, _ = to_int8(x)
    return step * np.array(codes)


def clipped(above: float, square: float) -> float:
    """max(0, above / sqrt(square)), 0 where nothing is left."""
    return 0.0 if square <= NEGLIGIBLE**2 else min(max(0.0, above / math.sqrt(square)), 1.0)


def bounded_cosine(
    above: float, square: float, above_off: float, square_off: float
) -> tuple[float, float]:
    """(a cosine, how far it can come off, by trying)."""
    steps = np.linspace(-1, 1, 21)
    told = clipped(above, square)
    return told, max(
        abs(clipped(above + a * above_off, square + c * square_off) - told)
        for a, c in itertools.product(steps, steps)
    )


def most_cosine(above: float, square: float, above_off: float, square_off: float) -> float:
    """The most that a cosine can come to, by trying."""
    steps = np.linspace(-1, 1, 21)
    return max(
        clipped(above + a * above_off, square + c * square_off)
        for a, c in itertools.product(steps, steps)
    )


def only_language(vectors_of: Mapping[int, int]) -> int:
    """The script of all vectors, given how many there are of each; -1 for several or none."""
    present = [script for script, count in vectors_of.items() if count]
    return present[0] if len(present) == 1 else -1


def directory_coded(
    code: Sequence[int], scale: float, square: float, query: Query, mean: F64, script: int
) -> float:
    """About the dense of a directory, from the code of its mean and the square of its length."""
    above, unit = parts_of_code(code, scale, query, mean, script)
    return clipped(above, unit - 1 + square)


def directory_dense(directory: Directory, direction: F64, mean: F64) -> float:
    """Dense of the sum of all x - m' below."""
    embedded = [text for text in texts_below(directory) if text.vector is not None]
    total = sum((t.vector - mean[t.script] for t in embedded), np.zeros(len(direction)))
    length = float(np.linalg.norm(total))
    if length <= NEGLIGIBLE * len(embedded):
        return 0.0
    return min(max(0.0, float(direction @ total) / length), 1.0)


def scope_means(top: Directory, prior: F64) -> F64:
    """[SCRIPTS, dim] m': of the nearest directory with 30 vectors, else of all and the prior."""
    out = prior.copy()
    for script in range(SCRIPTS):
        place: Directory | None = top
        found: list[F64] = []
        while place is not None:
            found = [
                t.vector for t in texts_below(place) if t.script == script and t.vector is not None
            ]
            place = None if len(found) >= ENOUGH else place.parent
        if len(found) >= ENOUGH:
            out[script] = np.mean(found, axis=0)
        elif found:
            total = np.sum(found, axis=0) + PRIOR_WEIGHT * prior[script]
            out[script] = total / (len(found) + PRIOR_WEIGHT)
    return out


def direction_of(query: Query, mean: F64) -> F64:
    """(q - m) / |q - m|; zeros where there is none."""
    if query.vector is None:
        return np.zeros(mean.shape[1])
    centred = query.vector / np.linalg.norm(query.vector) - mean[query.script]
    length = float(np.linalg.norm(centred))
    return centred / length if length > NEGLIGIBLE else np.zeros(mean.shape[1])


def prepare(query: Query, mean: F64) -> tuple[F64, F64]:
    """(direction, its products with the means)."""
    direction = direction_of(query, mean)
    return direction, mean @ direction


# texts


def foreign(script: int, query_script: int) -> bool:
    """Whether two scripts differ, 0 being none."""
    return len({script, query_script} - {0}) == 2


def dense_weight(lexical_missing: bool, use_dense: bool, use_lexical: bool) -> float:
    """w: all to the part that is there."""
    if not use_dense:
        return 0.0
    return 1.0 if lexical_missing or not use_lexical else DENSE_WEIGHT


def run_end(scripts: Sequence[int], start: int, high: int, most: int) -> int:
    """Where those end that are the same as the first, at most so many."""
    same = itertools.takewhile(lambda s: s == scripts[start], scripts[start:high])
    return start + len(list(itertools.islice(same, most)))


def own_of_text(text: Text, query: Query, mean: F64, lexical: float) -> float:
    """The own score of a text."""
    missing = foreign(text.script, query.script)
    w = dense_weight(missing, query.use_dense and query.vector is not None, query.use_lexical)
    return w * raw_cosine(text, query, mean) + (1 - w) * (0.0 if missing else lexical)


def score_codes(
    text: Text, code: tuple[Sequence[int], float, float], query: Query, mean: F64, lexical: float
) -> float:
    """The own score of a text from the code of its vector: (code, scale, length left out).

    From its vector where the code leaves more than CODES_TELL of it open.
    """
    missing = foreign(text.script, query.script)
    w = dense_weight(missing, query.use_dense and query.vector is not None, query.use_lexical)
    words = 0.0 if missing else lexical
    if w == 0 or text.vector is None:
        return (1 - w) * words
    above, square = parts_of_code(code[0], code[1], query, mean, text.script)
    if w * left_open(above, square, code[2], query, mean[text.script]) > CODES_TELL:
        return own_of_text(text, query, mean, lexical)
    return w * clipped(above, square) + (1 - w) * words


def left_open(above: float, square: float, left: float, query: Query, mean: F64) -> float:
    """The most that a cosine from codes can be off: above / sqrt(square), each of them off."""
    _, _, direction_left = to_int8(direction_of(query, mean[None].repeat(SCRIPTS, axis=0)))
    _, _, mean_left = to_int8(mean)
    above_off = direction_left + left * (1 + direction_left)
    square_off = 2 * (mean_left + left * (float(np.linalg.norm(mean)) + mean_left))
    if above + above_off <= 0:
        return 0.0
    if square_off > square / 2 or square - square_off <= NEGLIGIBLE**2:
        return 1.0
    return (above_off + (abs(above) + above_off) * square_off / square) / math.sqrt(square)


def code_of(text: Text) -> tuple[Sequence[int], float, float]:
    """What `score_codes` takes."""
    if text.vector is None:
        return [], 0.0, 0.0
    (code,), (scale,), (left,) = quantize_rows(text.vector[None])
    return code.tolist(), float(scale), float(left)


def bound_scores(
    text: Text, query: Query, mean: F64, lexical: float, weights: tuple[float, float]
) -> float:
    """The least that a bound of the weighted sum may be."""
    score, _, _ = weighted_sum(text, query, mean, lexical, weights)
    return score


def own_from_code(
    text: Text, code: tuple[Sequence[int], float, float], query: Query, mean: F64, lexical: float
) -> float:
    """The same, where it stands in the tail."""
    return score_codes(text, code, query, mean, lexical)


def own_of_file(file: File, own: Mapping[int, float]) -> tuple[float, int]:
    """(own score, id of the best text, -1 none) from those of texts; of equal ones the first."""
    best = max(file.texts, key=lambda text: own[text.id], default=None)
    return (own[best.id], best.id) if best else (0.0, -1)


def best_passages(file: File, own: Mapping[int, float], count: int) -> list[int]:
    """Ids of the best passages above 0; the first text of a file is its abstract."""
    able = [text for text in file.texts[1:] if own[text.id] > 0]
    return [text.id for text in sorted(able, key=lambda text: -own[text.id])[:count]]


# hierarchy


def sample_directories(top: Directory, files: int, key: Mapping[int, int]) -> list[Directory]:
    """The directories whose hash is in the share that the sample takes."""
    share = 1.0 if files <= SAMPLE_FILES else SAMPLE_FILES / files
    return [d for d in walk(top) if share == 1.0 or key[d.id] / 2**64 < share]


def intraclass_correlation(groups: Iterable[Sequence[float]]) -> float:
    """ICC(1) by analysis of variance, in [0, 1]; 1 where it can't be told."""
    filled = [group for group in groups if len(group)]
    total = sum(map(len, filled))
    if len(filled) < 2 or total == len(filled):
        return 1.0
    overall = sum(map(sum, filled)) / total
    means = [sum(group) / len(group) for group in filled]
    between = sum(len(g) * (m - overall) ** 2 for g, m in zip(filled, means, strict=True))
    within = sum((x - m) ** 2 for g, m in zip(filled, means, strict=True) for x in g)
    msb, msw = between / (len(filled) - 1), within / (total - len(filled))
    n0 = (total - sum(len(g) ** 2 for g in filled) / total) / (len(filled) - 1)
    if msb + (n0 - 1) * msw <= 1e-12:
        return 1.0
    return min(max((msb - msw) / (msb + (n0 - 1) * msw), 0.0), 1.0)


def gate_of(icc: float) -> float:
    """Return the gate in float32, so that the order of the icc's sums cannot change it."""
    return 0.0 if (gate := float(np.float32(1 - icc / ICC_FULL))) < 1e-9 else gate


def directory_scores(
    top: Directory, query: Query, mean: F64, lexical: Mapping[int, float]
) -> dict[int, tuple[float, float, float, float]]:
    """(dense, lexical, dense weight, own) of directories by id."""
    direction = direction_of(query, mean)
    use_dense = query.use_dense and query.vector is not None
    out = {}
    for directory in walk(top):
        missing = all(foreign(text.script, query.script) for text in texts_below(directory))
        missing = missing and query.script != 0
        w = dense_weight(missing, use_dense, query.use_lexical)
        dense = directory_dense(directory, direction, mean) if w > 0 else 0.0
        words = 0.0 if missing else lexical[directory.id]
        out[directory.id] = (dense, words, w, w * dense + (1 - w) * words)
    return out


def root_weight(top: Directory, parent_weight: float) -> float:
    """B below the scope's root."""
    return parent_weight if top.abstract else 0.0


def propagate(
    top: Directory, own: Mapping[int, float], parent_weight: float, below_root: float
) -> dict[int, float]:
    """Final scores of directories by id."""
    final = {top.id: own[top.id]}
    for directory in walk(top):
        b = below_root if directory is top else parent_weight
        for child in directory.directories.values():
            final[child.id] = (1 - b) * own[child.id] + b * final[directory.id]
    return final


def settle(top: Directory, directory: Directory) -> set[int]:
    """The ids of the directories whose scores are exact after that: it and those above it."""
    return {d.id for d in walk(top) if f"{directory.uri}/".startswith(f"{d.uri}/")} | {top.id}


def smooth(own: float, before: float, after: float, share: float) -> float:
    """The weighted mean of a score and of its neighbours', where they are there (not below 0)."""
    parts = [(1.0, own)] + [(share, x) for x in (before, after) if x >= 0]
    return sum(w * x for w, x in parts) / sum(w for w, _ in parts)


def with_neighbours(file: File) -> tuple[int, int, int]:
    """Ids of a file, of the one before and of the one after it, -1 none."""
    ids = [-1, *(f.id for f in files_in(file.parent)), -1]
    at = ids.index(file.id)
    return ids[at], ids[at - 1], ids[at + 1]


def score_titles(top: Directory, terms: Collection[str]) -> dict[int, float]:
    """What their titles add to the files below `top`, by id; without a text none is found."""
    out = {}
    for file in files_below(top):
        share = len(file.title & set(terms)) / len(file.title) if file.title else 0.0
        out[file.id] = TITLE * share**2 if file.texts else 0.0
    return out


def forget_titles(titles: Sequence[float]) -> list[float]:
    """No file has a score."""
    return [0.0 for _ in titles]


def final_score(smoothed: float, above: float, weight: float, title: float) -> float:
    """A file's, at most 1."""
    return min(1.0, (1 - weight) * smoothed + weight * above + title)


def finals_in(
    directory: Directory,
    own: Mapping[int, float],
    weights: tuple[float, float, float],
    titles: Mapping[int, float],
) -> dict[int, float]:
    """Final scores of a directory's files by id; `weights` are b, c, the directory's own final."""
    b, share, above = weights
    out = {}
    for file in files_in(directory):
        _, *around = with_neighbours(file)
        parts = [(1.0, own[file.id])] + [(share, own[i]) for i in around if i >= 0]
        smoothed = sum(w * x for w, x in parts) / sum(w for w, _ in parts)
        out[file.id] = final_score(smoothed, above, b, titles[file.id])
    return out


def finals_below(
    top: Directory,
    own: Mapping[int, float],
    weights: tuple[float, float, float],
    above: Mapping[int, float],
    titles: Mapping[int, float],
) -> dict[int, float]:
    """The same below `top`; `weights` are b, b below the root, c."""
    out = {}
    for directory in walk(top):
        b = weights[1] if directory is top else weights[0]
        out |= finals_in(directory, own, (b, weights[2], above[directory.id]), titles)
    return out


def texts_of_files(files: Iterable[File]) -> list[int]:
    """Ids of the texts of files."""
    return [text.id for file in files for text in file.texts]


# walk


def none_yet(k: int) -> tuple[int, list[float], list[int]]:
    """(how many are wanted, the best, the candidates)."""
    return k, [], []


def code_directory(directory: Directory, coded: Mapping[int, float]) -> list[float]:
    """Own scores from codes of the directory's texts."""
    return [coded[text.id] for text in texts_in(directory)]


def score_files(
    directory: Directory, own: Mapping[int, float]
) -> tuple[dict[int, tuple[float, int]], int]:
    """(own score and best text of the files right in a directory, the number of their texts)."""
    files = files_in(directory)
    return {f.id: own_of_file(f, own) for f in files}, sum(len(f.texts) for f in files)


def push_queue(
    queue: Sequence[int], position: int, final: Sequence[float] | Mapping[int, float]
) -> list[int]:
    """The queue, best first, with one more."""
    return sorted([*queue, position], key=lambda p: (-final[p], p))


def pop_queue(queue: Sequence[int]) -> tuple[int, list[int]]:
    """(the best one, the others)."""
    return queue[0], list(queue[1:])


def queue_children(directory: Directory, seen: Collection[int]) -> set[int]:
    """Ids of the directories right below that were not queued before."""
    return {child.id for child in directory.directories.values()} - set(seen)


def offer_files(top: Sequence[float], values: Iterable[float], k: int) -> tuple[list[float], bool]:
    """(the k largest that are above 0, rising; whether they are others than before)."""
    now = push_smallest([*top, *(v for v in values if v > 0)], k)
    return now, now != list(top)


def reach_all(finals: Mapping[int, float], directories: Iterable[Directory]) -> dict[int, float]:
    """The largest of the final scores of the files right in each."""
    return {d.id: best_in(finals[f.id] for f in files_in(d)) for d in directories}


def open_all(ranges: Mapping[int, tuple[float, float]], k: int) -> set[int]:
    """Those that may be among the k best and above 0, of (least, most) by id."""
    able = {key for key, (_, most) in ranges.items() if most > 0}
    return {key for key in able if sum(ranges[other][0] > ranges[key][1] for other in able) < k}


def ranges_in(
    directory: Directory,
    own: Mapping[int, tuple[float, float]],
    weights: tuple[float, float, float],
    titles: Mapping[int, float],
) -> dict[int, tuple[float, float]]:
    """(least, most) final scores of a directory's files, from those of their own scores.

    Every final score is the least when all own scores are, and the most likewise.
    """
    low, high = (
        finals_in(directory, {key: ends[i] for key, ends in own.items()}, weights, titles)
        for i in (0, 1)
    )
    return {key: (low[key], high[key]) for key in low}


def open_directory(
    directory: Directory,
    own: Mapping[int, float],
    weights: tuple[float, float, float],
    titles: Mapping[int, float],
    top: Sequence[float],
    k: int,
) -> tuple[bool, float, int]:
    """(whether the k best changed, the best own score with its title's, texts) when opened."""
    scored, texts = score_files(directory, own)
    owns = {key: value for key, (value, _) in scored.items()}
    _, changed = offer_files(top, finals_in(directory, owns, weights, titles).values(), k)
    return changed, best_in(value + titles[key] for key, value in owns.items()), texts


def best_in(own: Iterable[float]) -> float:
    """The largest, at least 0."""
    return max(own, default=0.0)


def best_first(
    starts: Sequence[int],
    nodes: Mapping[int, tuple[float, Sequence[int], Sequence[float], Sequence[float]]],
    weight: float,
    limits: tuple[int, int, int, int],
) -> tuple[list[int], int, int]:
    """(positions in the order of opening, rounds, why it stopped).

    Args:
        starts: positions of directories, the scope's root last.
        nodes: of each position its final score, its children, its files' own scores with what
            their titles add, and its files' final scores.
        weight: b.
        limits: k, directories a round, patience, most.
    """
    k, in_round, patience, most = limits
    final = {position: node[0] for position, node in nodes.items()}
    queue = sorted(set(starts), key=lambda p: (-final[p], p))
    seen = set(queue)
    opened: list[int] = []
    top: list[float] = []
    best_own, rounds, quiet = 0.0, 0, 0
    while True:
        if not queue:
            return opened, rounds, 1
        if len(opened) >= most:
            return opened, rounds, 2
        if quiet >= patience:
            return opened, rounds, 0
        reach = (1 - weight) * best_own + weight * final[queue[0]]
        if starts[-1] in opened and weight > 0 and len(top) == k and reach < top[0]:
            return opened, rounds, 3
        rounds += 1
        changed = False
        for _ in range(min(in_round, most - len(opened))):
            if not queue:
                break
            position, queue = pop_queue(queue)
            opened.append(position)
            _, children, own, finals = nodes[position]
            best_own = max(best_own, best_in(own))
            top, got_in = offer_files(top, finals, k)
            changed = changed or got_in
            for child in children:
                if child not in seen:
                    seen.add(child)
                    queue = push_queue(queue, child, final)
        quiet = 0 if changed else quiet + 1


# changes and compaction: what stands in the numbers of a directory


def touched_directories(directories: Iterable[Directory]) -> set[int]:
    """Ids of directories and of all above them."""
    out = set()
    for directory in directories:
        place: Directory | None = directory
        while place is not None:
            out.add(place.id)
            place = place.parent
    return out


def count_nodes(top: Directory) -> tuple[int, int]:
    """(files, directories) below, itself included."""
    return len(files_below(top)), len(list(walk(top)))


def own_counts(directory: Directory) -> tuple[int, int, int, int, list[int]]:
    """Of a directory alone: texts, their length, its document's, abstracts, texts by script."""
    texts = texts_in(directory)
    scripts = Counter(text.script for text in texts)
    return (
        len(texts),
        sum(len(text.terms) for text in texts),
        len(document(directory)),
        int(directory.abstract is not None),
        [scripts[script] for script in range(SCRIPTS)],
    )


def count_texts(top: Directory) -> list[int]:
    """TEXTS, TEXT_LENGTH, DOCUMENT_LENGTH, OWN_LENGTH, OWN_TEXT, texts by script."""
    alone = [own_counts(directory) for directory in walk(top)]
    texts, length, documents = (sum(counts[i] for counts in alone) for i in (0, 1, 2))
    scripts = [sum(counts[4][script] for counts in alone) for script in range(SCRIPTS)]
    return [texts, length, documents, alone[0][2], alone[0][3], *scripts]


def add_vectors(top: Directory, script: int) -> tuple[int, Any]:
    """(number, sum) of the vectors of a script below."""
    found = [t.vector for t in texts_below(top) if t.script == script and t.vector is not None]
    return len(found), sum(found)


sum_vectors = add_vectors


def means(sums: F64, counts: Sequence[int]) -> F64:
    """Sums over counts, zeros where nothing is counted."""
    return np.array([s / n if n else 0 * s for s, n in zip(sums, counts, strict=True)])


def sum_up(parents: Sequence[int], counts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each row the sum over all rows that have it above them or are it."""

    def above(row: int) -> list[int]:
        return [row, *(above(parents[row]) if parents[row] >= 0 else [])]

    return [
        [
            sum(c[j] for row, c in enumerate(counts) if top in above(row))
            for j in range(len(counts[0]))
        ]
        for top in range(len(parents))
    ]


def order_files(top: Directory) -> list[int]:
    """Ids of the files in depth-first order."""
    return [file.id for file in files_below(top)]


def order_texts(top: Directory) -> list[int]:
    """Ids of the texts in depth-first order."""
    return [text.id for text in texts_below(top)]


def gather_strings(strings: Sequence[Row], rows: Iterable[int]) -> list[Row]:
    """The strings of the rows."""
    return [strings[row] for row in rows]


def merge_postings(top: Directory) -> dict[tuple[str, bool], list[tuple[int, int]]]:
    """By term, in a text (False) or a title (True): (position of the text, tf), depth-first.

    A title's stand below its file's first text, with the number of its terms in the place of tf.
    """
    out: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    titles = {file.texts[0].id: file.title for file in files_below(top) if file.texts}
    for position, text in enumerate(texts_below(top)):
        for term, tf in Counter(text.terms).items():
            out.setdefault((term, False), []).append((position, tf))
        title = titles.get(text.id, frozenset())
        for term in title:
            out.setdefault((term, True), []).append((position, len(title)))
    return out


# find


@dataclass
class Found:
    """Everything by id; `best` are texts."""

    texts: dict[int, float]
    directories: dict[int, tuple[float, float, float, float]]
    directory_final: dict[int, float]
    own: dict[int, float]
    best: dict[int, int]
    titles: dict[int, float]
    final: dict[int, float]
    icc: float
    gate: float


def parts_of_files(
    file: File,
    query: Query,
    found: Found,
    lexical: Mapping[int, float],
    weights: tuple[float, float, float],
    top: Directory,
) -> tuple[float, ...]:
    """Dense, lexical, dense weight, own, smoothed, parent, b, title, final of a file."""
    own = found.own[file.id]
    known = {**found.own, -1: -1.0}
    dense = words = w = 0.0
    for text in file.texts:
        if text.id == found.best[file.id]:
            missing = foreign(text.script, query.script)
            w = dense_weight(
                missing, query.use_dense and query.vector is not None, query.use_lexical
            )
            words = 0.0 if missing else lexical[text.id]
            dense = (own - (1 - w) * words) / w if w else 0.0
    b = weights[1] if file.parent is top else weights[0]
    smoothed = smooth(*(known[i] for i in with_neighbours(file)), weights[2])
    above = found.directory_final[file.parent.id]
    title = found.titles[file.id]
    final = final_score(smoothed, above, b, title)
    return dense, words, w, own, smoothed, above, b, title, final


def lift(
    top: Directory, lexical: Mapping[int, float], script: int
) -> tuple[dict[int, float], float]:
    """(scores of texts, by one factor, so that the best that counts has LEAST_BEST; the factor)."""
    counted = [lexical[t.id] for t in texts_below(top) if not foreign(t.script, script)]
    best = max(counted, default=0.0)
    factor = 1.0 if best <= 0 or best >= LEAST_BEST else LEAST_BEST / best
    return {key: min(1.0, score * factor) for key, score in lexical.items()}, factor


def sampled_scores(
    top: Directory, query: Query, mean: F64, lexical: Mapping[int, float]
) -> list[list[float]]:
    """The own scores that the gate is told by, from codes, of the files of each directory."""
    coded = {t.id: score_codes(t, code_of(t), query, mean, lexical[t.id]) for t in texts_below(top)}
    return [[own_of_file(f, coded)[0] for f in files_in(d)] for d in walk(top)]


def find(
    top: Directory, query: Query, prior: F64, alpha: float | None = None, gate: float | None = None
) -> Found:
    """Scores everything below `top`; `gate` takes the place of the one that the scores give."""
    mean = scope_means(top, prior)
    terms = query.terms if query.use_lexical else {}
    lexical, directory_lexical = score_scope(top, terms)
    lexical, _ = lift(top, lexical, query.script)
    texts = {t.id: own_of_text(t, query, mean, lexical[t.id]) for t in texts_below(top)}
    offered = {file.id: own_of_file(file, texts) for file in files_below(top)}
    own = {key: value[0] for key, value in offered.items()}
    icc = intraclass_correlation(sampled_scores(top, query, mean, lexical))
    told = gate_of(icc)
    used = told if gate is None else gate
    b, share = PARENT_WEIGHT * used, NEIGHBOUR_WEIGHT * used
    if alpha is not None:
        b, share = 1 - alpha, 0.0
    directories = directory_scores(top, query, mean, directory_lexical)
    owns = {key: value[3] for key, value in directories.items()}
    above = propagate(top, owns, b, root_weight(top, b))
    titles = score_titles(top, terms)
    final = finals_below(top, own, (b, root_weight(top, b), share), above, titles)
    best = {key: value[1] for key, value in offered.items()}
    return Found(texts, directories, above, own, best, titles, final, icc, told)


def score_rows(contexts: Iterable[Directory | File], found: Found) -> list[float]:
    """The final score of each."""
    return [
        found.final[context.id] if isinstance(context, File) else found.directory_final[context.id]
        for context in contexts
    ]


# flat


def rotate(x: F64, size: int) -> F64:
    """Signs by a hash, then butterflies until each component is in each; all that twice."""
    values = [*x.tolist(), *([0.0] * (size - len(x)))]
    for turn in range(2):
        for j in range(size):
            hashed = (j + 1 + turn * size) * 2654435769 % 2**32
            hashed = (hashed ^ hashed >> 15) * 2246822507 % 2**32
            values[j] *= 1 - 2 * (hashed >> 31)
        reach = 1
        while reach < size:
            reach *= 4
            for _ in range(2):
                pairs = list(zip(values[::2], values[1::2], strict=True))
                values = [(a + b) / 2**0.5 for a, b in pairs] + [(a - b) / 2**0.5 for a, b in pairs]
    return np.array(values)


def quantize_int4(raw: F64, axis: F64) -> tuple[npt.NDArray[np.int64], F64, F64, F64]:
    """Of rotated rows: (codes, scales, lengths of what they leave out, products with the axis)."""
    along = raw @ axis
    left = raw - along[:, None] * axis
    codes = np.full(raw.shape, 8)
    scale, error = np.zeros(len(raw)), np.zeros(len(raw))
    for i, row in enumerate(left):
        if row.any():
            steps = [max(abs(row)) * eighths / 60 for eighths in range(4, 9)]
            tried = [np.clip(np.floor(row / step) + 8, 0, 15) for step in steps]
            misses = [
                math.dist(row, step * (code - 7.5)) for step, code in zip(steps, tried, strict=True)
            ]
            codes[i] = tried[misses.index(min(misses))]
            scale[i] = row @ row / (row @ (codes[i] - 7.5))
        error[i] = math.dist(row, scale[i] * (codes[i] - 7.5))
    return codes, scale, error, along


def code_direction(direction: F64, axis: F64) -> tuple[float, F64]:
    """(what it has along the axis, the int8 codes of the rest as what they stand for)."""
    along = float(direction @ axis)
    return along, decoded(direction - along * axis)


def products_int4(codes: Sequence[Sequence[int]], factors: Sequence[int]) -> list[int]:
    """The products of rows of codes, one a component, with the factors."""
    return [sum(int(a) * int(b) for a, b in zip(row, factors, strict=True)) for row in codes]


def keyword_top(
    top: Directory, terms: Mapping[str, float], allowed: Collection[int], k: int
) -> list[tuple[int, float]]:
    """(id, score) of the k best texts above 0, of equal ones the first."""
    scores, _ = score_scope(top, terms)
    able = [(t.id, scores[t.id]) for t in texts_below(top) if t.id in allowed]
    return sorted((p for p in able if p[1] > 0), key=lambda pair: -pair[1])[:k]


def keep_best(
    kept: Sequence[tuple[int, float]], row: int, score: float, k: int
) -> list[tuple[int, float]]:
    """(row, score) of the k best of those and one more, ties by row."""
    return sorted([*kept, (row, score)], key=lambda one: (-one[1], one[0]))[:k]


def is_inside(died: int, revision: int, *, in_base: bool, below_root: bool) -> bool:
    """A living text, of the scope's range in the base or of a tail directory below its root."""
    return died > revision and (in_base or below_root)


def is_allowed(file: int, allowed: Collection[int] | None) -> bool:
    """A file's text, and the filter (None: there is none) lets the file through."""
    return file >= 0 and (allowed is None or file in allowed)


# weighted


def weighted_sum(
    text: Text, query: Query, mean: F64, lexical: float, weights: tuple[float, float]
) -> tuple[float, float, float]:
    """(v * dense + w * lexical, dense, lexical) of a text."""
    missing = foreign(text.script, query.script)
    words = 0.0 if missing or weights[1] == 0 else lexical
    dense = raw_cosine(text, query, mean) if query.vector is not None else 0.0
    share = sum(weights) if missing else weights[0]
    return share * dense + weights[1] * words, dense, words


def weighted_top(
    top: Directory,
    query: Query,
    mean: F64,
    weights: tuple[float, float],
    allowed: Collection[int],
    k: int,
) -> list[tuple[int, float, float, float]]:
    """(id, score, dense, lexical) of the k best texts above 0, of equal ones the first."""
    lexical, _ = score_scope(top, query.terms)
    found = []
    for text in texts_below(top):
        if text.id in allowed:
            one = weighted_sum(text, query, mean, lexical[text.id], weights)
            found.append((text.id, *one))
    return sorted((one for one in found if one[1] > 0), key=lambda one: -one[1])[:k]


# fusion


def rrf(
    lists: Sequence[Sequence[int]], weights: Sequence[float], k: float
) -> list[tuple[int, float]]:
    """(row, score) of all rows with a score above 0, best first, ties by row."""
    scores: dict[int, float] = {}
    for rows, weight in zip(lists, weights, strict=True):
        for rank, row in enumerate(rows):
            scores[row] = scores.get(row, 0.0) + weight / (k + rank + 1)
    return sorted(
        ((r, s) for r, s in scores.items() if s > 0), key=lambda pair: (-pair[1], pair[0])
    )


# salience


def rank(
    semantic: Sequence[float],
    known: Sequence[tuple[int, int, int | None]],
    weights: Sequence[float],
    now: int,
) -> tuple[list[int], list[list[float]]]:
    """(order, parts of each): known are reinforced, accessed, said at (None: never)."""
    *of_parts, half_life = weights
    most_reinforced = max((r for r, _, _ in known), default=0)
    most_accessed = max((a for _, a, _ in known), default=0)
    parts = []
    for meaning, (reinforced, accessed, said_at) in zip(semantic, known, strict=True):
        recency = 0.0
        if said_at is not None:
            days = max(0, now - said_at) / (24 * 60 * 60 * 1_000_000)
            recency = math.exp(-math.log(2) / half_life * days)
        parts.append(
            [
                meaning,
                math.log(reinforced + 1) / math.log(most_reinforced + 2),
                recency,
                math.log(accessed + 1) / math.log(most_accessed + 2),
            ]
        )
    scores = [sum(w * p for w, p in zip(of_parts, one, strict=True)) for one in parts]
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i)), parts


def within_budget(tokens: Sequence[int], budget: int, limit: int, skip: bool) -> list[int]:
    """Which of some texts, best first, are taken."""
    taken: list[int] = []
    for i, one in enumerate(tokens):
        if len(taken) == limit:
            break
        if sum(tokens[j] for j in taken) + one <= budget:
            taken.append(i)
        elif not skip:
            break
    return taken


# the bytes of requests


class _Found(Exception):
    """The first fault of a message: its code, its level and a value."""


def scan(data: bytes, table: Any, budgets: Sequence[int]) -> tuple[tuple[int, int, int], list[int]]:
    """((code, level, value), numbers on the path); `table` as the kernel has it."""
    ok, malformed, too_deep, too_many, too_long, spent = range(6)
    left = list(budgets)
    path: list[int] = []

    def take(budget: int, amount: int) -> None:
        if budget >= 0:
            left[budget] -= amount
            if left[budget] < 0:
                raise _Found(spent, len(path) - 1, budget)

    def varint(at: int, end: int, most: int, *, counts: bool = True) -> tuple[int, int]:
        for size in range(1, most + 1):
            if at + size > end:
                break
            if data[at + size - 1] < 128:
                digits = [byte & 127 for byte in data[at : at + size]]
                value = sum(digit << 7 * i for i, digit in enumerate(digits))
                if counts and value >= 1 << 64:
                    break
                return value, at + size
        raise _Found(malformed, len(path) - 1, 0)

    def message(at: int, end: int, kind: int, group: int) -> int:
        """Reads [at, end), or a group up to its end; returns where it ends."""
        counts: Counter[int] = Counter()
        fields = table[kind] if kind >= 0 else []
        path.append(0)
        while at < end:
            tag, at = varint(at, end, 5)
            number, wire = divmod(tag, 8)
            zero = number == 0 and kind >= 0
            if zero or number >= 1 << 29 or wire > 5 or (wire == 4 and number != group):
                raise _Found(malformed, len(path) - 1, 0)
            if wire == 4:
                path.pop()
                return at
            size = {1: 8, 5: 4}.get(wire, 0)
            if wire == 0:
                size = varint(at, end, 10, counts=False)[1] - at
            if wire == 2:
                size, at = varint(at, end, 10)
            if size > min(end - at, 0x7FFF_FFFF):
                raise _Found(malformed, len(path) - 1, 0)
            path[-1] = number
            below = -1
            field = fields[number] if number < len(fields) else [-1] * 7
            written, packed, *_ = field
            if wire == written or (packed >= 0 and wire == 2):
                count = 1
                if packed == 1 and wire == 2:
                    count, one = 0, at
                    while one < at + size:
                        _, one = varint(one, at + size, 10, counts=False)
                        count += 1
                elif packed > 1 and wire == 2:
                    count, rest = divmod(size, packed)
                    if rest:
                        raise _Found(malformed, len(path) - 1, 0)
                _, _, below, most, longest, of_count, of_bytes = field
                counts[number] += count
                if 0 <= most < counts[number]:
                    raise _Found(too_many, len(path) - 1, most)
                length = size if wire == 2 else 0
                if 0 <= longest < length:
                    raise _Found(too_long, len(path) - 1, length)
                take(of_count, count)
                take(of_bytes, length)
                take(0 if below >= 0 else -1, 1)
            else:
                take(1, 1)
            if (below >= 0 or wire == 3) and len(path) == 101:
                raise _Found(too_deep, len(path) - 1, 100)
            if wire == 3:
                at = message(at, end, -1, number)
            else:
                if below >= 0:
                    message(at, at + size, below, -1)
                at += size
        if group >= 0:
            raise _Found(malformed, len(path) - 1, 0)
        path.pop()
        return at

    try:
        message(0, len(data), 0, -1)
    except _Found as found:
        return found.args, path
    return (ok, 0, 0), []
