"""Hidden directories: those that git tracks are taken, by the index of the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.selection_helpers import HAS_GIT, TOP, Case, forget_settings, git, make, taken
from vikingd.ingest.file_tree import FileTree
from vikingd.ingest.files import read_tree
from vikingd.ingest.folder_changes import Folder
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.selected_files import Selection


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_settings(monkeypatch, tmp_path)


TRACKED = (
    ".github/workflows/ci.yml .NET/src/Lib.cs a/.café/x.md a/.b/.c/d.md .deep/é/"
    + "n" * 240
    + ".md"
)
UNTRACKED = ".idea/w.xml a/.cache/x.md .github/.tmp/y.md"


def checkout(top: Path, *options: str) -> None:
    """Make a checkout that tracks some hidden directories."""
    git("init", "-q", *options, ".", at=top)
    make(top, Case("", f"{TRACKED} a/z.md .travis.yml", {}, "", git=None))
    git("add", ".", at=top)
    make(top, Case("", UNTRACKED, {}, "", git=None))


@pytest.mark.skipif(not HAS_GIT, reason="git is not installed: apt-get install git")
@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {"index.version": "2"}),
        ((), {"index.version": "4"}),
        ((), {"core.splitIndex": "true", "splitIndex.maxPercentChange": "100"}),
        (("--object-format=sha256",), {}),
        ((), {"index.skipHash": "true"}),
    ],
)
def test_hidden_directories_that_git_tracks_are_taken(
    options: tuple[str, ...], settings: dict[str, str], tmp_path: Path
) -> None:
    """They are read in every form of the index; other hidden directories and files are not."""
    (tmp_path / "no-settings").write_text("")
    for name, value in settings.items():
        git("config", "--file", "no-settings", name, value, at=tmp_path)
    top = tmp_path / "tree"
    top.mkdir()
    checkout(top, *options)
    (top / "late.md").write_text("x")
    git("add", "--intent-to-add", "late.md", at=top)  # an entry with more flags
    wanted = {*TRACKED.split(), "a/z.md", "late.md"}
    assert taken(top, Selection()) == wanted
    assert taken(top, Selection(no_ignore=True)) == wanted
    assert taken(top, Selection(exclude=[".NET/"])) == wanted - {".NET/src/Lib.cs"}
    assert taken(top / "a", Selection()) == {".café/x.md", ".b/.c/d.md", "z.md"}
    assert taken(top, None) == {"a/z.md", "late.md"}
    outs = {o.path: o.rule for o in FileTree.of_directory(top, TOP, Selection()).left_out.values()}
    names = (".idea/", "a/.cache/", ".github/.tmp/", ".travis.yml")
    assert outs == {f"{top}/{name}": "hidden" for name in names}


@pytest.mark.skipif(not HAS_GIT, reason="git is not installed: apt-get install git")
def test_checkouts_within_a_directory_have_indexes_of_their_own(tmp_path: Path) -> None:
    """A worktree, and a checkout below one that does not track the same."""
    main, below, other = tmp_path / "main", tmp_path / "main/sub/other", tmp_path / "worktree"
    main.mkdir()
    checkout(main)
    make(below, Case("", ".mine/a.md .github/b.md", {}, "", git=None))
    git("init", "-q", ".", at=below)
    git("add", ".mine", at=below)
    assert taken(main, Selection()) == {*TRACKED.split(), "a/z.md", "sub/other/.mine/a.md"}
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    git(*who, "commit", "-q", "-m", "x", at=main)
    git("worktree", "add", "-q", str(other), at=main)
    assert taken(other, Selection()) == {*TRACKED.split(), "a/z.md"}


@pytest.mark.parametrize("damage", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\3abc", b"x" * 500])
def test_an_index_that_cannot_be_read_is_told(damage: bytes, tmp_path: Path) -> None:
    """No hidden directory comes in, and the import says so."""
    top = make(tmp_path, Case("", ".d/a.md b.md", {}, ""))
    (top / ".git/index").write_bytes(damage)
    items = list(read_tree(top, TOP, selection=Selection()))
    (told,) = (item for item in items if isinstance(item, Unreadable))
    assert told.path == f"{top}/.git/index"
    assert "no index of git" in told.reason
    assert taken(top, Selection()) == {"b.md"}


def test_an_index_that_shares_itself_is_told(tmp_path: Path) -> None:
    """An index whose shared one is the same again ends no import."""
    top = make(tmp_path, Case("", ".d/a.md b.md", {}, ""))
    shared = b"DIRC\0\0\0\2\0\0\0\0link\0\0\0\x14" + b"\1" * 20 + b"\0" * 20
    for name in ("index", f"sharedindex.{'01' * 20}"):
        (top / ".git" / name).write_bytes(shared)
    (told,) = (i for i in read_tree(top, TOP, selection=Selection()) if isinstance(i, Unreadable))
    assert "no index of git" in told.reason
    assert taken(top, Selection()) == {"b.md"}


@pytest.mark.parametrize(
    ("hidden", "wanted"),
    [(True, {".notes/a.md", ".b.md", "c.md"}), (False, {"c.md"})],
)
def test_a_watcher_sees_the_hidden_files_that_are_asked_for(
    tmp_path: Path, *, hidden: bool, wanted: set[str]
) -> None:
    """A new hidden file is wanted with `hidden` alone; one of git's own is never."""
    folder = Folder(tmp_path, TOP, Selection(hidden=hidden))
    changed = (".notes/a.md", ".b.md", "c.md", ".git/index.lock", ".hg/store/x")
    assert folder.wanted(str(tmp_path / name) for name in changed) == wanted
