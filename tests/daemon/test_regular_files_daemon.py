"""Starts, certificates, settings and imports refuse files that would never end."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.access.tls_helpers import Authority
from tests.commands import serve, serve_only
from tests.conftest import Ctl
from tests.daemons import start
from tests.ingest.test_regular_files import make_directory, make_endless, make_fifo
from vikingd.client import Client
from vikingd.client.messages import MessageClient
from vikingd.ingest import jsonl

RESOURCES = "viking://resources/deep"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a stopped daemon, with one memory and a base of the index."""
    path = tmp_path_factory.mktemp("stopped") / "store"
    with start(serve(path, "--provider", "none"), stdout=subprocess.PIPE, text=True) as process:
        with Client(process.stdout.readline().split()[-1]) as client:
            client.add("Drinks tea.", at="viking://user/memories/tea.md")
            client.optimize()
        process.terminate()
    return path


@pytest.fixture
def store(stopped: Path, tmp_path: Path) -> Path:
    """Return a copy of the directory."""
    return shutil.copytree(stopped, tmp_path / "store")


def begin(command: list[str]) -> tuple[str, str]:
    """Start a daemon; return the first line of its output, and all of its errors."""
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        process.terminate()
        _, errors = process.communicate()
    assert "Traceback" not in errors
    return first, errors


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("mark", make_endless),
        ("mark", make_fifo),
        ("lock", make_fifo),
        ("ports", make_fifo),
        ("reserve", make_fifo),
        ("access.sqlite3", make_fifo),
    ],
)
def test_files_of_the_store(name: str, make: Callable[[Path], None], store: Path) -> None:
    """A start names the file of the store that is not a regular one, and ends."""
    (store / name).unlink(missing_ok=True)
    make(store / name)
    first, errors = begin(serve(store, "--provider", "none"))
    assert not first
    assert str(store / name) in errors


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("CURRENT", make_endless),
        ("CURRENT", make_fifo),
        ("manifest.json", make_fifo),
        ("codes.bin", make_fifo),
        ("dir_columns", make_fifo),
    ],
)
def test_files_of_the_index(name: str, make: Callable[[Path], None], store: Path) -> None:
    """An index with a file that is not a regular one is built again."""
    (path,) = (store / "index").rglob(name)
    path.unlink()
    make(path)
    first, errors = begin(serve(store, "--provider", "none"))
    assert "serving on" in first
    assert "the index is rebuilt" in errors
    assert "not a regular file" in errors


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    ("option", "make"),
    [
        ("certificate", make_endless),
        ("certificate", make_fifo),
        ("key", make_fifo),
        ("client_ca", make_fifo),
        ("--config", make_fifo),
    ],
)
def test_files_of_the_settings(option: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    """A certificate, a key, an authority and a configuration are regular files."""
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.signed("localhost", "DNS:localhost")
    make(bad := tmp_path / "bad")
    files = {"certificate": certificate, "key": key, "client_ca": authority.certificate}
    config = tmp_path / "vikingd.toml"
    tls = "\n".join(f'{name} = "{path}"' for name, path in {**files, option: bad}.items())
    config.write_text(f"[tls]\n{tls}\n" if option != "--config" else "")
    command = serve_only(tmp_path / "store", "--listen", "vikings://127.0.0.1:0")
    command[command.index("--config") + 1] = str(bad if option == "--config" else config)
    first, errors = begin(command)
    assert not first
    assert f"{bad}: not a regular file" in errors


@pytest.mark.parametrize("make", [make_fifo, make_endless, make_directory])
def test_key_of_a_client(
    make: Callable[[Path], None], tmp_path: Path, offline_ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a client's key is a regular file."""
    make(path := tmp_path / "key")
    monkeypatch.setenv("VIKINGD_KEY_FILE", str(path))
    code, _, errors = offline_ctl("stats")
    assert code
    assert "not a regular file" in " ".join(errors.replace("│", " ").split())


@pytest.mark.parametrize("make", [make_fifo, make_endless], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ["lines.jsonl", "notes.md"])
def test_import_of_a_file(
    name: str, make: Callable[[Path], None], client: MessageClient, ctl: Ctl, tmp_path: Path
) -> None:
    """A FIFO and a device are not imported, and the report says why."""
    del client
    make(path := tmp_path / name)
    code, out, errors = ctl("import", str(path), RESOURCES)
    assert code
    assert "not a regular file" in out + errors


def test_lines_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line above the limit ends the reading of a file; a file above its limit is refused."""
    monkeypatch.setattr(jsonl, "_LONGEST", 1 << 16)
    path = tmp_path / "lines.jsonl"
    path.write_text('{"uri": "viking://resources/a.md", "text": "a"}\n')
    os.truncate(path, 4 << 30)
    one, cut = jsonl.read_jsonl(path)
    assert getattr(one, "content", "") == "a"
    assert "lines.jsonl:2" in str(cut)
    assert "has more than 65,536 bytes in one line" in str(cut)
    os.truncate(path, 10 << 30)
    (refused,) = jsonl.read_jsonl(path)
    assert "at most 8,589,934,592 are allowed: split it by lines" in str(refused)


@pytest.mark.parametrize("levels", [70, pytest.param(1900, marks=pytest.mark.deep)])
def test_deep_directories(client: MessageClient, ctl: Ctl, tmp_path: Path, levels: int) -> None:
    """Of a very deep tree, what is too deep is named and the rest is imported."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "near.md").write_text("# Near")
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    code, out, errors = ctl("import", str(top), RESOURCES)
    assert code == 0
    assert "not imported: 1" in out + errors
    assert "levels, at most 64 are allowed" in out + errors
    assert client.get(f"{RESOURCES}/near.md").context.content == "# Near"
    subprocess.run(["rm", "-rf", str(top)], check=True)  # shutil.rmtree fails in so deep a tree
