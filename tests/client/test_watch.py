"""vikingctl import --watch, and watched folders of the client."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from tests.client.watch_helpers import TOP, fresh_import, state, watching
from tests.metrics_helpers import free_address
from tests.nodes.reader_helpers import serving
from tests.patience import eventually
from vikingd.client import Client, Draft
from vikingd.client import watching as client_watching
from vikingd.client.messages import MessageClient
from vikingd.client.watching import Watched
from vikingd.domain.errors import InvalidField
from vikingd.ingest.folder_changes import Replaced
from vikingd.system.install_command import install_command

MEMORIES = "viking://user/memories/notes"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Return a small directory to watch."""
    root = tmp_path / "docs"
    (root / "guide").mkdir(parents=True)
    (root / "README.md").write_text("# Docs\n\nAll about it.\n")
    (root / "guide" / "one.md").write_text("# One\n\n- Drinks oolong.\n- Sails at dawn.\n")
    (root / "guide" / "two.md").write_text("# Two\n\nSecond.\n")
    return root


def _paths(client: MessageClient, top: str = TOP) -> set[str]:
    return set(state(client, top))


def test_changes_and_removals_can_be_found(client: MessageClient, daemon: str, docs: Path) -> None:
    """A changed text is found and the old one is not; a removed file is gone."""
    with watching(daemon, docs):
        (docs / "guide" / "two.md").write_text("# Two\n\nA lighthouse.\n")
        eventually(lambda: client.find("lighthouse").resources)
        assert not client.find("Second").resources
        (docs / "guide" / "two.md").unlink()
        eventually(lambda: "/guide/two.md" not in _paths(client))
        assert not client.find("lighthouse").resources


def test_a_directory_is_described_while_its_readme_is_there(
    client: MessageClient, docs: Path
) -> None:
    """A README gives its directory a title; a rename takes it away, and a removal does."""
    guide = docs / "guide"
    batches = iter(Watched(client, docs, TOP))
    next(batches)

    def title() -> str:
        return client.get(f"{TOP}/guide").context.title

    for change in (
        lambda: (guide / "README.md").rename(guide / "notes.md"),
        lambda: (guide / "README.md").unlink(),
    ):
        (guide / "README.md").write_text("# The guide\n\nAll that a guide has to say.\n")
        next(batches)
        assert title() == "The guide"
        change()
        next(batches)
        assert title() == ""
    shutil.rmtree(guide)
    next(batches)
    assert _paths(client) == {"", "/README.md"}


@pytest.mark.parametrize("of_directory", [False, True])
def test_a_rename_keeps_memories_counters_and_links(
    typed: Client, client: MessageClient, docs: Path, of_directory: bool
) -> None:
    """A renamed file or directory is moved: ids, counters and links of its memories stay."""
    with watching(typed.address, docs, MEMORIES) as run:
        first = client.get(f"{MEMORIES}/guide/one.md").context
        ids = [passage.memory.id for passage in first.passages]
        assert len(set(ids)) == 2
        typed.reinforce(ids[0], by=3)
        typed.link(f"{MEMORIES}/guide/one.md", f"{MEMORIES}/README.md", "why")
        if of_directory:
            (docs / "guide").rename(docs / "手册")
            new = f"{MEMORIES}/手册/one.md"
        else:
            (docs / "guide" / "one.md").rename(docs / "One.md")
            new = f"{MEMORIES}/One.md"
        eventually(lambda: len(run.summaries) > 1)
        context = client.get(new).context
    assert [passage.memory.id for passage in context.passages] == ids
    assert context.passages[0].memory.reinforcement == 3
    assert [(one.uri, one.reason) for one in context.relations] == [
        (f"{MEMORIES}/README.md", "why")
    ]
    assert run.moved == (3 if of_directory else 1)
    assert not any(summary.deleted for summary in run.summaries)


def test_a_copy_in_place_of_a_removed_file_is_a_rename_if_it_is_unambiguous(
    client: MessageClient, docs: Path
) -> None:
    """The only new file with the content of a removed one is its rename; of two, none is."""

    def ids(name: str) -> list[int]:
        return [p.memory.id for p in client.get(f"{MEMORIES}/{name}").context.passages]

    one = docs / "guide" / "one.md"
    text = one.read_text()
    batches = iter(Watched(client, docs, MEMORIES))  # compares the folder when it is asked
    next(batches)
    before = ids("guide/one.md")
    (docs / "copy.md").write_text(text)
    one.unlink()
    assert next(batches).moved == 1
    assert ids("copy.md") == before
    (docs / "left.md").write_text(text)
    (docs / "right.md").write_text(text)
    (docs / "copy.md").unlink()
    last = next(batches)
    assert (last.moved, last.created, last.deleted) == (0, 2, 1)
    assert before not in (ids("left.md"), ids("right.md"))


