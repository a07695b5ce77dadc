"""The files of sentence-transformers beside a model, which describe its use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.model_files import POOLING_FOLDER
from vikingd.system.regular_files import read_text

POOLINGS = ("cls", "mean", "last")
_LARGEST = 64 << 20  # bytes of a file
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean",  # of another length, in the same direction
    "pooling_mode_lasttoken": "last",
}
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
_SIMPLE_MODULES = {"Transformer", "Pooling", "Normalize"}
_OFFSET_POSITIONS = {"camembert", "mpnet", "roberta", "xlm-roberta"}
"""The model types whose first two positions hold no token."""
_UNLIMITED = 1_000_000
"""The least limit of tokens that counts as none: tokenizers without a limit give 1e30."""


@dataclass(frozen=True, slots=True)
class Description:
    """The settings for the use of a model that its directory names.

    Attributes:
        pooling: one of POOLINGS, or other modes as the directory writes them; "" if it names none.
        further_modules: modules after the pooling that change vectors, such as Dense.
        max_tokens: the most tokens of a text with its prefix; 0 if the directory names no limit.
        positions: the most tokens that the model can read; 0 if the directory names no limit.
    """

    pooling: str
    further_modules: str
    query_prefix: str
    document_prefix: str
    max_tokens: int
    positions: int


def describe(directory: Path) -> Description:
    """Read the settings for a model's use from its directory; each file may be missing.

    Raises:
        EmbedderFailed: a file is not JSON of the expected form.
    """
    modules = _modules(directory)
    folder = next((path for kind, path in modules if kind == "Pooling"), POOLING_FOLDER)
    pooling = _pooling(_read(directory / folder / "config.json"))
    sentences = _read(directory / "config_sentence_transformers.json")
    prompts = sentences.get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    default = prompts.get(sentences.get("default_prompt_name"), "")
    document = next((prompts[name] for name in _DOCUMENT_PROMPTS if name in prompts), default)
    config = _read(directory / "config.json")
    offset = 2 if config.get("model_type") in _OFFSET_POSITIONS else 0
    positions = max(_size(config, "max_position_embeddings") - offset, 0)
    limit = _size(_read(directory / "sentence_bert_config.json"), "max_seq_length")
    of_tokenizer = _size(_read(directory / "tokenizer_config.json"), "model_max_length")
    return Description(
        pooling=pooling,
        further_modules=", ".join(kind for kind, _ in modules if kind not in _SIMPLE_MODULES),
        query_prefix=str(prompts.get("query", default)),
        document_prefix=str(document),
        max_tokens=limit or min((n for n in (of_tokenizer, positions) if n), default=0),
        positions=positions,
    )


def _modules(directory: Path) -> list[tuple[str, str]]:
    """Return (name of the class, folder) of each module in modules.json."""
    modules = _load(directory / "modules.json", [])
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise EmbedderFailed(f"{directory / 'modules.json'} is no list of objects")
    return [
        (str(one.get("type", "")).rpartition(".")[2], str(one.get("path", ""))) for one in modules
    ]


def _pooling(config: Mapping[str, Any]) -> str:
    modes = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    named = config.get("pooling_mode")  # newer versions name it
    if isinstance(named, str):
        short = {"cls": "pooling_mode_cls_token", "lasttoken": "pooling_mode_lasttoken"}
        modes = [short.get(named, f"pooling_mode_{named}_tokens")]
    if modes and config.get("include_prompt") is False:
        modes.append("include_prompt = false")
    said = " and ".join(modes)
    return _MODES.get(said, said)


def _size(config: Mapping[str, Any], name: str) -> int:
    """Return the number of tokens that a configuration has under a name; 0 if it has none."""
    value = config.get(name)
    return int(value) if isinstance(value, int | float) and 0 < value < _UNLIMITED else 0


def _read(file: Path) -> dict[str, Any]:
    content = _load(file, {})
    if not isinstance(content, dict):
        raise EmbedderFailed(f"{file} is no JSON object")
    return content


def _load(file: Path, missing: Any) -> Any:
    try:
        return json.loads(read_text(file, _LARGEST))
    except (FileNotFoundError, NotADirectoryError):
        return missing
    except (OSError, ValueError, RecursionError) as error:
        raise EmbedderFailed(f"{file} cannot be read: {error}") from error
