"""vikingctl models: pulls into the cache of the hub's programs, and the models of pulls."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tests.commands import serve
from tests.daemons import serving
from tests.models.hub_server import Reply, Request
from tests.models.onnx_embed_helpers import assert_same
from tests.models.onnx_embed_helpers import opened as opened_directory
from tests.models.onnx_helpers import model, tokens, twin
from tests.models.pull_helpers import (
    GRAPH,
    MEAN,
    NAME,
    REPOSITORY,
    Ctl,
    PinnedHub,
    assert_answers,
    files_of,
    left,
    opened,
)
from tests.vikingctl import on_a_terminal
from vikingd.client import Client, Draft
from vikingd.config import ConfigError, load
from vikingd.domain.errors import EmbedderFailed
from vikingd.models.hub.cache import cache_directory
from vikingd.models.hub.pull import pull_pinned
from vikingd.models.model_files import GRAPHS, TOKENIZER
from vikingd.models.pinned_models import MODELS

SHARED = "from huggingface_hub import hf_hub_download, constants"


def hub_program(code: str, **variables: str) -> str:
    """Run code with the hub's own library in a process of its own; return its stdout."""
    environment = {**os.environ, "HF_HUB_DISABLE_TELEMETRY": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-c", f"{SHARED}\n{code}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def shape(root: Path) -> dict[str, str]:
    """Return the files of a cache with their contents, or the targets of links, but its locks."""
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file() and not name.startswith((".locks", "CACHEDIR.TAG")):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


# Models of the registry


def test_a_pulled_model_answers(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """A pull prints the directory of the model, whose vectors are those of the twin."""
    code, out, err = offline_ctl("models", "pull", NAME)
    assert (code, out) == (0, f"{hub.snapshot}\n")
    assert err == f'files received: 4; for [embedding]: provider = "onnx", onnx_model = "{NAME}"\n'
    assert_answers()
    assert opened().model.startswith("onnx/tiny/mean/8/")


def test_a_second_pull_asks_nobody(
    hub: PinnedHub, offline_ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is there is not asked for again, also without a network."""
    assert offline_ctl("models", "pull", NAME)[0] == 0
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, out, err = offline_ctl("models", "pull", NAME, "--json")
    assert (code, hub.requests) == (0, [])
    assert json.loads(out) == {
        "model": NAME,
        "revision": hub.model.revision,
        "path": str(hub.snapshot),
        "received": 0,
    }
    assert err == ""


def test_only_a_damaged_file_is_pulled_again(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """A file that was changed in the cache is refused by name, and a pull replaces it alone."""
    offline_ctl("models", "pull", NAME)
    graph = hub.snapshot / GRAPH
    graph.write_bytes(hub.graph[:-1] + b"x")
    with pytest.raises(EmbedderFailed) as refused:
        opened()
    assert str(refused.value) == (
        f"embedding.onnx_model: {graph} is not the pinned file; get it again with: "
        "vikingctl models pull tiny"
    )
    hub.requests.clear()
    code, _, err = offline_ctl("models", "pull", NAME)
    assert (code, err.partition(";")[0]) == (0, "files received: 1")
    assert {request.path.split("?")[0].rpartition("/")[2] for request in hub.requests} == {
        GRAPH.rpartition("/")[2],
        hub.sha256,
    }
    assert_answers()


def test_another_graph_of_the_same_commit_is_not_taken(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """A named model is its pinned graph, also beside one that another program pulled."""
    offline_ctl("models", "pull", NAME)
    onnx.save(model(1), hub.snapshot / "onnx" / "model.onnx")
    assert_answers()


@pytest.mark.parametrize("name", [NAME, REPOSITORY])
def test_a_missing_model_names_the_command(hub: PinnedHub, name: str) -> None:
    """The embedder names the command for a model that is not there; it does not pull it."""
    with pytest.raises(EmbedderFailed) as refused:
        opened(name)
    assert str(refused.value) == (
        f"embedding.onnx_model: the model {name} is not in {cache_directory()}; get it with: "
        f"vikingctl models pull {name}"
    )
    assert hub.requests == []


@pytest.mark.deep
def test_a_daemon_without_its_model_ends_and_pulls_nothing(hub: PinnedHub, tmp_path: Path) -> None:
    """A daemon whose named model is missing does not start, names the command, and asks no hub."""
    done = subprocess.run(
        serve(tmp_path / "store", "--provider", "onnx"),
        env={**os.environ, "VIKINGD_EMBEDDING__ONNX_MODEL": "multilingual-e5-small"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "get it with: vikingctl models pull multilingual-e5-small" in done.stderr
    assert hub.requests == []


def test_two_pulls_at_once_receive_each_file_once(hub: PinnedHub) -> None:
    """The second of two pulls waits for the first, and takes its files."""
    hub.fault = lambda _, reply: replace(reply, pause=0.02)
    with ThreadPoolExecutor() as threads:
        pulls = [threads.submit(pull_pinned, hub.model, lambda *_: None) for _ in range(3)]
    assert [pull.result().path for pull in pulls] == [hub.snapshot] * 3
    for path in hub.files:
        assert len(hub.sent(path)) == 1
    assert_answers()


def test_the_list_shows_what_is_present(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """The list has size, dimension, languages and presence, in each form of the output."""
    code, out, _ = offline_ctl("models", "list")
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    assert code == 0
    assert list(rows) == [*MODELS]
    assert rows[NAME] == [NAME, "0", "8", "tea", "Apache-2.0", "no"]
    offline_ctl("models", "pull", NAME)
    assert offline_ctl("models", "list")[1].splitlines()[-1].split()[-1] == "yes"
    listed = json.loads(offline_ctl("models", "list", "--json")[1])["models"]
    lines = offline_ctl("models", "list", "-o", "jsonl")[1].splitlines()
    assert [json.loads(line) for line in lines] == listed
    assert listed[-1] == {
        "name": NAME,
        "repository": REPOSITORY,
        "revision": hub.model.revision,
        "bytes": sum(map(len, hub.files.values())),
        "dimension": 8,
        "languages": "tea",
        "licence": "Apache-2.0",
        "present": True,
        "path": str(hub.snapshot),
    }
    (hub.snapshot / TOKENIZER).write_text("{}")
    assert json.loads(offline_ctl("models", "list", "--json")[1])["models"][-1]["present"] is False


@pytest.mark.deep
def test_a_terminal_shows_megabytes(hub: PinnedHub) -> None:
    """A terminal shows a bar while files come, and the directory at the end."""
    hub.fault = lambda _, reply: replace(reply, pause=0.05)
    printed = on_a_terminal(["models", "pull", REPOSITORY], 200, HF_ENDPOINT=hub.url)
    assert " of 1" in printed
    assert str(hub.snapshot) in printed


# The cache


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("program", ["ours", "the hub's"])
def test_the_cache_is_that_of_the_hubs_own_library(
    hub: PinnedHub,
    offline_ctl: Ctl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
) -> None:
    """Our pull and the hub's own library leave the same files, and each uses those of the other."""
    theirs = tmp_path / "theirs"
    files = list(hub.files)
    code = f"for f in {files}: print(hf_hub_download({REPOSITORY!r}, f))"
    hub_program(code, HF_HUB_CACHE=str(theirs))
    assert offline_ctl("models", "pull", NAME)[0] == 0
    branch = "models--org--tiny/refs/main"
    assert shape(cache_directory()) == {k: v for k, v in shape(theirs).items() if k != branch}
    assert offline_ctl("models", "pull", REPOSITORY)[0] == 0
    assert shape(cache_directory()) == shape(theirs)
    hub.requests.clear()
    if program == "ours":
        monkeypatch.setenv("HF_HUB_CACHE", str(theirs))
        assert offline_ctl("models", "pull", NAME)[0] == 0
        assert_answers()
    else:
        found = hub_program(code, HF_HUB_OFFLINE="1").splitlines()
        assert found == [str(hub.snapshot / file) for file in files]
    assert hub.requests == []


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"XDG_CACHE_HOME": "{}/xdg"},
        {"HF_HOME": "{}/home"},
        {"HF_HOME": "~/home", "XDG_CACHE_HOME": "{}/xdg"},
        {"HF_HUB_CACHE": "$HOME/hub", "HF_HOME": "{}/home"},
    ],
    ids=["none", "user", "home", "tilde", "cache"],
)
def test_the_cache_is_where_the_hubs_own_library_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """The variables of the hub name the same directory as to its own library."""
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert str(cache_directory()) == hub_program("print(constants.HF_HUB_CACHE)")


