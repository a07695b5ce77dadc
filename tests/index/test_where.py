"""Metadata filters: their operator form, and the columns compared with a plain evaluation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from vikingd.domain.errors import Corrupt, InvalidField
from vikingd.index.metadata.columns import Columns
from vikingd.index.metadata.metadata_filters import MAX_PATH, parse

# --- the plain evaluation -----------------------------------------------------------------------


def naive_match(where: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Return True if metadata match a filter by its definition."""
    for key, operand in where.items():
        if key == "$and":
            holds = all(naive_match(part, metadata) for part in operand)
        elif key == "$or":
            holds = any(naive_match(part, metadata) for part in operand)
        elif key == "$not":
            holds = not naive_match(operand, metadata)
        elif isinstance(operand, dict):
            holds = naive_holds(list(naive_found(metadata, key.split("."))), operand)
        else:
            holds = naive_match({key: {"$eq": operand}}, metadata)
        if not holds:
            return False
    return True


def naive_found(metadata: Any, path: list[str]) -> Iterator[Any]:
    """Yield all values at a path, also inside objects and lists."""
    if not path:
        yield metadata
    if isinstance(metadata, list):
        for element in metadata:
            yield from naive_found(element, path)
    elif isinstance(metadata, dict):
        for key, value in metadata.items():
            parts = key.split(".")
            if path and parts[: len(path)] == path[: len(parts)]:
                rest = {".".join(parts[len(path) :]): value} if len(parts) > len(path) else value
                yield from naive_found(rest, path[len(parts) :])


def naive_holds(found: list[Any], operators: dict[str, Any]) -> bool:
    """Return True if the values at a path satisfy all operators."""
    for op, operand in operators.items():
        if op == "$not":
            holds = not naive_holds(found, operand)
        elif op == "$exists":
            holds = bool(found) == operand
        elif op in ("$ne", "$nin"):
            holds = not naive_holds(found, {"$eq" if op == "$ne" else "$in": operand})
        elif op == "$in":
            holds = any(naive_holds(found, {"$eq": value}) for value in operand)
        else:
            holds = any(naive_compare(value, op, operand) for value in found)
        if not holds:
            return False
    return True


def naive_compare(value: Any, op: str, operand: Any) -> bool:
    """Return True if one value satisfies one operator."""
    if naive_kind(value) != naive_kind(operand):
        return False
    if op == "$eq":
        return bool(value == operand)
    return bool(
        {
            "$gt": value > operand,
            "$gte": value >= operand,
            "$lt": value < operand,
            "$lte": value <= operand,
        }[op]
    )


def naive_kind(value: Any) -> type:
    """Return the kind of a value; values of different kinds never satisfy an operator."""
    return float if type(value) is int else type(value)


# --- strategies: few keys and values, so that filters often match -------------------------------

SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    2.5,
    -3,
    10**400,
    "",
    "a",
    "a\0",
    "é",
    "中",
    "1",
]
ORDERED = [value for value in SCALARS if naive_kind(value) in (float, str)]
KEYS = ["a", "b", "a.b", "b.a", "", "."]
PATHS = ["a", "b", "a.b", "b.a", "a.b.a", "", "a.", ".", "zz"]

scalars = st.sampled_from(SCALARS)
metadata_objects = st.dictionaries(
    st.sampled_from(KEYS),
    st.one_of(
        scalars,
        st.lists(scalars | st.just(float("nan")), max_size=3),
        st.dictionaries(st.sampled_from(KEYS), scalars, max_size=2),
        st.lists(st.dictionaries(st.sampled_from(KEYS), scalars, max_size=2) | st.lists(scalars)),
    ),
    max_size=3,
)
conditions = st.one_of(
    st.dictionaries(st.sampled_from(["$eq", "$ne"]), scalars, min_size=1),
    st.dictionaries(
        st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.sampled_from(ORDERED), min_size=1
    ),
    st.dictionaries(
        st.sampled_from(["$in", "$nin"]), st.lists(scalars, min_size=1, max_size=4), min_size=1
    ),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
conditions |= st.fixed_dictionaries({"$not": conditions})
plain_filters = st.dictionaries(st.sampled_from(PATHS), scalars | conditions, max_size=2)
filters = st.one_of(
    plain_filters,
    st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(plain_filters, min_size=1, max_size=3)
    ),
    st.fixed_dictionaries({"$not": plain_filters}),
)

