"""The check of a base's arrays, which refuses exactly the values that could mislead a kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from viking_kernels.arrays import NEVER, SCRIPTS

from vikingd.domain.contexts import Draft, Passage
from vikingd.domain.errors import Corrupt
from vikingd.engine import Engine, EngineSettings
from vikingd.index.segment import checks
from vikingd.index.segment import disk as bases
from vikingd.index.segment.segment_arrays import FIELDS, GROWING, GrowingArrays, Segment, Sizes
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

DIMENSION = 4
Array = npt.NDArray[Any]
Arrays = dict[str, Array]

LATIN, HAN = "one two three\n", "绿茶用八十度的水。\n"
TREE = {
    "a.md": LATIN,
    "empty.md": "",
    "b/c.md": "one four",
    "b/d/e.md": HAN,
    "b/d/f.md": LATIN + HAN,
    "b/g.md": "",
    "h/i.md": "six one",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """Return the arrays of a small base by name; growing arrays have room behind their rows."""
    path = tmp_path_factory.mktemp("bounds")
    with closing(Engine(EngineSettings(path, EmbedSettings(provider="none")))) as engine:
        vectors = [np.eye(DIMENSION, dtype=np.float32)[i % DIMENSION].tobytes() for i in range(9)]
        files = [
            Draft(
                f"viking://resources/{name}",
                content=content,
                passages=[Passage("", 0, 3), Passage("", 4, 7)] if content else None,
                vector=vectors[i] if i % 3 else b"",
            )
            for i, (name, content) in enumerate(TREE.items())
        ]
        above = Draft("viking://resources/b", is_directory=True, abstract="About b.")
        engine.writable_store.put([prepare(draft) for draft in (*files, above)]).result()
        engine.optimize()
    base = bases.load(path / "index")
    assert base is not None
    return {name: getattr(base.segment, name) for name in FIELDS} | {
        name: getattr(base.growing, name) for name in GROWING
    }


def sizes_of(arrays: Arrays) -> Sizes:
    """Return the numbers of directories, files and texts."""
    return Sizes(len(arrays["dir_end"]), len(arrays["file_texts"]), len(arrays["codes"]))


def is_refused(arrays: Arrays, sizes: Sizes) -> bool:
    """Return True if the check of a base refuses the arrays."""
    own = {name: arrays[name] for name in FIELDS}
    growing = GrowingArrays(**{name: arrays[name] for name in GROWING})
    for name in own.keys() & GROWING.keys():
        own[name] = own[name][: sizes.of(GROWING[name])]
    try:
        checks.check(Segment(**own), growing, DIMENSION)
    except (Corrupt, ValueError, IndexError):  # `disk.load` handles the same errors
        return True
    return False


# The plain twin of the check


def offsets(at: Array, size: int) -> bool:
    """Return True if the parts of an array follow one another without gaps."""
    ends = at.tolist()
    return bool(ends[0] == 0 and ends[-1] == size and ends == sorted(ends))


def within(values: Array, low: int, high: int) -> bool:
    """Return True if all values are in [low, high)."""
    return all(low <= value < high for value in values.reshape(-1).tolist())


def owners(at: Array) -> list[int]:
    """Return the number of the owner of each item."""
    return [i for i in range(len(at) - 1) for _ in range(at[i], at[i + 1])]


def fits(a: Arrays, sizes: Sizes) -> Iterator[bool]:
    """Yield each condition on the values of a base."""
    dirs, files, texts = sizes
    parent, end = a["dir_parent"][:dirs].tolist(), a["dir_end"].tolist()
    yield parent[0] == -1 and end[0] == dirs
    yield all(0 <= parent[i] < i for i in range(1, dirs))
    yield all(i < end[i] <= dirs for i in range(dirs))
    yield all(i < end[parent[i]] and end[i] <= end[parent[i]] for i in range(1, dirs))
    yield offsets(a["dir_files"], files) and offsets(a["dir_texts"], texts)
    for name in ("dir_name", "dir_abstract", "file_name", "file_abstract"):
        yield offsets(a[f"{name}_at"], len(a[f"{name}s"]))
    yield offsets(a["text_shown_at"], len(a["text_shown"]))
    yield a["file_dir"][:files].tolist() == owners(a["dir_files"])
    yield a["text_dir"][:texts].tolist() == owners(a["dir_texts"])
    yield min(a["counts"].min(), a["mean_count"].min(), a["text_start"].min()) >= 0
    yield a["text_line"].min() >= 0
    yield a["text_length"][:texts].min() >= 0
    yield within(a["text_script"][:texts], 0, SCRIPTS)
    yield within(a["mean_slot"], -1, len(a["mean_count"]))
    of_files = []
    for file, (first, last) in enumerate(a["file_texts"].tolist()):
        yield 0 <= first <= last <= texts
        of_files += [(text, file) for text in range(first, last)]
    owner = a["text_file"][:texts].tolist()
    yield of_files == [(text, file) for text, file in enumerate(owner) if file != -1]
    yield all(a["file_dir"][file] == a["text_dir"][text] for text, file in of_files)
    keys = a["term_key"].tolist()
    yield keys == sorted(set(keys)) and offsets(a["term_at"], len(a["posting_text"]))
    yield within(a["posting_text"], 0, texts)
    for first, last in zip(a["term_at"], a["term_at"][1:], strict=False):
        of_term = a["posting_text"][first:last].tolist()
        yield of_term == sorted(set(of_term))
    yield a["uri_key"].tolist() == sorted(a["uri_key"].tolist())
    yield within(a["uri_row"], -files, dirs)
    yield within(a["dir_first"][:dirs], -1, files) and within(a["dir_text"][:dirs], -1, texts)
    for file in range(files):
        following, previous = int(a["file_next"][file]), int(a["file_previous"][file])
        yield following == -1 or file < following < files
        yield -1 <= previous < file
    for name, count in (("dir", dirs), ("file", files), ("text", texts)):
        yield within(a[f"{name}_died"][:count], NEVER, NEVER + 1)
    yield within(a["dir_tail"][:dirs], -1, 0) and within(a["file_tail"][:files], -1, 0)
    has = a["text_has_vector"].tolist()
    yield a["vector_at"][:texts].tolist() == [0 if one else NEVER for one in has]


CHECKED = (
    "dir_parent",
    "dir_end",
    "dir_files",
    "dir_texts",
    "dir_name_at",
    "dir_abstract_at",
    "file_name_at",
    "file_abstract_at",
    "text_shown_at",
    "file_dir",
    "text_dir",
    "counts",
    "mean_count",
    "text_start",
    "text_line",
    "text_length",
    "text_script",
    "mean_slot",
    "file_texts",
    "text_file",
    "term_key",
    "term_at",
    "posting_text",
    "uri_key",
    "uri_row",
    "dir_first",
    "dir_text",
    "file_next",
    "file_previous",
    "dir_died",
    "file_died",
    "text_died",
    "dir_tail",
    "file_tail",
    "text_has_vector",
    "vector_at",
)


def changed_values(array: Array) -> Iterator[Array]:
    """Yield copies of an array with one value, two neighbours or one row changed."""
    kind = np.iinfo(array.dtype)
    flat = array.reshape(-1)
    for at, old in enumerate(flat.tolist()):
        values = {old - 1, old + 1, -2, -1, 0, len(array), 1000, kind.min, kind.max} - {old}
        for value in sorted(value for value in values if kind.min <= value <= kind.max):
            new = flat.copy()
            new[at] = value
            yield new.reshape(array.shape)
    for at in range(len(array) - 1):
        new = array.copy()
        new[[at, at + 1]] = array[[at + 1, at]]
        yield new
    for at in range(len(array)) if array.ndim > 1 else ():
        for step in (-1, 1):
            new = array.copy()
            new[at] += step
            yield new


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("name", CHECKED)
def test_a_changed_value_is_refused_if_and_only_if_it_does_not_fit(
    whole: Arrays, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The check refuses a changed value if and only if it breaks a condition."""
    monkeypatch.setattr(checks, "_BLOCK", 3)
    sizes = sizes_of(whole)
    assert all(fits(whole, sizes))
    assert not is_refused(whole, sizes)
    array = whole[name]
    count = sizes.of(GROWING[name]) if name in GROWING else len(array)
    refused = 0
    for new in changed_values(array[:count]):
        arrays = {**whole, name: np.concatenate([new, array[count:]])}
        expected = not all(fits(arrays, sizes))
        assert is_refused(arrays, sizes) == expected, (array[:count], new)
        refused += expected
    assert refused


