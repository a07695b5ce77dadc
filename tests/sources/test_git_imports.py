"""Imports of repositories of git, by real git, into a real daemon."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ctl
from tests.patience import eventually
from tests.sources.repositories import Repository
from vikingd.client import Client, InvalidField, NotFetched
from vikingd.client.messages import MessageClient
from vikingd.sources import git_checkouts, git_program, source_registry
from vikingd.sources.addresses import address_of
from vikingd.sources.source_registry import Record

TOP = "viking://resources/kettles"
HOSTILE_ADDRESSES = (
    "git+ext::sh -c true",
    "git+ext://sh/-c",
    "ext::sh -c true",
    "git+https://-oProxyCommand=true/x.git",
    "git+ssh://-oProxyCommand=true/x.git",
    "git+ssh://-user@example.org/x.git",
    "git+ssh://git:secret@example.org/x.git",
    "git+https:///x.git",
    "git+https://example.org",
    "git+https://example.org/x.git?upload-pack=true",
    "git+https://example.org/x y.git",
    "git+file://host/x.git",
    "git+file:///x.git#../y",
    "git+ftp://example.org/x.git",
    "foo://example.org/x",
    "file:///etc/passwd",
    "https://example.org/x.git",
    "https://ana:secret@example.org/",
    "git@example.org:team/x.git",
)
HOSTILE_REFS = (
    "--upload-pack=true",
    "-b",
    "main:refs/heads/x",
    "a..b",
    "a b",
    "@{-1}",
    "x~1",
    "a\nb",
    "*",
    "x.lock",
)


def stored(client: MessageClient) -> dict[str, Any]:
    """Return the contexts below the top by their paths, "" for the top itself."""
    return {context.uri[len(TOP) + 1 :]: context for context in client.tree(TOP)}


def record(client: MessageClient, address: str) -> Record:
    """Return the record of a source."""
    found = source_registry.known(Record(address, TOP, client.address))
    assert found is not None
    return found


def test_a_repository_is_imported_as_a_checkout_is(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """Files say where they come from, the top has the commit, and ignore files hold."""
    repository.write({"out.log": "a log"})
    commit = repository.save({"link.md": "x"})
    summary = typed.import_path(repository.address, TOP)
    assert (summary.end, summary.commit) == ("done", commit)
    found = stored(client)
    assert set(found) == {
        *("", ".github", ".github/check.yml", "README.md", "docs", "docs/boil.md"),
        *("docs/steep.md", "link.md", "src", "src/kettle.py"),
    }
    assert {left.path for left in summary.left_out} >= {"out.log"}
    assert dict(found[""].metadata) == {"source": repository.address, "commit": commit}
    assert found[""].abstract == "All about kettles."
    assert dict(found["docs/boil.md"].metadata) == {
        "kind": "documentation",
        "source": f"{repository.address}#docs/boil.md",
    }
    [match] = typed.find("boil", where={"source": f"{repository.address}#docs/boil.md"}).contexts
    assert match.uri == f"{TOP}/docs/boil.md"


def test_a_second_import_writes_and_moves_only_what_changed(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """A commit that does not change a file leaves it alone; a rename keeps the context."""
    typed.import_path(repository.address, TOP)
    before = stored(client)
    revision = client.stats().revision
    assert typed.import_path(repository.address, TOP).unchanged == len(before) - 3
    assert client.stats().revision == revision
    repository.git("mv", "docs/steep.md", "docs/brew.md")
    repository.git("mv", "docs/boil.md", "docs/steep.md")
    repository.git("rm", "--quiet", "src/kettle.py")
    repository.save({"README.md": "# Kettles\n\nNothing about tea.\n"})
    planned = typed.import_path(repository.address, TOP, delete=True, dry_run=True)
    assert (planned.moved, planned.deleted) == (2, 2)
    summary = typed.import_path(repository.address, TOP, delete=True)
    assert (summary.created, summary.moved, summary.deleted) == (0, 2, 2)
    after = stored(client)
    assert not {"src", "src/kettle.py", "docs/boil.md"} & set(after)
    for old, new in (("docs/steep.md", "docs/brew.md"), ("docs/boil.md", "docs/steep.md")):
        assert after[new].create_time == before[old].create_time
        assert after[new].metadata["source"] == f"{repository.address}#{new}"
    assert after[".github/check.yml"].revision == before[".github/check.yml"].revision
    assert after[""].metadata["commit"] == repository.commit


def test_a_move_whose_target_exists_is_written_anew_and_told(
    ctl: Ctl, client: MessageClient, repository: Repository
) -> None:
    """The old context of a refused move is removed, also without --delete."""
    assert ctl("import", repository.address, TOP)[0] == 0
    assert ctl("put", f"{TOP}/docs/brew.md", "--content", "by hand")[0] == 0
    repository.git("mv", "docs/steep.md", "docs/brew.md")
    repository.save()
    code, _, err = ctl("import", repository.address, TOP)
    assert code == 0
    assert f"written anew, not moved: 1\n  {TOP}/docs/steep.md: to {TOP}/docs/brew.md" in err
    found = stored(client)
    assert "docs/steep.md" not in found
    assert "Oolong" in client.get(f"{TOP}/docs/brew.md").context.content


def test_a_ref_and_a_folder_choose_what_is_imported(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """A branch, a tag and a whole commit are refs; the folder is the top, with its own address."""
    first = repository.commit
    repository.git("tag", "--annotate", "v1", "--message", "first")
    repository.git("switch", "--quiet", "--create", "next")
    second = repository.save({"docs/new.md": "# New\n\nGreen tea.\n"})
    repository.git("switch", "--quiet", "main")
    address = f"{repository.address}#docs"
    for ref, commit, names in (
        ("v1", first, {"", "boil.md", "steep.md"}),
        ("next", second, {"", "boil.md", "new.md", "steep.md"}),
        (first, first, {"", "boil.md", "steep.md"}),
        ("", first, {"", "boil.md", "steep.md"}),
    ):
        summary = typed.import_path(address, TOP, ref=ref, delete=True)
        assert summary.commit == commit
        assert set(stored(client)) == names
    assert stored(client)["boil.md"].metadata["source"] == f"{repository.address}#docs/boil.md"
    assert record(client, address).options.ref == ""
    with pytest.raises(NotFetched, match="has no such ref"):
        typed.import_path(address, TOP, ref="none")
    with pytest.raises(NotFetched, match="has no folder none"):
        typed.import_path(f"{repository.address}#none", "viking://resources/none")


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES)
def test_an_address_that_cannot_be_fetched_is_refused(typed: Client, address: str) -> None:
    """The error names PATH; no program is started, and no password is shown."""
    with pytest.raises(InvalidField) as raised:
        typed.import_path(address, TOP)
    assert raised.value.field_violations[0].field == "path"
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("ref", HOSTILE_REFS)
def test_a_ref_that_is_no_ref_is_refused(typed: Client, repository: Repository, ref: str) -> None:
    """Options and refspecs are no refs."""
    with pytest.raises(InvalidField, match="ref: is "):
        typed.import_path(repository.address, TOP, ref=ref)


def test_a_repository_starts_no_program_here(
    typed: Client, client: MessageClient, repository: Repository, tmp_path: Path, homes: Path
) -> None:
    """Hooks, filters of the user and submodules of a repository run nothing; links stay links."""
    mark, template = tmp_path / "mark", tmp_path / "template"
    (template / "hooks").mkdir(parents=True)
    hook = template / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o700)
    (homes / ".gitconfig").write_text(
        f"[init]\n templateDir = {template}\n[core]\n hooksPath = {template / 'hooks'}\n"
        f'[filter "evil"]\n smudge = "touch {mark}; cat"\n'
    )
    secret = tmp_path / "secret.md"
    secret.write_text("a secret of the machine")
    (repository.path / "leak.md").symlink_to(secret)
    (repository.path / "out").symlink_to(tmp_path)
    repository.save({".gitattributes": "*.md filter=evil\n", "a.lfs.md": "x"})
    other = Repository(tmp_path / "other")
    other.save({"x.md": "x"})
    repository.git(
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.path), "sub")
    )
    repository.save()
    summary = typed.import_path(repository.address, TOP)
    assert not mark.exists()
    assert [(one.address, one.reason) for one in summary.not_taken] == [
        (f"{repository.address}#sub", "is a submodule: import it by the address of its own")
    ]
    assert {(one.path, one.reason) for one in summary.unreadable} == {
        ("leak.md", "is a symbolic link"),
        ("out", "is a symbolic link"),
    }
    assert not {"leak.md", "out", "sub"} & set(stored(client))


def test_pointers_of_lfs_are_left_out_and_told(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """A pointer is no text to search."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    repository.save({"model.txt": pointer})
    summary = typed.import_path(repository.address, TOP)
    assert [one.address for one in summary.not_taken] == [f"{repository.address}#model.txt"]
    assert "model.txt" not in stored(client)


