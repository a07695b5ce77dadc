"""The settings of rerankers, and their checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from annotated_types import Interval

from vikingd.domain.text import SCRIPTS
from vikingd.models.http.endpoint_secrets import key_in

FORMS = ("cohere", "jina", "tei", "vllm", "xinference")
"""Forms of requests and replies of the kind http."""
HOSTED = ("cohere", "jina")
"""Forms of services that have an address of their own and need a key."""


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """One reranker, a table [[rerank.backends]] of the configuration.

    Attributes:
        kind: http, volcengine or onnx.
        scripts: the scripts of queries that it gets, from vikingd.domain.text.SCRIPTS; if empty,
            all scripts that no other reranker has.
        url: URL of the server; the form adds its path unless the URL ends in "rerank". "": the
            service's own.
        form: the protocol for the kind http, one of FORMS.
        model: name of the model at the server; for onnx and tei only a label.
        model_version: version of the model at Volcengine; "": the service chooses.
        region: region of the service at Volcengine.
        path: directory with model.onnx and tokenizer.json.
        key_env: the environment variable that holds the key.
        access_key_env: the environment variable that holds Volcengine's access key.
        secret_key_env: the environment variable that holds Volcengine's secret key.
        timeout: seconds of one call.
        batch: most documents of one request; 0: the form's own limit.
        max_chars: most characters of a document; the rest is cut.
        scores: "probability" or "logit", the kind of raw scores; "": the kind that the form has.
        concurrency: most requests in flight.
        threads: threads of onnx.
    """

    kind: Literal["http", "volcengine", "onnx"]
    scripts: tuple[str, ...] = ()
    url: str = field(default="", repr=False)  # may hold a password
    form: Literal["", "cohere", "jina", "tei", "vllm", "xinference"] = ""
    model: str = ""
    model_version: str = "251028"
    region: str = "cn-beijing"
    path: str = ""
    key_env: str = ""
    access_key_env: str = ""
    secret_key_env: str = ""
    timeout: Annotated[float, Interval(gt=0, le=60)] = 2.0
    batch: Annotated[int, Interval(ge=0, le=10_000)] = 0
    max_chars: Annotated[int, Interval(ge=1, le=100_000)] = 2000
    scores: Literal["", "probability", "logit"] = ""
    concurrency: Annotated[int, Interval(ge=1, le=1024)] = 8
    threads: Annotated[int, Interval(ge=1, le=256)] = 2


_KINDS_OF = {
    "url": ("http", "volcengine"),
    "form": ("http",),
    "model_version": ("volcengine",),
    "region": ("volcengine",),
    "path": ("onnx",),
    "key_env": ("http",),
    "access_key_env": ("volcengine",),
    "secret_key_env": ("volcengine",),
    "concurrency": ("http", "volcengine"),
    "threads": ("onnx",),
}


def check_backend(settings: BackendSettings) -> None:
    """Check settings before anything is opened.

    Raises:
        ValueError: the settings cannot work; the message names the fault and the remedy, no secret.
    """
    for setting in dataclasses.fields(settings):
        kinds = _KINDS_OF.get(setting.name, (settings.kind,))
        if settings.kind not in kinds and getattr(settings, setting.name) != setting.default:
            raise ValueError(f"the kind {settings.kind} takes no {setting.name}")
    for script in settings.scripts:
        if script not in SCRIPTS:
            raise ValueError(f"scripts: {script!r} is not one of {', '.join(SCRIPTS)}")
    if settings.kind == "http":
        _check_form(settings)
    elif settings.kind == "volcengine" and not (
        settings.access_key_env and settings.secret_key_env
    ):
        raise ValueError(
            "the kind volcengine needs keys: name the environment variables that hold them with "
            "access_key_env and secret_key_env"
        )
    elif settings.kind == "onnx" and not settings.path:
        raise ValueError(
            "the kind onnx needs a model: set path to a directory with model.onnx and "
            "tokenizer.json"
        )
    if settings.url:
        _check_url(settings)
    for name in ("key_env", "access_key_env", "secret_key_env"):
        if variable := getattr(settings, name):
            _check_key(name, variable)


def check_backends(backends: Sequence[BackendSettings]) -> None:
    """Check that each reranker of a list can be chosen by some query.

    Raises:
        ValueError: two rerankers are for the same script, or both for all other scripts.
    """
    taken = set()
    for settings in backends:
        for script in settings.scripts or ("",):
            if script in taken:
                what = f"the script {script!r}" if script else "all other scripts (they name none)"
                raise ValueError(f"two backends are for {what}: the second would never be asked")
            taken.add(script)


def _check_form(settings: BackendSettings) -> None:
    if settings.form not in FORMS:
        raise ValueError(f"the kind http needs a form: one of {', '.join(FORMS)}")
    hosted = settings.form in HOSTED
    if hosted and not settings.key_env:
        raise ValueError(
            f"the form {settings.form} needs a key: name the environment variable that holds it "
            "with key_env"
        )
    if not hosted and not settings.url:
        raise ValueError(f"the form {settings.form} needs the server's address: set url")
    if settings.form != "tei" and not settings.model:
        raise ValueError(f"the form {settings.form} needs a model: set model")


def _check_url(settings: BackendSettings) -> None:
    try:
        url = urlsplit(settings.url)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("url: this is no http:// or https:// address")
    if url.query or url.fragment:
        raise ValueError("url: it must end with its path; a key is taken from key_env")
    if "@" in url.netloc and (settings.key_env or settings.kind == "volcengine"):
        raise ValueError("url: it holds a password, and there are keys too; leave one of them out")


def _check_key(name: str, variable: str) -> None:
    key = key_in(variable)
    if not key:
        raise ValueError(f"{name}: the environment variable {variable} is not set")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"{name}: {variable} holds characters that are in no key")
