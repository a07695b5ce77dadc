"""A local cross-encoder: a tiny real model and a real tokenizer."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from vikingd.models import onnx_directory
from vikingd.models.rerank import cross_encoder as local
from vikingd.models.rerank.cross_encoder import CrossEncoder
from vikingd.models.rerank.rerank_settings import BackendSettings
from vikingd.models.rerank.reranker_protocol import RerankFailed
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.system.install_command import install_command

WORDS = {"[PAD]": 0.5, "[CLS]": 0.0, "[SEP]": 0.0, "[UNK]": 0.0, "tea": 2.0, "rust": -3.0}
"""The weight of each token; a logit is the sum over the document without the query."""


def tokenizer() -> Tokenizer:
    """Return a tokenizer that splits at white space and joins pairs as BERT does."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return made


def model(
    kind: int = TensorProto.INT64,
    types: bool = True,
    odd_input: str = "",
    output: str = "logits",
    columns: int = 1,
) -> onnx.ModelProto:
    """Return a model that sums the weights of tokens; with `types`, of the document alone."""
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    nodes = [
        helper.make_node("Gather", ["weights", "input_ids"], ["of_each"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["of_each", "mask"], ["unpadded"]),
    ]
    if types:
        nodes += [
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["unpadded", "types"], ["of_documents"]),
        ]
    last = "of_documents" if types else "unpadded"
    nodes.append(helper.make_node("ReduceSum", [last, "axis"], ["sums"], keepdims=1))
    nodes.append(helper.make_node("Concat", ["sums"] * columns, [output], axis=1))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(name, kind, ["n", "s"])
            for name in [*names, *([odd_input] if odd_input else [])]
        ],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", columns])],
        [
            numpy_helper.from_array(np.array(list(WORDS.values()), np.float32), "weights"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def directory(
    path: Path, made: onnx.ModelProto | None = None, split: Tokenizer | None = None
) -> str:
    """Write a model and a tokenizer, and return the path."""
    path.mkdir(parents=True, exist_ok=True)
    onnx.save(made or model(), path / "model.onnx")
    (split or tokenizer()).save(str(path / "tokenizer.json"))
    return str(path)


def scores(path: str, query: str, documents: list[str], **other: object) -> tuple[float, ...]:
    """Return the scores of one call."""

    async def ask() -> tuple[float, ...]:
        made = Rerankers([BackendSettings("onnx", path=path, **other)])  # type: ignore[arg-type]
        try:
            assert made.named(query) == "onnx/tiny"
            return (await made.rerank(query, documents, None)).scores
        finally:
            await made.close()

    return asyncio.run(ask())


def sigmoid(logit: float) -> float:
    """Return the sigmoid of a logit, in [0, 1]."""
    return 1 / (1 + math.exp(-logit))


@pytest.mark.parametrize(
    "made",
    [model(), model(kind=TensorProto.INT32), model(output="scores")],
    ids=["int64", "int32", "another output's name"],
)
def test_scores_are_the_models(tmp_path: Path, made: onnx.ModelProto) -> None:
    """Scores are in the order of the documents, for int64 and int32 inputs and any output name."""
    path = directory(tmp_path / "tiny", made)
    given = ["tea tea tea x x x", "rust", "tea", "x"]
    assert scores(path, "tea rust", given) == pytest.approx(
        [sigmoid(x) for x in (6.0, -3.0, 2.0, 0.0)], abs=1e-6
    )


def test_models_without_token_types_are_fed_without(tmp_path: Path) -> None:
    """A model without token types gets none, so the words of the query count too."""
    path = directory(tmp_path / "tiny", model(types=False))
    assert scores(path, "tea", ["rust", "x x"]) == pytest.approx([sigmoid(-1.0), sigmoid(2.0)])


def test_many_documents_are_read_in_batches(tmp_path: Path) -> None:
    """Each of many documents gets its own score, also in several batches."""
    path = directory(tmp_path / "tiny")
    given = [" ".join(["tea"] * (number % 7) + ["rust"] * (number % 5)) for number in range(1, 70)]
    expected = [sigmoid(2.0 * (n % 7) - 3.0 * (n % 5)) for n in range(1, 70)]
    given = [text or "x" for text in given]
    assert scores(path, "q", given, batch=8) == pytest.approx(expected, abs=1e-6)


def test_long_texts_are_cut_to_the_tokenizers_length(tmp_path: Path) -> None:
    """A long text is cut to the length of the tokenizer, or to 512 tokens with the query."""
    path = directory(tmp_path / "tiny")
    text = "rust " * 300 + "tea " * 300
    (cut,) = scores(path, "q", [text], max_chars=10_000)
    assert cut == pytest.approx(sigmoid(-3.0 * 300 + 2.0 * (508 - 300)), rel=1e-6)
    assert scores(path, "tea " * 400, ["rust " * 400])[0] < 1e-99
    split = tokenizer()
    split.enable_truncation(6)
    split.enable_padding(pad_id=0, pad_token="[PAD]", length=3)
    assert scores(directory(tmp_path / "6" / "tiny", split=split), "q", ["tea " * 9, "tea"]) == (
        pytest.approx([sigmoid(4.0), sigmoid(2.0)])
    )


def test_probabilities_are_taken_as_they_are(tmp_path: Path) -> None:
    """Scores of a model that ends in a sigmoid are not changed, and others are refused."""
    path = directory(tmp_path / "tiny")
    assert scores(path, "q", ["x"], scores="probability") == (0.0,)
    with pytest.raises(RerankFailed, match=r'onnx/tiny gave the score 2, .* scores to "logit"'):
        scores(path, "q", ["tea"], scores="probability")


def test_the_event_loop_goes_on_and_a_late_model_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model runs on its own thread, and batches of a call that timed out do not start."""
    begun, release = [], threading.Event()
    original = CrossEncoder._logits

    def slow(self: CrossEncoder, query: str, documents: list[str]) -> list[float]:
        begun.append(threading.current_thread())
        release.wait(10)
        return original(self, query, documents)

    monkeypatch.setattr(CrossEncoder, "_logits", slow)

    async def ask() -> None:
        made = Rerankers([BackendSettings("onnx", path=directory(tmp_path / "tiny"), batch=1)])
        with pytest.raises(RerankFailed, match=r"onnx/tiny did not answer within 0\.1 s"):
            await made.rerank("q", ["tea", "rust", "x"], 0.1)
        release.set()
        assert (await made.rerank("q", ["tea"], 10.0)).asked == 1
        await made.close()

    asyncio.run(ask())
    assert len(begun) == 2
    assert begun[0] is begun[1] is not threading.main_thread()
    assert not begun[0].is_alive()


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (model(odd_input="pixel_values"), "is not a text model: it has the input 'pixel_values'"),
        (model(columns=3), r"gave scores of shape \(1, 3\) for 1 documents"),
    ],
    ids=["inputs", "outputs"],
)
def test_other_models_are_refused(tmp_path: Path, made: onnx.ModelProto, reason: str) -> None:
    """A model with unusual inputs or outputs is refused."""
    with pytest.raises(RerankFailed, match=reason):
        scores(directory(tmp_path / "tiny", made), "q", ["tea"])


def test_files_that_are_not_there_or_broken_are_told(tmp_path: Path) -> None:
    """The error of a missing or broken file has its path."""
    path = directory(tmp_path / "tiny")
    (tmp_path / "tiny" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(
        RerankFailed, match=r"the reranker onnx/tiny: .*/tiny/model.onnx cannot be loaded: "
    ):
        scores(path, "q", ["tea"])
    (tmp_path / "tiny" / "model.onnx").unlink()
    with pytest.raises(RerankFailed, match=r"/model\.onnx does not exist"):
        scores(path, "q", ["tea"])
    split = Tokenizer(models.WordLevel({"x": 0}, "x"))
    with pytest.raises(RerankFailed, match="no token for padding"):
        scores(directory(tmp_path / "tiny", split=split), "q", ["tea"])


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_extra_is_told_with_its_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    """The error of a missing package has the command that installs it."""
    monkeypatch.delitem(sys.modules, local.__name__)
    monkeypatch.delitem(sys.modules, onnx_directory.__name__)
    monkeypatch.setitem(sys.modules, package, None)  # makes its import fail
    with pytest.raises(RerankFailed) as caught:
        Rerankers([BackendSettings("onnx", path=directory(tmp_path / "tiny"))])
    assert str(caught.value) == (
        f"the reranker onnx/tiny: {package} is not installed; "
        f"install it with: {install_command('onnx')}"
    )
