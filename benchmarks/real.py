"""Trees of real texts: the documents of a collection, repeated under many directories.

A collection is a directory with documents.jsonl of `{uri, text}`, directories.jsonl of
`{uri, abstract}` (optional) and queries.jsonl of `{text}`. The default embedder embeds its texts
once. Each copy of the collection has vectors with a cosine of .98 to the embedder's. The vectors
of such models are close together (cosines of .76 to .89). After centring the cosine is about .9.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.daemon import say
from benchmarks.data import DIMENSION, Query, Tree, cached, mapped, near
from vikingd.domain import uri as uris
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.provider_choice import open_provider

_PERTURBED = 0.98
_EMBEDDED_AT_ONCE = 32


def tree(source: Path, nodes: int) -> Tree:
    """Return the tree with this number of nodes, from the cache if possible."""
    documents = _read(source / "documents.jsonl", "text")
    abstracts = _read(source / "directories.jsonl", "abstract")
    asked = [text for _, text in _lines(source / "queries.jsonl", "text")]
    above = [set(uris.ancestors(uri)) for uri in documents]
    shared = set.intersection(*above)
    # The common ancestors of all documents become one directory, the top of the tree.
    directories = sorted(set.union(*above) - shared | {max(shared, key=len)})
    files = sorted(documents, key=lambda uri: (uris.parent(uri), uri))
    texts = [abstracts.get(uri, "") for uri in directories] + [documents[uri] for uri in files]

    content = "\0".join([*directories, *files, *texts, *asked])
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    vectors = cached(f"{source.name}-{key}", partial(_embed, texts, asked))
    number = {uri: i for i, uri in enumerate(directories)}
    parent = np.array([number.get(uris.parent(uri), -1) for uri in directories])
    directory = np.array([number[uris.parent(uri)] for uri in files])
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    arrays = cached(
        f"{source.name}-{key}-{nodes}-{version}",
        partial(_repeat, nodes, parent, directory, texts, vectors["texts"]),
    )
    given = [
        Query(text, vector.astype("<f4").tobytes())
        for text, vector in zip(asked, vectors["queries"], strict=True)
    ]
    return Tree(**arrays, lexicon=texts, given=given)


def _repeat(
    nodes: int,
    parent: np.ndarray,
    directory: np.ndarray,
    texts: Sequence[str],
    vectors: np.ndarray,
    at: Path,
) -> None:
    """Write copies of the collection below one top, up to `nodes`; a word is a whole text."""
    rng = np.random.default_rng(nodes)
    copies = math.ceil(nodes / len(texts))
    first = 1 + np.arange(copies) * len(parent)  # first directory of each copy; 0 is the top
    all_parents = np.where(parent < 0, 0, parent + first[:, None]).ravel()
    directories = 1 + len(all_parents)
    files = nodes - directories
    source = np.concatenate(
        [  # the text of each node; the top has none
            [-1],
            np.tile(np.arange(len(parent)), copies),
            np.tile(np.arange(len(parent), len(texts)), copies)[:files],
        ]
    )
    np.save(at / "parent.npy", np.concatenate([[-1], all_parents]).astype(np.int32))
    np.save(at / "directory.npy", (directory + first[:, None]).ravel()[:files].astype(np.int32))
    has_text = np.array([bool(text) for text in texts] + [False])[source]
    np.save(at / "word_at.npy", np.concatenate([[0], np.cumsum(has_text)]))
    np.save(at / "words.npy", source[has_text].astype(np.int32))
    out = mapped(at, "vectors", np.float32, nodes, DIMENSION)
    for low in range(0, nodes, 50_000):
        out[low : low + 50_000] = near(vectors[source[low : low + 50_000]], _PERTURBED, rng)


def _embed(texts: Sequence[str], queries: Sequence[str], at: Path) -> None:
    embedder = open_provider(EmbedSettings())
    rows = []
    for low in range(0, len(texts), _EMBEDDED_AT_ONCE):
        say(f"embedding: {low} of {len(texts)} texts, then {len(queries)} queries")
        rows.append(embedder.embed_documents(texts[low : low + _EMBEDDED_AT_ONCE]))
    np.save(at / "texts.npy", np.concatenate(rows))
    np.save(at / "queries.npy", np.array([embedder.embed_query(text) for text in queries]))


def _read(path: Path, field: str) -> dict[str, str]:
    return dict(_lines(path, field)) if path.exists() else {}


def _lines(path: Path, field: str) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8") as lines:
        records = map(json.loads, lines)
        return [(record.get("uri", ""), record[field]) for record in records]
