"""Imports of repositories that are killed, at any moment: the next import completes them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.sources.repositories import Repository
from vikingd.client import Client
from vikingd.client.messages import MessageClient
from vikingd.sources import source_registry
from vikingd.sources.source_registry import Record

TOP = "viking://resources/kettles"
DIES = (
    "import os, signal; from vikingd.ctl import main; from vikingd.sources import source_registry; "
    "source_registry.store = lambda _: os.kill(os.getpid(), signal.SIGKILL); main.main()"
)


def command(daemon: str, address: str, code: str = "") -> list[str]:
    """Return the command that imports a source; `code` runs in the place of vikingctl."""
    program = ("-c", code) if code else ("-m", "vikingd.ctl.main")
    return [sys.executable, *program, "--address", daemon, "import", address, TOP, "--delete"]


def is_running(pid: int) -> bool:
    """Return True for a process that runs; one that ended may wait for its parent."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def check_whole(typed: Client, client: MessageClient, repository: Repository) -> None:
    """Import once more, and check that all files of the last commit are there, and no others."""
    typed.import_path(repository.address, TOP, delete=True)
    files = repository.git("ls-files", "*.md").split()
    assert {one.uri for one in client.tree(TOP) if not one.is_directory} == {
        f"{TOP}/{name}" for name in files
    }
    record = source_registry.known(Record(repository.address, TOP, client.address))
    assert record is not None
    assert record.state == {"commit": repository.commit}
    revision = client.stats().revision
    assert typed.import_path(repository.address, TOP, delete=True).unchanged == len(files)
    assert client.stats().revision == revision
    assert client.verify().ok


@pytest.fixture
def notes(tmp_path: Path) -> Repository:
    """Return a repository of 300 notes."""
    made = Repository(tmp_path / "notes")
    made.save({f"part{i % 10}/note{i}.md": f"# Note {i}\n\nTea {i}.\n" for i in range(300)})
    return made


@pytest.mark.deep
def test_git_ends_with_an_import_that_is_killed(daemon: str, tmp_path: Path) -> None:
    """A fetch that hangs does not outlive it."""
    slow, started = tmp_path / "bin" / "git", tmp_path / "started"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase " $* " in *" fetch "*) '
        f"sleep 600 & sleep 1; echo $$ $! > {started}; wait;; esac\n"
        f'exec {shutil.which("git")} "$@"\n'
    )
    slow.chmod(0o700)
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        command(daemon, "git+https://127.0.0.1/x.git"), env={**os.environ, "PATH": path}
    ) as running:
        eventually(lambda: started.exists() and started.read_text().strip())
        running.kill()
    children = [int(word) for word in started.read_text().split()]
    eventually(lambda: not any(map(is_running, children)))


@pytest.mark.deep
def test_a_kill_between_the_last_write_and_the_state_is_made_up_for(
    daemon: str, typed: Client, client: MessageClient, notes: Repository
) -> None:
    """Of a first import, and of one after edits and renames: nothing is there twice."""
    done = subprocess.run(command(daemon, notes.address, DIES), check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(source_registry.records()) == []
    check_whole(typed, client, notes)
    notes.git("mv", "part1", "moved")
    notes.git("rm", "-r", "--quiet", "part2")
    notes.save({"part3/note3.md": "# Note 3\n\nMore tea.\n"})
    done = subprocess.run(command(daemon, notes.address, DIES), check=False)
    assert done.returncode == -signal.SIGKILL
    check_whole(typed, client, notes)


@pytest.mark.deep
def test_a_kill_at_any_moment_is_made_up_for(
    daemon: str, typed: Client, client: MessageClient, notes: Repository
) -> None:
    """In the fetch, the checkout or the writes, while the repository changes."""
    began = time.monotonic()
    subprocess.run(command(daemon, notes.address), check=True)
    whole = time.monotonic() - began
    for i in range(8):
        notes.git("mv", f"part{i}", f"moved{i}")
        notes.save({"new.md": f"# New\n\nTea of round {i}.\n"})
        with subprocess.Popen(command(daemon, notes.address)) as running:
            time.sleep(whole * (0.3 + 0.08 * i))
            running.kill()
    check_whole(typed, client, notes)
