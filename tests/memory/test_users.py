"""Users' roots, and memories under rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.users_helpers import AGENT, ANA, BOB, LAMP, NOW, USER, World, caller, opened
from tests.patience import eventually
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft
from vikingd.domain.errors import InvalidField, NotFound, PermissionDenied
from vikingd.domain.rights import LOCAL
from vikingd.ingest.draft_preparation import check, prepare
from vikingd.memory.known_file_routes import DEFAULT_ROUTES, Route, candidates
from vikingd.memory.memory_types import Memory, MemoryScope
from vikingd.pb import memories_pb2 as pb
from vikingd.store import Store


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Yield an empty store with its service."""
    with opened(tmp_path) as made:
        yield made


# URIs


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("viking://users/ana/memories", ContextType.MEMORY),
        ("viking://users/ana/memories/a/b.md", ContextType.MEMORY),
        ("viking://users/ana/resources/a.md", ContextType.RESOURCE),
        ("viking://users/ana/skills/a", ContextType.SKILL),
        ("viking://users/ana/memoriesx", ContextType.UNSPECIFIED),
        ("viking://users/ana", ContextType.UNSPECIFIED),
        ("viking://users/memories", ContextType.UNSPECIFIED),
        ("viking://users/a/b/memories/c", ContextType.UNSPECIFIED),
        ("viking://user/memories/a.md", ContextType.MEMORY),
        ("viking://agent/memories", ContextType.MEMORY),
        ("viking://agent/skills/a", ContextType.SKILL),
        ("viking://agent/resources/a", ContextType.UNSPECIFIED),
        ("viking://resources", ContextType.RESOURCE),
        ("viking://resourcesx/a", ContextType.UNSPECIFIED),
        ("viking://projects/lamp/memories/a.md", ContextType.MEMORY),
        ("viking://projects/lamp/skills/a.md", ContextType.UNSPECIFIED),
        ("viking://", ContextType.UNSPECIFIED),
    ],
)
def test_the_root_of_a_uri_is_its_type(uri: str, kind: ContextType) -> None:
    """The roots of users are typed like the shared ones."""
    assert uris.context_type(uri) is kind


def test_users_are_directories_above_typed_roots() -> None:
    """`users` and its names are directories only; nothing else may be below a name."""
    for uri in ("viking://users", "viking://users/ana", "viking://users/ana/memories"):
        assert uris.may_exist(uri)
        check(Draft(uri, is_directory=True))
        with pytest.raises(InvalidField, match="can only be a directory"):
            check(Draft(uri))
    for uri in ("viking://users/ana/notes", "viking://users/ana/notes/a.md", "viking://~/skills/a"):
        with pytest.raises(InvalidField, match="viking://users/NAME/memories"):
            check(Draft(uri))


def test_a_tilde_is_the_directory_of_the_user() -> None:
    """Exactly the first segment `~` is the caller's own; without a user it is an error."""
    assert uris.expand("viking://~", "ana") == "viking://users/ana"
    assert uris.expand("viking://~/memories/a.md", "ana") == f"{ANA}/a.md"
    for uri in ("viking://~x", "viking://~x/a", "viking://a/~/b", "viking://users/~", "~", ""):
        assert uris.expand(uri, "ana") == uris.expand(uri, "") == uri
    for uri in ("viking://~", "viking://~/skills"):
        with pytest.raises(InvalidField, match="--user NAME") as raised:
            uris.expand(uri, "", "uris[2]")
        assert raised.value.field == "uris[2]"


def test_names_of_users() -> None:
    """The name of a user is one safe segment of at most 63 characters."""
    for name in ("ana", "A", "0", "ana.b_c-d@example.org", "a" * 63):
        assert uris.check_user(name, "user") == name
        assert uris.parse(uris.user_root(name)) == f"viking://users/{name}"
    for name in ("", ".", "..", "-a", "@a", "a/b", "a b", "a\n", "ä", "~", "a" * 64):
        with pytest.raises(InvalidField, match="user: is"):
            uris.check_user(name, "user")


