"""The embedder onnx with small models, against a naive twin and with a real daemon."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.models.onnx_embed_helpers import CLS, IDS, LAST, MEAN, assert_same, opened, refusal
from tests.models.onnx_helpers import NUMBERS, directory, model, tokenizer, tokens, twin
from vikingd.client import Client, ClientError, Draft
from vikingd.ctl.demo import serving
from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed import weights_digest as weights

# Vectors


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_each_pooling_is_that_of_the_twin(tmp_path: Path, pooling: str) -> None:
    """Each pooling gives the vectors of the twin, for queries and documents."""
    made = opened(directory(tmp_path / "tiny"), pooling=pooling)
    texts = ["tea", "rust rust tea x", "oolong " * 20]
    rows = made.embed_documents(texts)
    assert rows.shape == (3, made.dimension) == (3, NUMBERS)
    for text, row in zip(texts, rows, strict=True):
        assert_same(row, twin(tokens(text), pooling))
        assert_same(made.embed_query(text), row)
    assert made.embed_documents([]).shape == (0, NUMBERS)


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        (CLS, "cls"),
        (MEAN, "mean"),
        (LAST, "last"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ],
    ids=["cls", "mean", "last", "sqrt", "named cls", "named last"],
)
def test_the_directory_says_the_pooling(
    tmp_path: Path, config: dict[str, Any], pooling: str
) -> None:
    """The pooling comes from sentence-transformers' file at the path in modules.json."""
    made = opened(directory(tmp_path / "tiny", **{"1_Pooling__config": config}))
    assert_same(made.embed_query("tea rust"), twin(tokens("tea rust"), pooling))
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "pool", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    elsewhere = directory(tmp_path / "other", modules=modules, pool__config=config)
    assert_same(opened(elsewhere).embed_query("tea rust"), twin(tokens("tea rust"), pooling))


def test_a_setting_wins_over_the_directory(tmp_path: Path) -> None:
    """Settings override the pooling, the prefixes and the length of the model's directory."""
    path = directory(
        tmp_path / "tiny",
        **{"1_Pooling__config": CLS},
        config_sentence_transformers={"prompts": {"query": "rust ", "document": "rust "}},
        sentence_bert_config={"max_seq_length": 4},
    )
    made = opened(path, pooling="mean", query_prefix="", document_prefix="tea ", max_tokens=9)
    text = "oolong x x x"
    assert_same(made.embed_query(text), twin(tokens(text), "mean"))
    assert_same(made.embed_documents([text])[0], twin(tokens("tea " + text), "mean"))


@pytest.mark.parametrize(
    ("prompts", "query", "document"),
    [
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, "query: ", "passage: "),
        ({"prompts": {"query": "query: ", "document": ""}}, "query: ", ""),
        ({"prompts": {"all": "rust "}, "default_prompt_name": "all"}, "rust ", "rust "),
        ({"prompts": {}, "default_prompt_name": None}, "", ""),
    ],
    ids=["both", "query", "default", "none"],
)
def test_the_directory_says_the_prefixes(
    tmp_path: Path, prompts: dict[str, Any], query: str, document: str
) -> None:
    """The prefixes of queries and documents come from the prompts in the model's directory."""
    made = opened(directory(tmp_path / "tiny", config_sentence_transformers=prompts), pooling="cls")
    assert_same(made.embed_query("tea"), twin(tokens(f"{query}tea"), "cls"))
    assert_same(made.embed_documents(["tea"])[0], twin(tokens(f"{document}tea"), "cls"))


def test_a_dimension_takes_the_first_numbers(tmp_path: Path) -> None:
    """A smaller dimension keeps the first numbers as a unit vector; a larger one is refused."""
    path = directory(tmp_path / "tiny")
    made = opened(path, pooling="mean", dimension=3)
    assert made.dimension == 3
    assert_same(made.embed_query("tea"), twin(tokens("tea"), "mean", numbers=3))
    assert refusal(path, pooling="mean", dimension=9) == (
        f"embedding.dimension: 9 is more than the 8 numbers that the model in {path} makes; "
        "0 takes all of them"
    )


@pytest.mark.parametrize(
    "file", ["model_quantized.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"]
)
def test_models_lie_where_hubs_put_them(tmp_path: Path, file: str) -> None:
    """A model is found beside the tokenizer or in `onnx`, and model.onnx is preferred."""
    path = directory(tmp_path / "tiny", model(1), file=file)
    assert_same(opened(path, pooling="cls").embed_query("tea"), twin(tokens("tea"), "cls", seed=1))
    directory(path, model(0))
    assert_same(opened(path, pooling="cls").embed_query("tea"), twin(tokens("tea"), "cls"))


