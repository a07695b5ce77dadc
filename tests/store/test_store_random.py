"""Random operations on the store and on a plain dict; both must be equal after each one."""

from __future__ import annotations

import math
import shutil
import tempfile
from concurrent.futures import Future
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.store.store_helpers import Mirror, directory, file, linked, scanned, vector
from tests.tiers import examples
from vikingd.domain.contexts import Draft
from vikingd.domain.description import Description
from vikingd.domain.errors import (
    AlreadyExists,
    InvalidField,
    NotFound,
    RevisionDiffers,
    VikingError,
)
from vikingd.domain.store_changes import Committed
from vikingd.domain.uri import ROOT, ancestors, is_within
from vikingd.ingest.masks import Masked
from vikingd.store import Store
from vikingd.store.reads.change_reads import all_damage

TOPS = ("viking://resources", "viking://user/memories")
# "!" and "." sort before "/", so names like "a!" come between a directory and its contents.
NAMES = ("a", "a!", "a.md", "b")

Tree = dict[str, str | None]  # the content of each file, or None for a directory

below = st.builds(
    lambda top, names: "/".join((top, *names)),
    st.sampled_from(TOPS),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
)
anywhere = below | st.sampled_from((*TOPS, "viking://user", ROOT))
contents = st.none() | st.sampled_from(("", "one\n", "one\ntwo\n", "二\none\n"))
letters = st.sampled_from("xy")
aheads = st.none() | st.sampled_from((0, 0, 1))  # expected minus actual revision
batches = st.dictionaries(below, contents, min_size=1, max_size=4)


def subtree(tree: Tree, top: str) -> list[str]:
    """Return the URIs of `top` and its subtree."""
    return [uri for uri in tree if is_within(uri, top)]


def add(tree: Tree, uri: str, content: str | None) -> None:
    """Put one context into the dict, with the directories above it."""
    if uri in tree and (tree[uri] is None) != (content is None):
        raise InvalidField("", "is of the other kind")
    for above in ancestors(uri):
        if tree.setdefault(above, None) is not None:
            raise InvalidField("", "lies below a file")
    tree[uri] = content


def meaning(text: str) -> bytes:
    """Return a vector of length 1 that identifies a text."""
    return vector(math.cos(len(text)), math.sin(len(text)))


