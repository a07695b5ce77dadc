"""The count of tokens by bundled, configured and approximate tokenizers."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands import serve
from tests.daemons import serving
from tests.tiers import examples
from vikingd.client import CitationStyle, ClientError, Draft
from vikingd.client.messages import MessageClient
from vikingd.context import tokenizers
from vikingd.context.tokenizers import BUNDLED, configure, known, open_tokenizer
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import approximate_tokens

some = examples(300)
PIECES = [
    "the ",
    "Word",
    "'s",
    "'LL",
    "1234",
    "\n\n",
    "  ",
    "\t",
    "中文",
    "句子。",
    "！",
    "🎉",
    "👨‍👩‍👧",
    "e\u0301",
    "\u0301",
    "//",
    "{}",
    "<|endoftext|>",
    "<|im_start|>",
    "\u3000",
    "한국",
    "ａ",
    "\r\n",
    "aB",
    "_",
    "\0",
    "\ufdfa",
]
# Two tokenizers may know different versions of Unicode, so unassigned characters are left out.
ASSIGNED = st.characters(exclude_categories=["Cs", "Cn"])
texts = st.lists(st.sampled_from(PIECES) | st.text(ASSIGNED, max_size=3), max_size=20).map("".join)


@pytest.fixture(autouse=True)
def nothing_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the open tokenizers before each test."""
    own = {name: tokenizers._Slot() for name in (*BUNDLED, "approx")}
    monkeypatch.setattr(tokenizers, "_slots", own)


@pytest.fixture(scope="module")
def tiktoken_vocabularies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of the files that tiktoken would download."""
    cache = tmp_path_factory.mktemp("tiktoken")
    bundle = pytest.importorskip("bpe_openai", reason="bpe-openai has tiktoken's vocabularies")
    for name in ("cl100k_base", "o200k_base"):
        url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
        packed = resources.files(bundle).joinpath(f"data/{name}.tiktoken.gz").read_bytes()
        (cache / hashlib.sha1(url.encode()).hexdigest()).write_bytes(gzip.decompress(packed))
    return cache


@pytest.fixture
def tiktoken_offline(tiktoken_vocabularies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiktoken find its vocabularies without a network."""
    pytest.importorskip("tiktoken", reason="tiktoken is the peer")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", os.fspath(tiktoken_vocabularies))


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
@pytest.mark.usefixtures("tiktoken_offline")
def test_counts_agree_with_tiktokens(name: str) -> None:
    """Counts equal those of tiktoken for any text, also with texts of special tokens."""
    configure({"peer": f"tiktoken:{name}"})
    ours, peer = open_tokenizer(name), open_tokenizer("peer")

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
    """Each bundled tokenizer counts by its own vocabulary."""
    tokenizer = open_tokenizer(name)
    assert (tokenizer.name, tokenizer.approximate) == (name, False)
    assert (tokenizer.count("The quick brown fox"), tokenizer.count("检索增强")) == counts


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize(
    "special", ["<|endoftext|>", "<|im_start|>", "<|begin_of_text|>", "<|eot_id|>"]
)
def test_special_tokens_in_a_text_are_text(name: str, special: str) -> None:
    """The text of a special token counts as several tokens and raises no error."""
    count = open_tokenizer(name).count
    assert count(f"a {special} b") >= count("a  b") + 3


def test_the_approximation_says_that_it_is_one() -> None:
    """The approximation is marked as one and counts by script."""
    tokenizer = open_tokenizer("approx")
    assert tokenizer.approximate
    for text in ("", "The quick brown fox", "检索增强 and more"):
        assert tokenizer.count(text) == approximate_tokens(text)


@pytest.mark.parametrize("name", [*BUNDLED, "approx"])
def test_nothing_is_no_token(name: str) -> None:
    """An empty text has no token, so that it fits any budget."""
    assert open_tokenizer(name).count("") == 0


@pytest.mark.parametrize(
    "name",
    ["gpt-4", "O200K_BASE", "tiktoken:cl100k_base", "hf:/dev/zero", "approx:x", "../x", "mine"],
)
def test_an_unknown_name_is_refused_with_those_that_are_known(name: str) -> None:
    """Unknown names, paths and encodings are refused with the known names."""
    for ask in (known, open_tokenizer):
        with pytest.raises(InvalidField) as refused:
            ask(name)
        assert refused.value.field == "tokenizer"
        assert all(one in str(refused.value) for one in tokenizers._slots)


