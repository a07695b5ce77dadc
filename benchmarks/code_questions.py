"""Questions about repositories: the subjects of commits, and names of functions and types.

The subject of a commit asks for the source files that it changed. The searched tree is the one
before the first of these commits. A name that is defined once in the tree asks for its definition.
The questions follow by rules from the pinned commit of a repository; no answer of a search was
looked at.
"""

from __future__ import annotations

import hashlib
import io
import random
import re
import subprocess
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

COMMITS = 54
"""Commits of a repository, some fewer where subjects repeat."""

NAMES = 50
_MOST_FILES = 4  # a commit with more changed files says too little of each
_SEED = 48

_DEFINITIONS = {
    ".go": r"^func\s+(?:\([^)]*\)\s*)?(\w+)|^type\s+(\w+)",
    ".py": r"^\s*(?:async\s+)?def\s+(\w+)|^class\s+(\w+)",
    ".rs": r"^\s*(?:pub(?:\([a-z]+\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*fn\s+(\w+)"
    r"|^\s*(?:pub(?:\([a-z]+\))?\s+)?(?:struct|enum|trait|type)\s+(\w+)",
    ".ts": r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s+(\w+)"
    r"|^\s*(?:export\s+)?(?:abstract\s+)?(?:class|interface|type|enum)\s+(\w+)"
    r"|^\s*export\s+const\s+(\w+)\s*(?::|=)",
}
_NOT_SOURCE = re.compile(
    r"(^|/)(tests?|__tests__|testdata|fixtures|runtime[-_]tests|benchmarks?|examples?|docs?)(/|$)"
    r"|_test\.go$|\.test\.tsx?$|(^|/)test_[^/]*\.py$|conftest\.py$|\.d\.ts$|(^|/)build\.rs$|doc/"
)
# Subjects about releases, tests and documents say nothing about a source file.
_NOISE = re.compile(
    r"^(merge|bump|release|version|update (changelog|readme|deps|dependenc|copyright)|changelog"
    r"|v?\d+\.\d+|revert|chore|ci|docs?|test|build|style|typo|fix typo|lint|format|cargo|prepare"
    r"|upgrade|add .*(changelog|contributor))\b|\bREADME\b|chang(e|)elog|typo|dependabot|clippy"
    r"|rustfmt|golint|mypy|coverage|pre-?release|copyright|license",
    re.IGNORECASE,
)
_TYPE = re.compile(r"^\w+(?:\([^)]*\))?!?:\s*")
_KEPT_TYPE = re.compile(r"^(feat|fix|refactor|perf)(\([^)]*\))?!?:\s*")
_NUMBER = re.compile(r"\s*\(#\d+\)\s*$")
_WORD = re.compile(r"\w+")
_LIKE_A_NAME = re.compile(r"_|[a-z][A-Z]|.{8}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at a pinned commit, with the suffixes of its source files."""

    name: str
    origin: str
    commit: str
    suffixes: tuple[str, ...]


REPOSITORIES = (
    Repository(
        "httpx",
        "https://github.com/encode/httpx",
        "ae1b9f66238f75ced3ced5e4485408435de10768",
        (".py",),
    ),
    Repository(
        "fd",
        "https://github.com/sharkdp/fd",
        "ee20f426ddf338ac7ead5c5f00ea49258005caaf",
        (".rs",),
    ),
    Repository(
        "cobra",
        "https://github.com/spf13/cobra",
        "adbc8813901bba65827259daa8e22ff94ec1f30e",
        (".go",),
    ),
    Repository(
        "hono",
        "https://github.com/honojs/hono",
        "28a9c128912de19f3fb28b00ae289c9b93f6f392",
        (".ts", ".tsx"),
    ),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A subject of a commit with the files that it changed; `half` is dev or test."""

    text: str
    answers: frozenset[str]
    half: str


@dataclass(frozen=True, slots=True)
class Defined:
    """A name with the file and the text of the line that defines it."""

    name: str
    path: str
    line: str


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions over one repository, and the commit whose tree has the answers."""

    repository: Repository
    tree: str
    subjects: list[Asked] = field(default_factory=list)
    names: list[Defined] = field(default_factory=list)


def questions_of(repository: Repository, checkout: Path) -> Questions:
    """Return the questions over a repository, from a checkout with its whole history.

    Raises:
        SystemExit: the checkout lacks the pinned commit.
    """
    subjects = list(_subjects(repository, checkout))
    count = min(COMMITS, len(subjects) - 1)
    tree, paths, kept = "", set[str](), list[tuple[str, list[str]]]()
    while len(kept) < COMMITS and count < len(subjects):
        count += 1
        tree = _git(checkout, "rev-parse", f"{subjects[count - 1][0]}^").strip()
        paths = set(_git(checkout, "ls-tree", "-r", "--name-only", tree).splitlines())
        found = ((text, [f for f in files if f in paths]) for _, text, files in subjects[:count])
        kept = [(text, files) for text, files in found if files]
    asked: dict[str, Asked] = {}
    for text, files in kept:
        is_dev = hashlib.sha256(text.encode()).digest()[0] % 2 == 0
        asked.setdefault(text.lower(), Asked(text, frozenset(files), "dev" if is_dev else "test"))
    names = _names(repository, _texts(checkout, tree, paths, repository))
    return Questions(repository, tree, list(asked.values()), names)


def export(checkout: Path, commit: str, target: Path) -> None:
    """Write the files of a commit to a directory."""
    data = subprocess.run(
        ["git", "-C", str(checkout), "archive", "--format=zip", commit],
        capture_output=True,
        check=True,
    ).stdout
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(target)


def _subjects(repository: Repository, checkout: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (commit, subject, changed source files), the newest commit first."""
    log = _git(
        checkout,
        "log",
        "--no-merges",
        "--format=%x01%H%x02%s",
        "--name-status",
        "--no-renames",
        repository.commit,
    )
    for block in log.split("\x01")[1:]:
        head, *lines = block.strip("\n").split("\n")
        commit, subject = head.split("\x02")
        subject = _NUMBER.sub("", subject).strip()
        changed = [line.split("\t", 1)[1] for line in lines if "\t" in line]
        files = [path for path in changed if _is_source(path, repository)]
        if _NOISE.search(_TYPE.sub("", subject)) or _NOISE.search(subject):
            continue
        text = _KEPT_TYPE.sub("", subject)
        if len(_WORD.findall(text)) >= 3 and 1 <= len(files) <= _MOST_FILES:
            yield commit, text, files


def _is_source(path: str, repository: Repository) -> bool:
    return path.endswith(repository.suffixes) and not _NOT_SOURCE.search(path)


def _texts(checkout: Path, tree: str, paths: set[str], repository: Repository) -> Mapping[str, str]:
    """Return the texts in which names are counted: sources, scripts and documents."""
    wanted = (*repository.suffixes, ".js", ".md")
    found = {}
    for path in sorted(paths):
        if path.endswith(wanted):
            show = ["git", "-C", str(checkout), "show", f"{tree}:{path}"]
            data = subprocess.run(show, capture_output=True, check=True).stdout
            found[path] = data.decode(errors="replace")
    return found


def _names(repository: Repository, texts: Mapping[str, str]) -> list[Defined]:
    """Return names that one line of all sources defines, and that occur in at least two files."""
    pattern = re.compile(_DEFINITIONS[repository.suffixes[0]], re.MULTILINE)
    places, files = defaultdict[str, set[tuple[str, int]]](set), Counter[str]()
    for path, text in texts.items():
        files.update(set(_WORD.findall(text)))
        if path.endswith(repository.suffixes):
            for match in pattern.finditer(text):
                name = match[match.lastindex or 0]
                places[name].add((path, text.count("\n", 0, match.start(match.lastindex or 0))))
    once = sorted((name, *found.pop()) for name, found in places.items() if len(found) == 1)
    chosen = [
        Defined(name, path, texts[path].split("\n")[line].strip())
        for name, path, line in once
        if files[name] >= 2
        and len(name) > 4
        and not name.startswith("__")
        and not name.lower().startswith("test")
        and not _NOT_SOURCE.search(path)
        and _LIKE_A_NAME.search(name)
    ]
    random.Random(_SEED).shuffle(chosen)
    return sorted(chosen[:NAMES], key=lambda one: one.name)


def _git(checkout: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout
