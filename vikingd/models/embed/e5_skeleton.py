"""Makes the graph of multilingual-e5-small for onnxruntime, without its weights.

python -m vikingd.models.embed.e5_skeleton          writes e5_skeleton.onnx beside this file
python -m vikingd.models.embed.e5_skeleton --check  exits 1 when the committed one is not the same

It needs the package onnx, which the program itself does not. The operators of `com.microsoft` are
onnxruntime's fused ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vikingd.models.embed.e5_file import HEADS, HIDDEN, LAYERS
from vikingd.models.embed.e5_weights import PARAMETERS, SMOOTHED, SPLIT, Parameter

PATH = Path(__file__).with_suffix(".onnx")

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

    def encoder(self, embeddings: str) -> str:
        """From the embeddings of the tokens to their mean vector."""
        tokens = self._normalised("emb.ln", embeddings)
        for layer in range(LAYERS):
            tokens = self._layer(layer, tokens)
        return self._node("ReduceMean", [tokens, _AXES], "vector", keepdims=0)

    def _layer(self, layer: int, tokens: str) -> str:
        """Attention, then a feed-forward network; the result of each is added and normalised."""
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
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=_FUSED, **attributes))
        return output


def skeleton() -> bytes:
    """The model: `embeddings` (1, tokens, 384) to `vector` (384,), the mean over the tokens."""
    graph = Graph()
    result = graph.encoder("embeddings")
    return model(graph, [result], PARAMETERS)


def model(graph: Graph, results: Sequence[str], parameters: Mapping[str, Parameter]) -> bytes:
    """A model of the nodes, which gives `results` and has `parameters` given when it is loaded."""
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
    """An array that is given when the graph is loaded; the name of its file is never used."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(parameter.dtype))
    location = onnx.StringStringEntryProto(key="location", value="weights")
    return onnx.TensorProto(
        name=name,
        data_type=kind,
        dims=parameter.shape,
        data_location=onnx.TensorProto.EXTERNAL,
        external_data=[location],
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        "python -m vikingd.models.embed.e5_skeleton", description=__doc__
    )
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    if not parser.parse_args().check:
        PATH.write_bytes(skeleton())
    elif PATH.read_bytes() != skeleton():
        sys.exit(f"{PATH.name} is stale: run python -m vikingd.models.embed.e5_skeleton")


if __name__ == "__main__":
    main()