def test_a_long_unknown_name_is_not_repeated_whole() -> None:
    """The error of a long unknown name stays short."""
    with pytest.raises(InvalidField) as refused:
        known("x" * 10**6)
    assert len(str(refused.value)) < 400


def test_an_empty_name_is_the_default() -> None:
    """An empty name means the default tokenizer."""
    assert known("") == open_tokenizer("").name == "o200k_base"


def test_a_tokenizer_that_is_being_opened_makes_no_other_one_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another tokenizer is opened while one is still being opened."""
    begun, go_on = threading.Event(), threading.Event()
    real: Callable[[str], tokenizers.Tokenizer] = tokenizers._open

    def slow(name: str) -> tokenizers.Tokenizer:
        if name == "qwen3":
            begun.set()
            assert go_on.wait(50)
        return real(name)

    monkeypatch.setattr(tokenizers, "_open", slow)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(open_tokenizer, "qwen3")
        assert begun.wait(50)
        other = pool.submit(open_tokenizer, "approx")
        try:
            assert other.result(50).count("") == 0
            assert not waiting.done()
        finally:
            go_on.set()
    assert waiting.result().name == "qwen3"


def test_a_tokenizer_is_opened_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that ask at the same time share one tokenizer."""
    opened: list[str] = []
    real: Callable[[str], tokenizers.Tokenizer] = tokenizers._open
    monkeypatch.setattr(tokenizers, "_open", lambda name: (opened.append(name), real(name))[1])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(open_tokenizer, ["qwen3"] * 32))
        counts = set(pool.map(found[0].count, ["检索 and more "] * 200))
    assert opened == ["qwen3"]
    assert len({id(t) for t in found}) == len(counts) == 1


@pytest.mark.parametrize(
    ("source", "package"), [("tiktoken:o200k_base", "tiktoken"), ("hf:/a.json", "tokenizers")]
)
def test_a_missing_package_of_a_configured_one_is_named(
    source: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a missing package of a configured tokenizer has its install command."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=f"^mine: .*pip install {package}$"):
        configure({"mine": source})


def test_a_missing_package_of_a_bundled_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a missing package of a bundled tokenizer has its install command."""
    monkeypatch.setitem(sys.modules, "quicktok", None)
    with pytest.raises(InvalidField, match=r"o200k_base needs .*quicktok-v1; .*take approx"):
        open_tokenizer("o200k_base")


def test_a_vocabulary_that_can_not_be_had_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a failed download names the setting for use without a network."""
    pytest.importorskip("tiktoken", reason="tiktoken downloads its vocabularies")
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", os.fspath(tmp_path))
    with pytest.raises(ValueError, match=r"^mine: .*download.*p50k_base.*TIKTOKEN_CACHE_DIR"):
        configure({"mine": "tiktoken:p50k_base"})
    assert "mine" not in tokenizers._slots


def test_an_encoding_that_tiktoken_does_not_know_is_refused() -> None:
    """The error of an unknown encoding has the known ones."""
    pytest.importorskip("tiktoken", reason="tiktoken lists its encodings")
    with pytest.raises(ValueError, match=r"no .mine., only .*cl100k_base"):
        configure({"mine": "tiktoken:mine"})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a b": "tiktoken:gpt2"}, "'a b': a name has"),
        ({"": "tiktoken:gpt2"}, "'': a name has"),
        ({"qwen3": "tiktoken:gpt2"}, "qwen3: is the name of a tokenizer that comes with"),
        ({"approx": "tiktoken:gpt2"}, "approx: is the name of a tokenizer that comes with"),
        ({"mine": "gpt2"}, "mine: 'gpt2' is neither hf:PATH nor tiktoken:ENCODING"),
        ({"mine": "hf:"}, "mine: 'hf:' is neither"),
        ({"mine": "file:/a"}, "mine: 'file:/a' is neither"),
        ({"mine": "hf:a.json"}, "mine: 'a.json' is not an absolute path"),
    ],
)
def test_a_configured_one_of_a_wrong_form_is_refused(table: dict[str, str], message: str) -> None:
    """The error of a wrong configured tokenizer begins with its name."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        configure(table)


def test_a_hugging_face_tokenizer_counts_all_of_the_text_and_nothing_else(tmp_path: Path) -> None:
    """Special tokens, truncation and padding of a Hugging Face file change no count."""
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
    configure({"mine": f"hf:{path}"})
    assert [*tokenizers._slots][-1] == known("mine") == "mine"
    count = open_tokenizer("mine").count
    assert count("a b a b a b") == 6
    assert count("a <s> b") == 5
    assert count("") == 0


@pytest.mark.parametrize("content", [None, "", "{}", json.dumps({"model": {"type": "none"}})])
def test_a_file_that_is_no_tokenizer_is_refused(content: str | None, tmp_path: Path) -> None:
    """A missing, empty or wrong tokenizer file is refused."""
    pytest.importorskip("tokenizers", reason="the library of tokenizer.json")
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"^mine: cannot read .*tokenizer\.json"):
        configure({"mine": f"hf:{path}"})


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    """A FIFO, a device, a directory and a too large file are refused without being read."""
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(tokenizers.MAX_FILE_BYTES + 1)
    reasons = {
        tmp_path / "fifo": "not a regular file",
        Path("/dev/zero"): "not a regular file",
        tmp_path: "not a regular file",
        tmp_path / "large": "has more than .* bytes",
    }
    for path, reason in reasons.items():
        with pytest.raises(ValueError, match=f"^mine: cannot read .*({reason})"):
            configure({"mine": f"hf:{path}"})


def word_counter(path: Path) -> None:
    """Write a tokenizer.json that counts words."""
    huggingface = pytest.importorskip("tokenizers", reason="the library of tokenizer.json")
    made = huggingface.Tokenizer(huggingface.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = huggingface.pre_tokenizers.WhitespaceSplit()
    made.save(os.fspath(path))


def test_a_request_names_no_path(tmp_path: Path, daemon: str) -> None:
    """A path in a request is refused and not opened, and the daemon still answers."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with MessageClient(daemon, timeout=20) as client:
        for ask in (client.recall, client.build_context):
            with pytest.raises(ClientError) as refused:
                ask("x", tokenizer=f"hf:{fifo}")
            assert [v.field for v in refused.value.field_violations] == ["tokenizer"]
        assert client.stats().revision >= 0


