"""The store of LangGraph: search by words, times to live, texts to search, errors."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from vikingd.client import Client, Draft, InvalidField, NotFound
from vikingd.integrations.langgraph import VikingdStore

ROOT = "viking://resources/agents"
ANA = ("users", "ana")
SHORT = 0.005  # minutes: 0.3 seconds


@pytest.fixture
def store(typed: Client) -> VikingdStore:
    """Return an empty store."""
    return VikingdStore(typed, ROOT)


def test_an_item_is_a_file_with_its_value_as_json(store: VikingdStore, typed: Client) -> None:
    """Put writes one file; its name and directories are those of key and namespace."""
    before = datetime.now(UTC)
    store.put((*ANA, "a/b"), "100%", {"likes": "茶", "n": 2**70})
    file = typed.get(f"{ROOT}/users/ana/a%2Fb/100%25.json")
    assert file.content == '{"likes":"茶","n":1180591620717411303424}'
    item = store.get((*ANA, "a/b"), "100%")
    assert item is not None
    assert (item.namespace, item.key) == ((*ANA, "a/b"), "100%")
    assert item.value == {"likes": "茶", "n": 2**70}
    assert before <= item.created_at <= item.updated_at
    store.put((*ANA, "a/b"), "100%", {"likes": "茶", "n": 2**70})
    again = store.get((*ANA, "a/b"), "100%")
    assert again is not None
    assert again.created_at == item.created_at
    assert again.updated_at > item.updated_at
    store.delete((*ANA, "a/b"), "100%")
    store.delete((*ANA, "a/b"), "100%")
    assert store.get((*ANA, "a/b"), "100%") is None
    assert not [context for context in typed.tree(ROOT) if not context.is_directory]


def test_a_key_may_be_the_name_of_a_namespace(store: VikingdStore) -> None:
    """A key and a label with one name are two things."""
    store.put(("a", "b"), "c", {"at": "b"})
    store.put(("a", "b", "c"), "d", {"at": "c"})
    store.put(("a",), "b", {"at": "a"})
    assert [item.value["at"] for item in store.search(("a",))] == ["a", "b", "c"]
    assert store.list_namespaces() == [("a",), ("a", "b"), ("a", "b", "c")]


def test_a_long_value_comes_back_from_get_and_search(store: VikingdStore, typed: Client) -> None:
    """A value that does not fit into metadata is read from the content."""
    value = {"text": "oolong " * 10_000, "kind": "long"}
    store.put(ANA, "long", value)
    assert "json" not in typed.get(f"{ROOT}/users/ana/long.json").metadata
    [item] = store.search(ANA, filter={"kind": "long"})
    assert item.value == value
    found = store.get(ANA, "long")
    assert found is not None
    assert found.value == value


def test_a_query_finds_by_words_and_the_rest_comes_last(store: VikingdStore) -> None:
    """The best item is first, with a score; items without a match come last, without one."""
    for key, text in {"a": "coffee", "b": "hot oolong", "c": "milk"}.items():
        store.put(ANA, key, {"text": text, "hot": key == "b"})
    store.put(("users", "bo"), "a", {"text": "oolong"})
    store.put(ANA, "hidden", {"text": "oolong oolong"}, index=False)
    found = store.search(ANA, query="oolong")
    assert [item.key for item in found] == ["b", "a", "c", "hidden"]
    assert found[0].score is not None
    assert found[0].score > 0
    assert [item.score for item in found[1:]] == [None] * 3
    assert [item.key for item in store.search(ANA, query="oolong", limit=1)] == ["b"]
    assert [item.key for item in store.search(ANA, query="oolong", offset=1, limit=2)] == ["a", "c"]
    none = store.search(ANA, query="oolong", filter={"hot": False})
    assert [(item.key, item.score) for item in none] == [("a", None), ("c", None)]
    assert {item.namespace for item in store.search(("users",), query="oolong", limit=2)} == {
        ANA,
        ("users", "bo"),
    }


def test_a_filter_among_better_items(store: VikingdStore) -> None:
    """An item that passes the filter has its score, though many others match better."""
    for n in range(12):
        store.put(ANA, f"a{n}", {"text": "oolong oolong", "hot": False})
    store.put(ANA, "b", {"text": "some oolong, a cup and a spoon", "hot": True})
    [item] = store.search(ANA, query="oolong", filter={"hot": True}, limit=1)
    assert item.key == "b"
    assert item.score is not None


def test_fields_decide_what_is_searched(typed: Client) -> None:
    """Only the named fields are found, those of the store or those of the item."""
    store = VikingdStore(typed, ROOT, fields=["text", "notes[*].title"])
    value: dict[str, Any] = {"text": "green", "secret": "oolong", "notes": [{"title": "steep"}]}
    store.put(ANA, "a", value)
    store.put(ANA, "b", value, index=["secret"])

    def scored(query: str) -> list[str]:
        return [i.key for i in store.search(ANA, query=query) if i.score is not None]

    assert [scored(word) for word in ("green", "steep", "oolong")] == [["a"], ["a"], ["b"]]
    assert [item.value for item in store.search(ANA)] == [value, value]
    store.put(ANA, "c", {"other": "oolong"})
    assert scored("oolong") == ["b"]


def test_an_expired_item_is_gone_and_a_sweep_removes_it(store: VikingdStore, typed: Client) -> None:
    """After its time an item is neither read nor found; the sweep removes its file."""
    store.put(ANA, "short", {"text": "oolong"}, ttl=SHORT)
    store.put(ANA, "long", {"text": "oolong"}, ttl=60)
    store.put(ANA, "ever", {"text": "oolong"})
    assert store.get(ANA, "short", refresh_ttl=False) is not None
    assert store.sweep_ttl() == 0
    time.sleep(SHORT * 60)
    assert store.get(ANA, "short") is None
    for query in (None, "oolong"):
        assert {item.key for item in store.search(ANA, query=query)} == {"long", "ever"}
    assert typed.get(f"{ROOT}/users/ana/short.json").content
    assert store.sweep_ttl() == 1
    with pytest.raises(NotFound):
        typed.get(f"{ROOT}/users/ana/short.json")
    assert {item.key for item in store.search(ANA)} == {"long", "ever"}
    store.put(ANA, "long", {"text": "oolong"})  # a put without a time to live ends it
    assert "expires" not in typed.get(f"{ROOT}/users/ana/long.json").metadata


def test_a_read_lets_the_time_begin_anew(typed: Client) -> None:
    """Get and search refresh by default; `refresh_ttl` and the store's setting say otherwise."""
    store = VikingdStore(typed, ROOT, ttl={"default_ttl": 60})
    still = VikingdStore(typed, ROOT, ttl={"refresh_on_read": False})

    def expires(key: str) -> int:
        return int(typed.get(f"{ROOT}/users/ana/{key}.json").metadata["expires"])

    def changed(key: str, read: Any) -> bool:
        before = expires(key)
        read()
        return expires(key) > before

    store.put(ANA, "a", {"n": 1})
    store.put(ANA, "b", {"n": 2})
    updated = store.search(ANA)[0].updated_at
    assert abs(expires("a") / 1e6 - time.time() - 3600) < 60
    assert changed("a", lambda: store.get(ANA, "a"))
    assert changed("a", lambda: store.search(ANA))
    assert not changed("b", lambda: store.search(ANA, filter={"n": 1}))
    assert not changed("a", lambda: store.get(ANA, "a", refresh_ttl=False))
    assert not changed("a", lambda: store.search(ANA, refresh_ttl=False))
    assert not changed("a", lambda: still.get(ANA, "a"))
    assert changed("a", lambda: still.get(ANA, "a", refresh_ttl=True))
    read = store.get(ANA, "a")
    assert read is not None
    assert read.updated_at == updated
    assert read.value == {"n": 1}
    assert typed.get(f"{ROOT}/users/ana/a.json").content == '{"n":1}'