# Other repositories


@pytest.mark.deep
def test_a_daemon_answers_by_a_model_of_any_repository(
    hub: PinnedHub, offline_ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon computes a pulled model by ORG/NAME or by its directory, and needs no hub for it."""
    files = files_of(tmp_path / "other", **{"1_Pooling__config": MEAN})
    commit = hub.add("org/other", files)
    code, out, _ = offline_ctl("models", "pull", "org/other", "--json")
    told = json.loads(out)
    assert (code, told["revision"], told["received"]) == (0, commit, len(files))
    assert opened_directory(told["path"]).model == opened("org/other").model
    monkeypatch.setenv("VIKINGD_EMBEDDING__ONNX_MODEL", "org/other")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.requests.clear()
    options = ("--path", str(tmp_path / "store"), "--provider", "onnx")
    with serving(*options) as where, Client(where) as client:
        root = "viking://resources"
        drafts = [Draft(f"{root}/{word}.md", content=f"{word} {word}") for word in ("rust", "tea")]
        client.put(drafts, wait_for_vectors=True)
        assert client.find("oolong", limit=1)[0].uri == f"{root}/tea.md"
    assert hub.requests == []


def test_a_branch_and_tensors_in_a_file_of_their_own(
    hub: PinnedHub, offline_ctl: Ctl, tmp_path: Path
) -> None:
    """A pull of a branch takes its commit, also later, and the tensors beside the graph."""
    source = tmp_path / "source"
    files = files_of(source)
    graph = source / "onnx" / "model.onnx"
    (graph.parent / "tensors").mkdir()
    onnx.save(
        model(1),
        graph,
        save_as_external_data=True,
        location="tensors/all of them",
        size_threshold=64,
    )
    tensors = graph.parent / "tensors" / "all of them"
    files |= {"onnx/model.onnx": graph.read_bytes()}
    files |= {"onnx/tensors/all of them": tensors.read_bytes()}
    commit = hub.add("org/other", files, branch="pr/1", large=100)
    code, out, _ = offline_ctl("models", "pull", "org/other", "--revision", "pr/1")
    path = Path(out.strip())
    assert (code, path.name) == (0, commit)
    assert (path.parent.parent / "refs" / "pr" / "1").read_text() == commit
    made = opened_directory(path, pooling="cls")
    assert_same(made.embed_query("tea"), twin(tokens("tea"), "cls", seed=1))
    assert not (path / GRAPH).exists()
    moved = hub.add("org/other", files | {"config.json": b"{}"}, branch="pr/1", large=100)
    assert moved != commit
    code, out, err = offline_ctl("models", "pull", "org/other", "--revision", "pr/1")
    assert (code, Path(out.strip()).name) == (0, moved)
    code, out, err = offline_ctl("models", "pull", "org/other", "--revision", commit)
    assert (code, Path(out.strip())) == (0, path)
    assert err.startswith("all files were there")


@pytest.mark.parametrize(
    ("location", "code", "message"),
    [
        ("tensors", 4, "org/other lacks onnx/tensors, which onnx/model_quantized.onnx names"),
        ("../../tensors", 1, "names the file '../../tensors', which is not beside it"),
        ("/etc/tensors", 1, "names the file '/etc/tensors', which is not beside it"),
    ],
)
def test_tensors_that_cannot_be_had_are_named(
    hub: PinnedHub, offline_ctl: Ctl, tmp_path: Path, location: str, code: int, message: str
) -> None:
    """A graph whose tensors are missing, or elsewhere, is not shown in the cache."""
    files = files_of(tmp_path / "other")
    made = onnx.load_from_string(files[GRAPH])
    onnx.external_data_helper.set_external_data(made.graph.initializer[0], location)
    commit = hub.add("org/other", files | {GRAPH: made.SerializeToString()})
    ended, _, err = offline_ctl("models", "pull", "org/other")
    assert ended == code
    assert message in err
    assert not any(commit in path for path in left())


@pytest.mark.parametrize("lacking", [TOKENIZER, GRAPH])
def test_a_repository_without_a_model_is_refused(
    hub: PinnedHub, offline_ctl: Ctl, tmp_path: Path, lacking: str
) -> None:
    """A repository without graph or tokenizer is refused with the missing names."""
    files = files_of(tmp_path / "other")
    del files[lacking]
    hub.add("org/other", files)
    code, _, err = offline_ctl("models", "pull", "org/other")
    names = ", ".join(GRAPHS) if lacking == GRAPH else TOKENIZER
    assert (code, left()) == (4, set())
    assert names in err


def test_a_token_goes_to_the_hub_alone(
    hub: PinnedHub, offline_ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HF_TOKEN opens a private repository; a redirect does not give it to another host."""
    hub.token = "hf_secret"
    code, _, err = offline_ctl("models", "pull", NAME)
    assert (code, left()) == (5, set())
    assert err == (
        f"error: {hub.url} refuses org/tiny (401): it does not exist, or needs a token: "
        "set HF_TOKEN\n"
    )
    monkeypatch.setenv("HF_TOKEN", "wrong")
    assert "HF_TOKEN is not valid, or may not read it" in offline_ctl("models", "pull", NAME)[2]
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert offline_ctl("models", "pull", NAME)[0] == 0
    stored = [request for request in hub.requests if request.place == "store"]
    assert stored
    assert all("authorization" not in request.headers for request in stored)
    assert_answers()


def test_a_redirect_within_the_hub_is_followed(hub: PinnedHub, offline_ctl: Ctl) -> None:
    """A moved repository redirects all its requests, also those for the entries."""

    def moved(request: Request, reply: Reply) -> Reply:
        if request.place == "hub" and not request.path.endswith("?moved"):
            return Reply(307, {"Location": f"{request.path}?moved"})
        return reply

    hub.fault = moved
    assert offline_ctl("models", "pull", NAME)[0] == 0
    assert_answers()


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"onnx_model": "e6"}, "onnx_model: 'e6' is not one of multilingual-e5-small"),
        ({"onnx_model": "a/b/c"}, "onnx_model: 'a/b/c' is not ORG/NAME"),
        ({}, "or to one of multilingual-e5-small"),
    ],
    ids=["unknown", "no repository", "none"],
)
def test_settings_of_models_are_checked(settings: dict[str, str], message: str) -> None:
    """An unknown name, a wrong name of a repository and no model are refused at the start."""
    with pytest.raises(ConfigError, match=message):
        load(None, {"embedding": {"provider": "onnx", **settings}})


def test_the_registry_is_complete() -> None:
    """Each entry has a commit, hashes, sizes and a tokenizer, and its graph is one of its files."""
    for name, entry in MODELS.items():
        paths = [file.path for file in entry.files]
        assert name == entry.name
        assert bytes.fromhex(entry.revision).__len__() == 20
        assert {len(bytes.fromhex(file.sha256)) for file in entry.files} == {32}
        assert len({file.sha256 for file in entry.files}) == len(paths) == len(set(paths))
        assert min(file.size for file in entry.files) > 0
        assert {entry.graph, TOKENIZER} <= set(paths)
        assert entry.pooling in ("mean", "cls", "last")
        assert entry.dimension > 0
        assert entry.max_tokens > 0
