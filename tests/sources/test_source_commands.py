"""vikingctl sources, and the rounds of import --every."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ctl
from tests.patience import eventually
from tests.sources.repositories import Repository
from vikingd.client.messages import MessageClient
from vikingd.ctl import address_import
from vikingd.sources import source_registry

TOP = "viking://resources/kettles"


def listed(ctl: Ctl) -> list[dict[str, Any]]:
    """Return the sources that are listed."""
    code, out, err = ctl("sources", "list", "--json")
    assert (code, err) == (0, "")
    sources: list[dict[str, Any]] = json.loads(out)["sources"]
    return sources


def test_a_source_is_registered_refreshed_and_removed(
    ctl: Ctl, client: MessageClient, repository: Repository
) -> None:
    """An import registers in one line; a refresh takes what is new with the same options."""
    address = f"{repository.address}#docs"
    code, _, err = ctl("import", address, TOP, "--dry-run")
    assert (code, "registered" in err, listed(ctl)) == (0, False, [])
    code, _, err = ctl("import", address, TOP, "--delete", "--exclude", "draft*")
    assert code == 0
    assert f"registered: `vikingctl sources refresh {TOP}` takes what is new" in err
    assert "registered" not in ctl("import", address, TOP, "--delete", "--exclude", "draft*")[2]
    [one] = listed(ctl)
    assert (one["address"], one["uri"], one["daemon"]) == (address, TOP, client.address)
    assert one["options"]["selection"] == {"exclude": ["draft*"]}
    assert ctl("sources", "refresh")[1].endswith(f"{address} unchanged\n")
    repository.git("rm", "--quiet", "docs/boil.md")
    repository.save({"docs/draft.md": "# Draft\n", "docs/new.md": "# New\n\nGreen tea.\n"})
    for name in (TOP, address):
        code, out, _ = ctl("sources", "refresh", name)
        assert code == 0
    assert "unchanged" in out
    assert [context.uri for context in client.tree(TOP)] == [
        *(TOP, f"{TOP}/new.md", f"{TOP}/steep.md"),
    ]
    code, _, err = ctl("sources", "remove", address, "--delete")
    assert (code, "--yes does not ask" in err) == (2, True)
    assert ctl("sources", "remove", address, "--delete", "--yes")[0] == 0
    assert listed(ctl) == []
    assert [context.uri for context in client.tree()] == ["viking://", "viking://resources"]
    assert not list((Path(os.environ["XDG_CACHE_HOME"]) / "vikingd/sources").iterdir())


def test_a_refresh_that_fails_is_told_and_the_others_go_on(
    ctl: Ctl, client: MessageClient, repository: Repository, tmp_path: Path
) -> None:
    """A source that is gone is one line and an exit code; the list shows it."""
    gone = Repository(tmp_path / "gone")
    gone.save({"x.md": "x"})
    assert ctl("import", gone.address, "viking://resources/gone")[0] == 0
    assert ctl("import", repository.address, TOP)[0] == 0
    gone.path.rename(tmp_path / "elsewhere")
    repository.save({"new.md": "# New\n\nGreen tea.\n"})
    code, out, err = ctl("sources", "refresh")
    assert code == 1
    assert "1 created" in out
    assert f"{gone.address} failed: {gone.address} is not there" in err
    results = {one["address"]: one["result"] for one in listed(ctl)}
    assert results[gone.address]["end"] == "failed"
    assert client.get("viking://resources/gone/x.md")
    code, _, err = ctl("sources", "refresh", "viking://resources/none")
    assert (code, "is no source of" in err) == (2, True)


def test_an_archive_that_is_gone_is_a_failure_of_its_own(
    ctl: Ctl, repository: Repository, tmp_path: Path
) -> None:
    """The list shows it, the other sources are refreshed, and it can be removed."""
    archive = tmp_path / "tea.zip"
    repository.git("archive", "--output", str(archive), "main")
    assert ctl("import", str(archive), "viking://resources/archive")[0] == 0
    assert ctl("import", repository.address, TOP)[0] == 0
    archive.unlink()
    code, out, err = ctl("sources", "refresh")
    assert (code, f"{repository.address} unchanged" in out) == (1, True)
    assert f"{archive} failed: {archive} is no longer there" in err
    results = {one["address"]: one["result"] for one in listed(ctl)}
    assert results[str(archive)]["error"] == f"{archive} is no longer there"
    assert ctl("sources", "remove", str(archive), "--delete", "--yes")[0] == 0


def test_a_damaged_record_is_named_and_the_others_are_listed(
    ctl: Ctl, repository: Repository
) -> None:
    """The error says which file to remove."""
    assert ctl("import", repository.address, TOP)[0] == 0
    bad = source_registry.state_directory() / "0.json"
    bad.write_text("{")
    code, out, err = ctl("sources", "list")
    assert (code, TOP in out) == (0, True)
    assert f"{bad} is no record of a source" in err


def test_a_shared_directory_is_not_removed(ctl: Ctl, repository: Repository) -> None:
    """A source may be at a root that others share; it is forgotten without its contexts."""
    root = "viking://resources"
    assert ctl("import", repository.address, root)[0] == 0
    code, _, err = ctl("sources", "remove", root, "--delete", "--yes")
    assert (code, "has other contexts" in err) == (2, True)
    assert ctl("sources", "remove", root)[0] == 0


@pytest.mark.deep
def test_every_keeps_a_source_fresh_until_ctrl_c(
    daemon: str, client: MessageClient, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round is a line; a round that fails is told, and the next one works."""
    code = (
        "from vikingd.ctl import address_import, main; address_import._UNITS['m'] = .3; "
        "address_import._SHORTEST = address_import._FIRST_PAUSE = .3; main.main()"
    )
    assert address_import._SHORTEST == 60
    command = [sys.executable, "-c", code, "--address", daemon, "import", repository.address, TOP]
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    with subprocess.Popen(
        [*command, "--every", "1m"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        lines: list[str] = []

        def until(words: str) -> None:
            while not lines or words not in lines[-1]:
                line = running.stdout.readline() if running.stdout else ""
                assert line, lines
                lines.append(line)

        until(f"{repository.address} unchanged")
        repository.save({"new.md": "# New\n\nGreen tea.\n"})
        until(f"{repository.address} 1 created")
        away = repository.path.with_name("away")
        repository.path.rename(away)
        until("failed: ")
        away.rename(repository.path)
        until(f"{repository.address} unchanged")
        eventually(lambda: client.get(f"{TOP}/new.md"))
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert running.returncode == 130


@pytest.mark.deep
def test_a_repository_of_2000_files_is_followed(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """Imported, changed by edits, renames and deletions, imported again, and removed."""
    made = Repository(tmp_path / "large")
    files: dict[str, str | bytes] = {
        f"part{i % 20}/file{i}.md": f"# File {i}\n\n"
        + "".join(f"Line {j} of the file {i}.\n" for j in range(30))
        for i in range(2000)
    }
    made.save(files)

    def summary(*more: str) -> dict[str, Any]:
        code, out, err = ctl("import", made.address, TOP, "--delete", "--json", *more)
        assert (code, err) == (0, "")
        value: dict[str, Any] = json.loads(out)
        return value

    assert summary()["created"] == 2001
    before = {context.uri: context for context in client.tree(TOP)}
    revision = client.stats().revision
    assert summary()["unchanged"] == 2000
    assert client.stats().revision == revision
    made.git("mv", "part0", "moved")  # 100 files
    for i in range(1, 2000, 20):  # 100 files, renamed and edited
        path = f"part1/file{i}.md"
        text = files[path]
        assert isinstance(text, str)
        made.git("mv", path, f"part1/renamed{i}.md")
        made.write({f"part1/renamed{i}.md": f"{text}One more line.\n"})
    made.write({f"part2/file{i}.md": f"# New {i}\n" for i in range(2, 2000, 20)})  # edited
    made.git("rm", "-r", "--quiet", "part3")
    made.save()
    changed = summary()
    assert (changed["moved"], changed["created"], changed["deleted"]) == (200, 0, 102)
    assert changed["not_moved"] == changed["failed"] == []
    after = {context.uri: context for context in client.tree(TOP)}
    for old, new in (("part0/file20", "moved/file20"), ("part1/file21", "part1/renamed21")):
        assert after[f"{TOP}/{new}.md"].create_time == before[f"{TOP}/{old}.md"].create_time
    for i in range(4, 2000, 20):  # untouched
        uri = f"{TOP}/part4/file{i}.md"
        assert after[uri].revision == before[uri].revision
    assert client.verify().ok
    assert ctl("sources", "remove", TOP, "--delete", "--yes")[0] == 0
    assert client.stats().files == 0