def test_a_sweep_spares_what_was_written_meanwhile(
    store: VikingdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that was expired when it was listed, and is new now, stays."""
    store.put(ANA, "a", {"n": 1}, ttl=SHORT)
    time.sleep(SHORT * 60)
    listed = list(store._stored(ROOT, expired=True))
    assert len(listed) == 1
    store.put(ANA, "a", {"n": 2})
    monkeypatch.setattr(store, "_stored", lambda *_, **__: iter(listed))
    assert store.sweep_ttl() == 0
    item = store.get(ANA, "a")
    assert item is not None
    assert item.value == {"n": 2}


def test_a_batch_reads_before_it_writes(store: VikingdStore) -> None:
    """Results are in the order of the operations; the last write of an item counts."""
    get = GetOp(ANA, "a")
    writes = [PutOp(ANA, "a", {"n": 1}), PutOp(ANA, "a", None), PutOp(ANA, "a", {"n": 2})]
    assert store.batch([*writes, get]) == [None] * 4
    item, done, [found], names = store.batch(
        [get, PutOp(ANA, "a", None), SearchOp(ANA), ListNamespacesOp()]
    )
    assert (item.value, done, found.value, names) == ({"n": 2}, None, {"n": 2}, [ANA])
    assert store.batch([get]) == [None]


@pytest.mark.deep
def test_a_large_batch_is_written_in_parts(store: VikingdStore) -> None:
    """More items than one call takes are written, and all are found page by page."""
    many = 1200
    store.batch([PutOp(ANA, str(n), {"n": n}) for n in range(many)])
    assert {item.value["n"] for item in store.search(ANA, limit=many + 1)} == set(range(many))
    pages = [store.search(ANA, limit=500, offset=offset) for offset in (0, 500, 1000)]
    assert [len(page) for page in pages] == [500, 500, 200]
    store.batch([PutOp(ANA, str(n), None) for n in range(many)])
    assert store.search(ANA) == []


def test_writers_on_threads_and_coroutines_do_not_disturb_each_other(store: VikingdStore) -> None:
    """Each thread finds its own items; asynchronous calls run side by side."""

    def write(name: str) -> None:
        for n in range(20):
            store.put(("users", name), str(n), {"n": n})

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(store.search(("users", name), limit=99)) for name in "abc"] == [20] * 3

    async def test() -> list[Any]:
        await asyncio.gather(*(store.aput(ANA, str(n), {"n": n}) for n in range(20)))
        await store.adelete(ANA, "0")
        found = await asyncio.gather(*(store.aget(ANA, str(n)) for n in range(20)))
        assert len(await store.asearch(ANA, limit=99)) == 19
        assert await store.alist_namespaces(prefix=ANA) == [ANA]
        return found

    gone, *rest = asyncio.run(test())
    assert gone is None
    assert [item.value["n"] for item in rest] == list(range(1, 20))


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ({"a": {1: 2}}, TypeError, "value['a'] has the key 1; the keys of JSON are text"),
        ({"a": [object()]}, TypeError, "value['a'][0] is of type object"),
        ({"a": float("nan")}, ValueError, "value['a'] is nan, which JSON does not have"),
        ({"text": "long " * 500_000}, InvalidField, "content"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_written(
    store: VikingdStore, value: dict[Any, Any], error: type[Exception], words: str
) -> None:
    """The error names the place; other writes of the batch are not done."""
    with pytest.raises(error) as raised:
        store.batch([PutOp(ANA, "good", {"n": 1}), PutOp(ANA, "bad", value)])
    assert words in str(raised.value)
    assert store.search(ANA) == []


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"$and": [{"n": {"$gt": 1}}, {"t": "x"}]}, ["c"]),
        ({"$or": [{"n": 1}, {"t": "y"}]}, ["a", "b"]),
        ({"$or": [{"n": 1}, {"$and": [{"n": 3}, {"t": "x"}]}]}, ["a", "c"]),
        ({"t": "x", "$or": [{"n": 2}, {"n": 3}]}, ["c"]),
        ({"$and": []}, ["a", "b", "c"]),
        ({"$or": []}, []),
    ],
)
def test_filters_are_joined(store: VikingdStore, wanted: dict[str, Any], keys: list[str]) -> None:
    """`$and` and `$or` join filters, at any depth, with and without a query."""
    for key, value in {
        "a": {"n": 1, "t": "x"},
        "b": {"n": 2, "t": "y"},
        "c": {"n": 3, "t": "x"},
    }.items():
        store.put(ANA, key, value)
    assert [item.key for item in store.search(ANA, filter=wanted)] == keys
    assert sorted(item.key for item in store.search(ANA, query="x", filter=wanted)) == keys


def test_a_wrong_filter_is_refused_where_nothing_is_stored(store: VikingdStore) -> None:
    """An unknown operator is named even if no item is there to be compared."""
    with pytest.raises(ValueError, match=r"filter has the operator '\$not'"):
        store.search(ANA, filter={"$not": {"n": 1}})


def test_wrong_arguments_are_refused(store: VikingdStore) -> None:
    """The message names the argument, and says what to give."""
    store.put(ANA, "a", {"n": 1})
    for call, words in (
        (lambda: store.search(ANA, limit=-1), "limit is -1; give 0 or more"),
        (lambda: store.list_namespaces(offset=-2), "offset is -2; give 0 or more"),
        (
            lambda: store.search(ANA, filter={"n": {"$in": [1]}}),
            "filter['n'] has the operator '$in'; the operators are $eq, $ne, $gt, $gte, $lt, $lte",
        ),
        (lambda: store.search(ANA, filter={"n": {"$gt": "x"}}), "filter['n']['$gt'] is 'x'"),
        (lambda: store.search(ANA, filter={"$not": {"n": 1}}), "filter has the operator '$not'"),
        (lambda: store.search(ANA, filter={"m": 1, "$nor": []}), "filter has the operator '$nor'"),
        (
            lambda: store.search(ANA, filter={"$and": {"n": 1}}),
            "filter['$and'] is {'n': 1}; give a",
        ),
        (lambda: store.search(ANA, filter={"$or": [5]}), "filter['$or'] is [5]; give a list"),
        (
            lambda: store.batch([ListNamespacesOp((MatchCondition("infix", ("a",)),))]),  # type: ignore[arg-type]
            "match_type is 'infix'; give 'prefix' or 'suffix'",
        ),
    ):
        with pytest.raises(ValueError) as raised:  # noqa: PT011
            call()
        assert words in str(raised.value)
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a.b",), "c", {})])
    with pytest.raises(InvalidField, match="at most 1,024 are allowed"):
        store.put(ANA, "x" * 2000, {})
    assert store.search(ANA, filter={"m": {"$gt": 1}}) == []  # a missing number is not compared


def test_files_of_others_are_left_alone(store: VikingdStore, typed: Client) -> None:
    """A file that is no item is neither found nor removed."""
    typed.put([Draft(f"{ROOT}/users/ana/notes.md", content="oolong")])
    assert store.search((), query="oolong") == store.search(()) == store.list_namespaces() == []
    assert store.sweep_ttl() == 0
    assert typed.get(f"{ROOT}/users/ana/notes.md").content == "oolong"