def test_files_of_users_become_memories(tmp_path: Path) -> None:
    """Put, move and restart give the files below a user's memories their entries."""
    with opened(tmp_path) as world:
        world.put(f"{USER}/old.md", "an older memory")
        old = world.entries()
    with opened(tmp_path) as world:
        assert world.entries() == old
        world.put(f"{ANA}/a.md", "tea")
        world.engine.writable_store.put(
            [
                prepare(check(Draft("viking://users/ana/resources/r.md", content="mist"))),
                prepare(check(Draft("viking://users/ana/skills/s.md", content="- knots\n"))),
            ]
        ).result()
        assert {uri for uri, _, _ in world.entries().values()} == {f"{USER}/old.md", f"{ANA}/a.md"}
        store = world.engine.writable_store
        store.move("viking://users/ana/resources/r.md", f"{BOB}/r.md").result()
        with pytest.raises(InvalidField, match="source_uri"):
            store.move(ANA, f"{BOB}/all").result()
        moved = world.entries(BOB)
        assert [text for _, text, _ in moved.values()] == ["mist"]
        assert world.engine.verify().ok
    with opened(tmp_path) as world:
        assert world.entries(BOB) == moved
        snapshot = world.engine.snapshot
        skill, memory = (
            snapshot.find("viking://users/ana/skills/s.md"),
            snapshot.find(f"{BOB}/r.md"),
        )
        assert skill is not None
        assert memory is not None
        assert snapshot.type_of(skill) is ContextType.SKILL
        assert snapshot.type_of(memory) is ContextType.MEMORY


# Scopes and files of a user


def test_the_scope_of_a_user_begins_with_its_own() -> None:
    """The caller's own memories come first, then the shared ones, then those of the project."""
    ana = caller("ana", "viking://")
    assert MemoryScope(caller=ana).roots() == [ANA, USER, AGENT]
    assert MemoryScope(True, "lamp", ana).parts() == [ANA, USER, AGENT, LAMP]
    assert MemoryScope(False, "lamp", ana).roots() == [LAMP]
    assert MemoryScope(True, "lamp").roots() == [USER, AGENT, LAMP]
    some = caller("ana", f"{USER}/a", f"{USER}/b", LAMP, "viking://users/ana")
    assert MemoryScope(True, "lamp", some).parts() == [ANA, f"{USER}/a", f"{USER}/b", LAMP]


def test_the_known_files_of_a_user() -> None:
    """Each shared file of a route has a user's own one before it."""
    routes = {route.name: route for route in DEFAULT_ROUTES}
    ana = MemoryScope(True, "lamp", caller("ana", "viking://"))
    assert candidates(routes["preferences"], ana) == [
        f"{ANA}/preferences.md",
        f"{USER}/preferences.md",
    ]
    assert candidates(routes["decisions"], ana) == [
        f"{LAMP}/agent/decisions.md",
        f"{LAMP}/decisions.md",
        f"{ANA}/decisions.md",
        f"{AGENT}/decisions.md",
    ]
    assert candidates(routes["preferences"], MemoryScope(False, "lamp", ana.caller)) == []
    files = (f"{BOB}/x.md", f"{USER}/a/x.md", f"{AGENT}/x.md")
    assert candidates(Route("x", ("x",), files), ana) == [
        f"{BOB}/x.md",
        f"{ANA}/a/x.md",
        f"{ANA}/x.md",
        f"{USER}/a/x.md",
        f"{AGENT}/x.md",
    ]


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        (f"{ANA}/preferences.md", "preferences"),
        ("viking://users/memories/memories/tea.md", "tea"),
        ("viking://projects/memories/memories/agent/patterns.md", "patterns"),
        (f"{ANA}/journal/2026-03-04.md", "journal"),
        (f"{USER}/memories/a.md", "memories"),
    ],
)
def test_the_type_of_a_memory_is_the_name_below_its_root(uri: str, kind: str) -> None:
    """The type is the name below the root, also if a user or a project is named `memories`."""
    assert Memory(uri, "", 0.0, 0).memory_type == kind


