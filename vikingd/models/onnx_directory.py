"""A directory with an ONNX model and its tokenizer, as model hubs have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from vikingd.models.model_files import GRAPHS, TOKENIZER

_TYPES = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
}
_FEATURES: dict[str, Callable[[Any], Sequence[int]]] = {
    "input_ids": lambda encoded: encoded.ids,
    "attention_mask": lambda encoded: encoded.attention_mask,
    "token_type_ids": lambda encoded: encoded.type_ids,
    "position_ids": lambda encoded: range(len(encoded.ids)),
}
_PAST = "past_key_values."
"""The prefix of inputs for earlier tokens, which stay empty: a text is read at once."""


class UnusableModel(Exception):
    """The model in a directory cannot be used; the message gives the reason."""


class OnnxDirectory:
    """A model's ONNX session and its tokenizer; both are thread-safe.

    Args:
        directory: has tokenizer.json, and model.onnx or model_quantized.onnx; the model may be in a
            subdirectory onnx.
        threads: the threads of one call.
        graph: the path of the model's file in the directory; "": the first one that exists.
        keep_memory: keep the memory of a call for the next call. It grows with the longest input
            and the number of concurrent calls, and never shrinks.

    Attributes:
        model: the file of the graph.
        tokenizer_file: the file of the tokenizer.
        tokenizer: a tokenizers.Tokenizer; configure it before the first call.
        outputs: the shape of each output by name; a dynamic dimension is a name or None.

    Raises:
        UnusableModel: a file is missing or damaged, or the graph has an unknown input.
    """

    def __init__(
        self, directory: Path, threads: int, *, graph: str = "", keep_memory: bool = True
    ) -> None:
        self.model, self.tokenizer_file = _find_files(directory, graph)
        self.tokenizer: Any = _loaded(self.tokenizer_file, lambda f: Tokenizer.from_file(str(f)))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = keep_memory
        # Idle threads must not spin.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = _loaded(
            self.model,
            lambda f: onnxruntime.InferenceSession(f, options, providers=["CPUExecutionProvider"]),
        )
        self._inputs = {given.name: given for given in self._session.get_inputs()}
        for name, given in self._inputs.items():
            known = name in _FEATURES or name.startswith(_PAST)
            if not known or given.type not in _TYPES:
                raise UnusableModel(
                    f"{self.model} is not a text model: it has the input {name!r} of type "
                    f"{given.type}"
                )
        if "input_ids" not in self._inputs:
            raise UnusableModel(f"{self.model} is not a text model: it has no input 'input_ids'")
        self.outputs: dict[str, list[int | str | None]] = {
            made.name: list(made.shape or []) for made in self._session.get_outputs()
        }

    def run(self, output: str, encoded: Sequence[Any]) -> NDArray[Any]:
        """Return the output with a name, (texts, ...), for tokenized texts of equal length.

        Raises:
            UnusableModel: the graph cannot be computed for these texts.
        """
        given = {name: self._feed(name, encoded) for name in self._inputs}
        try:
            (made,) = self._session.run([output], given)
        except Exception as error:  # the library documents no error type
            raise UnusableModel(f"{self.model} cannot be computed: {error}") from error
        return np.asarray(made)

    def _feed(self, name: str, encoded: Sequence[Any]) -> NDArray[Any]:
        given = self._inputs[name]
        kind = _TYPES[given.type]
        if name in _FEATURES:
            return np.array([_FEATURES[name](one) for one in encoded], dtype=kind)
        sizes = [size if isinstance(size, int) else 0 for size in given.shape]
        return np.zeros([len(encoded), *sizes[1:]], dtype=kind)


def _find_files(directory: Path, graph: str) -> tuple[Path, Path]:
    if not directory.is_dir():
        raise UnusableModel(f"the directory {directory} does not exist")
    names = (graph,) if graph else GRAPHS
    model = next((directory / name for name in names if (directory / name).is_file()), None)
    if model is None:
        others = f", nor {', '.join(names[1:])}" if names[1:] else ""
        raise UnusableModel(f"{directory / names[0]} does not exist{others}")
    tokenizer = directory / TOKENIZER
    if not tokenizer.is_file():
        raise UnusableModel(f"{tokenizer} does not exist")
    return model, tokenizer


def _loaded(file: Path, load: Callable[[Path], Any]) -> Any:
    try:
        return load(file)
    except Exception as error:  # neither library documents its errors
        raise UnusableModel(f"{file} cannot be loaded: {error}") from error
