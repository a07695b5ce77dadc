"""A judged set of questions over real documentation.

    python -m benchmarks.documentation SOURCES DIR

The questions are in documentation.jsonl. SOURCES has a directory for each tree of TREES: a checkout
or an unpacked package of the pinned version. The command reads the trees as an import does, and
writes DIR/documentation for `python -m benchmarks.quality --datasets DIR`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.daemon import say
from vikingd.domain.contexts import Draft
from vikingd.ingest.files import iso, read_tree
from vikingd.ingest.import_remarks import Unreadable

QUESTIONS = Path(__file__).with_name("documentation.jsonl")
ROOT = "viking://resources/documentation"
HALVES = ("dev", "test")
KINDS = ("how-to", "reference", "concept", "error message", "comparison")
"""The kinds of the questions that have an answer."""
UNANSWERED = ("undocumented", "nonsense")
"""The kinds of the others: about the subject but not in the tree; nonsense or of another world."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The pages of a project at one version.

    Attributes:
        name: the name of its directory below SOURCES, and of its scope.
        origin: the public repository or package.
        version: the commit of the repository, or the version of the package.
        directories: the directories that are read.
        suffixes: the suffixes of the files that are read.
        sha256: the digest of the list of these files with their contents.
        left_out: the names of files and directories that are not read.
        chinese: a part of the path of each page in Chinese; "" if there is none.
    """

    name: str
    origin: str
    version: str
    directories: tuple[str, ...]
    suffixes: tuple[str, ...]
    sha256: str
    left_out: frozenset[str] = frozenset()
    chinese: str = ""

    def lang(self, path: str) -> str:
        """Return the language of a page by its path, "" for code."""
        if not path.endswith((".md", ".rst")):
            return ""
        return "zh" if self.chinese and self.chinese in path else "en"


@dataclass(frozen=True, slots=True)
class Question:
    """A question over one tree.

    Attributes:
        id: its name.
        tree: the name of the tree.
        lang: its language.
        kind: its kind, of KINDS or UNANSWERED.
        half: the half that it belongs to.
        text: its words.
        answers: the paths of all pages that answer it, in the tree; none if there is no answer.
    """

    id: str
    tree: str
    lang: str
    kind: str
    half: str
    text: str
    answers: Sequence[str]

    def relevant(self) -> list[str]:
        """Return the URIs of the pages that answer the question."""
        return [f"{ROOT}/{self.tree}/{page}" for page in self.answers]

    def line(self) -> dict[str, str]:
        """Return the question as a line of queries.jsonl."""
        scope = f"{ROOT}/{self.tree}"
        return {
            "id": self.id,
            "text": self.text,
            "scope": scope,
            "lang": self.lang,
            "category": self.kind,
        }


class Page(NamedTuple):
    """A context of a tree, with its language ("" for code and directories)."""

    draft: Draft
    lang: str

    def line(self) -> dict[str, str]:
        """Return the context as a line of directories.jsonl or documents.jsonl."""
        draft = self.draft
        line = {"uri": draft.uri}
        if not draft.is_directory:
            line["text"] = draft.content
        stated = {
            "title": draft.title,
            "abstract": draft.abstract,
            "time": "" if draft.time is None else iso(draft.time),
        }
        line |= {name: value for name, value in stated.items() if value}
        # A line without a text needs an abstract, which may be empty.
        return {"abstract": "", **line} if draft.is_directory else {**line, "lang": self.lang}


TREES = (
    Tree(
        "eslint",
        "https://github.com/eslint/eslint",
        "c27bc926e496985eb7911c09eb60914b2e4b5d0f",
        ("docs/src",),
        (".md",),
        "f22044c9dac3d974ce591db0ca8b987730733b90cc96711cd9e7f5b9f5ef6813",
    ),
    Tree(
        "hexo",
        "https://github.com/hexojs/site",
        "59ec5bd280851a691489538b05e31c7fcab365e2",
        ("source/api", "source/docs", "source/zh-cn"),
        (".md",),
        "f214c458e0fd46fdb2b00120bfd31ed075087869efa3adb97bd23c3df56d5080",
        chinese="/zh-cn/",
    ),
    Tree(
        "pytest",
        "https://pypi.org/project/pytest (source distribution)",
        "8.4.2",
        ("doc/en",),
        (".rst", ".py"),
        "aabddd1de3744a4a9908935e8d7fdae66a194c777b9f22258b216d74ca1178a0",
        # It names a plugin for nearly everything, so nothing would be undocumented.
        left_out=frozenset({"plugin_list.rst"}),
    ),
    Tree(
        "textual",
        "https://github.com/Textualize/textual",
        "1d99508b928a771b51e1a527319c6b87dcff9e05",
        ("docs",),
        (".md", ".py"),
        "3cd879dd94631460838b1d1c98f38ce5d499a84f8d20cfea228039bd2c03d728",
    ),
    Tree(
        "vant",
        "https://github.com/youzan/vant",
        "29cd8c2119139851495550b9bf6bd5bd9f678b2f",
        ("packages/vant/docs/markdown", "packages/vant/src"),
        (".md", ".vue", ".ts", ".tsx"),
        "f9e5ae685b50e2639d3af8e51b0ee22623e294e9ec3befd4e74ff39ee8885f85",
        left_out=frozenset({"test"}),
        chinese=".zh-CN.",
    ),
    Tree(
        "apisix",
        "https://github.com/apache/apisix",
        "f519a0f04ccfd4c13b5d06caf34bcde8c8593980",
        ("docs/en/latest", "docs/zh/latest"),
        (".md",),
        "02050ac49ac830ba3019e34dea5e907e14b4b20a7928fb8685786de7d88fb533",
        chinese="/zh/",
    ),
    Tree(
        "jest",
        "https://github.com/jestjs/jest",
        "52db46e50404c993d3f10dd1481e861cc04ae22e",
        ("docs",),
        (".md",),
        "8eeb089a789b4b4a09720596760c8302bf7c747525556f313454cd0f791616ec",
    ),
    Tree(
        "poetry",
        "https://github.com/python-poetry/poetry",
        "f46702336862f30050d5c641d5ed6f7568ded793",
        ("docs",),
        (".md",),
        "2c67302f52795f78aa2538738a586caa9bfa8b04aad07ffb78d802098bd03e21",
    ),
    Tree(
        "scrapy",
        "https://github.com/scrapy/scrapy",
        "11079cb1c85b9e75a39a7269943c69d1a975d485",
        ("docs",),
        (".rst",),
        "8c6810f330a541e45f8570ffcf8c2fcdeaee369c6cc0e2d82143d2b4ede2dbeb",
    ),
    Tree(
        "vite",
        "https://github.com/vitejs/docs-cn",
        "e2456079a4d366282206969b7dd819e2139d2035",
        (".",),
        (".md",),
        "2295a2b90a39b58f9863f1db9bf370b6eed9449908b98510ef4e409a0cbf242f",
        chinese="/",  # every page
    ),
)

_COMMIT = re.compile("[0-9a-f]{40}")


def main(arguments: Sequence[str] | None = None, trees: Sequence[Tree] = TREES) -> None:
    """Run the command line.

    Raises:
        SystemExit: a tree is missing, has another version, or lacks a page that answers.
    """
    parser = argparse.ArgumentParser(
        "python -m benchmarks.documentation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sources", type=Path, metavar="SOURCES")
    parser.add_argument("datasets", type=Path, metavar="DIR")
    parser.add_argument(
        "--half", choices=HALVES, default=HALVES[0], help="the questions to write (default: dev)"
    )
    options = parser.parse_args(arguments)
    files = {tree: checked_files(tree, options.sources / tree.name) for tree in trees}
    pages = [
        page for tree in trees for page in _pages(tree, options.sources / tree.name, files[tree])
    ]
    names = {tree.name for tree in trees}
    questions = [question for question in read_questions() if question.tree in names]
    _check_answers(questions, {page.draft.uri for page in pages})
    asked = [question for question in questions if question.half == options.half]
    target = options.datasets / "documentation"
    target.mkdir(parents=True, exist_ok=True)
    _write_lines(target / "directories.jsonl", (p.line() for p in pages if p.draft.is_directory))
    _write_lines(target / "documents.jsonl", (p.line() for p in pages if not p.draft.is_directory))
    _write_lines(target / "queries.jsonl", (question.line() for question in asked))
    rows = (f"{question.id}\t{uri}\t1\n" for question in asked for uri in question.relevant())
    (target / "qrels.tsv").write_text("query\turi\tgrade\n" + "".join(rows), encoding="utf-8")
    say(f"{target}: {len(pages)} contexts, {len(asked)} questions")


def read_questions() -> list[Question]:
    """Return the questions of both halves."""
    with QUESTIONS.open(encoding="utf-8") as lines:
        return [Question(**json.loads(line)) for line in lines]


def checked_files(tree: Tree, source: Path) -> list[str]:
    """Return the paths of a tree's files below its source, sorted.

    Raises:
        SystemExit: the source is missing or differs from the pinned version.
    """
    wanted = f"it must hold {tree.origin} at {tree.version}"
    if not source.is_dir():
        raise SystemExit(f"{source} is missing; {wanted}")
    if _COMMIT.fullmatch(tree.version) and (source / ".git").exists():
        command = ["git", "-C", str(source), "rev-parse", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if commit != tree.version:
            raise SystemExit(f"{source} is at commit {commit or 'unknown'}; {wanted}")
    files = sorted(
        path.relative_to(source).as_posix()
        for directory in tree.directories
        for path in (source / directory).rglob("*")
        if path.suffix in tree.suffixes
        and path.is_file()
        and tree.left_out.isdisjoint(path.relative_to(source).parts)
    )
    digest = digest_of(source, files)
    if digest != tree.sha256:
        raise SystemExit(
            f"{source}: the {len(files)} files below {', '.join(tree.directories)} have the "
            f"SHA-256 {digest}, not {tree.sha256}; {wanted}, unchanged"
        )
    return files


def digest_of(source: Path, files: Iterable[str]) -> str:
    """Return the SHA-256 of a list of files with a line "SHA-256  PATH" for each."""
    listed = hashlib.sha256()
    for path in files:
        content = hashlib.sha256((source / path).read_bytes()).hexdigest()
        listed.update(f"{content}  {path}\n".encode())
    return listed.hexdigest()


def _pages(tree: Tree, source: Path, files: Iterable[str]) -> Iterator[Page]:
    """Yield the contexts of a tree as an import reads them."""
    with tempfile.TemporaryDirectory(prefix="vikingd-documentation-") as directory:
        for path in files:
            copy = Path(directory, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, copy)
        for read in read_tree(Path(directory), f"{ROOT}/{tree.name}"):
            if isinstance(read, Unreadable):
                raise SystemExit(f"{tree.name}: {read.path} {read.reason}")
            if isinstance(read, Draft):
                yield Page(read, "" if read.is_directory else tree.lang(read.uri))


def _check_answers(questions: Iterable[Question], known: Collection[str]) -> None:
    for question in questions:
        for uri in question.relevant():
            if uri not in known:
                raise SystemExit(f"question {question.id}: {uri} is not in its tree")


def _write_lines(path: Path, lines: Iterable[Mapping[str, str]]) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


if __name__ == "__main__":
    main()