def test_a_user_remembers_below_its_own_root(world: World) -> None:
    """Known files, other names and the journal are the user's own; so are the files recalled."""
    ana = caller("ana", write=["viking://"])
    world.put(f"{USER}/preferences.md", "shared likes")
    world.put(f"{USER}/notes.md", "tea")
    for kind, name in (
        ("preferences", "preferences"),
        ("decisions", "decisions"),
        ("notes", "notes"),
        ("journal", "journal/2026-03-04"),
    ):
        reply = world.remember(ana, "tea", memory_type=kind, time={"seconds": NOW})
        assert (reply.uri, reply.outcome) == (f"{ANA}/{name}.md", pb.REMEMBER_OUTCOME_ADDED)
        reply = world.remember(LOCAL, "tea", memory_type=kind, time={"seconds": NOW})
        assert reply.uri == f"{AGENT if kind == 'decisions' else USER}/{name}.md"
    named = world.recall(ana, "my preferences")
    assert [found.uri for found in named.results] == [f"{ANA}/preferences.md"]
    said = world.recall(ana, "what was today?", now={"seconds": NOW})
    assert [found.uri for found in said.results] == [
        f"{root}/journal/2026-03-04.md" for root in (ANA, USER)
    ]
    in_project = world.remember(ana, "x", memory_type="tasks", scope={"project": "lamp"})
    assert in_project.uri == f"{LAMP}/TASKS.md"


def test_remember_takes_a_file_that_it_may_write(world: World) -> None:
    """Among the files of a kind, only those that the caller may write count."""
    world.put(f"{LAMP}/decisions.md", "one")
    first = caller("", LAMP, write=[f"{LAMP}/agent"])
    project = {"project": "lamp"}
    where = world.remember(LOCAL, "two", memory_type="decisions", scope=project).uri
    assert where == f"{LAMP}/decisions.md"
    where = world.remember(first, "two", memory_type="decisions", scope=project).uri
    assert where == f"{LAMP}/agent/decisions.md"
    shared = caller("ana", write=[USER])
    assert world.remember(shared, "x", memory_type="notes").uri == f"{USER}/notes.md"
    before = world.entries()
    reader = caller("ana", "viking://")
    for fields in ({"memory_type": "notes"}, {"uri": f"{BOB}/a.md"}, {"uri": f"{USER}/notes.md"}):
        with pytest.raises(PermissionDenied, match="no right to write"):
            world.remember(reader, "x", **fields)
    assert world.entries() == before


def test_a_request_id_counts_within_one_caller(world: World) -> None:
    """Another caller's equal id gives neither the reply nor an error."""
    ana, bob = (caller(user, write=["viking://users/" + user]) for user in ("ana", "bob"))
    first = world.remember(ana, "tea", memory_type="notes", request_id="1")
    assert world.remember(ana, "tea", memory_type="notes", request_id="1") == first
    other = world.remember(bob, "tea", memory_type="notes", request_id="1")
    assert (other.uri, other.outcome) == (f"{BOB}/notes.md", pb.REMEMBER_OUTCOME_ADDED)
    with pytest.raises(InvalidField, match="'1' is the id of another request"):
        world.remember(ana, "coffee", memory_type="notes", request_id="1")
    assert world.remember(bob, "tea", memory_type="notes", request_id="1") == other
    ids = [world.id_of(f"{root}/notes.md") for root in (ANA, BOB)]
    by_key = [caller("", write=["viking://"], key=key) for key in ("one", "two")]
    for who, counts in ((by_key[0], [1, 1]), (by_key[0], [1, 1]), (by_key[1], [2, 2])):
        assert list(world.reinforce(who, *ids, request_id="1").reinforcements) == counts
    assert list(world.reinforce(LOCAL, *ids, request_id="user ana 1").reinforcements) == [3, 3]


# Rights


def test_ids_that_may_not_be_changed(world: World) -> None:
    """An id is missing if it is not readable, and denied if it is readable but not writable."""
    for uri in (f"{ANA}/a.md", f"{BOB}/b.md", f"{USER}/u.md"):
        world.put(uri, uri)
    own, hidden, shared = (world.id_of(f) for f in (f"{ANA}/a.md", f"{BOB}/b.md", f"{USER}/u.md"))
    ana, before = caller("ana", USER, write=[ANA]), world.entries()
    for call in (world.reinforce, world.forget, lambda *a: world.forget(*a, dry_run=True)):
        for ids, error in (
            ((own, hidden), NotFound),
            ((own, shared), PermissionDenied),
            ((hidden, shared), NotFound),
            ((shared, hidden), PermissionDenied),
        ):
            with pytest.raises(error):
                call(ana, *ids)
        texts = []
        for missing in (hidden, 999):
            with pytest.raises(NotFound) as raised:
                call(ana, own, missing)
            texts.append((str(raised.value).replace(str(missing), "N"), raised.value.reason))
        assert texts[0] == texts[1]
    assert world.entries() == before
    assert list(world.reinforce(ana, own).reinforcements) == [1]
    assert [found.id for found in world.forget(ana, own).forgotten] == [own]
    assert world.entries().keys() == {hidden, shared}


