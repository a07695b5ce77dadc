"""The paths of a user's own daemon: socket, store, log and configuration.

The directories are those of the XDG Base Directory Specification. It says that a variable with a
relative path is ignored. Programs that must start fast import this module, so it imports little.
"""

from __future__ import annotations

import os
import stat

_NAME = "vikingd"
_SESSIONS = "/run/user"  # systemd makes a runtime directory below it for each user
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LONGEST = 103  # bytes of the path of a unix socket; macOS takes no more


def user_socket() -> str:
    """Return the path of the socket of this user's daemon. Neither it nor its directory need exist.

    It is `$XDG_RUNTIME_DIR/vikingd/socket`. Cron and agents often start programs without the
    variable: then `/run/user/UID` is used if it exists. Without a runtime directory it is
    `~/.cache/vikingd/run/socket`.

    Raises:
        ValueError: another user could have put the socket there, the path is too long for a unix
            socket, or the user has no home directory.
    """
    path = os.path.join(_socket_directory(), "socket")
    size = len(os.fsencode(path))
    if size > _LONGEST:
        raise ValueError(
            f"the path of a unix socket has at most {_LONGEST} bytes, and {path} has {size}: set "
            "XDG_RUNTIME_DIR to a directory of your own with a shorter path"
        )
    return path


def make_socket_directory() -> str:
    """Make the directory of `user_socket`, with access for this user alone; return its path.

    Raises:
        ValueError: as `user_socket`.
        OSError: it cannot be made.
    """
    directory = _socket_directory()
    os.makedirs(os.path.dirname(directory), 0o700, exist_ok=True)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        _check_own(directory)
    return directory


def user_store() -> str:
    """Return the directory of the user's store: `$XDG_DATA_HOME/vikingd`.

    Without the variable it is `~/.local/share/vikingd`.

    Raises:
        ValueError: the user has no home directory.
    """
    return _below("XDG_DATA_HOME", ".local/share")


def user_log() -> str:
    """Return the path of the log of the user's daemon: `$XDG_STATE_HOME/vikingd/daemon.log`.

    Without the variable it is `~/.local/state/vikingd/daemon.log`.

    Raises:
        ValueError: the user has no home directory.
    """
    return os.path.join(_below("XDG_STATE_HOME", ".local/state"), "daemon.log")


def user_config() -> str:
    """Return the path of the user's configuration file: `$XDG_CONFIG_HOME/vikingd/config.toml`.

    Without the variable it is `~/.config/vikingd/config.toml`. The file need not exist.

    Raises:
        ValueError: the user has no home directory.
    """
    return os.path.join(_below("XDG_CONFIG_HOME", ".config"), "config.toml")


def _socket_directory() -> str:
    """Return the directory of the socket, which may not exist.

    Raises:
        ValueError: it exists, and another user owns it or has access.
    """
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    if named.startswith("/") and os.path.isdir(named):
        _check_owner(named, "unset XDG_RUNTIME_DIR, or set it to a directory of your own")
        directory = os.path.join(named, _NAME)
    elif _is_own(session := f"{_SESSIONS}/{os.geteuid()}"):
        directory = os.path.join(session, _NAME)
    else:
        directory = os.path.join(_below("XDG_CACHE_HOME", ".cache"), "run")
    if os.path.lexists(directory):
        _check_own(directory)
    return directory


def _check_own(directory: str) -> None:
    """Raise ValueError unless a directory belongs to this user alone.

    Another user could put a socket there, and would read everything that a client sends.

    Raises:
        ValueError: it is a link or a file, or another user owns it or has access.
    """
    way_out = "remove it, or set XDG_RUNTIME_DIR to a directory of your own"
    mode = os.lstat(directory).st_mode
    if not stat.S_ISDIR(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "no directory"
        raise ValueError(f"the directory of the daemon's socket, {directory}, is {kind}: {way_out}")
    _check_owner(directory, way_out)
    if mode & _OTHERS:
        raise ValueError(
            f"other users have access to {directory}, the directory of the daemon's socket: "
            f"chmod 700 {directory}"
        )


def _check_owner(directory: str, way_out: str) -> None:
    owner = os.stat(directory).st_uid
    if owner != os.geteuid():
        raise ValueError(
            f"{directory} belongs to another user (uid {owner}), and the socket of your daemon "
            f"would be there: {way_out}"
        )


def _is_own(directory: str) -> bool:
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _below(variable: str, otherwise: str) -> str:
    """Return vikingd's directory below $VARIABLE, or below `otherwise` in the home directory."""
    named = os.environ.get(variable, "")
    if not named.startswith("/"):
        named = os.path.join(_home(variable), otherwise)
    return os.path.join(named, _NAME)


def _home(variable: str) -> str:
    home = os.path.expanduser("~") if os.environ.get("HOME") != "" else ""
    if not home.startswith("/"):
        raise ValueError(
            f"this user has no home directory: set HOME or {variable} to an absolute path"
        )
    return home
