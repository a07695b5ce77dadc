"""Abstracts and overviews that nobody gave, made when a context is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.store.store_helpers import opened
from vikingd.answer.derived_texts import described, directory_abstracts
from vikingd.domain.contexts import EXTRACT, HAND, Context, Draft
from vikingd.domain.rights import Caller, Grant, Right
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.jsonl import record_of
from vikingd.ingest.original_draft import as_put
from vikingd.store import Store
from vikingd.store.store_writes import WritableStore
from vikingd.wire.messages.common_messages import PAGE_BYTES, Page

pytestmark = pytest.mark.stores

TOP = "viking://resources/drinks"
TEA, COFFEE, BARE = f"{TOP}/tea.md", f"{TOP}/coffee.md", f"{TOP}/more/deep"
OOLONG = "Oolong tea is brewed at ninety degrees for three minutes."
BEANS = "Coffee beans are roasted before they are ground."
HARBOUR = "A lighthouse guides the ships into the harbour at night."
GUIDE = "\n\n".join(
    f"## Step {n}\n\nStep {n} explains how to pour.\n\n{BEANS} " * 3 for n in range(9)
)


def put(store: WritableStore, *drafts: Draft) -> None:
    """Write contexts."""
    store.put([prepare(draft) for draft in drafts]).result()


def read(store: WritableStore, uri: str) -> Context:
    """Return a context as Get does."""
    return described(store, store.get(uri))


def abstract(store: WritableStore, uri: str) -> str:
    """Return the abstract of a directory as List does."""
    return directory_abstracts(store, [uri]).get(uri, "")


def page(read_page: Callable[..., object], store: WritableStore, **more: object) -> Page:
    """Return a page as List and Tree do."""
    made = Page(1000)
    read_page(uri=TOP, after="", limit=1001, fits=made.add, **more)
    made.describe(partial(directory_abstracts, store))
    return made


def test_a_directory_says_what_its_files_say(store: WritableStore) -> None:
    """List, Tree and Get tell the same; the overview has a line for each child."""
    put(store, Draft(TEA, content=OOLONG), Draft(COFFEE, content=BEANS))
    found = read(store, TOP)
    assert OOLONG in found.abstract
    assert BEANS in found.abstract
    assert found.abstract == abstract(store, TOP)
    assert [line[:11] for line in found.overview.splitlines()] == ["- coffee.md", "- tea.md: O"]
    assert (found.abstract_by, found.overview_by) == (EXTRACT, EXTRACT)
    assert page(store.tree, store, depth=0).contexts[0].abstract == found.abstract


def test_a_directory_without_anything_has_no_texts(store: WritableStore) -> None:
    """An empty directory has neither abstract nor overview, and nobody made them."""
    put(store, Draft(TOP, is_directory=True))
    found = read(store, TOP)
    assert (found.abstract, found.overview, found.abstract_by, found.overview_by) == ("",) * 4


def test_a_given_text_stays(store: WritableStore) -> None:
    """A given abstract has a made overview beside it, and the other way round."""
    put(store, Draft(TOP, is_directory=True, abstract="Mine."), Draft(TEA, content=OOLONG))
    found = read(store, TOP)
    assert (found.abstract, found.abstract_by, found.overview_by) == ("Mine.", HAND, EXTRACT)
    put(store, Draft(TOP, is_directory=True, overview="Mine."))
    found = read(store, TOP)
    assert (found.abstract, found.abstract_by) == (OOLONG, EXTRACT)
    assert (found.overview, found.overview_by) == ("Mine.", HAND)


def test_a_file_that_describes_its_directory_is_found_among_many(store: WritableStore) -> None:
    """It is the abstract, wherever its name sorts, also above directories."""
    many = [Draft(f"{TOP}/{n:03}.md", content=BEANS) for n in range(300)]
    put(store, *many, Draft(f"{TOP}/index.md", content=OOLONG), Draft(f"{TOP}/z/a.md", content="z"))
    assert abstract(store, TOP) == OOLONG
    assert "(100)" in read(store, TOP).overview


def test_many_files_are_spread_by_name(store: WritableStore) -> None:
    """The last files have their say, and the subdirectories behind them."""
    files = [Draft(f"{TOP}/a{n:02}.md", content=BEANS) for n in range(60)]
    put(store, *files, Draft(f"{TOP}/z/a.md", content=HARBOUR))
    assert HARBOUR in abstract(store, TOP)


def test_subdirectories_speak_one_level_deep(store: WritableStore) -> None:
    """A directory of directories tells what is in these; of deeper ones it has the names."""
    put(store, Draft(f"{TOP}/more/a.md", content=OOLONG), Draft(f"{BARE}/er/b.md", content=BEANS))
    put(store, Draft(f"{BARE}/a.md", content=HARBOUR))
    assert OOLONG in abstract(store, TOP)
    assert BEANS not in abstract(store, TOP)
    assert BEANS in abstract(store, BARE)
    overview = read(store, TOP).overview
    assert OOLONG[:20] in overview
    assert overview.startswith("- more/: ")


def test_a_directory_alone_in_its_directory_is_passed_over(store: WritableStore) -> None:
    """A path of directories that hold one another alone tells what stands at its end."""
    put(
        store,
        Draft(f"{TOP}/src/main/java/tea/a.md", content=OOLONG),
        Draft(f"{TOP}/src/main/java/tea/b.md", content=BEANS),
        Draft(TEA, content=HARBOUR),
    )
    for above in (f"{TOP}/src", f"{TOP}/src/main/java", TOP):
        assert OOLONG in abstract(store, above)


def test_a_directory_of_code_tells_its_definitions(store: WritableStore) -> None:
    """The line of a package has names that its files define, though these are no sentence."""
    code = {n: f"import os\n\n\nclass {n}(Base, Enum):\n    x = 1\n" for n in ("Kettle", "Cup")}
    put(store, *(Draft(f"{TOP}/ware/{n.lower()}.py", content=text) for n, text in code.items()))
    assert read(store, TOP).overview == f"- ware/: {abstract(store, f'{TOP}/ware')}"
    assert "class Kettle(Base, Enum)" in read(store, TOP).overview


def test_texts_follow_each_write(store: WritableStore) -> None:
    """No write leaves a text that no longer holds."""
    put(store, Draft(TEA, content=OOLONG), Draft(COFFEE, content=BEANS))
    before = abstract(store, TOP)
    put(store, Draft(TEA, content=HARBOUR))
    assert HARBOUR in abstract(store, TOP)
    assert OOLONG not in read(store, TOP).abstract
    put(store, Draft(TEA, content=OOLONG))
    assert abstract(store, TOP) == before
    store.delete([TEA]).result()
    assert (abstract(store, TOP), read(store, TOP).overview.count("\n")) == (BEANS, 0)
    store.move(COFFEE, f"{TOP}/x/coffee.md").result()
    assert read(store, TOP).overview.startswith("- x/")


def test_the_order_of_writes_does_not_matter(tmp_path: Path) -> None:
    """Two stores with the same contexts have the same texts."""
    drafts = [
        Draft(
            f"{TOP}/{n % 7}/{n}.md", content=f"{OOLONG if n % 3 else BEANS} Cup {n} is for a guest."
        )
        for n in range(90)
    ]
    told = []
    for number, order in enumerate((drafts, drafts[::-1])):
        with opened(tmp_path / str(number)) as store:
            for draft in order:
                put(store, draft)
            found = [read(store, f"{TOP}{below}") for below in ("", "/3")]
            told.append([(one.abstract, one.overview) for one in found])
    assert told[0] == told[1]
    assert all(map(all, told[0]))


def test_a_long_file_has_an_overview_and_a_short_one_has_none(store: WritableStore) -> None:
    """The overview has the headings of the content."""
    put(store, Draft(TEA, content=GUIDE), Draft(COFFEE, content=BEANS))
    long, short = read(store, TEA), read(store, COFFEE)
    assert all(f"Step {n}" in long.overview for n in range(9))
    assert (long.overview_by, short.overview, short.overview_by) == (EXTRACT, "", "")


@pytest.mark.parametrize("stated", ["", "Mine."])
def test_a_made_text_never_comes_back_as_a_given_one(store: WritableStore, stated: str) -> None:
    """An export, and a write of what was read, leave the slots as free as they were."""
    drafts = [Draft(TOP, is_directory=True, abstract=stated), Draft(TEA, content=GUIDE)]
    put(store, *drafts)
    for draft in drafts:
        found = read(store, draft.uri)
        assert found.overview
        given = as_put(found)
        assert (given.abstract, given.overview) == (draft.abstract, "")
        assert given.content_hash() == store.get(draft.uri).content_hash
        record = record_of(found, ())
        assert (record.get("abstract", ""), "overview" in record) == (draft.abstract, False)


def test_a_made_text_is_left_out_where_no_hash_tells(store: WritableStore) -> None:
    """A context that another version wrote may have another hash: the makers tell then."""
    put(store, Draft(TOP, is_directory=True, title="Drinks"), Draft(TEA, content=OOLONG))
    found = read(store, TOP)
    other = Context(**{n: getattr(found, n) for n in found.__slots__} | {"content_hash": b"?"})
    given = as_put(other)
    assert (given.title, given.abstract, given.overview) == ("Drinks", "", "")


def test_a_page_has_room_for_the_made_texts(sqlite_store: Store) -> None:
    """A page of directories with the longest abstracts ends at the limit of bytes, with a token."""
    wide = "".join(f"{chr(0x1F400 + n)}" for n in range(60))
    for first in range(0, 1600, 400):
        put(
            sqlite_store,
            *(
                Draft(f"{TOP}/{n:04}/{'n' * 80}.md", content=f"{wide} {n} and {wide} words {wide}.")
                for n in range(first, first + 400)
            ),
        )
    made = Page(10_000)
    sqlite_store.children(TOP, "", 10_001, fits=made.add)
    made.describe(partial(directory_abstracts, sqlite_store))
    assert 1000 < len(made.contexts) < 1600
    assert made.next_page_token
    assert all(one.abstract for one in made.contexts)
    assert sum(one.ByteSize() for one in made.contexts) <= PAGE_BYTES


def test_a_caller_reads_nothing_of_what_it_may_not_read(store: WritableStore) -> None:
    """A listing of parts has texts of these parts alone."""
    put(
        store,
        Draft(f"{TOP}/mine/a.md", content=OOLONG),
        Draft(f"{TOP}/mine/b/c.md", content=BEANS),
        Draft(f"{TOP}/theirs/a.md", content=HARBOUR),
    )
    caller = Caller("k", "t", "", [Grant(Right.READ, f"{TOP}/mine")])
    parts = caller.parts(TOP)
    for made in (
        page(store.children, store, parts=parts),
        page(store.tree, store, depth=0, parts=parts),
    ):
        assert made.contexts[0].uri == f"{TOP}/mine"
        assert OOLONG in made.contexts[0].abstract
        assert all(HARBOUR not in one.abstract for one in made.contexts)
        assert all(caller.may(Right.READ, one.uri) for one in made.contexts)