def test_what_does_not_come_from_the_folder_stays(
    client: MessageClient, daemon: str, docs: Path
) -> None:
    """Contexts of others below the URI stay, even if the directory around them is removed."""
    client.put(
        [Draft(f"{TOP}/guide/theirs.md", content="theirs"), Draft(f"{TOP}/x.md", content="x")]
    )
    with watching(daemon, docs):
        shutil.rmtree(docs / "guide")
        eventually(lambda: "/guide/one.md" not in _paths(client))
        assert {"/guide", "/guide/theirs.md", "/x.md"} <= _paths(client)


def test_delete_removes_at_the_start_what_has_no_file(
    client: MessageClient, daemon: str, docs: Path
) -> None:
    """With `delete` the first import removes contexts without a file."""
    client.put([Draft(f"{TOP}/old/gone.md", content="gone")])
    with watching(daemon, docs, delete=True) as run:
        assert run.summaries[0].deleted == 2
        assert "/old/gone.md" not in _paths(client)


def test_an_unreadable_file_is_told_once_for_each_change(
    client: MessageClient, daemon: str, docs: Path
) -> None:
    """Binary files and links are told when they appear and when they change, and not in between."""
    with watching(daemon, docs) as run:

        def told() -> list[str]:
            return [Path(u.path).name for summary in run.summaries for u in summary.unreadable]

        (docs / "picture").write_bytes(b"\0")
        (docs / "link").symlink_to("README.md")
        eventually(lambda: sorted(told()) == ["link", "picture"])
        (docs / "other.md").write_text("other")
        eventually(lambda: "/other.md" in _paths(client))
        assert sorted(told()) == ["link", "picture"]
        (docs / "picture").write_bytes(b"\0\0")
        eventually(lambda: sorted(told()) == ["link", "picture", "picture"])
        (docs / "picture").write_text("a text now")
        eventually(lambda: "/picture" in _paths(client))


def test_hidden_and_skipped_files_are_left_out(
    client: MessageClient, daemon: str, docs: Path
) -> None:
    """Hidden files and skipped directories are no contexts, and their changes write nothing."""
    with watching(daemon, docs) as run:
        for name in (".git", "node_modules", "guide/__pycache__"):
            (docs / name).mkdir()
            (docs / name / "file.md").write_text("hidden")
        (docs / ".swp").write_text("hidden")
        (docs / "last.md").write_text("last")
        eventually(lambda: "/last.md" in _paths(client))
        eventually(lambda: sum(summary.created for summary in run.summaries[1:]) == 1)
        assert state(client, TOP) == fresh_import(client, docs)


@pytest.mark.parametrize("loses", ["events", "itself"])
def test_what_the_watcher_loses_is_found_nevertheless(
    client: MessageClient,
    daemon: str,
    docs: Path,
    monkeypatch: pytest.MonkeyPatch,
    loses: str,
) -> None:
    """A watcher that loses all events, as after an overflow, or fails is made up for."""
    watch = watchfiles.watch
    failures: list[int] = []

    def losing(*arguments: Any, **named: Any) -> Iterator[set[Any]]:
        for _ in watch(*arguments, **named):
            yield set()
            if loses == "itself":
                failures.append(1)
                raise RuntimeError("the queue is gone")

    monkeypatch.setattr(watchfiles, "watch", losing)
    monkeypatch.setattr(client_watching, "_SWEEP", 0.1)
    with watching(daemon, docs) as run:
        (docs / "guide" / "two.md").write_text("# Two\n\nA lighthouse.\n")
        eventually(lambda: client.find("lighthouse").resources)
        (docs / "guide" / "one.md").rename(docs / "new.md")
        eventually(lambda: state(client, TOP) == fresh_import(client, docs))
        assert run.moved == 1
        assert run.error is None
    assert bool(failures) == (loses == "itself")


def test_a_folder_that_is_removed_ends_the_watching(
    client: MessageClient, daemon: str, docs: Path
) -> None:
    """The removal of the folder ends the watching with an error, and the tree keeps its state."""
    with watching(daemon, docs) as run:
        before = _paths(client)
        docs.rename(docs.with_name("elsewhere"))
        eventually(lambda: run.error)
    assert isinstance(run.error, Replaced)
    assert _paths(client) == before


