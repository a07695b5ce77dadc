"""Optimize removes empty directories on request, and no others."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Ctl
from tests.store.store_helpers import DOCS, Mirror, directory, file, put, scanned
from vikingd.client.messages import MessageClient
from vikingd.store import Store

pytestmark = pytest.mark.stores

OWN = {
    "title": "A title.",
    "abstract": "An abstract.",
    "overview": "An overview.",
    "metadata": {"kept": True},
    "time": 7,
}


def test_directories_that_a_move_emptied_are_removed(store: Store) -> None:
    """Directories whose content was moved or deleted go, with those above them."""
    mirror = Mirror()
    mirror.apply(*store.changes_since(0))
    put(store, file(f"{DOCS}/a/b/c/d.md", "text"), file(f"{DOCS}/e/f.md", "text"))
    put(store, directory("viking://user/memories"))
    store.move(f"{DOCS}/a/b/c/d.md", "viking://resources/other/d.md").result(10)
    store.delete([f"{DOCS}/e/f.md"]).result(10)
    left = [uri for uri in scanned(store) if uri.startswith(DOCS)]
    assert left == [DOCS, f"{DOCS}/a", f"{DOCS}/a/b", f"{DOCS}/a/b/c", f"{DOCS}/e"]
    assert store.remove_empty_directories() == 7
    root, *_, moved = found = list(scanned(store))
    assert (root, moved, len(found)) == ("viking://", "viking://resources/other/d.md", 4)
    mirror.apply(*store.changes_since(0))
    assert set(mirror) == set(found)
    assert store.remove_empty_directories() == 0
    put(store, file(f"{DOCS}/a/b/c/d.md", "text"))
    assert f"{DOCS}/a/b/c/d.md" in scanned(store)


@pytest.mark.parametrize("name", OWN)
def test_a_directory_with_a_field_of_its_own_stays(store: Store, name: str) -> None:
    """An empty directory stays with any field that was put, and so do those above it."""
    uri = f"{DOCS}/above/own"
    put(store, directory(uri, **{name: OWN[name]}), file(f"{DOCS}/gone/a.md", "text"))
    store.delete([f"{DOCS}/gone/a.md"]).result(10)
    assert store.remove_empty_directories() == 1
    assert list(scanned(store)) == ["viking://", "viking://resources", DOCS, f"{DOCS}/above", uri]


def test_a_linked_directory_stays(store: Store) -> None:
    """An empty directory at either end of a link stays."""
    one, two = f"{DOCS}/one", f"{DOCS}/two"
    put(store, directory(one), directory(two), directory(f"{DOCS}/three"))
    store.link(two, one, "both").result(10)
    assert store.remove_empty_directories() == 1
    assert {one, two} <= set(scanned(store))


def test_more_directories_than_one_commit_takes(store: Store) -> None:
    """Any number of empty directories is removed, in parts."""
    for part in range(3):
        put(store, *(directory(f"{DOCS}/{part}/{n}") for n in range(800)))
    before = store.revision
    assert store.remove_empty_directories() == 2405
    assert store.revision > before + 2
    assert list(scanned(store)) == ["viking://"]


def test_optimize_removes_them_on_request(client: MessageClient, ctl: Ctl) -> None:
    """`vikingctl optimize` removes empty directories with --remove-empty alone."""
    ctl("put", "viking://resources/a/b.md", "--content", "text")
    client.move("viking://resources/a/b.md", "viking://resources/c/b.md")
    code, out, _ = ctl("optimize")
    assert code == 0
    assert "bytes given back to the disk: " in out
    assert "empty directories removed" not in out
    assert "viking://resources/a" in [context.uri for context in client.list("viking://resources")]
    assert "empty directories removed: 1" in ctl("optimize", "--remove-empty")[1]
    assert json.loads(ctl("optimize", "--remove-empty", "--json")[1])["removedDirectories"] == "0"
    left = [context.uri for context in client.list("viking://resources")]
    assert left == ["viking://resources/c"]
    assert client.verify().ok
