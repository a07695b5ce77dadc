"""OpenAI Agents SDK: a session whose items are files of one directory."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from vikingd.client import Client, Context, Draft, NotFound, RevisionDiffers
from vikingd.client.batches import batches
from vikingd.integrations import common

with common.extra("openai-agents"):
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import SessionSettings, resolve_session_limit

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

_MAX_ITEMS = 500  # of one call
_PAGE = 1000  # contexts of one page of a listing
_PATIENCE = 30.0  # seconds of attempts against other writers
_LONGEST_PAUSE = 0.1
_DIGITS = 10


class _Head(NamedTuple):
    """The state of a session: its items have the numbers from `first` to `end` - 1."""

    first: int
    end: int
    revision: int  # of the directory; 0: it does not exist


class VikingdSession(SessionABC):
    """A session of the OpenAI Agents SDK, safe with several writers in several processes.

    The items are files with consecutive numbers in one directory, whose metadata have the first and
    the last number. Each change writes these metadata on the condition that nobody else has changed
    them, and is repeated otherwise. So all changes have one order. Calls run on threads.

    Args:
        client: the client of the daemon.
        session_id: the name of the session, any text.
        uri: the directory of all sessions, such as viking://resources/sessions.
        session_settings: `limit` is the number of items that `get_items` returns without a limit.
    """

    def __init__(
        self,
        client: Client,
        session_id: str,
        uri: str,
        session_settings: SessionSettings | None = None,
    ) -> None:
        if not session_id:
            raise ValueError("session_id is empty; give one character at least")
        self.client = client
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self.uri = f"{common.directory_of(uri)}/{common.encoded(session_id)}.session"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in their order; with `limit` the newest ones only."""
        limit = resolve_session_limit(limit, self.session_settings)
        return await asyncio.to_thread(self._items, limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items. Up to 500 items of at most 3 MiB together are written all or nothing.

        They get consecutive numbers, without items of other writers between them.

        Raises:
            TypeError, ValueError: an item cannot be kept as JSON; nothing is written.
            RevisionDiffers: other writers were faster for 30 seconds.
            ClientError: the daemon cannot be reached, or refuses an item.
        """
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None: there is none."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Remove all items."""
        await asyncio.to_thread(self._clear)

    def _items(self, limit: int | None) -> list[TResponseInputItem]:
        if limit is not None and limit <= 0:
            return []
        for pause in _pauses():
            found = self._listed()
            head = _head_of(found[0] if found else None)
            # One page is of one revision. Several pages may be of several ones.
            if len(found) <= _PAGE or head == self._head():
                break
            if pause is None:
                raise RuntimeError(f"{self.uri} changes all the time; read it again later")
        counted = [one for one in found[1:] if head.first <= _number(one.uri) < head.end]
        return [self._item(context) for context in counted[-limit if limit else 0 :]]

    def _add(self, items: Sequence[TResponseInputItem]) -> None:
        texts = [common.to_json(item, f"items[{i}]") for i, item in enumerate(items)]
        drafts = [Draft("", content=text, metadata=common.copy_of(text)) for text in texts]
        for batch in batches(drafts, _MAX_ITEMS):
            self._change(partial(self._appended, batch))

    def _appended(self, drafts: Sequence[Draft], head: _Head) -> list[Draft]:
        # With `after`, an item differs from an equal one that had its number before, see `_pop`.
        return [
            self._moved(head, head.first, head.end + len(drafts)),
            *(
                replace(
                    draft,
                    uri=self._file(number),
                    metadata={**draft.metadata, "after": head.revision},
                )
                for number, draft in enumerate(drafts, head.end)
            ),
        ]

    def _pop(self) -> TResponseInputItem | None:
        popped: Context | None = None

        def plan(head: _Head) -> list[Draft]:
            nonlocal popped
            popped, end = None, head.end
            while popped is None and end > head.first:
                end -= 1
                popped = common.existing(
                    self.client, self._file(end)
                )  # None: somebody has deleted the file
            return [] if end == head.end else [self._moved(head, head.first, end)]

        self._change(plan)
        if popped is None:
            return None
        # The next append uses the number again. A revision: its file stays.
        with suppress(RevisionDiffers, NotFound):
            self.client.delete(popped.uri, expected_revision=popped.revision)
        return self._item(popped)

    def _clear(self) -> None:
        # No number below `end` is used again, so that the items of later appends stay.
        head = self._change(
            lambda head: [] if head.first == head.end else [self._moved(head, head.end, head.end)]
        )
        gone = [uri for uri in common.children(self.client, self.uri) if _number(uri) < head.end]
        common.delete(self.client, gone)

    def _change(self, plan: Callable[[_Head], list[Draft]]) -> _Head:
        """Write the contexts that `plan` returns for the present head, and return that head.

        If another writer was faster, it reads the new head and tries again.

        Raises:
            RevisionDiffers: other writers were faster for 30 seconds.
        """
        for pause in _pauses():
            head = self._head()
            drafts = plan(head)
            try:
                if drafts:
                    self.client.put(drafts)
            except RevisionDiffers:
                if pause is None:
                    raise
                time.sleep(pause)
            else:
                break
        return head

    def _head(self) -> _Head:
        return _head_of(common.existing(self.client, self.uri))

    def _moved(self, head: _Head, first: int, end: int) -> Draft:
        """Return the directory with a new first and last number.

        The write is refused if `head` is not the newest state.
        """
        return Draft(
            self.uri,
            is_directory=True,
            metadata={"first": first, "end": end},
            expected_revision=head.revision,
        )

    def _file(self, number: int) -> str:
        return f"{self.uri}/{number:0{_DIGITS}}.json"

    def _listed(self) -> list[Context]:
        """Return the contexts of the directory and its files; [] if there is no session."""
        try:
            return list(self.client.tree(self.uri, depth=1))
        except NotFound:
            return []

    def _item(self, context: Context) -> TResponseInputItem:
        text = context.metadata.get("json") or context.content
        if not text:  # from a listing, and too long for it
            text = self.client.get(context.uri).content
        return cast("TResponseInputItem", json.loads(text))


def _head_of(directory: Context | None) -> _Head:
    if directory is None:
        return _Head(0, 0, 0)
    metadata = directory.metadata
    return _Head(metadata.get("first", 0), metadata.get("end", 0), directory.revision)


def _number(uri: str) -> int:
    """Return the number in a file's name; -1 for a file that is no item."""
    name = uri.rpartition("/")[2].removesuffix(".json")
    return int(name) if name.isdecimal() else -1


def _pauses() -> Iterator[float | None]:
    """Yield the pause in seconds after each attempt against other writers; None after the last."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        yield random.uniform(0, _LONGEST_PAUSE)
    yield None
