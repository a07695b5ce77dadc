"""Imports of files with the clients, against a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vikingd.client import AsyncClient, Client, Draft, InvalidField, Unreachable
from vikingd.client.interrupts import delayed_interrupts, recorded_interrupts

TOP = "viking://resources/docs"


@pytest.fixture
def client(daemon: str) -> Iterator[Client]:
    """Yield a client of a daemon with an empty tree."""
    with Client(daemon) as made:
        for context in list(made.list()):
            made.delete(context.uri)
        yield made


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Return a small directory to import."""
    root = tmp_path / "docs"
    root.mkdir()
    (root / "one.md").write_text("# One\n\nThe first harbour.\n")
    (root / "two.md").write_text("# Two\n\nThe second harbour.\n")
    return root


def test_both_clients_import_what_changed(client: Client, daemon: str, docs: Path) -> None:
    """Both clients import only changed files, and their summaries count the changes."""
    planned = client.import_path(docs, TOP, dry_run=True)
    assert ("create", f"{TOP}/one.md") in planned.planned
    assert not client.find("harbour")
    told: list[int] = []
    first = client.import_path(str(docs), f"{TOP}/", progress=told.append)
    assert (first.end, first.created, sum(told)) == ("done", 2, 2)
    assert client.find("harbour", min_revision=first.revision).total == 2

    (docs / "one.md").unlink()
    told.clear()

    async def again() -> tuple[int, int]:
        async with AsyncClient(daemon) as other:
            summary = await other.import_path(docs, TOP, delete=True, progress=told.append)
        return summary.unchanged, summary.deleted

    assert asyncio.run(again()) == (1, 1)
    assert sum(told) == 1
    assert [match.uri for match in client.find("harbour")] == [f"{TOP}/two.md"]


def test_a_removed_readme_no_longer_describes_its_directory(client: Client, docs: Path) -> None:
    """With a README its title and abstract go, but not what somebody else wrote of a directory."""
    for name in ("said", "other"):
        (docs / name).mkdir()
        (docs / name / "README.md").write_text(f"# The {name}\n\nAll about the {name} harbour.")
        (docs / name / "a.md").write_text("A text.")
    client.import_path(docs, TOP)
    assert client.get(f"{TOP}/said").title == "The said"
    client.put(Draft(f"{TOP}/other", is_directory=True, title="By hand", abstract="Written."))
    for name in ("said", "other"):
        (docs / name / "README.md").unlink()
    client.import_path(docs, TOP)  # the store still has the README
    assert client.get(f"{TOP}/said").title == "The said"
    planned = client.import_path(docs, TOP, delete=True, dry_run=True).planned
    assert ("update", f"{TOP}/said") in planned
    summary = client.import_path(docs, TOP, delete=True)
    assert (summary.updated, summary.deleted) == (1, 2)
    assert client.get(f"{TOP}/said").title == ""
    assert client.get(f"{TOP}/other").title == "By hand"


def test_one_file_and_json_lines_are_imported_too(client: Client, docs: Path) -> None:
    """The client imports one file or JSON Lines, and reports unreadable lines."""
    client.import_path(docs / "one.md", f"{TOP}/")
    lines = docs / "all.jsonl"
    lines.write_text(json.dumps({"uri": f"{TOP}/three.txt", "text": "The third harbour."}) + "\n{")
    summary = client.import_path(lines)
    assert [item.path for item in summary.unreadable] == [f"{lines}:2"]
    assert {match.uri for match in client.find("harbour")} == {f"{TOP}/one.md", f"{TOP}/three.txt"}


def test_ctrl_c_ends_an_import_after_what_is_in_flight(client: Client, docs: Path) -> None:
    """Ctrl-C during an import raises KeyboardInterrupt after the batch in flight is written."""
    with pytest.raises(KeyboardInterrupt):
        client.import_path(docs, TOP, progress=lambda _: signal.raise_signal(signal.SIGINT))
    assert client.find("harbour").total == 2


def test_a_cancelled_import_ends_and_the_next_one_goes_on(
    client: Client, daemon: str, tmp_path: Path
) -> None:
    """A cancelled import writes nothing more, and the next import writes the rest."""
    count = 3000
    lines = tmp_path / "many.jsonl"
    drafts = ({"uri": f"{TOP}/{n}.txt", "text": f"number {n}"} for n in range(count))
    lines.write_text("\n".join(map(json.dumps, drafts)))

    async def begin() -> None:
        async with AsyncClient(daemon) as other:
            task = asyncio.create_task(
                other.import_path(lines, TOP, progress=lambda _: task.cancel())
            )
            await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(begin())
    there = client.stats().files
    assert 0 < there < count
    assert client.stats().files == there
    summary = client.import_path(lines, TOP)
    assert (summary.created, summary.unchanged) == (count - there, there)


@pytest.mark.parametrize(
    ("name", "uri", "delete", "field"),
    [
        ("", "", False, "uri"),
        ("", "viking://resources/../x", False, "uri"),
        ("one.md", TOP, True, "delete"),
    ],
)
def test_what_cannot_be_imported_so_is_refused(
    client: Client, docs: Path, name: str, uri: str, delete: bool, field: str
) -> None:
    """An import with a wrong argument raises InvalidField with its name, and changes nothing."""
    client.put([Draft(f"{TOP}/kept.md", content="kept")])
    before = [context.uri for context in client.tree()]
    with pytest.raises(InvalidField) as caught:
        client.import_path(docs / name, uri, delete=delete)
    assert [violation.field for violation in caught.value.field_violations] == [field]
    assert caught.value.reason == "INVALID_FIELD"
    assert [context.uri for context in client.tree()] == before


def test_a_path_or_a_daemon_that_is_not_there_is_an_error(client: Client, tmp_path: Path) -> None:
    """An import raises an error for a missing path or an unreachable daemon."""
    with pytest.raises(FileNotFoundError):
        client.import_path(tmp_path / "none", TOP, delete=True)
    with Client("127.0.0.1:1", retries=False) as nobody, pytest.raises(Unreachable):
        nobody.import_path(tmp_path, TOP)


def test_ctrl_c_comes_after_what_must_not_be_broken_off() -> None:
    """`delayed_interrupts` defers Ctrl-C to the end of its block, and only in the main thread."""
    done: list[int] = []

    def work() -> None:
        with delayed_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            while len(done) < 1000:
                done.append(len(done))

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(done) == 1000
    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool, delayed_interrupts():
        inside = signal.getsignal(signal.SIGINT)
        assert pool.submit(lambda: delayed_interrupts().__enter__()).result() is None
        assert signal.getsignal(signal.SIGINT) is inside is not before
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_callback_of_the_collector_is_noted() -> None:
    """Python drops the exception there; `noted` keeps the event, and restores the handler."""

    class Kept:
        """An object with weak references."""

    before, event, one = signal.getsignal(signal.SIGINT), threading.Event(), Kept()
    dead = weakref.ref(one, lambda _: signal.raise_signal(signal.SIGINT))
    with recorded_interrupts(event):
        del one  # raises nothing
    assert dead() is None
    assert event.is_set()
    assert signal.getsignal(signal.SIGINT) is before
