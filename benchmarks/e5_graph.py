"""Makes the graph of multilingual-e5-small for onnxruntime, without its weights.

python -m benchmarks.e5_graph           writes vikingd/models/embed/e5_skeleton.onnx
python -m benchmarks.e5_graph --check   exits 1 when the committed one is not the same
python -m benchmarks.e5_graph --ranges  writes e5_ranges.npz too; after it, `_FORMAT` in
                                        e5_weights.py must count up

It needs the package onnx, which the program itself does not. The operators of `com.microsoft` are
onnxruntime's fused ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from vikingd.models.embed.e5 import Embeddings, Session
from vikingd.models.embed.e5_file import HEADS, HIDDEN, LAYERS, E5File
from vikingd.models.embed.e5_tokens import E5Tokenizer
from vikingd.models.embed.e5_weights import (
    MATRICES,
    PARAMETERS,
    RANGES,
    SMOOTHED,
    SPLIT,
    Parameter,
    Weights,
    joined,
)
from vikingd.models.embed.prior_centroids import PRIOR_SENTENCES

PATH = RANGES.with_name("e5_skeleton.onnx")

_FUSED = "com.microsoft"
_EPSILON = 1e-12
_AXES = "axes"


class Graph:
    """The nodes so far; each method adds some and returns the name of their result.

    Args:
        exact: all matrices are float32.

    Attributes:
        inputs: those of each matrix in SMOOTHED and of SPLIT, layer by layer.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, list[str]] = {name: [] for name in (*SMOOTHED, SPLIT)}

    def encoder(self) -> str:
        """Add the layers from the embeddings of the tokens to their mean vector."""
        tokens = self._normalised("emb.ln", "embeddings")
        for layer in range(LAYERS):
            tokens = self._layer(layer, tokens)
        return self._node("ReduceMean", [tokens, _AXES], "vector", keepdims=0)

    def _layer(self, layer: int, tokens: str) -> str:
        """Add attention and a feed-forward network.

        After each its input is added, then normalised.
        """
        own = f"l{layer}"
        joined = self._linear(layer, "qkv", tokens)
        parts = [f"{own}.{part}" for part in ("query", "key", "value")]
        self.nodes.append(helper.make_node("Split", [joined], parts, axis=-1, num_outputs=3))
        # One text a call has no padding, so attention needs no mask.
        attended = self._fused("MultiHeadAttention", parts, f"{own}.attended", num_heads=HEADS)
        attended = self._linear(layer, "ao", attended)
        tokens = self._node("Add", [tokens, attended], f"{own}.with_attended")
        tokens = self._normalised(f"{own}.aln", tokens)
        inner = self._fused("Gelu", [self._linear(layer, "fi", tokens)], f"{own}.inner")
        outer = self._linear(layer, "fo", inner)
        tokens = self._node("Add", [tokens, outer], f"{own}.with_outer")
        return self._normalised(f"{own}.oln", tokens)

    def _linear(self, layer: int, matrix: str, tokens: str) -> str:
        own = f"l{layer}.{matrix}"
        if matrix in self.inputs:
            self.inputs[matrix].append(tokens)
        if self._exact:
            product = self._node("MatMul", [tokens, f"{own}.w"], f"{own}.product")
            return self._node("Add", [product, f"{own}.b"], f"{own}.out")
        # Divides by the factors of SMOOTHED, and takes the outliers of SPLIT away.
        scaled = tokens
        if matrix in self.inputs:
            scaled = self._node("Mul", [tokens, f"{own}.in"], f"{own}.scaled")
        # The empty input is the zero point: weights are symmetric and have none.
        inputs = [scaled, f"{own}.w", f"{own}.scale", "", f"{own}.b"]
        if matrix != SPLIT:
            return self._fused("DynamicQuantizeMatMul", inputs, f"{own}.out")
        most = self._fused("DynamicQuantizeMatMul", inputs, f"{own}.most")
        large = self._node("Gather", [tokens, f"{own}.at"], f"{own}.large", axis=-1)
        apart = self._node("MatMul", [large, f"{own}.outliers"], f"{own}.apart")
        return self._node("Add", [most, apart], f"{own}.out")

    def _normalised(self, own: str, tokens: str) -> str:
        inputs = [tokens, f"{own}.w", f"{own}.b"]
        return self._node("LayerNormalization", inputs, f"{own}.out", axis=-1, epsilon=_EPSILON)

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def _fused(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        return self._node(kind, inputs, output, domain=_FUSED, **attributes)


def skeleton() -> bytes:
    """Return the model: from `embeddings` (1, tokens, 384) to `vector` (384,), their mean."""
    graph = Graph()
    return model(graph, [graph.encoder()], PARAMETERS)


def model(graph: Graph, results: Sequence[str], parameters: Mapping[str, Parameter]) -> bytes:
    """Return a model that computes `results`; it gets the values of `parameters` when loaded."""
    floats = onnx.TensorProto.FLOAT
    weights = [_external(name, parameter) for name, parameter in parameters.items()]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "multilingual-e5-small",
            [helper.make_tensor_value_info("embeddings", floats, [1, "tokens", HIDDEN])],
            [helper.make_tensor_value_info(name, floats, None) for name in results],
            [*weights, numpy_helper.from_array(np.array([0, 1], np.int64), _AXES)],
        ),
        ir_version=9,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(_FUSED, 1)],
    )
    return made.SerializeToString(deterministic=True)


