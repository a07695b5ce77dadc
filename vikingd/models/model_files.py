"""The names of a model's files, in a directory and in a repository of the hub."""

from __future__ import annotations

GRAPHS = ("model.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx")
"""The first of them that exists is the model."""

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
