"""The Node client: its packages, its generated code, and a process that calls."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google.rpc

from tests.programs import lacking, needed
from vikingd.system.user_cache import cache_directory

SOURCE = Path(__file__).parent / "node"
PROTO = SOURCE.parents[2] / "proto"
SITE = Path(next(iter(google.rpc.__path__))).parents[1]
"""The packages of Python, of which one has the protos of google.rpc."""

_OLDEST = 20
_UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENOTCACHED")


def built(directory: Path) -> Path:
    """Compile the client in an empty directory, with code of the protos; return the directory.

    `.ts` files that are there already are compiled too.
    """
    directory.joinpath("node_modules").symlink_to(packages(SOURCE))
    for path in SOURCE.iterdir():
        shutil.copy(path, directory)
    rpc = SITE / "google" / "rpc" / "error_details.proto"
    for command in (
        ("buf", "generate", str(PROTO)),
        ("buf", "generate", str(SITE), "--path", str(rpc)),
    ):
        _run(needed(command[0]), *command[1:], at=directory)
    compiled(directory)
    return directory


def compiled(directory: Path) -> None:
    """Compile the TypeScript of a directory; an error of a type is an AssertionError."""
    _run(needed("node"), "node_modules/typescript/bin/tsc", at=directory)


class Node:
    """A process of Node that calls daemons.

    Args:
        directory: with the built client.
        address: of the daemon.
        options: of each call: key, tenant, ca.
    """

    def __init__(self, directory: Path, address: str, **options: str) -> None:
        scheme = "https" if address.startswith("vikings://") else "http"
        self._options = {"url": f"{scheme}://{address.removeprefix('vikings://')}", **options}
        self._process = subprocess.Popen(
            [needed("node"), "built/door.js"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, name: str, **fields: str) -> dict[str, Any]:
        """Return the reply of a call."""
        outcome = self.outcome(name, **fields)
        assert "reply" in outcome, outcome
        return dict(outcome["reply"])

    def fails(self, name: str, **fields: str) -> dict[str, Any]:
        """Return the error of a call."""
        outcome = self.outcome(name, **fields)
        assert "error" in outcome, outcome
        return dict(outcome["error"])

    def outcome(self, name: str, **fields: str) -> dict[str, Any]:
        """Return {"reply": ...} or {"error": ...}."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({**self._options, "name": name, **fields}) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> int:
        """End the process and return its exit code."""
        self._process.communicate(timeout=30)
        return self._process.returncode


@contextmanager
def node(directory: Path, address: str, **options: str) -> Iterator[Node]:
    """Run a process of Node, and check that it ends well."""
    made = Node(directory, address, **options)
    try:
        yield made
    finally:
        assert made.close() == 0


def packages(source: Path) -> Path:
    """Return the directory of the packages that a directory with a lock file names, made once."""
    version = subprocess.check_output([needed("node"), "--version"], text=True).strip()
    if int(version.removeprefix("v").split(".")[0]) < _OLDEST:
        lacking(f"node {version} is too old: install Node {_OLDEST} or newer")
    npm = needed("npm")
    files = [source / name for name in ("package.json", "package-lock.json")]
    digest = hashlib.sha256(version.encode() + b"".join(map(Path.read_bytes, files))).hexdigest()
    home = cache_directory() / "tests" / f"node-{digest[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of a run begin together
        if not (home / "done").exists():
            for file in files:
                shutil.copy(file, home)
            _install(npm, home)
            (home / "done").touch()
    return home / "node_modules"


def _install(npm: str, home: Path) -> None:
    """Install what the lock file names."""
    command = [npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode and any(word in done.stderr for word in _UNREACHABLE):
        lacking("npm cannot reach its registry, and its cache lacks packages of tests/gateway")
    assert done.returncode == 0, done.stderr


def _run(*command: str, at: Path) -> None:
    """Run a program with those of the packages before all others."""
    path = f"{at / 'node_modules' / '.bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        command,
        cwd=at,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
