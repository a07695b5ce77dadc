"""Small ONNX models for the tests of the onnx embedder, and a plain twin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "tea", "oolong", "rust", "query:", "passage:"]
NUMBERS = 8
POSITIONS = 32


def table(seed: int = 0) -> NDArray[np.float32]:
    """Return a vector for each token; tea and oolong have nearly equal vectors."""
    made = np.random.default_rng(seed).normal(size=(len(WORDS), NUMBERS)).astype(np.float32)
    made[WORDS.index("oolong")] = made[WORDS.index("tea")] + 0.01
    return made


def tokenizer(special: bool = True) -> Tokenizer:
    """Return a tokenizer that splits at white space, and adds [CLS] and [SEP] if `special`."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if special:
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    return made


def model(
    seed: int = 0,
    *,
    inputs: Mapping[str, int] | None = None,
    output: str = "last_hidden_state",
    pooled: str = "",
    scale: float = 1.0,
    columns: int = NUMBERS,
) -> onnx.ModelProto:
    """Return a graph that adds the mean of the text to the table's vector of each token.

    Args:
        seed: The seed of the table.
        inputs: Types by name; by default int64 for input_ids and attention_mask. The inputs
            position_ids and token_type_ids add one each, and past_key_values.* add nothing.
        output: The name of the output with the tokens' vectors; "" leaves this output out.
        pooled: The name of an output with twice the first token's vector; "" leaves it out.
        scale: The factor of all vectors.
        columns: The dimension of all vectors.
    """
    inputs = inputs or {"input_ids": TensorProto.INT64, "attention_mask": TensorProto.INT64}
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["of_each"]),
        helper.make_node("ReduceMean", ["of_each"], ["of_text"], axes=[1], keepdims=1),
        helper.make_node("Add", ["of_each", "of_text"], ["sum_0"]),
    ]
    last = "sum_0"
    for number, name in enumerate(("attention_mask", "position_ids", "token_type_ids"), start=1):
        if name in inputs:
            join = "Mul" if name == "attention_mask" else "Add"
            nodes += [
                helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT),
                helper.make_node("Unsqueeze", [f"{name}_f", "last_axis"], [f"{name}_u"]),
                helper.make_node(join, [last, f"{name}_u"], [f"sum_{number}"]),
            ]
            last = f"sum_{number}"
    outputs = []
    if output:
        nodes.append(helper.make_node("Identity", [last], [output]))
        outputs.append(
            helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", "s", columns])
        )
    if pooled:
        nodes += [
            helper.make_node("Gather", [last, "first"], ["first_token"], axis=1),
            helper.make_node("Add", ["first_token", "first_token"], [pooled]),
        ]
        outputs.append(helper.make_tensor_value_info(pooled, TensorProto.FLOAT, ["n", columns]))
    shapes: dict[str, list[Any]] = {
        name: ["n", 2, "past", 4] if name.startswith("past") else ["n", "s"] for name in inputs
    }
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(n, kind, shapes[n]) for n, kind in inputs.items()],
        outputs,
        [
            numpy_helper.from_array(table(seed)[:, :columns] * np.float32(scale), "table"),
            numpy_helper.from_array(np.array([2], np.int64), "last_axis"),
            numpy_helper.from_array(np.array(0, np.int64), "first"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def directory(
    path: Path,
    made: onnx.ModelProto | None = None,
    *,
    file: str = "model.onnx",
    split: Tokenizer | None = None,
    **configuration: Any,
) -> Path:
    """Write a model and its tokenizer to a directory, and return the path.

    Args:
        path: The path of the directory.
        made: The model.
        file: The file of the model.
        split: The tokenizer.
        configuration: Contents of JSON files by name; "__" means "/", and ".json" is added.
    """
    (path / file).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(made or model(), path / file)
    (split or tokenizer()).save(str(path / "tokenizer.json"))
    for name, content in configuration.items():
        written = path / (name.replace("__", "/") + ".json")
        written.parent.mkdir(exist_ok=True)
        written.write_text(json.dumps(content))
    return path


def tokens(text: str, special: bool = True) -> list[int]:
    """Return the token ids of a text."""
    ids = [WORDS.index(word) if word in WORDS else WORDS.index("[UNK]") for word in text.split()]
    return [1, *ids, 2] if special else ids


def twin(
    ids: list[int], pooling: str, *, numbers: int = NUMBERS, positions: bool = False, seed: int = 0
) -> NDArray[np.float64]:
    """Return the unit vector of a text, computed plainly."""
    of_each = table(seed).astype(np.float64)[ids]
    hidden = of_each + of_each.mean(axis=0)
    if positions:
        hidden = hidden + np.arange(len(ids))[:, None]
    pooled = {"mean": hidden.mean(axis=0), "cls": hidden[0], "last": hidden[-1]}[pooling][:numbers]
    unit: NDArray[np.float64] = pooled / np.linalg.norm(pooled)
    return unit
