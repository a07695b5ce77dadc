"""The judged questions over documentation, and the set that is made of them and pinned trees."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import documentation
from benchmarks.documentation import (
    HALVES,
    KINDS,
    ROOT,
    TREES,
    UNANSWERED,
    Tree,
    checked_files,
    digest_of,
    read_questions,
)
from benchmarks.judged import read_documents, read_queries

HEXO = next(tree for tree in TREES if tree.name == "hexo")
OF_HEXO = [question for question in read_questions() if question.tree == "hexo"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a tree with all pages that answer a question about Hexo, each with its path as text."""
    path = tmp_path / "hexo"
    for page in {page for question in OF_HEXO for page in question.answers}:
        (path / page).parent.mkdir(parents=True, exist_ok=True)
        (path / page).write_text(f"# {page}\n", encoding="utf-8")
    return path


def pinned(source: Path) -> Tree:
    """Return the tree of Hexo with the files of this source as its version."""
    files = sorted(p.relative_to(source).as_posix() for p in source.rglob("*.md"))
    return replace(HEXO, sha256=digest_of(source, files), left_out=frozenset({"test"}))


def test_questions_are_whole() -> None:
    """Names and texts differ, and only questions of the kinds without an answer name no page."""
    questions = read_questions()
    assert len({q.id for q in questions}) == len({q.text for q in questions}) == len(questions)
    assert {q.kind for q in questions} == {*KINDS, *UNANSWERED}
    assert [q.id for q in questions if (q.kind in UNANSWERED) != (not q.answers)] == []
    assert {q.tree for q in questions} == {tree.name for tree in TREES}
    assert {q.lang for q in questions} == {"en", "zh"}


def test_halves_are_alike() -> None:
    """Each tree, language and sort of question is half in each half, but for an odd one."""
    sizes = Counter((q.half, q.tree, q.lang, bool(q.answers)) for q in read_questions())
    for _, tree, lang, is_answered in sizes:
        dev, test = (sizes[half, tree, lang, is_answered] for half in HALVES)
        assert abs(dev - test) <= 1, (tree, lang, is_answered)


@pytest.mark.parametrize("half", HALVES)
def test_the_set_has_one_half(half: str, source: Path, tmp_path: Path) -> None:
    """The command writes the pages with their languages and the questions of one half alone."""
    left_out = source / HEXO.directories[0] / "test" / "page.md"
    tree = pinned(source)
    left_out.parent.mkdir()
    left_out.write_text("# Not a page\n", encoding="utf-8")
    documentation.main([str(tmp_path), str(tmp_path / "sets"), "--half", half], [tree])
    made = tmp_path / "sets" / "documentation"
    langs = {document["uri"]: document["lang"] for document in read_documents(made)}
    assert langs[f"{ROOT}/hexo/source/docs/server.md"] == "en"
    assert langs[f"{ROOT}/hexo/source/zh-cn/docs/server.md"] == "zh"
    assert not any("Not a page" in document["text"] for document in read_documents(made))
    lines = (made / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    asked = [question for question in OF_HEXO if question.half == half]
    assert [json.loads(line)["id"] for line in lines] == [question.id for question in asked]
    answered = [question for question in asked if question.answers]
    queries = read_queries(made)
    assert [query.text for query in queries] == [question.text for question in answered]
    assert [query.relevant for query in queries] == [
        {*question.relevant()} for question in answered
    ]
    assert {query.scope for query in queries} == {f"{ROOT}/hexo"}
    assert {uri for query in queries for uri in query.relevant} <= langs.keys()


def test_another_version_is_refused(source: Path, tmp_path: Path) -> None:
    """A missing tree, a changed file and another commit end the command with what is wanted."""
    tree = pinned(source)
    assert "source/docs/server.md" in checked_files(tree, source)
    with pytest.raises(SystemExit, match=rf"is missing; it must hold {HEXO.origin} at"):
        checked_files(tree, tmp_path / "other")
    for command in (
        ["init", "--quiet"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--allow-empty", "-mt"],
    ):
        subprocess.run(["git", "-C", str(source), *command], check=True)
    with pytest.raises(SystemExit, match=rf"is at commit \w+; it must hold .* {HEXO.version}"):
        checked_files(tree, source)
    (source / ".git").rename(tmp_path / "git")
    (source / "source/docs/server.md").write_text("# Changed\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=rf"have the SHA-256 \w+, not {tree.sha256}"):
        checked_files(tree, source)


def test_an_answer_must_be_a_page(source: Path, tmp_path: Path) -> None:
    """A page that answers a question must be in its tree."""
    (source / "source/docs/server.md").unlink()
    with pytest.raises(SystemExit, match=r"/source/docs/server\.md is not in its tree"):
        documentation.main([str(tmp_path), str(tmp_path / "sets")], [pinned(source)])