@pytest.mark.parametrize(
    ("made", "pooling", "twins"),
    [
        (model(pooled="sentence_embedding"), "auto", "cls"),
        (model(pooled="sentence_embedding"), "mean", "mean"),
        (model(output="", pooled="dense_vecs"), "auto", "cls"),
        (model(output="token_embeddings"), "last", "last"),
        (model(output="hidden"), "mean", "mean"),
    ],
    ids=["pooled beside tokens", "tokens beside pooled", "pooled", "tokens", "another name"],
)
def test_outputs_of_any_form_are_taken(
    tmp_path: Path, made: onnx.ModelProto, pooling: str, twins: str
) -> None:
    """A pooled output of the graph is the vector, unless the settings name a pooling."""
    path = directory(tmp_path / "tiny", made)
    assert_same(
        opened(path, pooling=pooling).embed_query("tea rust"), twin(tokens("tea rust"), twins)
    )


def test_an_unknown_output_beside_others_is_not_guessed(tmp_path: Path) -> None:
    """A model with several unknown outputs is refused with their names."""
    made = model(output="colbert", pooled="dense")
    for pooling in ("auto", "cls"):
        told = refusal(directory(tmp_path / "tiny", made), pooling=pooling)
        assert "colbert ['n', 's', 8], dense ['n', 8]" in told
        assert "is known to hold the vectors of tokens" in told


@pytest.mark.parametrize(
    ("inputs", "positions"),
    [
        (IDS, False),
        (dict.fromkeys(("input_ids", "attention_mask"), TensorProto.INT32), False),
        (IDS | {"attention_mask": TensorProto.FLOAT, "token_type_ids": TensorProto.INT64}, False),
        (IDS | {"position_ids": TensorProto.INT64}, True),
        (
            IDS
            | {f"past_key_values.0.{name}": TensorProto.FLOAT for name in ("key", "value")}
            | {"position_ids": TensorProto.INT64},
            True,
        ),
    ],
    ids=["ids alone", "int32", "types", "positions", "an empty past"],
)
def test_a_graph_gets_what_it_wants(
    tmp_path: Path, inputs: dict[str, int], positions: bool
) -> None:
    """A graph gets all inputs that it declares, in their types."""
    made = opened(directory(tmp_path / "tiny", model(inputs=inputs)), pooling="last")
    assert_same(made.embed_query("tea x"), twin(tokens("tea x"), "last", positions=positions))


@pytest.mark.parametrize(
    ("configuration", "limit"),
    [
        ({"sentence_bert_config": {"max_seq_length": 6}, "config": {}}, 6),
        ({"sentence_bert_config": {"max_seq_length": None}, "tokenizer_config": {}}, 512),
        ({"tokenizer_config": {"model_max_length": 7}}, 7),
        (
            {
                "tokenizer_config": {"model_max_length": 1e30},
                "config": {"max_position_embeddings": 10, "model_type": "xlm-roberta"},
            },
            8,
        ),
        ({}, 512),
    ],
    ids=["sentences", "null", "tokenizer", "positions", "none"],
)
def test_long_texts_are_cut_to_the_models_length(
    tmp_path: Path, configuration: dict[str, Any], limit: int
) -> None:
    """A long text is cut to the model's length, which includes prefix and special tokens."""
    split = tokenizer()
    split.enable_padding(length=40)
    split.enable_truncation(3)
    path = directory(tmp_path / "tiny", split=split, **configuration)
    made = opened(path, pooling="mean", document_prefix="passage: ")
    text = " ".join(["tea", *["rust"] * 700])
    cut = "passage: " + " ".join(["tea", *["rust"] * (limit - 4)])
    assert_same(made.embed_documents([text])[0], twin(tokens(cut), "mean"))


def test_a_query_is_cut_to_the_characters_of_all_embedders(tmp_path: Path) -> None:
    """A query is cut to 2000 characters without its prefix, and a document to 4000."""
    path = directory(tmp_path / "tiny", sentence_bert_config={"max_seq_length": 10_000})
    made = opened(path, pooling="mean", query_prefix="query: ")
    text = "tea " * 500 + "rust " * 500
    assert_same(made.embed_query(text), twin(tokens("query: " + "tea " * 500), "mean"))
    assert_same(made.embed_documents([text])[0], twin(tokens("tea " * 500 + "rust " * 400), "mean"))


def test_many_threads_get_their_own_vectors(tmp_path: Path) -> None:
    """Concurrent calls for queries and documents get the vectors of the twin."""
    made = opened(directory(tmp_path / "tiny"), pooling="mean", threads=3)
    texts = [" ".join(["tea"] * (n % 5) + ["rust"] * (1 + n % 7)) for n in range(60)]
    expected = [twin(tokens(text), "mean") for text in texts]
    with ThreadPoolExecutor(4) as pool:
        rows = [pool.submit(made.embed_documents, texts) for _ in range(4)]
        queries = list(pool.map(made.embed_query, texts))
    for each in (*(row.result() for row in rows), queries):
        np.testing.assert_allclose(each, expected, atol=1e-5)
    made.close()


