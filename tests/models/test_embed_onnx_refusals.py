"""Directories and settings that the embedder onnx refuses."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from tests.models.onnx_embed_helpers import IDS, MEAN, assert_same, opened, refusal
from tests.models.onnx_helpers import NUMBERS, directory, model, tokenizer, tokens, twin
from vikingd.config import ConfigError, load
from vikingd.domain.errors import EmbedderFailed
from vikingd.models import onnx_directory
from vikingd.models.embed import onnx as embed_onnx
from vikingd.system.install_command import install_command


def _no_directory(path: Path) -> None:
    path.rename(path.with_name("gone"))


def _no_model(path: Path) -> None:
    (path / "model.onnx").unlink()


def _no_tokenizer(path: Path) -> None:
    (path / "tokenizer.json").unlink()


def _damaged_model(path: Path) -> None:
    content = (path / "model.onnx").read_bytes()
    (path / "model.onnx").write_bytes(content[: len(content) // 2])


def _damaged_tokenizer(path: Path) -> None:
    (path / "tokenizer.json").write_text("{")


def _damaged_configuration(path: Path) -> None:
    (path / "config.json").write_text("{")


def _configuration_of_another_form(path: Path) -> None:
    (path / "modules.json").write_text("{}")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_no_directory, "the directory {} does not exist"),
        (_no_model, "{}/model.onnx does not exist, nor model_quantized.onnx, onnx/model.onnx"),
        (_no_tokenizer, "{}/tokenizer.json does not exist"),
        (_damaged_model, "{}/model.onnx cannot be loaded: "),
        (_damaged_tokenizer, "{}/tokenizer.json cannot be loaded: "),
        (_damaged_configuration, "{}/config.json cannot be read: "),
        (_configuration_of_another_form, "{}/modules.json is no list of objects"),
    ],
)
def test_files_that_are_missing_or_damaged_are_told(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    """A missing or damaged file is refused with the setting and the file."""
    path = directory(tmp_path / "tiny")
    spoil(path)
    assert refusal(path, pooling="mean").startswith(f"embedding.onnx_model: {reason.format(path)}")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (model(inputs=IDS | {"pixel_values": TensorProto.FLOAT}), "the input 'pixel_values'"),
        (model(inputs=IDS | {"token_type_ids": TensorProto.BOOL}), "'token_type_ids' of type"),
        (model(scale=float("nan")), "zero, NaN or infinite"),
        (model(scale=0.0), "zero, NaN or infinite"),
        (model(output="", pooled="pooler_output"), r"leave embedding\.pooling at auto"),
    ],
    ids=["inputs", "types", "NaN", "zero", "outputs"],
)
def test_models_that_make_no_embeddings_are_told(
    tmp_path: Path, made: onnx.ModelProto, reason: str
) -> None:
    """A model that makes no embeddings is refused at the start with the reason."""
    told = refusal(directory(tmp_path / "tiny", made), pooling="mean")
    assert told.startswith("embedding.onnx_model: ")
    assert reason.replace("\\", "") in told


def test_a_pooling_that_nothing_says_is_asked_for(tmp_path: Path) -> None:
    """A directory without a pooling, or with an unsupported pooling, is refused with the reason."""
    path = directory(tmp_path / "tiny")
    assert refusal(path).endswith(
        "set embedding.pooling to mean, cls or last, as the model's documentation says"
    )
    both = {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}
    told = refusal(directory(path, **{"1_Pooling__config": both}))
    assert "the pooling pooling_mode_cls_token and pooling_mode_max_tokens" in told
    without = MEAN | {"include_prompt": False}
    assert "include_prompt = false" in refusal(directory(path, **{"1_Pooling__config": without}))


def test_modules_that_the_graph_does_not_hold_are_told(tmp_path: Path) -> None:
    """A module after the pooling is refused, unless the graph has a pooled output."""
    modules = [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    path = directory(tmp_path / "tiny", modules=modules)
    assert "modules.json names Dense" in refusal(path, pooling="mean")
    opened(directory(path, model(pooled="sentence_embedding")))


def test_a_length_that_the_model_has_not_is_refused(tmp_path: Path) -> None:
    """A length above the model's positions, or too short for any text, is refused."""
    path = directory(tmp_path / "tiny", config={"max_position_embeddings": 64})
    opened(path, pooling="mean", max_tokens=64)
    told = refusal(path, pooling="mean", max_tokens=65)
    assert told.startswith("embedding.max_tokens: 65 is more than the 64 tokens")
    for short in (1, 2):  # the tokenizer cuts nothing, or all of the text
        told = refusal(path, pooling="mean", max_tokens=short)
        assert told.startswith(f"embedding.max_tokens: {short} leaves no room for a text")
    assert_same(
        opened(path, pooling="mean", max_tokens=3).embed_query("tea rust"),
        twin(tokens("tea"), "mean"),
    )


def test_a_failure_while_computing_is_told(tmp_path: Path) -> None:
    """A text that the graph cannot compute raises EmbedderFailed, and later texts succeed."""
    split = tokenizer()
    split.add_tokens(["beyond"])  # the table has no row for this token
    made = opened(directory(tmp_path / "tiny", split=split), pooling="mean")
    with pytest.raises(EmbedderFailed, match=r"the embedder onnx fails: .*cannot be computed"):
        made.embed_documents(["tea", "beyond"])
    assert made.embed_query("tea").shape == (NUMBERS,)


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_extra_is_told_with_its_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    """A missing package of the extra is refused with the command that installs it."""
    monkeypatch.delitem(sys.modules, embed_onnx.__name__)
    monkeypatch.delitem(sys.modules, onnx_directory.__name__)
    monkeypatch.setitem(sys.modules, package, None)  # makes the import fail
    assert refusal(directory(tmp_path / "tiny"), pooling="mean") == (
        f"the embedder onnx needs {package}, which is not installed; install it with: "
        f"{install_command('onnx')}"
    )


def test_settings_name_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The onnx settings need a directory, expand ~ in its path, and refuse an unknown pooling."""
    with pytest.raises(ConfigError, match="the provider onnx needs a model: set onnx_model"):
        load(None, {"embedding": {"provider": "onnx"}})
    with pytest.raises(ConfigError, match="keeps no queries: set keep_queries to false"):
        load(None, {"embedding": {"provider": "onnx", "onnx_model": "/m", "keep_queries": True}})
    with pytest.raises(ConfigError, match=r"embedding\.pooling"):
        load(None, {"embedding": {"pooling": "max"}})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VIKINGD_EMBEDDING__ONNX_MODEL", "~/bge-m3")
    loaded = load(None, {"embedding": {"provider": "onnx", "query_prefix": "query: "}})
    assert loaded.settings.embedding.onnx_model == str(tmp_path / "bge-m3")
    assert 'query_prefix = "query: "' in loaded.toml()
    settings = loaded.settings.embedding
    assert pickle.loads(pickle.dumps(settings)) == settings
