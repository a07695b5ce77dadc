"""The words of many languages: which queries find which texts, through a whole engine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.index.find_helpers import find, retrieved
from vikingd.domain.contexts import Draft
from vikingd.domain.find_query import FindQuery
from vikingd.domain.retrieve_query import Mode, RetrieveQuery
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

TOP = "viking://resources"


def lines(name: str) -> list[dict[str, Any]]:
    """Return the records of a file beside this one."""
    with (Path(__file__).parent / name).open(encoding="utf-8") as file:
        return list(map(json.loads, file))


WORDS = lines("words_of_languages.jsonl")
PASSAGES = lines("passages_of_scripts.jsonl")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Return an engine with the texts of each row of both files, without vectors."""
    path = tmp_path_factory.mktemp("words")
    engine = Engine(EngineSettings(path, EmbedSettings(provider="none")))
    drafts = []
    for number, row in enumerate(WORDS):
        texts = row["text"] if isinstance(row["text"], list) else [row["text"]]
        drafts += [
            Draft(f"{TOP}/{number}/{place}.md", content=text) for place, text in enumerate(texts)
        ]
    drafts += [
        Draft(f"{TOP}/{row['language']}/{number}.md", content=row["passage"])
        for number, row in enumerate(PASSAGES)
    ]
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()
    yield engine
    engine.close()


def found(engine: Engine, query: str, directory: str) -> list[str]:
    """Return the names of the files that a query finds by words, the best first."""
    asked = RetrieveQuery(query, f"{TOP}/{directory}", mode=Mode.KEYWORD)
    items = retrieved(engine, asked, None)
    return [item.uri.rpartition("/")[2].removesuffix(".md") for item in items]


def test_queries_find_the_words_of_their_languages(engine: Engine) -> None:
    """Each query of the table finds its text or not, or the first of two texts first."""
    wrong = []
    for number, row in enumerate(WORDS):
        names = found(engine, row["query"], str(number))
        wanted = {"found": ["0"], "not found": [], "order": ["0", "1"]}[row["wanted"]]
        if names != wanted:
            wrong.append((row["language"], row["query"], row["wanted"], row["text"], names))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("docker", "zh"),
        ("install docker", "zh"),
        ("requests", "ru"),
        ("timeout", "ko"),
        ("神社", "ja"),
        ("东京", "en"),
        ("Москва", "en"),
        ("dock", None),
        ("学校", None),
    ],
)
def test_without_vectors_a_find_compares_words_of_all_scripts(
    tmp_path: Path, query: str, name: str | None
) -> None:
    """A name in a text of another language is found by its letters."""
    texts = {
        "zh": "本页说明如何在服务器上安装 docker 以及常见的问题。",
        "ru": "Здесь описан модуль requests и его функции.",
        "ko": "서버의 timeout 설정을 바꾸는 방법입니다.",
        "ja": "明日は神社へ参ります。",
        "en": "Tokyo is written 东京, and Moscow Москва, in the tables of this page.",
    }
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        drafts = [Draft(f"{TOP}/{one}.md", content=text) for one, text in texts.items()]
        engine.writable_store.put([prepare(draft) for draft in drafts]).result()
        found = find(engine, FindQuery(query), None).matches
    assert [match.uri for match in found[:1]] == ([f"{TOP}/{name}.md"] if name else [])


def test_the_table_has_many_words_and_languages() -> None:
    """The table has 300 rows, 20 languages, and rows of each kind."""
    kinds = defaultdict(set)
    for number, row in enumerate(WORDS):
        kinds[row["wanted"]].add(number)
    assert len(WORDS) >= 300
    assert len({row["language"] for row in WORDS}) >= 20
    assert {kind: len(rows) >= 10 for kind, rows in kinds.items()} == dict.fromkeys(
        ("found", "not found", "order"), True
    )


@pytest.mark.parametrize(
    ("language", "least"),
    [("Hindi", 12), ("Arabic", 12), ("Hebrew", 12), ("Thai", 12), ("Korean", 12)],
)
def test_passages_of_other_scripts_are_found_first(
    engine: Engine, language: str, least: int
) -> None:
    """So many of twelve questions find their passage first by words."""
    rows = [(str(number), row) for number, row in enumerate(PASSAGES)]
    firsts = [
        found(engine, row["query"], language)[:1] == [number]
        for number, row in rows
        if row["language"] == language
    ]
    assert sum(firsts) >= least