# Each history is filtered with every operator on the two commonest paths.
BATTERY: list[dict[str, Any]] = [
    {path: condition}
    for path in ("a", "a.b")
    for condition in (
        1,
        None,
        {"$ne": "a"},
        {"$in": [0, "a", True]},
        {"$gt": 0},
        {"$lte": 2.5},
        {"$gte": "a\0"},
        {"$lt": "中"},
        {"$exists": True},
    )
]
BATTERY += [{op: [{"a": 1}, {"a": {"$exists": True}}]} for op in ("$and", "$or")]

NODES = 4
steps = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.none() | metadata_objects), min_size=6, max_size=12
)


def apply(columns: Columns, state: dict[int, Any], step: tuple[int, Any], revision: int) -> None:
    """Apply one step to the columns and to the plain dict."""
    node, metadata = step
    if metadata is None:
        columns.remove(node, revision)
        state.pop(node, None)
    else:
        columns.add(node, metadata, revision)
        state[node] = metadata


def history(changes: list[tuple[int, Any]]) -> tuple[Columns, list[dict[int, Any]]]:
    """Return columns after all steps, and the metadata of the nodes at each revision."""
    columns, states = Columns(), [dict[int, Any]()]
    for revision, step in enumerate(changes, 1):
        states.append({**states[-1]})
        apply(columns, states[-1], step, revision)
    return columns, states


def check(
    columns: Columns,
    wheres: list[dict[str, Any]],
    state: dict[int, Any],
    revision: int,
    nodes: int = NODES,
) -> None:
    """Check that each filter finds the same nodes as the plain evaluation."""
    for where in wheres:
        found = columns.mask(parse(where), nodes, revision)
        assert found.dtype == np.bool_
        expected = [naive_match(where, state.get(node, {})) for node in range(nodes)]
        assert found.tolist() == expected, where


# --- tests --------------------------------------------------------------------------------------


@given(where=filters, metadata=metadata_objects)
@examples(150)
def test_a_filter_matches_one_object_as_defined(where: dict[str, Any], metadata: Any) -> None:
    """The columns of one object agree with the definition on any filter and object."""
    columns = Columns()
    columns.add(0, metadata, 1)
    for each in [where, *BATTERY]:
        assert columns.mask(parse(each), 1, 1).tolist() == [naive_match(each, metadata)], each


@given(changes=steps, where=filters, nodes=st.integers(0, NODES + 2))
@examples(60)
def test_the_mask_equals_the_plain_evaluation_at_every_revision(
    changes: list[tuple[int, Any]], where: dict[str, Any], nodes: int
) -> None:
    """The columns give the same nodes as the plain evaluation at each revision of any history."""
    columns, states = history(changes)
    for revision, state in enumerate(states):
        check(columns, [where, *BATTERY], state, revision, nodes)