def test_changes_wait_for_a_daemon_that_is_away(tmp_path: Path, docs: Path) -> None:
    """After a kill and a restart of the daemon the tree follows; the absence is told once."""
    address = free_address()
    with (
        serving(tmp_path / "store", "--listen", address) as daemon,
        watching(address, docs) as run,
    ):
        daemon.kill()
        (docs / "guide" / "one.md").rename(docs / "moved.md")
        (docs / "guide" / "two.md").unlink()
        eventually(lambda: run.told)
        (docs / "later.md").write_text("later")
        with serving(tmp_path / "store", "--listen", address) as again:
            eventually(lambda: len(run.told) > 1)
            eventually(lambda: state(again.client, TOP) == fresh_import(again.client, docs))
            (docs / "last.md").write_text("last")
            eventually(lambda: "/last.md" in _paths(again.client))
        assert run.error is None
    assert [type(error).__name__ for error in run.told[:2]] == ["Unreachable", "NoneType"]
    assert run.moved == 1


@contextmanager
def _command(daemon: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "vikingd.ctl.main", "--address", daemon, "import", *arguments]
    with subprocess.Popen(
        [*command, "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def test_the_command_prints_a_line_for_each_batch_until_ctrl_c(
    client: MessageClient, daemon: str, docs: Path
) -> None:
    """The command prints the counts and the revision of each batch; Ctrl-C exits with 130."""
    with _command(daemon, str(docs), TOP) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert "4 created" in running.stdout.readline()
        assert "following" in running.stderr.readline()
        (docs / "guide" / "one.md").rename(docs / "guide" / "one-more.md")
        line = running.stdout.readline()
        assert line.startswith("1 moved: revision ")
        assert int(line.split()[-1]) == client.stats().revision
        (docs / "picture").write_bytes(b"\0")
        assert running.stderr.readline() == "not imported: 1\n"
        assert "picture: is binary" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60) == ("", "")
        assert running.returncode == 130


@pytest.mark.deep
def test_the_command_prints_json_lines(client: MessageClient, daemon: str, docs: Path) -> None:
    """With -o json each batch, and the import itself, is one line of JSON."""
    with _command(daemon, str(docs), TOP, "-o", "json") as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["created"] == 4
        (docs / "guide" / "one.md").rename(docs / "guide" / "one-more.md")
        batch = json.loads(running.stdout.readline())
        assert (batch["moved"], batch["revision"]) == (1, client.stats().revision)


@pytest.mark.deep
def test_the_quiet_command_prints_no_batches(
    client: MessageClient, daemon: str, docs: Path
) -> None:
    """With -q a batch without faults prints nothing."""
    with _command(daemon, str(docs), TOP, "-q") as running:
        assert running.stdout is not None
        assert "4 created" in running.stdout.readline()
        (docs / "new.md").write_text("new")
        eventually(lambda: "/new.md" in _paths(client))
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{docs}", TOP, "--from", "parquet"), "cannot be used with --from"),
        (("{docs}", TOP, "--dry-run"), "cannot be used with --dry-run"),
        (("{docs}", TOP, "-o", "yaml"), "cannot be used with -o yaml"),
        (("{docs}/README.md", TOP), "is a file or JSON lines"),
        (("{docs}/lines", TOP), "is a file or JSON lines"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    ctl: Any, client: MessageClient, docs: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Options and paths that cannot be followed are errors of usage that name --watch."""
    (docs / "lines").mkdir()
    (docs / "lines" / "documents.jsonl").write_text("")
    given = [argument.format(docs=docs) for argument in arguments]
    code, out, err = ctl("import", *given, "--watch")
    assert (code, out) == (2, "")
    assert "--watch" in err
    assert message in " ".join(err.replace("│", "").split())
    assert not list(client.list())


def test_the_package_that_is_missing_is_named(
    ctl: Any, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without watchfiles the command fails with the line that installs it."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    code, out, err = ctl("import", str(docs), TOP, "--watch")
    assert (code, out) == (1, "")
    assert install_command("files") in err


def test_the_class_checks_its_arguments(client: MessageClient, docs: Path) -> None:
    """A file, JSON lines, and a missing or wrong URI are refused with their field."""
    for path, uri, field in (
        (docs / "README.md", TOP, "path"),
        (docs, "", "uri"),
        (docs, "resources", "uri"),
    ):
        with pytest.raises(InvalidField) as caught:
            Watched(client, path, uri)
        assert caught.value.field == field
