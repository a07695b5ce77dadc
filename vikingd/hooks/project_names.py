"""The project of a directory, by which a checkout's memories are found wherever it is."""

from __future__ import annotations

import binascii
import os

_MOST = 60  # characters of a name before its digits
_LEVELS = 64  # directories above that are looked at


def project_of(directory: str) -> str:
    """Return the name of the project of a directory; "" for the home directory and the root.

    It is a readable part and six hexadecimal digits of the checkout's identity: the URL of its
    `origin`, so that clones and worktrees are one project, else its path. VIKINGD_PROJECT names
    another project.

    Raises:
        OSError: a file of the checkout cannot be read.
        ValueError: VIKINGD_PROJECT is no name of a project.
    """
    if named := os.environ.get("VIKINGD_PROJECT"):
        if named != _readable(named):
            raise ValueError(
                f"VIKINGD_PROJECT: {named!r} is no name of a project; {_readable(named)!r} is one"
            )
        return named
    directory = os.path.realpath(directory)
    top, config = _checkout(directory)
    if (top or directory) in ("/", os.path.realpath(os.path.expanduser("~"))):
        return ""
    identity = _identity(_origin(config), top) if top else directory
    # hashlib loads OpenSSL, which takes as long as all the rest. The digits keep namesakes apart.
    digits = binascii.crc32(identity.encode(errors="surrogateescape")) & 0xFFFFFF
    return f"{_readable(os.path.basename(identity))}-{digits:06x}"


def _checkout(directory: str) -> tuple[str, str]:
    """Return the top of the checkout around a directory, and its git configuration file.

    "" if none.

    A worktree gives those of its repository.
    """
    top = directory
    for _ in range(_LEVELS):
        git = os.path.join(top, ".git")
        if os.path.isdir(git):
            return top, os.path.join(git, "config")
        if os.path.isfile(git):
            return _linked(top, git)
        if top == "/":
            break
        top = os.path.dirname(top)
    return "", ""


def _linked(top: str, file: str) -> tuple[str, str]:
    """Return the results of `_checkout` for a `.git` that is a file: a worktree or a submodule."""
    kind, _, where = _text(file).strip().partition("gitdir:")
    if kind or not where:
        return top, ""
    git = os.path.join(top, where.strip())
    try:
        git = os.path.join(git, _text(os.path.join(git, "commondir")).strip())
    except FileNotFoundError:  # a submodule
        return top, os.path.join(git, "config")
    git = os.path.realpath(git)
    main = os.path.dirname(git) if os.path.basename(git) == ".git" else git.removesuffix(".git")
    return main, os.path.join(git, "config")


def _origin(config: str) -> str:
    """Return the URL of the remote `origin` in a configuration; "" without one."""
    if not os.path.isfile(config):  # a pipe would hold the hook
        return ""
    section = ""
    for line in _text(config).splitlines():
        line = line.strip()
        if line.startswith("["):
            section = "".join(line.split())
        elif section == '[remote"origin"]':
            name, _, value = line.partition("=")
            if name.strip().lower() == "url":
                return value.strip().strip('"')
    return ""


def _identity(url: str, top: str) -> str:
    """Return HOST/PATH of a git URL, or a path, without the suffix `.git`."""
    scheme, found, rest = url.partition("://")
    if not found:
        host, colon, path = url.partition(":")
        if not colon or "/" in host:  # a path, or no URL at all
            return os.path.realpath(os.path.join(top, url)).removesuffix(".git") if url else top
        rest = f"{host}/{path.lstrip('/')}"
    elif scheme == "file":
        return "/" + rest.strip("/").removesuffix(".git")
    host, _, path = rest.partition("/")
    host = host.rpartition("@")[2].lower()
    if not host.startswith("["):
        host = host.partition(":")[0]
    return f"{host}/{path.strip('/').removesuffix('.git')}"


def _readable(name: str) -> str:
    """Return a name as one segment of a URI."""
    if not name.isascii():
        import unicodedata

        name = unicodedata.normalize("NFC", name)
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)
    return kept[:_MOST].strip(".-") or "project"


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(1 << 20).replace("\0", "")  # no path may have it