def test_used_memories_are_those_that_may_be_read(world: World) -> None:
    """A readable id may be named as used; a hidden one is missing, or left out by a recall."""
    for uri in (f"{ANA}/a.md", f"{BOB}/b.md", f"{USER}/u.md"):
        world.put(uri, uri)
    own, hidden, shared = (world.id_of(f) for f in (f"{ANA}/a.md", f"{BOB}/b.md", f"{USER}/u.md"))
    ana = caller("ana", USER, write=[ANA])
    for missing in (hidden, 999):
        with pytest.raises(NotFound, match=f"used\\[1\\]: there is no memory {missing}"):
            world.reinforce(ana, used=[shared, missing])
    assert not world.reinforce(ana, used=[shared]).reinforcements
    assert list(world.reinforce(ana, own, used=[shared, own]).reinforcements) == [1]
    world.recall(ana, "tea", used=[hidden, shared, 999], no_touch=False)
    eventually(lambda: accesses(world)[f"{USER}/u.md"] == 3)
    assert accesses(world) == {f"{ANA}/a.md": 1, f"{BOB}/b.md": 0, f"{USER}/u.md": 3}


def accesses(world: World) -> dict[str, int]:
    """Return the accesses of all memories by the URI of their file."""
    stored = world.engine.store.memories_below("viking://")
    return {one.uri: one.entry.access_count for one in stored}


def test_criteria_choose_among_what_may_be_written(world: World) -> None:
    """Criteria and their maxima look at writable files alone."""
    world.put(f"{ANA}/a.md", "ana's", time=1)
    world.put(f"{USER}/u.md", "shared", time=1)
    world.put(f"{USER}/mine/m.md", "ana's among the shared", time=1)
    world.reinforce(LOCAL, world.id_of(f"{ANA}/a.md"), by=1)
    world.reinforce(LOCAL, world.id_of(f"{USER}/u.md"), by=1_000_000)
    ana = caller("ana", USER, write=[ANA, f"{USER}/mine"])
    # Of the writable ones ana's is the strongest. The shared one, much stronger, does not count.
    weak = world.forget(ana, below_salience=0.5, dry_run=True, now={"seconds": 10}).forgotten
    assert [found.uri for found in weak] == [f"{USER}/mine/m.md"]
    old = {"older_than": {"seconds": 5}, "now": {"seconds": 10}}
    for dry_run in (True, False):
        gone = world.forget(ana, **old, dry_run=dry_run).forgotten
        assert [found.uri for found in gone] == [f"{USER}/mine/m.md", f"{ANA}/a.md"]
    assert [uri for uri, _, _ in world.entries().values()] == [f"{USER}/u.md"]
    nobody = world.forget(caller("ana"), **old)
    assert not nobody.forgotten
    assert nobody.revision


def test_ids_are_checked_where_they_are_changed(tmp_path: Path) -> None:
    """A move right before a change decides the rights: both are in the queue of the writer."""
    ana = caller("ana", write=[ANA])
    for there, ended in ((f"{BOB}/a.md", NotFound), (f"{ANA}/b.md", None)):
        path = tmp_path / there.replace("/", "_")
        path.mkdir()
        store = Store(path, model="none", dimension=None)
        store.put([prepare(Draft(f"{ANA}/a.md", content="- tea\n"))])
        moved = store.move(f"{ANA}/a.md", there)
        changed = store.reinforce([1], 1, None, ana)
        store.start(lambda *_: None)
        try:
            moved.result()
            error = changed.exception()
            assert type(error) is (ended or type(None))
            (entry,) = store.memory_file(there).entries
            assert entry.entry.reinforcement == (ended is None)
        finally:
            store.close()


def test_nothing_readable_is_nothing_found(world: World) -> None:
    """A recall without a readable part is empty, as one of a missing project is."""
    world.put(f"{USER}/preferences.md", "tea")
    world.put(f"{USER}/journal/2026-03-04.md", "rain")
    stranger = caller("ana", "viking://resources")
    for query in ("my preferences", "what was today?", "tea"):
        reply = world.recall(stranger, query, now={"seconds": NOW})
        assert not reply.results
        assert not reply.candidates
    assert "there is nothing below" in world.recall(stranger, "tea").reason
    assert "no such file in the scope" in world.recall(stranger, "my preferences").reason
