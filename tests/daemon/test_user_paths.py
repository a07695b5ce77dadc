"""The places of a user's own daemon, and what is refused there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vikingd.system import daemon_log, user_paths
from vikingd.system.user_paths import (
    make_socket_directory,
    user_config,
    user_log,
    user_socket,
    user_store,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a home directory, and none of the variables."""
    for name in ("RUNTIME_DIR", "DATA_HOME", "STATE_HOME", "CONFIG_HOME", "CACHE_HOME"):
        monkeypatch.delenv(f"XDG_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(user_paths, "_SESSIONS", str(tmp_path / "sessions"))
    return tmp_path


def test_the_places_are_those_of_xdg(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absolute variables count; without them the places are below the home directory."""
    assert user_socket() == f"{home}/.cache/vikingd/run/socket"
    assert user_store() == f"{home}/.local/share/vikingd"
    assert user_log() == f"{home}/.local/state/vikingd/daemon.log"
    assert user_config() == f"{home}/.config/vikingd/config.toml"
    for name in ("RUNTIME_DIR", "DATA_HOME", "STATE_HOME", "CONFIG_HOME"):
        (home / name).mkdir(mode=0o700)
        monkeypatch.setenv(f"XDG_{name}", str(home / name))
    assert user_socket() == f"{home}/RUNTIME_DIR/vikingd/socket"
    assert user_store() == f"{home}/DATA_HOME/vikingd"
    assert user_log() == f"{home}/STATE_HOME/vikingd/daemon.log"
    assert user_config() == f"{home}/CONFIG_HOME/vikingd/config.toml"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert user_store() == f"{home}/.local/share/vikingd"


def test_programs_without_the_variable_find_the_same_socket(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cron and agents have no XDG_RUNTIME_DIR; the directory of the session counts then."""
    session = home / "sessions" / str(os.geteuid())
    session.mkdir(parents=True, mode=0o700)
    assert user_socket() == f"{session}/vikingd/socket"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    assert user_socket() == f"{session}/vikingd/socket"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "removed at the last logout"))
    session.rmdir()
    assert user_socket() == f"{home}/.cache/vikingd/run/socket"


def test_the_directory_is_made_for_the_user_alone(home: Path) -> None:
    """It has mode 0700; a second call leaves it as it is."""
    assert make_socket_directory() == make_socket_directory() == f"{home}/.cache/vikingd/run"
    assert (home / ".cache/vikingd/run").stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_could_have_made_is_refused(home: Path) -> None:
    """A symbolic link, a file, and a directory to which others have access are refused."""
    run = home / ".cache/vikingd/run"
    run.parent.mkdir(parents=True)
    run.symlink_to(home)
    for call in (user_socket, make_socket_directory):
        with pytest.raises(ValueError, match=r"run, is a symbolic link: remove it, or set XDG_RUN"):
            call()
    run.unlink()
    run.touch()
    with pytest.raises(ValueError, match=r"run, is no directory"):
        user_socket()
    run.unlink()
    run.mkdir()
    run.chmod(0o750)
    with pytest.raises(ValueError, match=r"other users have access to .*: chmod 700 /"):
        user_socket()
    run.chmod(0o700)
    assert user_socket() == f"{run}/socket"


def test_a_directory_of_another_user_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After sudo the variable names the directory of the other user."""
    theirs = home / "theirs"
    theirs.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(theirs))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ValueError, match=r"theirs belongs to another user .*: unset XDG_RUNTIME_D"):
        user_socket()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    (home / ".cache/vikingd/run").mkdir(parents=True, mode=0o700)
    with pytest.raises(ValueError, match=r"run belongs to another user"):
        user_socket()


def test_a_path_too_long_for_a_socket_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error tells the limit and the way out."""
    long = home / ("x" * 100)
    long.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with pytest.raises(ValueError, match=r"at most 103 bytes, and .*: set XDG_RUNTIME_DIR"):
        user_socket()


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place needs a home directory or its variable."""
    for home in ("", "relative"):
        monkeypatch.setenv("HOME", home)
        for call, variable in ((user_store, "DATA"), (user_socket, "CACHE"), (user_log, "STATE")):
            with pytest.raises(ValueError, match=f"no home directory: set HOME or XDG_{variable}"):
                call()


def test_the_log_is_bounded_and_has_the_last_start(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large log is moved aside at a start; the lines of former starts are not shown."""
    log = home / ".local/state/vikingd/daemon.log"
    assert daemon_log.last_lines(10) == []
    for line in ("of the first start", "of the second start"):
        descriptor = daemon_log.open_log()
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)
    assert daemon_log.last_lines(10) == ["of the second start"]
    assert "of the first start" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(daemon_log, "_LARGEST", 10)
    os.close(daemon_log.open_log())
    assert "second start" in log.with_suffix(".log.1").read_text()
    assert daemon_log.last_lines(10) == []
    assert len(log.read_text().splitlines()) == 1
