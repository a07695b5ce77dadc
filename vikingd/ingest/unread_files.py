"""Files that nobody reads: lock files, minified and generated code, source maps and the like.

Each rule has a name, which the report of an import shows. No rule leaves out a prose file. A
directory such as `vendor` is left out only if its files show that it has the code of others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from vikingd.ingest.file_kind_names import CODE
from vikingd.ingest.file_kinds import FileKind, file_kind

LOCK_FILE = "lock file"
MINIFIED = "minified"
GENERATED = "generated code"
SOURCE_MAP = "source map"
SNAPSHOT = "test snapshot"
VENDORED = "code of others"
ENVIRONMENT = "virtual environment"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LOCK_FILES = _words(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb "
    "deno.lock Cargo.lock uv.lock pdm.lock Pipfile.lock pylock.toml pixi.lock conda-lock.yml "
    "go.sum go.work.sum composer.lock symfony.lock Gemfile.lock gems.locked poetry.lock rebar.lock "
    "pubspec.lock Podfile.lock Package.resolved Cartfile.resolved packages.lock.json paket.lock "
    "project.assets.json gradle.lockfile buildscript-gradle.lockfile flake.lock conan.lock "
    "stack.yaml.lock cabal.project.freeze Chart.lock renv.lock MODULE.bazel.lock "
    ".terraform.lock.hcl npm-shrinkwrap.yaml shard.lock vcpkg-lock.json mix.lock"
)
_BY_NAME = (
    (MINIFIED, re.compile(r"(?i).+[.-]min\.(?:[cm]?js|css)")),
    (SOURCE_MAP, re.compile(r"(?i).+\.(?:[cm]?jsx?|[cm]?tsx?|css|wasm)\.map")),
    (SNAPSHOT, re.compile(r".+\.snap")),
)
_LIKE_VENDOR = frozenset({"vendor", "_vendor"})
_LIKE_THIRD_PARTY = frozenset(
    {"third_party", "third-party", "thirdparty", "3rdparty", "Pods", "Carthage", "Godeps"}
)
_ALWAYS_OF_OTHERS = frozenset({"bower_components", "jspm_packages", "site-packages"})
# Programs that copy dependencies to "vendor", by their files beside it.
_VENDORING = frozenset({"go.mod", "composer.json", "Gemfile", "Cargo.toml"})
# What such programs leave in it.
_VENDORED_BY = ("modules.txt", "autoload.php", "bundle", "vendor.json")
_OF_PROJECTS = _VENDORING | _words(
    "package.json pyproject.toml setup.py CMakeLists.txt Makefile BUILD BUILD.bazel BUILD.gn "
    "WORKSPACE MODULE.bazel meson.build configure configure.ac pom.xml build.gradle "
    "build.gradle.kts Podfile Cartfile DEPS SConstruct"
)
_SCRIPT = re.compile(r"(?i).+\.(?:[cm]?js|css)")
_MUCH = 8 << 10  # characters of generated code; less may be a table that people read
_MINIFIED = 4096  # characters
_LONG_LINE = 400  # characters of a line on the average
_DENSE = 0.12  # share of white space; prose and hand-written code have a larger one


def unread_file(name: str) -> str:
    """Return the name of the rule that leaves out a file of this name; "" for none."""
    if name in _LOCK_FILES:
        return LOCK_FILE
    if name.endswith((".js", ".css", ".mjs", ".cjs", ".map", ".snap")):
        return next((rule for rule, form in _BY_NAME if form.fullmatch(name)), "")
    return ""


def unread_directory(path: str, name: str, beside: Collection[str]) -> str:
    """Return the name of the rule that leaves out a directory; "" for none.

    Args:
        path: the directory.
        name: its name.
        beside: the names of all entries of its parent directory.
    """
    if name == "__snapshots__":
        return SNAPSHOT
    if name in _ALWAYS_OF_OTHERS:
        return VENDORED
    if name in _LIKE_VENDOR:
        has = any(os.path.lexists(os.path.join(path, one)) for one in _VENDORED_BY)
        return VENDORED if has or not _VENDORING.isdisjoint(beside) else ""
    if name in _LIKE_THIRD_PARTY:
        return VENDORED if not _OF_PROJECTS.isdisjoint(beside) else ""
    if "env" in name and os.path.lexists(os.path.join(path, "pyvenv.cfg")):
        return ENVIRONMENT
    return ""


def unread_text(name: str, text: str, kind: FileKind) -> str:
    """Return the name of the rule that leaves out a file by its text; "" for none."""
    if _SCRIPT.fullmatch(name) and len(text) > _LONG_LINE * (text.count("\n") + 1):
        is_dense = sum(map(text.count, " \t\n")) < _DENSE * len(text)
        return MINIFIED if is_dense and len(text) > _MINIFIED else ""
    if kind is not FileKind.GENERATED or len(text) < _MUCH or _suffix(name) not in CODE:
        return ""
    # A directory such as "build" may have code that people write.
    return GENERATED if file_kind(name, text) is FileKind.GENERATED else ""


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()