@pytest.mark.parametrize("text", ["", " \n\t", "\0" * 50, "a\ud800b", "\ufdfa" * 60, "\x07\x1b"])
def test_hostile_texts_have_vectors(tmp_path: Path, text: str) -> None:
    """Hostile texts get unit vectors, and a text without a token raises an error."""
    made = opened(directory(tmp_path / "tiny"), pooling="mean")
    assert np.linalg.norm(made.embed_documents([text, "tea"]), axis=1) == pytest.approx([1, 1])
    bare = opened(directory(tmp_path / "bare", split=tokenizer(special=False)), pooling="mean")
    with pytest.raises(EmbedderFailed, match="the text has no token"):
        bare.embed_query("")
    assert_same(bare.embed_query("tea"), twin(tokens("tea", special=False), "mean"))


# The model's name


def test_the_name_tells_models_apart(tmp_path: Path) -> None:
    """The model's name depends on all that changes document vectors, but not on other settings."""
    path = directory(tmp_path / "tiny")
    first = opened(path, pooling="mean").model
    assert first.startswith("onnx/tiny/mean/8/")
    assert opened(path, pooling="mean", threads=1, query_prefix="query: ").model == first
    changed = [
        opened(path, pooling="mean", **changes).model
        for changes in ({"dimension": 4}, {"document_prefix": "passage: "}, {"max_tokens": 9})
    ]
    changed.append(opened(path, pooling="cls").model)
    directory(path, model(1))
    changed.append(opened(path, pooling="mean").model)
    directory(path, split=tokenizer(special=False))
    changed.append(opened(path, pooling="mean").model)
    assert len({first, *changed}) == 7
    directory(path)
    assert opened(path, pooling="mean").model == first


def test_weights_in_a_file_of_their_own_count(tmp_path: Path) -> None:
    """External weights change the model's name; other files in its directory do not."""
    path = tmp_path / "tiny"

    def digest(seed: int) -> str:
        directory(path)
        (path / "model.onnx_data").unlink(missing_ok=True)
        onnx.save(
            model(seed),
            path / "model.onnx",
            save_as_external_data=True,
            location="model.onnx_data",
            size_threshold=64,
        )
        made = opened(path, pooling="cls")
        assert_same(made.embed_query("tea"), twin(tokens("tea"), "cls", seed=seed))
        return made.model

    first = digest(0)
    assert (path / "model.onnx_data").is_file()
    assert digest(1) != first
    (path / "README.md").write_text("a model")
    assert digest(0) == first


def test_a_large_file_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of a large file is cached until the file changes; a bad cache is ignored."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "LARGE", 1)
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    first = weights.file_digest(file)
    (kept,) = (tmp_path / "cache" / "vikingd" / "weights").iterdir()
    kept.write_text(kept.read_text().replace(first, "known"))
    assert weights.file_digest(file) == "known"
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # the modification time stays equal
    second = weights.file_digest(file)
    assert second not in ("known", first)
    for damage in ("", "[", "[1]", "[[1], 2]", "7"):
        kept.write_text(damage)
        assert weights.file_digest(file) == second
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))  # no directory can be created there
    assert weights.file_digest(file) == second


# A daemon


def put_and_found(client: Client) -> list[tuple[str, float]]:
    """Write two files, and check that a synonym finds the right one; return what it finds."""
    root = "viking://resources"
    drafts = [Draft(f"{root}/{word}.md", content=f"{word} {word}") for word in ("rust", "tea")]
    client.put(drafts, wait_for_vectors=True)
    assert client.stats().embedder.model.startswith("onnx/tiny/mean/8/")
    first = found(client)
    assert first[0][0] == f"{root}/tea.md"
    assert first[0][1] > 0.3
    return first


def found(client: Client) -> list[tuple[str, float]]:
    """Return what a synonym finds."""
    return [(match.uri, match.score) for match in client.find("oolong", limit=2)]


@pytest.mark.deep
def test_a_daemon_finds_by_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is found by a synonym."""
    path = directory(tmp_path / "tiny", **{"1_Pooling__config": MEAN})
    monkeypatch.setenv("VIKINGD_EMBEDDING__ONNX_MODEL", str(path))
    daemon = ("--path", str(tmp_path / "store"), "--provider", "onnx")
    with serving(*daemon, quiet=True) as where, Client(where) as client:
        put_and_found(client)


@pytest.mark.deep
def test_a_daemon_finds_the_same_after_a_restart_and_refuses_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is found by a synonym, also after a restart; another model is refused."""
    path = directory(tmp_path / "tiny", **{"1_Pooling__config": MEAN})
    monkeypatch.setenv("VIKINGD_EMBEDDING__ONNX_MODEL", str(path))
    daemon = ("--path", str(tmp_path / "store"), "--provider", "onnx")
    with serving(*daemon, quiet=True) as where, Client(where) as client:
        first, embedder = put_and_found(client), client.stats().embedder
    with serving(*daemon, quiet=True) as where, Client(where) as client:
        assert found(client) == first
    directory(path, model(1))
    with pytest.raises(ClientError) as caught, serving(*daemon, quiet=True):
        pass
    assert embedder.model in caught.value.message
    assert "serve --reembed" in caught.value.message
    with serving(*daemon, "--reembed", quiet=True) as where, Client(where) as client:
        assert client.stats().embedder.model != embedder.model
