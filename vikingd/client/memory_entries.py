"""The memories of a tree, one by one: `for memory in client.memories()`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from operator import attrgetter

from vikingd.client.argument_checks import checked, described
from vikingd.client.client_errors import ClientError, InvalidField, NotFound, RevisionDiffers
from vikingd.client.context_calls import Context, ContextPassage
from vikingd.client.documents import Document
from vikingd.client.memory_results import ForgetResult
from vikingd.client.multi_call_steps import Call, Steps, arun, run
from vikingd.client.result_methods import AwaitedMethods, BlockingMethods
from vikingd.client.value_conversion import micros_of
from vikingd.domain.contexts import Entry, Passage
from vikingd.domain.pinned_text import is_pinned, with_pin, without_pin
from vikingd.memory.memory_types import SHARED_ROOTS, memory_type_of, own_root, project_root

_OWN = own_root("~").replace("users/~", "~")
_TRIES = 5


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory: an entry of a memory file.

    Attributes:
        id: the id for `edit`, `delete`, `reinforce` and `forget`.
        uri: the URI of its file.
        text: the text of the memory.
        section: the headings above it, joined by " > ".
        kind: the type of its file: "preferences", "journal", ...
        time: the time when it was last said.
        create_time: the time of its first write.
        reinforcement: the number of times that it was said again or reinforced.
        access_count: the number of times that it was used.
        pinned: True: `forget` takes it by its id alone.
    """

    id: int
    uri: str
    text: str
    section: str
    kind: str
    time: datetime | None
    create_time: datetime | None
    reinforcement: int
    access_count: int
    pinned: bool = False


class _Scope:
    def __init__(self, user: str, project: str, kind: str) -> None:
        if user and project:
            raise ValueError(
                f"user is {user!r} and project is {project!r}; give one of them: memories "
                "belong to a user or to a project"
            )
        self._kind = kind.lower()
        self._is_all = not (user or project)
        if user:
            self._roots = [_OWN if user == "~" else own_root(user)]
        elif project:
            self._roots = [project_root(project)]
        else:
            self._roots = [_OWN, *SHARED_ROOTS]

    def _wants(self, file: Context) -> bool:
        kind = self._kind
        return not file.is_directory and (not kind or memory_type_of(file.uri) == kind)

    def _check_empty(self, root: str, error: ClientError) -> None:
        """Raise `error` unless it means that the root has no memories or the caller has no user."""
        is_no_user = root == _OWN and self._is_all and "has no user" in error.message
        if not (isinstance(error, NotFound) or is_no_user):
            raise error


class Memories(_Scope):
    """The memories of a user, of a project, or of neither.

    An iteration reads one file after the other as it advances.
    """

    def __init__(self, client: BlockingMethods, user: str, project: str, kind: str) -> None:
        super().__init__(user, project, kind)
        self._client = client

    def __iter__(self) -> Iterator[MemoryEntry]:
        return self.list()

    def list(self) -> Iterator[MemoryEntry]:
        """Yield the memories, by file and place.

        Raises:
            ClientError: the daemon refuses a call.
        """
        for root in self._roots:
            try:
                files = self._client.tree(root)
            except (NotFound, InvalidField) as error:
                self._check_empty(root, error)
                continue
            for file in filter(self._wants, files):
                with suppress(NotFound):  # it was deleted during the iteration
                    yield from entries_of(self._client.get(file.uri))

    def edit(self, memory: int | MemoryEntry, text: str) -> MemoryEntry:
        """Replace the text of a memory; its counters and times stay, and it gets a new id.

        Args:
            memory: the memory, or its id.
            text: the new text.

        Raises:
            NotFound: there is no such memory.
            RevisionDiffers: others change the file again and again.
        """
        return run(self._client, _edit(memory, text))

    def delete(self, *memories: int | MemoryEntry) -> ForgetResult:
        """Delete memories, given by their ids or themselves.

        Raises:
            NotFound: one of them does not exist; nothing was deleted.
        """
        return self._client.forget(*_ids(memories))


class AsyncMemories(_Scope):
    """The same memories for an AsyncClient: `async for memory in client.memories()`."""

    def __init__(self, client: AwaitedMethods, user: str, project: str, kind: str) -> None:
        super().__init__(user, project, kind)
        self._client = client

    def __aiter__(self) -> AsyncIterator[MemoryEntry]:
        return self.list()

    async def list(self) -> AsyncIterator[MemoryEntry]:
        """Yield the memories; see Memories.list."""
        for root in self._roots:
            try:
                async for file in self._client.tree(root):
                    if self._wants(file):
                        with suppress(NotFound):
                            for entry in entries_of(await self._client.get(file.uri)):
                                yield entry
            except (NotFound, InvalidField) as error:
                self._check_empty(root, error)

    async def edit(self, memory: int | MemoryEntry, text: str) -> MemoryEntry:
        """Replace the text of a memory; see Memories.edit."""
        return await arun(self._client, _edit(memory, text))

    async def delete(self, *memories: int | MemoryEntry) -> ForgetResult:
        """Delete memories; see Memories.delete."""
        return await self._client.forget(*_ids(memories))


