"""Synthetic trees of any size, with texts and vectors that fit their directories.

A directory has about 20 nodes; the sizes have a long tail. The vector of a directory is its
topic. A file's vector has a cosine of .42 to a topic: that of its directory, or for a fifth of
the files that of a random one. A query has a cosine of .55 (medium) or .41 (hard) to its file.
Words follow the Zipf-Mandelbrot law, as texts without stop words do.

Seeds are fixed. Arrays are made in blocks and memory-mapped, so a million nodes need no more
memory than ten thousand.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vikingd.domain.contexts import Draft, Passage

TOP = "viking://resources/tree"
DIMENSION = 384
MEDIUM, HARD = 0.55, 0.41  # cosine of a query to its file

_FAN_OUT = 20
_SUBDIRECTORIES = 6
_STRAY = 0.2  # share of the files that have the topic of another directory
_FILE_TO_DIRECTORY, _DIRECTORY_TO_PARENT = 0.42, 0.6
_VOCABULARY, _ZIPF_EXPONENT, _ZIPF_SHIFT = 50_000, 1.1, 20
_TOPIC_WORDS, _TOPIC_SHARE = 30, 0.3
_ABSTRACT_WORDS, _LEAST_WORDS, _MORE_WORDS = 12, 60, 30
_QUERY_WORDS = 5
_BLOCK = 50_000  # nodes generated at a time

_F32 = npt.NDArray[np.float32]
_I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Query:
    """A question; its vector is little-endian float32."""

    text: str
    vector: bytes


@dataclass(frozen=True)
class Tree:
    """A tree of D directories and F files; the nodes are the directories, then the files."""

    parent: _I32  # [D] below the number of the directory; -1 for the top
    directory: _I32  # [F] ascending
    vectors: _F32  # [D + F, DIMENSION] of unit length
    words: _I32  # words of all nodes, one after the other
    word_at: npt.NDArray[np.int64]  # [D + F + 1] node n has words[word_at[n] : word_at[n + 1]]
    lexicon: Sequence[str]  # strings of the words
    given: Sequence[Query] = ()  # queries of the collection

    @property
    def nodes(self) -> int:
        """The number of directories and files."""
        return len(self.vectors)

    @cached_property
    def directory_uris(self) -> list[str]:
        """The URIs of the directories."""
        uris = [TOP]
        uris.extend(f"{uris[self.parent[i]]}/d{i}" for i in range(1, len(self.parent)))
        return uris

    def text(self, node: int) -> str:
        """Return the text of a node."""
        words = self.words[self.word_at[node] : self.word_at[node + 1]]
        return " ".join(map(self.lexicon.__getitem__, words.tolist()))

    def drafts(self) -> Iterator[Draft]:
        """Yield all contexts with their vectors, each directory before its files."""
        directories = len(self.parent)
        bounds = np.searchsorted(self.directory, np.arange(directories + 1)).tolist()
        for i, uri in enumerate(self.directory_uris):
            abstract = self.text(i)
            vector = self.vectors[i].astype("<f4").tobytes() if abstract else b""
            yield Draft(uri, is_directory=True, abstract=abstract, vector=vector)
            for file in range(bounds[i], bounds[i + 1]):
                content = self.text(directories + file)
                vector = self.vectors[directories + file].astype("<f4").tobytes()
                passage = Passage("", 0, len(content), vector)
                # The index ignores a name of digits.
                yield Draft(f"{uri}/{file}", content=content, passages=(passage,))

    def batches(self, size: int) -> Iterator[list[Draft]]:
        """Yield the drafts in batches."""
        drafts = self.drafts()
        while batch := list(islice(drafts, size)):
            yield batch

    def queries(
        self, count: int, below: str = TOP, cosine: float = MEDIUM, seed: int = 1
    ) -> list[Query]:
        """Return queries at a cosine to random files below a directory.

        A tree with given queries returns `count` of them, spread over all.
        """
        if self.given:
            return list(self.given[:: max(1, len(self.given) // count)][:count])
        rng = np.random.default_rng(seed)
        inside = np.array([f"{uri}/".startswith(f"{below}/") for uri in self.directory_uris])
        files = np.flatnonzero(inside[self.directory])
        nodes = len(self.parent) + rng.choice(files, count)
        vectors = near(self.vectors[nodes], cosine, rng)
        out = []
        for node, vector in zip(nodes.tolist(), vectors, strict=True):
            known = np.unique(self.words[self.word_at[node] : self.word_at[node + 1]])
            said = rng.choice(known, min(_QUERY_WORDS, len(known)), replace=False).tolist()
            text = " ".join(map(self.lexicon.__getitem__, said))
            out.append(Query(text, vector.astype("<f4").tobytes()))
        return out

    def directory_with(self, share: float) -> str:
        """Return the directory whose subtree has nearly this share of the nodes."""
        sizes = 1 + np.bincount(self.directory, minlength=len(self.parent))
        for i in range(len(sizes) - 1, 0, -1):
            sizes[self.parent[i]] += sizes[i]
        return self.directory_uris[int(np.abs(sizes - share * self.nodes).argmin())]


def tree(nodes: int) -> Tree:
    """Return the tree with this number of nodes, from the cache if possible."""
    # Each version of this file has trees of its own.
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    arrays = cached(f"tree-{nodes}-{version}", lambda at: _generate(nodes, at))
    return Tree(**arrays, lexicon=_WORDS)


def cache(name: str) -> Path:
    """Return the path in the cache of the benchmarks."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "vikingd" / "benchmarks" / name