def test_a_request_may_name_a_configured_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BuildContext and Recall accept a configured tokenizer, and an error lists it."""
    word_counter(tmp_path / "words.json")
    monkeypatch.setenv("VIKINGD_CONTEXT__TOKENIZERS__WORDS", f"hf:{tmp_path / 'words.json'}")
    with (
        serving("--provider", "none") as where,
        MessageClient(where, timeout=60) as client,
    ):
        uri = "viking://user/memories/notes.md"
        client.put([Draft(uri, content="- likes antidisestablishmentarianism\n")])
        built = client.build_context(uris=[uri], tokenizer="words", citation=CitationStyle.NONE)
        assert built.used_tokens == len(built.text.split())
        (memory,) = client.recall("likes", tokenizer="words", with_global=True).results
        assert memory.token_count == 2
        with pytest.raises(ClientError, match=r"qwen3, llama3, approx, words;"):
            client.recall("likes", tokenizer="other")


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["fifo", "missing", "directory", "no tokenizer"])
def test_a_daemon_does_not_start_with_a_tokenizer_that_it_cannot_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The daemon names the setting and ends with code 2."""
    path = tmp_path / "tokenizer.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "no tokenizer":
        path.write_text("{}")
    monkeypatch.setenv("VIKINGD_CONTEXT__TOKENIZERS__MINE", f"hf:{path}")
    done = subprocess.run(
        serve(tmp_path / "store", "--provider", "none"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert f"context.tokenizers.mine: cannot read '{path}'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.deep
def test_a_daemon_opens_the_tokenizer_of_a_recall_before_it_is_asked() -> None:
    """The daemon's loading after its start opens the default tokenizer."""
    code = (
        "from vikingd.context import tokenizers\n"
        "from vikingd.daemon.daemon_lifecycle import load_other_kernels\n"
        "slot = tokenizers._slots[tokenizers.DEFAULT]\n"
        "assert slot.opened is None\n"
        "load_other_kernels()\n"
        "assert slot.opened is not None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