@pytest.mark.parametrize(("at", "of"), [("dir_texts", "text_dir"), ("dir_files", "file_dir")])
def test_a_text_has_to_stand_in_the_directory_of_its_file(whole: Arrays, at: str, of: str) -> None:
    """Two arrays that are valid by themselves are refused if they contradict each other."""
    sizes = sizes_of(whole)
    refused = 0
    for place, step in itertools.product(range(1, sizes[0]), (-1, 1)):
        moved, owner = whole[at].copy(), whole[of].copy()
        moved[place] += step
        if not offsets(moved, moved[-1]):
            continue
        owner[: moved[-1]] = owners(moved)
        arrays = {**whole, at: moved, of: owner}
        expected = not all(fits(arrays, sizes))
        assert is_refused(arrays, sizes) == expected, moved
        refused += expected
    assert refused


def test_the_range_of_a_file_without_texts_has_to_lie_among_the_texts(whole: Arrays) -> None:
    """An empty range of texts is refused if and only if it lies outside of all texts."""
    sizes = sizes_of(whole)
    refused = 0
    for row, (first, last) in enumerate(whole["file_texts"].tolist()):
        owner = whole["text_file"].copy()
        owner[first:last] = -1
        for at in (-1, 0, sizes[2], sizes[2] + 1, 1000):
            ranges = whole["file_texts"].copy()
            ranges[row] = at
            arrays = {**whole, "file_texts": ranges, "text_file": owner}
            expected = not all(fits(arrays, sizes))
            assert is_refused(arrays, sizes) == expected, (row, at)
            refused += expected
    assert refused == 3 * sizes[1]