def _external(name: str, parameter: Parameter) -> onnx.TensorProto:
    """Return an array whose values are given when the graph is loaded.

    Its file name is not used.
    """
    kind = helper.np_dtype_to_tensor_dtype(parameter.base)
    location = onnx.StringStringEntryProto(key="location", value="weights")
    return onnx.TensorProto(
        name=name,
        data_type=kind,
        dims=parameter.shape,
        data_location=onnx.TensorProto.EXTERNAL,
        external_data=[location],
    )


def ranges() -> dict[str, NDArray[np.float16]]:
    """Return the magnitudes of the inputs of the matrices in SMOOTHED and SPLIT.

    For each matrix it is the largest magnitude of each input over the sentences of the prior,
    (layers, inputs), computed in float32.
    """
    source = E5File()
    graph = Graph(exact=True)
    graph.encoder()
    names = [name for inputs in graph.inputs.values() for name in inputs]
    weights = _exact(source)
    parameters = {name: np.dtype((array.dtype, array.shape)) for name, array in weights.items()}
    session = Session(model(graph, names, parameters), weights)
    embeddings, tokenizer = Embeddings(source), E5Tokenizer(source)
    largest = [np.zeros(1, np.float32)] * len(names)
    for sentence in (sentence for group in PRIOR_SENTENCES.values() for sentence in group):
        for mark in ("query", "passage"):
            window = embeddings.of(tokenizer.tokens(f"{mark}: {sentence}"))
            now = [np.abs(inputs[0]).max(axis=0) for inputs in session.run(window)]
            largest = list(map(np.maximum, largest, now))
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
            rows, out[f"l{layer}.{name}.b"] = joined(source, layer, matrix)
            out[f"l{layer}.{name}.w"] = np.ascontiguousarray(rows.T)
    return out | {name: source.numbers(name) for name in PARAMETERS if "ln." in name}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.e5_graph", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    parser.add_argument("--ranges", action="store_true", help="measure and write the ranges too")
    given = parser.parse_args()
    if given.ranges:
        np.savez(RANGES, allow_pickle=False, **ranges())
    if not given.check:
        PATH.write_bytes(skeleton())
    elif PATH.read_bytes() != skeleton():
        sys.exit(f"{PATH.name} is stale: run python -m benchmarks.e5_graph")


if __name__ == "__main__":
    main()