class Operations(RuleBasedStateMachine):
    """Operations on a store and on a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.tree: Tree = {ROOT: None}
        self.links: dict[frozenset[str], str] = {}
        self.mirror = Mirror()
        self.remembered = Mirror()
        self.open()
        self.mirror.apply(*self.store.changes_since(0))

    def open(self) -> None:
        """Open the store; the mirror follows it."""
        self.store = Store(self.path, model="m", dimension=2)
        self.store.start(self.mirror.apply)

    def teardown(self) -> None:
        """Delete all files."""
        self.store.close()
        shutil.rmtree(self.path)

    def agree(self, future: Future[Committed], error: VikingError | None) -> Committed | None:
        """Check that the store succeeds or fails with the same kind of error as the dict."""
        raised = future.exception(timeout=10)
        assert type(raised) is type(error), (raised, error)
        return None if raised else future.result()

    @rule(batch=batches)
    def put(self, batch: Tree) -> None:
        """Put a batch, which is written whole or not at all."""
        tree = dict(self.tree)
        error = None
        try:
            for uri, content in sorted(batch.items()):
                if content == "" and tree.get(uri):
                    raise InvalidField("", "would be emptied")
                add(tree, uri, content)
            self.tree = tree
        except InvalidField as fault:
            error = fault
        contexts = [
            directory(uri) if content is None else file(uri, content)
            for uri, content in batch.items()
        ]
        self.agree(self.store.put(contexts), error)

    @rule(uri=below, name=st.sampled_from(("content", "metadata")), content=contents, ahead=aheads)
    def put_some(self, uri: str, name: str, content: str | None, ahead: int | None) -> None:
        """Put one field by a mask with an expected revision."""
        tree, error = self.tree, None
        revision = self.store.get(uri).revision if uri in tree else 0
        if ahead:
            error = RevisionDiffers(uri, revision + ahead, revision)
        elif uri not in tree:
            error = NotFound(uri)
        elif name == "content" and tree[uri] is None and content:
            error = InvalidField("", "is a directory")
        elif name == "content" and tree[uri] is not None:
            self.tree = {**tree, uri: content or ""}
        draft = Draft(
            uri,
            content=content or "",
            metadata={"a": content},
            update_mask=[name],
            expected_revision=None if ahead is None else revision + ahead,
        )
        self.agree(self.store.put([Masked.of(draft)]), error)

    @rule()
    def give_back(self) -> None:
        """Give free pages back to the disk."""
        self.store.give_back()

    @rule(uris=st.lists(anywhere, min_size=1, max_size=3), allow=st.booleans())
    def delete(self, uris: list[str], allow: bool) -> None:
        """Delete subtrees; each context counts once."""
        error: VikingError | None = None
        gone = {uri for top in uris for uri in subtree(self.tree, top)}
        for uri in uris:
            if uri == ROOT:
                error = error or InvalidField("", "is the root")
            elif uri not in self.tree and not allow:
                error = error or NotFound(uri)
        committed = self.agree(self.store.delete(uris, allow_missing=allow), error)
        if committed:
            assert committed.count == len(gone)
            self.forget(gone)

    def forget(self, gone: set[str]) -> None:
        """Remove contexts and their links from the dict."""
        self.tree = {uri: content for uri, content in self.tree.items() if uri not in gone}
        self.links = {ends: why for ends, why in self.links.items() if not ends & gone}

    @rule(source=anywhere, destination=below, ahead=aheads)
    def move(self, source: str, destination: str, ahead: int | None) -> None:
        """Move a subtree with its contexts and links."""
        moved = subtree(self.tree, source)
        tree = {uri: content for uri, content in self.tree.items() if uri not in moved}
        names = {uri: uri for uri in self.tree} | {
            uri: destination + uri[len(source) :] for uri in moved
        }
        error: VikingError | None = None
        if not any(source.startswith(top + "/") for top in TOPS):
            error = InvalidField("", "is a root")
        elif destination != source and is_within(destination, source):
            error = InvalidField("", "lies below")
        elif source not in self.tree:
            error = NotFound(source)
        elif ahead:
            error = RevisionDiffers(source, 0, 0)
        elif destination in self.tree:
            error = AlreadyExists(destination)
        else:
            try:
                for uri in moved:
                    add(tree, names[uri], self.tree[uri])
                self.tree = tree
                self.links = {
                    frozenset(names[end] for end in ends): why for ends, why in self.links.items()
                }
            except InvalidField as fault:
                error = fault
        expected = None
        if ahead is not None and source in names:
            expected = self.store.get(source).revision + ahead
        committed = self.agree(self.store.move(source, destination, expected), error)
        if committed:
            assert committed.count == len(moved)

    @rule(uri=anywhere, other=anywhere, why=letters)
    def link(self, uri: str, other: str, why: str) -> None:
        """Link two contexts; links have no direction, and the last reason counts."""
        error: VikingError | None = None
        if uri == other:
            error = InvalidField("", "is the same")
        elif uri not in self.tree or other not in self.tree:
            error = NotFound(uri)
        else:
            self.links[frozenset((uri, other))] = why
        self.agree(self.store.link(uri, other, why), error)

    @rule(uri=anywhere, other=anywhere)
    def unlink(self, uri: str, other: str) -> None:
        """Unlink two contexts; a missing link is NotFound."""
        linked = self.links.pop(frozenset((uri, other)), None) is not None
        self.agree(self.store.unlink(uri, other), None if linked else NotFound(uri))

    @rule(limit=st.integers(1, 4))
    def fill(self, limit: int) -> None:
        """Fill texts of the backlog with vectors; each vector identifies its text."""
        backlog = self.store.backlog(limit)
        made = [(waiting.text_id, meaning(waiting.text)) for waiting in backlog]
        filled = self.store.fill(made, {waiting.text_id: waiting.digest for waiting in backlog})
        assert filled.result().count == len(backlog)

    @rule(uri=anywhere)
    def drop_vectors(self, uri: str) -> None:
        """Drop the vectors of a subtree, whose texts wait again."""
        waiting = self.store.backlog_size().texts
        error = None if uri in self.tree else NotFound(uri)
        committed = self.agree(self.store.drop_vectors(uri), error)
        if committed:
            assert self.store.backlog_size().texts == waiting + committed.count

    @rule(uri=anywhere, abstract=st.sampled_from(("", "Of tea.", "茶")), overview=letters)
    def describe(self, uri: str, abstract: str, overview: str) -> None:
        """Describe a context; nothing but its abstract and its overview changes."""
        error, read = None, self.store.get(uri).content_hash if uri in self.tree else b""
        if self.tree.get(uri) is not None and is_within(uri, TOPS[1]):
            error = InvalidField("", "holds memories")
        made = [Description(uri, abstract, overview, "m", b"basis", read)]
        committed = self.agree(self.store.describe(made), error)
        if committed:
            assert committed.count == (uri in self.tree)
        if committed and uri in self.tree:
            context = self.store.get(uri)
            assert (context.overview, context.overview_by) == (overview, "m")
            assert context.content_hash == read

    @rule()
    def remember(self) -> None:
        """Keep the current state, from which the change feed is read later."""
        self.remembered = Mirror(self.mirror)
        self.remembered.revision = self.mirror.revision
        self.remembered.links = dict(self.mirror.links)

    @rule()
    def restart(self) -> None:
        """Restart the store."""
        self.store.close()
        self.open()

    @invariant()
    def stands_as_the_dict(self) -> None:
        """Check that tree, contents and links equal those of the dict."""
        contexts = {context.uri: context for context in self.store.tree(ROOT, 0, "", 999)}
        assert list(contexts) == sorted(self.tree)
        for uri, content in self.tree.items():
            context = self.store.get(uri)
            assert context.is_directory == (content is None)
            assert context.content == (content or "")
            linked = {frozenset((uri, r.uri)): r.reason for r in context.relations}
            assert linked == {ends: why for ends, why in self.links.items() if uri in ends}

    @invariant()
    def feeds_agree(self) -> None:
        """Check that the live feed and `changes_since` both lead to the result of a scan."""
        found = scanned(self.store)
        assert self.mirror == found
        links = {frozenset((link.uri, link.other)): link.reason for link in linked(self.store)}
        assert self.mirror.links == links == self.links
        assert len(linked(self.store)) == len(links)
        assert self.mirror.revision == self.store.revision
        late = Mirror(self.remembered)
        late.links = dict(self.remembered.links)
        late.apply(*self.store.changes_since(self.remembered.revision))
        assert late == found
        assert late.links == links
        with self.store._snapshot() as db:
            assert all_damage(db) == []  # each write kept the checksums of all rows
        for upsert in found.values():
            assert all(t.vector in (b"", meaning(t.text)) for t in upsert.texts)


Operations.TestCase.settings = examples(40, stateful_step_count=25)
TestOperations = Operations.TestCase
