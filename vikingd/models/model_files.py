"""The names of the files of an ONNX model, in a directory or in a repository of a hub."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from vikingd.system.regular_files import open_regular

GRAPHS = ("model.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx")
"""The possible paths of a model's graph; the first one that exists is the model."""

TOKENIZER = "tokenizer.json"

POOLING_FOLDER = "1_Pooling"
"""The folder with the configuration of the pooling, if modules.json names no other."""

DESCRIPTIONS = (
    "config.json",
    "tokenizer_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    f"{POOLING_FOLDER}/config.json",
)
"""Files that describe the use of a model; each may be missing."""

_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x7f])")
"""An entry of external data, as protobuf writes it: the key, and the length of the value."""


def tensor_files(graph: Path) -> list[str]:
    """Return the paths of the files with the tensors of an ONNX graph, sorted.

    They are relative to the directory of the graph.

    Raises:
        OSError: the graph cannot be read.
    """
    if not graph.stat().st_size:
        return []  # an empty file cannot be mapped
    found = set()
    with (
        open_regular(graph) as opened,
        mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as content,
    ):
        for entry in _LOCATION.finditer(content):
            low, *high = entry[1]
            length = (low & 0x7F) + (high[0] << 7 if high else 0)
            found.add(content[entry.end() : entry.end() + length].decode(errors="replace"))
    return sorted(found)