def test_the_texts_of_files_have_to_stand_in_the_order_of_the_files(whole: Arrays) -> None:
    """Two files of a directory that have each other's texts, consistently, are refused."""
    sizes = sizes_of(whole)
    swapped = 0
    for one, other in itertools.pairwise(range(sizes.files)):
        ranges = whole["file_texts"].copy()
        ranges[[one, other]] = ranges[[other, one]]
        if whole["file_dir"][one] != whole["file_dir"][other]:
            continue
        owner = whole["text_file"].copy()
        for file in (one, other):
            owner[slice(*ranges[file])] = file
        arrays = {**whole, "file_texts": ranges, "text_file": owner}
        assert not all(fits(arrays, sizes))
        assert is_refused(arrays, sizes), (one, other)
        swapped += 1
    assert swapped


@pytest.mark.parametrize("name", sorted(FIELDS.keys() | GROWING.keys()))
def test_an_array_of_another_length_shape_or_type_is_refused(whole: Arrays, name: str) -> None:
    """An array of another length, shape or type is refused for any values."""
    sizes = sizes_of(whole)
    array = whole[name]
    others = (
        array[:-1],
        np.concatenate([array, array[-1:]]),
        array[:, None],
        np.stack([array] * 2, -1),
        array.astype(np.float64),
        array.astype(np.uint32),
    )
    for other in others:
        assert is_refused({**whole, name: other}, sizes), (other.shape, other.dtype)