def entries_of(file: Context) -> list[MemoryEntry]:
    """Return the memories of a file, in their order."""
    kind = memory_type_of(file.uri)
    entries = []
    for number, passage in enumerate(file.passages):
        if state := passage.memory:
            text = _text(file, number)
            entries.append(
                MemoryEntry(
                    state.id,
                    file.uri,
                    without_pin(text),
                    passage.section,
                    kind,
                    state.time,
                    state.create_time,
                    state.reinforcement,
                    state.access_count,
                    is_pinned(text),
                )
            )
    return entries


def _text(file: Context, number: int) -> str:
    """Return the text of the memory whose first passage has this number, without indentation."""
    passage = file.passages[number]
    indent = " " * _column(file.content, passage)
    return file.content[passage.start : _end(file, number)].replace(f"\n{indent}", "\n")


def _end(file: Context, number: int) -> int:
    """Return the end, as an offset in the content, of the memory whose first passage this is."""
    behind = islice(file.passages, number + 1, None)
    return max(p.end for p in (file.passages[number], *takewhile(attrgetter("continues"), behind)))


def _column(content: str, passage: ContextPassage) -> int:
    return passage.start - (content.rfind("\n", 0, passage.start) + 1)


def _ids(memories: Sequence[int | MemoryEntry]) -> list[int]:
    if not memories:
        raise TypeError("delete() has no memory; give ids, such as delete(17)")
    return [_id(memory) for memory in memories]


def _id(memory: int | MemoryEntry) -> int:
    if isinstance(memory, MemoryEntry):
        return memory.id
    if isinstance(memory, bool) or not isinstance(memory, int):
        raise TypeError(f"memory is {described(memory)}; give a MemoryEntry, or its id, such as 17")
    return memory


@checked
def _edit(memory: int | MemoryEntry, text: str) -> Steps[MemoryEntry]:
    number = _id(memory)
    if not text.strip():
        raise ValueError(f"text is empty; delete({number}) removes the memory")
    for left in reversed(range(_TRIES)):
        # The daemon knows the file of an id.
        found: ForgetResult = yield Call("forget", (number,), {"dry_run": True})
        file: Context = yield Call("get", (found.forgotten[0].uri,))
        at = next((p for p in file.passages if p.memory and p.memory.id == number), None)
        if at is None:
            continue  # it moved between the two calls
        try:
            reply = yield Call("put", (_rewritten(file, at, text),))
        except RevisionDiffers:
            if not left:
                raise
            continue
        file = yield Call("get", (file.uri,), {"min_revision": reply.revision})
        changed = next((p for p in file.passages if p.start == at.start), None)
        if changed is None or changed.memory is None:
            raise RuntimeError(f"{file.uri} was changed by others after the edit; list it again")
        return next(one for one in entries_of(file) if one.id == changed.memory.id)
    raise RuntimeError(f"memory {number} moves again and again; edit it later")


def _rewritten(file: Context, at: ContextPassage, text: str) -> Document:
    """Return a file with another text for a memory, which keeps its counters and times."""
    assert at.memory is not None
    indent = " " * _column(file.content, at)  # further lines of an item are indented to match
    lines = [line.strip() for line in text.strip().splitlines()]
    end = _end(file, file.passages.index(at))
    was_pinned = is_pinned(file.content[at.start : end])
    text = "\n".join(line for line in lines if line)
    body = with_pin(text, was_pinned or is_pinned(text)).replace("\n", f"\n{indent}")
    grown = len(body) - (end - at.start)
    state = at.memory
    entry = Entry(
        0,
        state.reinforcement,
        state.access_count,
        None if state.time is None else micros_of(state.time),
        None if state.create_time is None else micros_of(state.create_time),
    )
    passages = [
        Passage(at.section, at.start, at.start + len(body), entry=entry)
        if p is at
        else Passage(p.section, p.start + grown, p.end + grown, continues=p.continues)
        if p.start >= end
        else Passage(p.section, p.start, p.end, continues=p.continues)
        for p in file.passages
        if not at.start < p.start < end
    ]
    return Document(
        file.uri,
        file.content[: at.start] + body + file.content[end:],
        passages=passages,
        update_mask=("content", "passages"),
        expected_revision=file.revision,
    )
