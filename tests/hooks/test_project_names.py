"""The project of a directory, with real checkouts of git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from vikingd.domain import uri as uris
from vikingd.hooks.project_names import project_of
from vikingd.memory.memory_types import project_root


def git(directory: Path, *arguments: str) -> None:
    """Run a command of git."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(
        ["git", "-C", directory, *identity, "-c", "protocol.file.allow=always", *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a home directory of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("VIKINGD_PROJECT", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def repository(path: Path, origin: str = "") -> Path:
    """Return a new repository with a commit and a directory."""
    (path / "deep" / "er").mkdir(parents=True)
    git(path, "init")
    (path / "deep" / "er" / "file").write_text("x")
    git(path, "add", ".")
    git(path, "commit", "-m", "first")
    if origin:
        git(path, "remote", "add", "origin", origin)
    return path


def test_a_checkout_is_one_project_wherever_one_stands_in_it(tmp_path: Path) -> None:
    """Directories and links below, worktrees and clones of one origin have one name."""
    main = repository(tmp_path / "moon", "git@github.com:Team/Moon.git")
    name = project_of(str(main))
    assert name.startswith("Moon-")
    assert len(name) == len("Moon-123456")
    assert project_of(str(main / "deep" / "er")) == name
    (tmp_path / "link").symlink_to(main / "deep")
    assert project_of(str(tmp_path / "link")) == name
    git(main, "worktree", "add", str(tmp_path / "tree"))
    assert project_of(str(tmp_path / "tree" / "deep")) == name
    other = repository(tmp_path / "other", "https://user:secret@GitHub.com/Team/Moon/")
    assert project_of(str(other)) == name


def test_other_checkouts_are_other_projects(tmp_path: Path) -> None:
    """Namesakes without an origin, and a submodule, have names of their own."""
    one, two = repository(tmp_path / "a" / "moon"), repository(tmp_path / "b" / "moon")
    names = {project_of(str(one)), project_of(str(two))}
    git(one, "submodule", "add", str(two), "part")
    assert (one / "part" / ".git").is_file()
    names.add(project_of(str(one / "part")))
    # The origin of the submodule is the path of the other repository: it is the same project.
    assert len(names) == 2
    git(one, "worktree", "add", str(tmp_path / "tree"))
    assert project_of(str(tmp_path / "tree")) == project_of(str(one))


def test_a_worktree_of_a_bare_repository(tmp_path: Path) -> None:
    """It has the name of the repository, without its suffix."""
    main = repository(tmp_path / "moon")
    git(tmp_path, "clone", "--bare", str(main), str(tmp_path / "sun.git"))
    git(tmp_path / "sun.git", "remote", "remove", "origin")
    git(tmp_path / "sun.git", "worktree", "add", str(tmp_path / "tree"))
    assert project_of(str(tmp_path / "tree")).startswith("sun-")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/team/moon",
        "https://github.com/team/moon.git",
        "https://token@github.com/team/moon.git/",
        "http://user:pa:ss@GITHUB.com:8080/team/moon.git",
        "ssh://git@github.com:22/team/moon.git",
        "git@github.com:team/moon.git",
        "github.com:team/moon",
        "git://github.com/team/moon",
    ],
)
def test_forms_of_a_url_are_one_identity(tmp_path: Path, url: str) -> None:
    """Scheme, credentials, port, case of the host and suffix do not count."""
    (tmp_path / "here" / ".git").mkdir(parents=True)
    config = tmp_path / "here" / ".git" / "config"
    config.write_text('[core]\n\turl = no\n[remote "up"]\n\turl = no\n[remote "origin"]\n')
    expected_text = config.read_text() + "\turl = https://github.com/team/moon\n"
    config.write_text(expected_text)
    expected = project_of(str(tmp_path / "here"))
    config.write_text(expected_text.replace("https://github.com/team/moon", url))
    assert project_of(str(tmp_path / "here")) == expected
    config.write_text(expected_text.replace("moon", "sun"))
    assert project_of(str(tmp_path / "here")) != expected


@pytest.mark.parametrize(
    "url",
    [
        "../../../../etc/passwd",
        "https://x/../..",
        "x" * 10_000,
        "https://x/" + "a/" * 5_000,
        "a\0b",
        "https://x/\x1b[2J\u202e",
        "file://\0",
        "https://[::1/x",
        "://",
        "\udcff:\udcff",
    ],
)
def test_a_hostile_origin_gives_a_plain_name(tmp_path: Path, url: str) -> None:
    """A configuration that somebody else wrote cannot name a place outside of the projects."""
    (tmp_path / ".git").mkdir()
    text = f'[remote "origin"]\n\turl = {url}\n'
    (tmp_path / ".git" / "config").write_text(text, errors="surrogateescape")
    found = project_of(str(tmp_path))
    assert len(found) <= 67
    assert uris.parse_new(project_root(found), "scope.project") == project_root(found)


@pytest.mark.timeout(10)
def test_a_configuration_that_is_a_pipe_is_none(tmp_path: Path) -> None:
    """It would hold each hook until its time is over."""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "config")
    assert project_of(str(tmp_path)).startswith(tmp_path.name[:20])


def test_no_project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home directory, also one that is a checkout, and the root are none."""
    assert project_of(str(home)) == project_of("/") == ""
    (home / ".git").mkdir()
    assert project_of(str(home)) == ""
    assert project_of(str(home / "notes")) == ""
    plain = tmp_path / "plain"
    plain.mkdir()
    assert project_of(str(plain)).startswith("plain-")
    monkeypatch.setenv("VIKINGD_PROJECT", "mine")
    assert project_of(str(home)) == "mine"
    monkeypatch.setenv("VIKINGD_PROJECT", "a/b")
    with pytest.raises(ValueError, match="'a/b' is no name of a project; 'a-b' is one"):
        project_of(str(home))


@pytest.mark.parametrize(
    "name", ["a b", "月亮", "...", "-", "a%2fb", "~", "x" * 300, "Cafe\u0301", "\udcff"]
)
def test_each_name_is_one_of_the_daemon(tmp_path: Path, name: str) -> None:
    """Any name of a directory gives the name of a project that a request may have."""
    directory = tmp_path / name[:200]
    directory.mkdir(exist_ok=True)
    found = project_of(str(directory))
    assert uris.parse_new(project_root(found), "scope.project") == project_root(found)