def test_a_commit_beyond_the_limits_is_refused(
    typed: Client, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, bytes, names and packs are counted before anything is checked out."""
    for module, name, value in (
        (git_checkouts, "MAX_FILES", 3),
        (git_checkouts, "MAX_BYTES", 100),
        (git_checkouts, "_MAX_LISTING", 10),
        (git_program, "MAX_SECONDS", -1.0),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, value)
            if name == "MAX_SECONDS":
                changed.setattr(git_program, "_POLL", 0.0001)
            with pytest.raises(NotFetched, match=r"limit|takes more than"):
                typed.import_path(repository.address, TOP)
    assert list(source_registry.records()) == []


def test_credentials_of_an_address_are_neither_kept_nor_shown(homes: Path) -> None:
    """They go to git in its environment alone."""
    address = address_of("git+https://ana:pa%40ss@example.org/x.git#docs")
    assert address is not None
    assert (address.text, address.credentials) == ("git+https://example.org/x.git", "ana:pa%40ss")
    assert "pa%40ss" not in repr(address)
    git = git_program.Git(homes, address, threading.Event())
    header = git._environment()["GIT_CONFIG_VALUE_0"]
    assert header == "Authorization: Basic YW5hOnBhQHNz"


def test_a_kill_before_the_end_loses_nothing(
    typed: Client, client: MessageClient, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is stored last: after a kill before that, the import is done again."""
    typed.import_path(repository.address, TOP)
    known = record(client, repository.address)
    repository.git("mv", "docs/steep.md", "docs/brew.md")
    commit = repository.save({"docs/boil.md": "# Boil\n\nWater boils at 95 degrees up here.\n"})

    def killed(_: Record) -> None:
        raise SystemExit(9)

    with monkeypatch.context() as dying:
        dying.setattr(source_registry, "store", killed)
        with pytest.raises(SystemExit):
            typed.import_path(repository.address, TOP)
    assert record(client, repository.address) == known
    summary = typed.import_path(repository.address, TOP)
    assert (summary.created, summary.updated, summary.not_moved) == (0, 0, [])
    assert record(client, repository.address).state == {"commit": commit}
    assert "docs/steep.md" not in stored(client)


def test_a_source_is_fetched_by_one_process_at_a_time(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """A second import of the same source is refused, one of another is not."""
    made = Record(repository.address, TOP, client.address)
    with source_registry.locked(made):
        with pytest.raises(NotFetched, match="by another process"):
            typed.import_path(repository.address, TOP)
        assert typed.import_path(repository.address, "viking://resources/other").created


def test_caches_and_records_are_private(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """Others read neither what was fetched nor what is known of it."""
    typed.import_path(repository.address, TOP)
    made = record(client, repository.address)
    file = source_registry.state_directory() / f"{made.id}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700


def test_a_damaged_checkout_is_mended(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """What a killed git leaves, a lost file and a broken index are no fault of the next import."""
    typed.import_path(repository.address, TOP)
    checkout = record(client, repository.address).folder / "checkout"
    (checkout / ".git" / "index.lock").touch()
    (checkout / ".git" / "shallow.lock").touch()
    (checkout / ".git" / "index").write_bytes(b"DIRC broken")
    (checkout / "README.md").unlink()
    (checkout / "stray.md").write_text("stray")
    repository.save({"docs/more.md": "# More\n\nMore tea.\n"})
    summary = typed.import_path(repository.address, TOP, delete=True)
    assert (summary.created, summary.deleted) == (1, 0)


@pytest.mark.deep
def test_ctrl_c_ends_git_too(daemon: str, repository: Repository, tmp_path: Path) -> None:
    """A fetch that hangs ends with 130, its git is ended, and the next import works."""
    slow, started = tmp_path / "bin" / "git", tmp_path / "started"
    slow.parent.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout
    slow.write_text(
        f'#!/bin/sh\ncase " $* " in *" fetch "*) echo $$ > {started}; exec sleep 600;; esac\n'
        f'exec {real.strip()} "$@"\n'
    )
    slow.chmod(0o700)
    command = [sys.executable, "-m", "vikingd.ctl.main", "--address", daemon, "import"]
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        [*command, repository.address, TOP],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        eventually(lambda: started.exists() and started.read_text().strip())
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    assert running.returncode == 130, err
    assert out.startswith(b"stopped after")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert list(source_registry.records()) == []
    done = subprocess.run([*command, repository.address, TOP], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_missing_git_says_so(
    typed: Client, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    address = repository.address
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotFetched, match="git is not installed"):
        typed.import_path(address, TOP)


def test_ignore_files_above_the_cache_do_not_count(
    typed: Client, client: MessageClient, repository: Repository, homes: Path
) -> None:
    """A home directory that is a repository of git itself leaves nothing of a source out."""
    Repository(homes / "again")
    (homes / ".git").mkdir()
    (homes / ".gitignore").write_text("*.md\n")
    (homes / ".ignore").write_text("*.md\n")
    typed.import_path(repository.address, TOP)
    assert "docs/boil.md" in stored(client)


def test_front_matter_gives_way_to_the_address_and_is_told(
    typed: Client, client: MessageClient, repository: Repository
) -> None:
    """The field says where the file was found, not what the file says."""
    repository.save({"clip.md": "---\nsource: https://example.org/tea\n---\n# Clip\n\nTea.\n"})
    summary = typed.import_path(repository.address, TOP)
    assert stored(client)["clip.md"].metadata["source"] == f"{repository.address}#clip.md"
    assert [one.uri for one in summary.as_text] == [f"{TOP}/clip.md"]


def test_options_that_an_address_does_not_take_are_refused(
    ctl: Ctl, repository: Repository
) -> None:
    """Each error names its option."""
    address = repository.address
    for arguments, option in (
        ((address,), "URI"),
        ((address, TOP, "--watch"), "--watch"),
        ((address, TOP, "--from", "mem0"), "--from"),
        ((address, TOP, "--below", "/docs"), "--below"),
        ((address, TOP, "--every", "5s"), "--every"),
        ((address, TOP, "--every", "1h", "--dry-run"), "--every"),
        (("https://example.org/", TOP, "--ref", "main"), "--ref"),
        (("https://example.org/", TOP, "--depth", "1"), "--depth"),
        ((str(repository.path), TOP, "--every", "1h"), "--every"),
        ((str(repository.path), TOP, "--ref", "main"), "--ref"),
    ):
        code, _, err = ctl("import", *arguments)
        assert (code, f"Invalid value for {option}" in err) == (2, True), (arguments, err)
    code, _, err = ctl("import", "foo://x", TOP, "--json")
    assert code == 2
    assert "git+https://" in json.loads(err)["message"]