@given(changes=steps)
@examples(30)
def test_saved_columns_are_loaded_with_their_past(
    changes: list[tuple[int, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Loaded columns give the same nodes at each revision, and accept further steps."""
    columns, states = history(changes)
    path = tmp_path_factory.getbasetemp() / "history"
    columns.save(path)
    loaded = Columns.of_bytes(bytearray(path.read_bytes()), NODES)
    states.append({**states[-1]})
    for step in changes:
        apply(loaded, states[-1], step, len(states) - 1)
    for revision, state in enumerate(states):
        check(loaded, BATTERY, state, revision)


@given(
    changes=steps,
    later=steps,
    numbers=st.permutations(range(-2, NODES)),
    revision=st.integers(0, 12),
)
@examples(60)
def test_compacted_columns_hold_what_is_alive_and_go_on(
    changes: list[tuple[int, Any]],
    later: list[tuple[int, Any]],
    numbers: list[int],
    revision: int,
) -> None:
    """Compacted columns equal the objects of one revision, and accept further steps."""
    columns, states = history(changes)
    mapping = np.array(numbers[:NODES])
    revision = min(revision, len(states) - 1)
    compacted, old = columns.copy_for(mapping, revision), states[revision]
    state = {numbers[node]: metadata for node, metadata in old.items() if numbers[node] >= 0}
    check(compacted, BATTERY, state, 0)
    for step in later:
        apply(compacted, state, step, len(states))
    check(compacted, BATTERY, state, len(states))


def test_bools_are_no_numbers_and_integers_equal_floats() -> None:
    """1 equals 1.0, and neither equals true, in objects and in columns."""
    columns = Columns()
    for node, value in enumerate([1, 1.0, True, "1", [0, 1], None]):
        columns.add(node, {"k": value}, 1)
    for where, expected in (
        ({"k": 1}, [True, True, False, False, True, False]),
        ({"k": True}, [False, False, True, False, False, False]),
        ({"k": "1"}, [False, False, False, True, False, False]),
        ({"k": None}, [False, False, False, False, False, True]),
        ({"k": {"$gte": 1}}, [True, True, False, False, True, False]),
    ):
        assert columns.mask(parse(where), 6, 1).tolist() == expected


def test_nodes_without_metadata_match_negations() -> None:
    """A node that was never added has no key, so $ne, $nin, $exists false and $not hold for it."""
    columns = Columns()
    columns.add(1, {"k": 1}, 1)
    for where in (
        {"k": {"$ne": 1}},
        {"k": {"$nin": [1]}},
        {"k": {"$exists": False}},
        {"$not": {"k": 1}},
    ):
        assert columns.mask(parse(where), 3, 1).tolist() == [True, False, True]
    assert columns.mask(parse({"zz": {"$ne": 1}}), 3, 1).all()


@pytest.mark.parametrize(
    ("where", "field"),
    [
        ([], "where"),
        ({"$nor": []}, "where.$nor"),
        ({"tags": ["a"]}, "where.tags"),
        ({"tags": {}}, "where.tags"),
        ({"a": {"b": 1}}, "where.a.b"),
        ({"a": {"$gt": 1, "$near": 2}}, "where.a.$near"),
        ({"tags": {"$in": "a"}}, "where.tags.$in"),
        ({"tags": {"$in": []}}, "where.tags.$in"),
        ({"tags": {"$nin": ["a", ["b"]]}}, "where.tags.$nin[1]"),
        ({"a": {"$gt": None}}, "where.a.$gt"),
        ({"a": {"$lte": True}}, "where.a.$lte"),
        ({"a": {"$eq": float("nan")}}, "where.a.$eq"),
        ({"a": {"$exists": 1}}, "where.a.$exists"),
        ({"a": {"$not": 1}}, "where.a.$not"),
        ({"a": {"$not": {"$gt": []}}}, "where.a.$not.$gt"),
        ({"$and": []}, "where.$and"),
        ({"$or": {"a": 1}}, "where.$or"),
        ({"$and": [{"a": 1}, {"year": {"$gt": [1]}}]}, "where.$and[1].year.$gt"),
        ({"$or": [{"a": 1}, 2]}, "where.$or[1]"),
        ({"$not": [{"a": 1}]}, "where.$not"),
        ({"k" * (MAX_PATH + 1): 1}, f"where.{'k' * MAX_PATH}"),
    ],
)
def test_a_wrong_filter_is_refused_where_it_is_wrong(where: Any, field: str) -> None:
    """An invalid filter raises InvalidField with the path to the fault."""
    with pytest.raises(InvalidField) as caught:
        parse(where)
    assert caught.value.field == field


@pytest.mark.parametrize("op", ["$and", "$or", "$not", "conditions"])
def test_depth_is_bounded(op: str) -> None:
    """A filter of 16 levels is accepted, and one of 17 is refused."""

    def nested(levels: int) -> dict[str, Any]:
        where: dict[str, Any] = {"$eq": 1} if op == "conditions" else {"k": 1}
        for _ in range(levels - 1):
            where = {op: [where]} if op in ("$and", "$or") else {"$not": where}
        return {"k": where} if op == "conditions" else where

    parse(nested(16))
    with pytest.raises(InvalidField, match="16 levels"):
        parse(nested(17))


@pytest.mark.parametrize("clause", [{"k": 1}, {"k": {"$ne": 1}}, {}])
def test_clauses_are_counted(clause: dict[str, Any]) -> None:
    """A filter of 256 clauses is accepted, and one of 257 is refused."""
    parse({"$or": [clause] * 256})
    with pytest.raises(InvalidField, match="256 clauses"):
        parse({"$or": [clause] * 257})


def test_a_path_may_be_so_long_and_no_longer() -> None:
    """A value at the longest path of a filter is found."""
    columns = Columns()
    columns.add(0, {"k": {"b" * (MAX_PATH - 2): 1}}, 1)
    assert columns.mask(parse({"k." + "b" * (MAX_PATH - 2): 1}), 1, 1).all()


def test_a_hostile_key_costs_no_more_than_its_length(tmp_path: Path) -> None:
    """Paths beyond the limit are cut, so the columns stay small."""
    columns = Columns()
    columns.add(0, {"." * 5000: 1, "a": {"b" * 5000: {"c": 1}}}, 1)
    assert columns.mask(parse({"a": {"$exists": True}}), 1, 1).all()
    assert columns.mask(parse({"." * (MAX_PATH - 1): {"$exists": True}}), 1, 1).all()
    columns.save(tmp_path / "columns")
    assert (tmp_path / "columns").stat().st_size < 100_000


def test_metadata_may_be_nested_deeper_than_the_interpreter_recurses() -> None:
    """A value inside 30,000 nested lists is found."""
    nested: Any = 1
    for _ in range(30_000):
        nested = [nested]
    columns = Columns()
    columns.add(0, {"deep": nested}, 1)
    assert columns.mask(parse({"deep": 1}), 2, 1).tolist() == [True, False]


def test_readers_see_their_revision_while_the_writer_goes_on() -> None:
    """Masks during concurrent appends, growth and removals are those of the requested revision."""
    last, living = 2000, 50
    columns = Columns()
    done = 0

    def read() -> int:
        reads = 0
        while (revision := done) < last:
            alive = list(range(max(0, revision - living), revision))
            for where, expected in (
                ({"year": {"$gte": 0}}, alive),
                ({"year": {"$in": [0, 2, -1]}}, [node for node in alive if node % 2 == 0]),
                ({f"new{revision}": 1}, []),  # a key that comes next
            ):
                found = columns.mask(parse(where), last, revision)
                assert np.flatnonzero(found).tolist() == expected, (where, revision)
            reads += 1
        return reads

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as readers:
            reads = [readers.submit(read) for _ in range(2)]
            for node in range(last):  # adds one node, and removes the oldest of 51
                year = node + 0.5 if node % 2 else node % 4
                columns.add(node, {"year": year, f"new{node}": 1}, node + 1)
                if node >= living:
                    columns.remove(node - living, node + 1)
                done = node + 1
    finally:
        done = last
        sys.setswitchinterval(interval)
    assert all(future.result() > 10 for future in reads)


def test_a_copy_may_be_made_while_the_writer_goes_on() -> None:
    """A copy at an older revision has no later entry."""
    columns = Columns()
    columns.add(0, {"k": "old"}, 1)
    columns.add(0, {"k": "new", "other": 1}, 2)
    columns.add(7, {"k": "new"}, 2)
    copy = columns.copy_for(np.array([0]), 1)
    for revision in (0, 1, 9):
        assert copy.mask(parse({"k": "old"}), 8, revision).tolist() == [True] + [False] * 7
    assert not copy.mask(parse({"k": "new"}), 8, 9).any()


def test_damaged_columns_are_told_or_stay_in_bounds(tmp_path: Path) -> None:
    """Damaged columns are refused as Corrupt, or give masks of the right length."""
    columns, path = Columns(), tmp_path / "columns"
    for node in range(20):
        columns.add(node, {"k": node % 3, "t": ["a", f"{node}"], "b": True}, 1)
    columns.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    damaged = [whole[:at] for at in rng.integers(0, len(whole), 30)]
    damaged += [
        whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]
        for at in rng.integers(0, len(whole), 150)
    ]
    told = 0
    for content in damaged:
        try:
            loaded = Columns.of_bytes(bytearray(content), 20)
        except Corrupt:
            told += 1
            continue
        for where in ({"k": 1}, {"t": "a"}, {"b": True}):
            assert len(loaded.mask(parse(where), 20, 1)) == 20
    assert told > 50


@pytest.mark.parametrize("array", ["nodes", "codes"])
def test_columns_with_a_number_out_of_its_range_are_refused(tmp_path: Path, array: str) -> None:
    """A number of a node or of a value is refused if and only if it is out of its range."""
    columns, path = Columns(), tmp_path / "columns"
    for node in range(3):
        columns.add(node, {"k": f"v{node}"}, 1)
    columns.save(path)
    whole = path.read_bytes()
    at = 8 + int.from_bytes(whole[:8], "little") + (3 * 4 if array == "codes" else 0)
    limit = 3 if array == "nodes" else 4
    for value in (-(2**31), -1, 0, limit - 1, limit):
        content = bytearray(whole)
        content[at : at + 4] = value.to_bytes(4, "little", signed=True)
        if 0 <= value < limit:
            assert Columns.of_bytes(content, 3).mask(parse({"k": "v2"}), 3, 1)[2]
        else:
            with pytest.raises(Corrupt, match="out of its range"):
                Columns.of_bytes(content, 3)


def test_columns_of_a_negative_length_are_refused(tmp_path: Path) -> None:
    """A column of a negative length is refused, also if the sum of all lengths is right."""
    columns, path = Columns(), tmp_path / "columns"
    columns.add(0, {"j": "v", "k": "v"}, 1)
    columns.save(path)
    whole = path.read_bytes()
    changed = whole.replace(b'["j", 1,', b'["j", 3,').replace(b'["k", 1,', b'["k",-1,')
    assert changed != whole
    with pytest.raises(Corrupt, match="out of its range"):
        Columns.of_bytes(bytearray(changed), 1)
