"""Counting tokens as models do."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vikingd.context import tokenizers
from vikingd.context.tokenizers import BUNDLED, NAMES, open_tokenizer
from vikingd.errors import InvalidField
from vikingd.text import approximate_tokens

some = settings(max_examples=300, deadline=None, print_blob=True)
PIECES = ["the ", "Word", "'s", "'LL", "1234", "\n\n", "  ", "\t", "中文", "句子。", "！", "🎉",
          "👨‍👩‍👧", "e\u0301", "\u0301", "//", "{}", "<|endoftext|>", "<|im_start|>", "\u3000",
          "한국", "ａ", "\r\n", "aB", "_", "\0", "\ufdfa"]  # fmt: skip
# What a later Unicode has assigned is a letter for one tokenizer and not yet for the other.
ASSIGNED = st.characters(exclude_categories=["Cs", "Cn"])
texts = st.lists(st.sampled_from(PIECES) | st.text(ASSIGNED, max_size=3), max_size=20).map("".join)


@pytest.fixture(autouse=True)
def nothing_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test opens its tokenizers anew."""
    monkeypatch.setattr(tokenizers, "_opened", {})


@pytest.fixture(scope="module")
def tiktoken_vocabularies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that tiktoken would download, from the package of another peer."""
    cache = tmp_path_factory.mktemp("tiktoken")
    bundle = pytest.importorskip("bpe_openai", reason="bpe-openai has tiktoken's vocabularies")
    for name in ("cl100k_base", "o200k_base"):
        url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
        packed = resources.files(bundle).joinpath(f"data/{name}.tiktoken.gz").read_bytes()
        (cache / hashlib.sha1(url.encode()).hexdigest()).write_bytes(gzip.decompress(packed))
    return cache


@pytest.fixture
def tiktoken_offline(tiktoken_vocabularies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tiktoken finds its vocabularies without a network."""
    pytest.importorskip("tiktoken", reason="tiktoken is the peer")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", os.fspath(tiktoken_vocabularies))


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
@pytest.mark.usefixtures("tiktoken_offline")
def test_counts_agree_with_tiktokens(name: str) -> None:
    """For any text, what looks like a special token among it."""
    ours, peer = open_tokenizer(name), open_tokenizer(f"tiktoken:{name}")

    @some
    @given(texts)
    def agree(text: str) -> None:
        assert ours.count(text) == peer.count(text)

    agree()


@pytest.mark.parametrize(
    ("name", "counts"),
    [("o200k_base", (4, 3)), ("cl100k_base", (4, 5)), ("qwen3", (4, 2)), ("llama3", (4, 4))],
)
def test_bundled_tokenizers_count_with_their_own_vocabularies(
    name: str, counts: tuple[int, int]
) -> None:
    """English alike, Chinese each by its own."""
    tokenizer = open_tokenizer(name)
    assert (tokenizer.name, tokenizer.approximate) == (name, False)
    assert (tokenizer.count("The quick brown fox"), tokenizer.count("检索增强")) == counts


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize(
    "special", ["<|endoftext|>", "<|im_start|>", "<|begin_of_text|>", "<|eot_id|>"]
)
def test_special_tokens_in_a_text_are_text(name: str, special: str) -> None:
    """They are counted as several tokens and raise nothing."""
    count = open_tokenizer(name).count
    assert count(f"a {special} b") >= count("a  b") + 3


def test_the_approximation_says_that_it_is_one() -> None:
    """And counts by script."""
    tokenizer = open_tokenizer("approx")
    assert tokenizer.approximate
    for text in ("", "The quick brown fox", "检索增强 and more"):
        assert tokenizer.count(text) == approximate_tokens(text)


@pytest.mark.parametrize("name", [*BUNDLED, "approx"])
def test_nothing_is_no_token(name: str) -> None:
    """So that an empty context fits any budget."""
    assert open_tokenizer(name).count("") == 0


@pytest.mark.parametrize("name", ["", "gpt-4", "O200K_BASE", "tiktoken:", "hf:", "approx:x"])
def test_an_unknown_name_is_refused_with_those_that_are_known(name: str) -> None:
    """All of them."""
    with pytest.raises(InvalidField) as refused:
        open_tokenizer(name)
    assert refused.value.field == "tokenizer"
    assert all(known in str(refused.value) for known in NAMES)


def test_a_tokenizer_is_opened_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask at once."""
    opened: list[str] = []
    real: Callable[[str], tokenizers.Tokenizer] = tokenizers._open
    monkeypatch.setattr(tokenizers, "_open", lambda name: (opened.append(name), real(name))[1])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(open_tokenizer, ["qwen3"] * 32))
        counts = set(pool.map(found[0].count, ["检索 and more "] * 200))
    assert opened == ["qwen3"]
    assert len({id(t) for t in found}) == len(counts) == 1


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("o200k_base", "quicktok", "quicktok-v1"),
        ("tiktoken:o200k_base", "tiktoken", "tiktoken"),
        ("hf:a.json", "tokenizers", "tokenizers"),
    ],
)
def test_a_missing_package_is_named(
    name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidField, match=f"pip install {package}$"):
        open_tokenizer(name)


def test_a_vocabulary_that_can_not_be_had_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what works without a network; and it is asked for again the next time."""
    pytest.importorskip("tiktoken", reason="tiktoken downloads its vocabularies")
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", os.fspath(tmp_path))
    for _ in range(2):
        with pytest.raises(InvalidField, match=r"download.*p50k_base.*TIKTOKEN_CACHE_DIR.*qwen3"):
            open_tokenizer("tiktoken:p50k_base")


def test_an_encoding_that_tiktoken_does_not_know_is_refused() -> None:
    """With those that it knows."""
    pytest.importorskip("tiktoken", reason="tiktoken lists its encodings")
    with pytest.raises(InvalidField, match=r"no .mine., only .*cl100k_base"):
        open_tokenizer("tiktoken:mine")


def test_a_hugging_face_tokenizer_counts_all_of_the_text_and_nothing_else(tmp_path: Path) -> None:
    """Whatever its file says of special tokens, truncation and padding."""
    huggingface = pytest.importorskip("tokenizers", reason="the library of tokenizer.json")
    vocabulary = {word: i for i, word in enumerate(["[UNK]", "[CLS]", "a", "b", "<", "s", ">"])}
    tokenizer = huggingface.Tokenizer(huggingface.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = huggingface.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = huggingface.processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 1)]
    )
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=8)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(os.fspath(path))
    count = open_tokenizer(f"hf:{path}").count
    assert count("a b a b a b") == 6
    assert count("a <s> b") == 5
    assert count("") == 0


@pytest.mark.parametrize("content", [None, "", "{}", json.dumps({"model": {"type": "none"}})])
def test_a_file_that_is_no_tokenizer_is_refused(content: str | None, tmp_path: Path) -> None:
    """Missing, empty, or of something else."""
    pytest.importorskip("tokenizers", reason="the library of tokenizer.json")
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidField, match=r"tokenizer: can't read .*tokenizer\.json"):
        open_tokenizer(f"hf:{path}")