def cached(name: str, make: Callable[[Path], None]) -> dict[str, Any]:
    """Return the arrays of a cache directory, memory-mapped; `make` writes missing .npy files."""
    path = cache(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            made = Path(scratch) / name
            made.mkdir()
            make(made)
            made.rename(path)
    return {file.stem: np.asarray(np.load(file, mmap_mode="r")) for file in path.glob("*.npy")}


def mapped(at: Path, name: str, dtype: npt.DTypeLike, *shape: int) -> npt.NDArray[Any]:
    """Return a new memory-mapped array in a file."""
    return np.lib.format.open_memmap(at / f"{name}.npy", "w+", np.dtype(dtype), shape)


def _generate(nodes: int, at: Path) -> None:
    rng = np.random.default_rng(nodes)
    directories = max(2, nodes // _FAN_OUT)
    order = np.arange(directories)
    parent = ((order - 1) // _SUBDIRECTORIES * rng.uniform(0.5, 1, directories)).astype(np.int32)
    parent[0] = -1
    popularity = rng.lognormal(0.0, 1.0, directories)
    weights = popularity / popularity.sum()
    directory = np.sort(rng.choice(directories, nodes - directories, p=weights)).astype(np.int32)
    about = directory.copy()
    stray = rng.random(len(about)) < _STRAY
    about[stray] = rng.integers(0, directories, stray.sum())

    topics = np.empty((directories, DIMENSION), np.float32)
    topics[0] = unit(rng.standard_normal(DIMENSION))
    for i in range(1, directories):
        topics[i] = near(topics[[parent[i]]], _DIRECTORY_TO_PARENT, rng)[0]
    topic_words = rng.integers(0, _VOCABULARY, (directories, _TOPIC_WORDS))
    lengths = np.full(nodes, _ABSTRACT_WORDS)
    lengths[directories:] = _LEAST_WORDS + rng.exponential(_MORE_WORDS, nodes - directories)
    word_at = np.concatenate([[0], np.cumsum(lengths)])
    np.save(at / "parent.npy", parent)
    np.save(at / "directory.npy", directory)
    np.save(at / "word_at.npy", word_at)

    vectors = mapped(at, "vectors", np.float32, nodes, DIMENSION)
    vectors[:directories] = topics
    words = mapped(at, "words", np.int32, int(word_at[-1]))
    zipf = np.cumsum((np.arange(1, _VOCABULARY + 1) + _ZIPF_SHIFT) ** -_ZIPF_EXPONENT)
    topic_of = np.concatenate([order, about])
    for low in range(0, nodes, _BLOCK):
        high = min(low + _BLOCK, nodes)
        first = max(low, directories)
        vectors[first:high] = near(topics[topic_of[first:high]], _FILE_TO_DIRECTORY, rng)
        node_topic = np.repeat(topic_of[low:high], lengths[low:high])
        drawn = np.searchsorted(zipf, rng.random(len(node_topic)) * zipf[-1])
        of_topic = np.flatnonzero(rng.random(len(drawn)) < _TOPIC_SHARE)
        drawn[of_topic] = topic_words[
            node_topic[of_topic], rng.integers(0, _TOPIC_WORDS, len(of_topic))
        ]
        words[word_at[low] : word_at[high]] = np.minimum(drawn, _VOCABULARY - 1)


def unit(vectors: npt.NDArray[np.floating]) -> _F32:
    """Return the rows divided by their length."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)


def near(centres: _F32, cosine: float, rng: np.random.Generator) -> _F32:
    """Return unit vectors in random directions, with this cosine to the rows of `centres`."""
    noise = rng.standard_normal(centres.shape, np.float32)
    noise -= centres * np.einsum("ij,ij->i", noise, centres)[:, None]
    return unit(cosine * centres + np.sqrt(1 - cosine**2) * unit(noise))


def _vocabulary() -> list[str]:
    syllables = [c + v for c in "bdfghjklmnprstvz" for v in "aeiou"]
    base = len(syllables)
    # Words of adjacent ranks must differ. 7919 is prime to the number of words, so none repeats.
    numbers = np.arange(_VOCABULARY) * 7919 % base**3
    return [
        syllables[n // base**2] + syllables[n // base % base] + syllables[n % base]
        for n in numbers.tolist()
    ]


_WORDS = _vocabulary()
