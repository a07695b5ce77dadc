"""Twins: pages that say the same in two languages, found by a daemon with its embedder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.daemons import serving
from vikingd.answer.translated_twins import _path
from vikingd.client import find_request
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.pb.retrieval_pb2 import DROP_REASON_DUPLICATE, FindResponse, MatchedContext

TOP = "viking://resources"
BREW = "现磨咖啡豆怎么冲泡才好喝 Grind coffee beans water"
ENGLISH = {
    "coffee": "# Coffee\n\nGrind the beans fresh, and brew the coffee with water of 93 degrees.",
    "tides": "# Tides\n\nThe moon pulls the sea, so the water rises and falls twice a day.",
    "index": "# Overview\n\nThe guide to a garden: soil, seeds, and when to water tomatoes.",
}
CHINESE = {
    "coffee": "# 咖啡\n\n现磨咖啡豆，用93度的水冲泡咖啡。",
    "tides": "# 潮汐\n\n月亮牵引着海水，所以海面每天涨落两次。",
    "index": "# 公司年报\n\n本年度的收入、支出和税款，以及董事会的决议。",
}


@pytest.fixture(scope="module")
def pages() -> Iterator[MessageClient]:
    """Yield a client of a daemon with pages in two languages, all with vectors."""
    with serving("--provider", "e5") as address, MessageClient(address) as client:
        client.put(
            [
                *(Draft(f"{TOP}/docs/en/{name}.md", content=s) for name, s in ENGLISH.items()),
                *(Draft(f"{TOP}/docs/zh-cn/{name}.md", content=s) for name, s in CHINESE.items()),
                Draft(f"{TOP}/tool/README.md", content=ENGLISH["coffee"]),
                Draft(f"{TOP}/tool/README.zh-CN.md", content=CHINESE["coffee"]),
                Draft(f"{TOP}/plain/tides.md", content=ENGLISH["tides"]),
            ],
            wait_for_vectors=True,
        )
        yield client


def results(reply: FindResponse) -> list[MatchedContext]:
    """Return the results in the order of every client."""
    found = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(found, key=lambda match: (-match.score, match.uri))


@pytest.mark.parametrize(
    ("query", "first", "second"),
    [
        (
            BREW,
            "docs/zh-cn/coffee.md",
            "docs/en/coffee.md",
        ),
        ("how should I brew good tasting 咖啡豆", "docs/en/coffee.md", "docs/zh-cn/coffee.md"),
    ],
)
def test_the_page_in_the_language_of_the_query_is_first(
    pages: MessageClient, query: str, first: str, second: str
) -> None:
    """Twins stand together, each names the other, and words of the other language do not decide."""
    reply = pages.find(query, target_uri=f"{TOP}/docs")
    one, other = results(reply)[:2]
    assert [one.uri, other.uri] == [f"{TOP}/{first}", f"{TOP}/{second}"]
    assert (one.twin, other.twin) == (other.uri, one.uri)
    assert one.score == pytest.approx(other.score)
    assert [match.uri for match in reply.resources] == [match.uri for match in results(reply)]


@pytest.mark.parametrize(
    ("query", "taken", "left_out"),
    [
        (BREW, "zh-cn/coffee.md", "en/coffee.md"),
        ("how should I brew good tasting 咖啡豆", "en/coffee.md", "zh-cn/coffee.md"),
    ],
)
def test_a_context_has_a_page_in_the_language_of_the_query_alone(
    pages: MessageClient, query: str, taken: str, left_out: str
) -> None:
    """Neither the text nor an abstract of the other page is in it; `dropped` names it."""
    find = find_request(query, target_uri=f"{TOP}/docs")
    for budget in (60, 2000):
        reply = pages.build_context(find=find, max_tokens=budget)
        cited = {one.uri for one in reply.citations if one.uri.endswith("coffee.md")}
        assert cited == {f"{TOP}/docs/{taken}"}
        reasons = {one.uri: one.reason for one in reply.dropped}
        assert reasons[f"{TOP}/docs/{left_out}"] == DROP_REASON_DUPLICATE
    assert reply.from_items + len(reply.dropped) == 6


def test_a_suffix_of_the_name_makes_twins_too(pages: MessageClient) -> None:
    """README.md and README.zh-CN.md say the same."""
    one, other = results(pages.find("咖啡豆怎么冲泡", target_uri=f"{TOP}/tool"))
    assert [one.uri.rpartition("/")[2], other.uri.rpartition("/")[2]] == [
        "README.zh-CN.md",
        "README.md",
    ]
    assert one.twin == other.uri


def test_a_page_of_the_same_path_and_another_topic_is_no_twin(pages: MessageClient) -> None:
    """The path alone does not make twins."""
    found = {match.uri: match for match in results(pages.find("garden tomatoes soil", limit=50))}
    assert not found[f"{TOP}/docs/en/index.md"].twin
    assert found[f"{TOP}/docs/en/coffee.md"].twin


def test_a_page_of_the_same_topic_and_another_path_is_no_twin(pages: MessageClient) -> None:
    """The meaning alone does not make twins."""
    found = {match.uri: match for match in results(pages.find("moon tides sea", limit=50))}
    assert not found[f"{TOP}/plain/tides.md"].twin
    assert found[f"{TOP}/docs/en/tides.md"].twin == f"{TOP}/docs/zh-cn/tides.md"


def test_a_twin_that_was_not_found_is_named(pages: MessageClient) -> None:
    """A Chinese query whose first result is the English page learns of the Chinese one."""
    query = "怎么用月亮来解释这件事情呢 Grind the beans fresh brew the coffee with water"
    whole = results(pages.find(query, target_uri=f"{TOP}/docs", trace=True))
    own = {match.uri: match.parts.final for match in whole}[f"{TOP}/docs/zh-cn/coffee.md"]
    found, *others = results(pages.find(query, target_uri=f"{TOP}/docs", score_threshold=own))
    assert not any(match.uri == f"{TOP}/docs/zh-cn/coffee.md" for match in others)
    assert found.uri == f"{TOP}/docs/en/coffee.md"
    assert found.twin == f"{TOP}/docs/zh-cn/coffee.md"


def test_a_small_limit_shows_the_same_first_page(pages: MessageClient) -> None:
    """The page in the language of the query comes first, though its twin alone fits."""
    query = "怎么用月亮来解释这件事情呢 Grind the beans fresh brew the coffee with water"
    few, many = (results(pages.find(query, target_uri=f"{TOP}/docs", limit=n)) for n in (1, 9))
    assert few[0].uri == many[0].uri == f"{TOP}/docs/zh-cn/coffee.md"


def test_a_twin_outside_of_the_target_is_not_named(pages: MessageClient) -> None:
    """Nothing is told of the rest of the tree."""
    for match in results(pages.find(BREW, target_uri=f"{TOP}/docs/en")):
        assert not match.twin


@pytest.mark.parametrize(
    "paths",
    [
        ("a/docs/en/x.md", "a/docs/zh/x.md", "a/docs/x.md"),
        ("a/source/docs/x.md", "a/source/zh-cn/docs/x.md", "a/source/zh_Hans/docs/x.md"),
        ("a/README.md", "a/README_zh.md", "a/README.zh-CN.md", "a/README-cn.md"),
        ("a/x", "a/x.en", "a/zh/x"),
        ("a/b.c.en-US.md", "a/b.c.zh-CN.md", "a/b.c.md"),
    ],
)
def test_twins_have_one_key(paths: tuple[str, ...]) -> None:
    """The key of a path has no code of a language."""
    assert len({_path(f"{TOP}/{path}").key for path in paths}) == 1


@pytest.mark.parametrize(
    "paths",
    [
        ("a/x.md", "a/b/x.md"),
        ("a/en.md", "a/zh.md"),
        ("a/then.md", "a/th.md"),
        ("a/x.md", "a/y.md"),
    ],
)
def test_other_paths_have_other_keys(paths: tuple[str, ...]) -> None:
    """A name that is a code, or ends like one, stays."""
    assert len({_path(f"{TOP}/{path}").key for path in paths}) == len(paths)
