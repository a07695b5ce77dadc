"""Measures how large the inputs of the matrices in SMOOTHED and SPLIT become.

`python -m vikingd.models.embed.e5_ranges` writes e5_ranges.npz beside this file. For each of these
matrices it holds the largest magnitude of each input over the sentences of the prior, (layers,
inputs) in float16. It computes in float32, and needs the package onnx. After it, `_FORMAT` in
e5_weights.py
must count up.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vikingd.models.embed.e5 import Embeddings, Session
from vikingd.models.embed.e5_file import LAYERS, E5File, installed
from vikingd.models.embed.e5_skeleton import Graph, model
from vikingd.models.embed.e5_tokens import E5Tokenizer
from vikingd.models.embed.e5_weights import MATRICES, Parameter, Weights
from vikingd.models.embed.prior import PRIOR_SENTENCES

PATH = Path(__file__).with_suffix(".npz")


def ranges() -> dict[str, NDArray[np.float16]]:
    """Return the ranges in the file, by matrix."""
    source = E5File(installed())
    graph = Graph(exact=True)
    graph.encoder("embeddings")
    names = [name for inputs in graph.inputs.values() for name in inputs]
    weights = _exact(source)
    parameters = {name: Parameter("<f4", array.shape) for name, array in weights.items()}
    session = Session(model(graph, names, parameters), weights)
    embeddings, tokenizer = Embeddings(source), E5Tokenizer(source.vocabulary)
    largest = [np.zeros(0, np.float32)] * len(names)
    for sentence in (sentence for group in PRIOR_SENTENCES.values() for sentence in group):
        for mark in ("query", "passage"):
            window = embeddings.of(tokenizer.tokens(f"{mark}: {sentence}"))
            now = [np.abs(inputs[0]).max(axis=0) for inputs in session.results(window)]
            largest = [
                np.maximum(before, magnitude) if before.size else magnitude
                for before, magnitude in zip(largest, now, strict=True)
            ]
    rows = iter(largest)
    return {
        matrix: np.stack([next(rows) for _ in range(LAYERS)]).astype(np.float16)
        for matrix in graph.inputs
    }


def _exact(source: E5File) -> Weights:
    """All weights in float32."""
    out = {}
    for layer in range(LAYERS):
        for name, matrix in MATRICES.items():
            own, parts = f"l{layer}.{name}", [f"l{layer}.{part}" for part in matrix.parts]
            rows = np.concatenate([source.matrix(f"{part}.w", matrix.inputs) for part in parts])
            out[f"{own}.w"] = np.ascontiguousarray(rows.T)
            out[f"{own}.b"] = np.concatenate([source.numbers(f"{part}.b") for part in parts])
    norms = ["emb.ln", *(f"l{layer}.{name}" for layer in range(LAYERS) for name in ("aln", "oln"))]
    return out | {
        f"{norm}.{part}": source.numbers(f"{norm}.{part}") for norm in norms for part in "wb"
    }


if __name__ == "__main__":
    np.savez(PATH, allow_pickle=False, **ranges())
