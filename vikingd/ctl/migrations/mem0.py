"""Memories that mem0 exported: each is an entry of a memory file, one file for each category.

The files are in a directory of their own below the memories of their user. So an import replaces no
memories that agents wrote with vikingd.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from vikingd.client.file_import import Item
from vikingd.ctl.migrations import source
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft, Entry
from vikingd.domain.errors import InvalidField
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.jsonl import Tree
from vikingd.ingest.passages import default_passages
from vikingd.memory import entries
from vikingd.memory.memory_types import own_root
from vikingd.memory.numbered_files import MOST_ENTRIES, file_of
from vikingd.system.regular_files import read_regular

_SHARED = "viking://user/memories"
_AGENTS = "viking://agent/memories"
_NAME = "mem0"
_UNSORTED = "memories"  # the name of the file of memories without a category
_LARGEST = 1 << 30  # bytes of an export
_KEYS = {"id", "memory", "user_id", "created_at", "updated_at", "metadata", "categories", "hash"}
_SCORES = {"score"}  # of a search, not of a memory


@dataclass(frozen=True, slots=True)
class _Memory:
    id: str
    text: str
    directory: str
    category: str
    created_at: int | None
    updated_at: int | None
    more: Mapping[str, Any]  # all that an entry cannot hold

    @property
    def order(self) -> tuple[int, str]:
        return self.created_at or 0, self.id

    @property
    def entry(self) -> Entry:
        return Entry(time=self.updated_at or self.created_at, created_at=self.created_at)


def opened(asked: source.Asked) -> source.Source:
    """Read an export of mem0.

    Raises:
        InvalidField: the file is no export of mem0, or its memories cannot be stored at the URI;
            the error names the argument.
    """
    records = _records(asked)
    top = uris.parse(asked.uri) if asked.uri else ""
    if top and uris.context_type(top) is not ContextType.MEMORY:
        raise InvalidField("uri", f"{top} is not below the memories of a user, agent or project")
    users = sorted({str(r["user_id"]) for r in records if isinstance(r, dict) and r.get("user_id")})
    if top and len(users) > 1:
        raise InvalidField(
            "uri",
            f"would mix the memories of {len(users)} users ({', '.join(users[:5])}); without URI "
            f"each goes below viking://users/NAME/memories/{_NAME}",
        )
    memories: list[_Memory] = []
    faulty: list[Unreadable] = []
    for number, record in enumerate(records, start=1):
        where = f"{asked.place}: memory {number}"
        try:
            memory = _memory(record, top, asked)
        except InvalidField as error:
            if isinstance(record, dict) and record.get("id"):
                where = f"{asked.place}: {record['id']}"
            faulty.append(Unreadable(where, str(error), top))
        else:
            memories.append(memory)
    directories = sorted({memory.directory for memory in memories})
    if asked.delete and len(directories) > 1:
        raise InvalidField("delete", "needs an export of one user, or a URI")
    common = directories[0] if len(directories) == 1 else _above(directories)
    return source.Source(top or common, _items(asked, memories, faulty), len(memories))


def _records(asked: source.Asked) -> list[Any]:
    try:
        data = json.loads(read_regular(asked.place, _LARGEST))
    except OSError as error:
        raise InvalidField("path", f"{asked.place}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidField("path", f"{asked.place} is not JSON: {error}") from None
    if isinstance(data, dict):
        if data.get("next"):
            asked.notes.add(
                "the file is one page of several: it names a next one, which is missing",
                0,
            )
        data = data.get("results", data.get("memories"))
    if not isinstance(data, list):
        raise InvalidField(
            "path",
            f"{asked.place} is no export of mem0: a list of memories, or an object with `results`, "
            "as get_all returns it, is needed",
        )
    return data


def _memory(record: Any, top: str, asked: source.Asked) -> _Memory:
    if not isinstance(record, dict):
        raise InvalidField("memory", "is no JSON object")
    text, identifier = record.get("memory"), record.get("id")
    if not isinstance(text, str) or not text.strip():
        raise InvalidField("memory", "is missing or has no text")
    if not isinstance(identifier, str) or not identifier:
        raise InvalidField("id", "is missing")
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidField("metadata", "is no JSON object")
    categories = record.get("categories") or []
    if not isinstance(categories, list):
        raise InvalidField("categories", "is no list")
    more = {key: value for key, value in record.items() if key not in _KEYS | _SCORES}
    category = next((c for c in (*categories, metadata.get("category")) if c), _UNSORTED)
    more |= {
        key: metadata[key] for key in metadata if (key, metadata[key]) != ("category", category)
    }
    if categories[1:]:
        more["categories"] = categories
    return _Memory(
        identifier,
        text,
        top or _directory(record),
        str(category),
        source.time_of(record.get("created_at"), "created_at"),
        source.time_of(record.get("updated_at"), "updated_at"),
        source.fitted(more, asked.notes),
    )


def _directory(record: Mapping[str, Any]) -> str:
    user = record.get("user_id")
    if user is None or user == "":
        root = _AGENTS if record.get("agent_id") else _SHARED
        return uris.join(root, _NAME)
    try:
        return uris.join(own_root(uris.check_user(str(user), "user_id")), _NAME)
    except InvalidField as error:
        raise InvalidField(
            "user_id", f"{error.description}: name a URI below viking://users/NAME/memories"
        ) from None


def _above(directories: Sequence[str]) -> str:
    """Return the deepest directory that is above all of these; the root for none."""
    above = [set(uris.ancestors(uri)) for uri in directories]
    return max(set.intersection(*above), key=len) if above else uris.ROOT


def _items(
    asked: source.Asked, memories: list[_Memory], faulty: list[Unreadable]
) -> Iterator[Item]:
    tree = Tree()
    yield from faulty
    files: dict[str, list[_Memory]] = defaultdict(list)
    titles: dict[str, str] = {}
    seen: dict[str, _Memory] = {}
    for memory in sorted(memories, key=attrgetter("order")):
        if (same := seen.setdefault(memory.id, memory)) is not memory:
            if same != memory:  # An export can list a memory twice: for its user and for its agent.
                reason = "id: occurs twice, with another text or state"
                yield Unreadable(f"{asked.place}: {memory.id}", reason)
            continue
        path = uris.join(memory.directory, source.name_of(memory.category))
        titles[path] = memory.category
        try:
            entries.added("", entries.check_short(memory.text), "", memory.category)
        except InvalidField:
            asked.notes.add("memories that cannot be an item of a list, each a file of its own")
            yield _file(asked, memory, f"{path}/{source.name_of(memory.id)}.md", tree)
        else:
            files[path].append(memory)
    for path, all_of_it in files.items():
        for number, first in enumerate(range(0, len(all_of_it), MOST_ENTRIES), start=1):
            some = all_of_it[first : first + MOST_ENTRIES]
            yield _list(asked, some, file_of(f"{path}.md", number), titles[path], tree)


def _file(asked: source.Asked, memory: _Memory, uri: str, tree: Tree) -> Item:
    """Return a memory as a file of its own; its first passage has the times of the memory."""
    cut = list(default_passages(uri, memory.text))
    if cut:
        cut[0] = replace(cut[0], entry=memory.entry)
    draft = Draft(uri, content=memory.text, metadata=memory.more, passages=cut or None)
    return source.checked(f"{asked.place}: {memory.id}", draft, tree)


def _list(asked: source.Asked, some: Sequence[_Memory], uri: str, title: str, tree: Tree) -> Item:
    """Return a file with a list of memories."""
    content = _content(some, title)
    stated = zip(default_passages(uri, content), some, strict=True)
    return source.checked(
        asked.place,
        Draft(
            uri,
            content=content,
            metadata=_common(some, asked),
            passages=[replace(passage, entry=memory.entry) for passage, memory in stated],
        ),
        tree,
    )


def _content(some: Sequence[_Memory], title: str) -> str:
    """Return the text of a file, in which each memory is one passage."""
    texts = [entries.clean(memory.text) for memory in some]
    items = ["- " + text.replace("\n", "\n  ").replace("\n  \n", "\n\n") for text in texts]
    for gap in (
        "\n",
        "\n\n",
    ):  # some items need an empty line between them
        content = f"# {' '.join(title.split())}\n\n{gap.join(items)}\n"
        cut = default_passages("viking://user/memories/x.md", content)
        if [entries.clean(content[p.start : p.end]) for p in cut] == texts:
            return content
    content = ""
    for text in texts:
        content = entries.added(content, text, "", title).content
    return content


def _common(some: Sequence[_Memory], asked: source.Asked) -> dict[str, Any]:
    """Return the values that all memories of a file share; add a note for each other value."""
    first = some[0].more
    common = {
        key: value
        for key, value in first.items()
        if all(key in memory.more and memory.more[key] == value for memory in some)
    }
    for memory in some:
        for key in memory.more:
            if key not in common:
                asked.notes.add(
                    f"{key!r} is left out, since it differs within a file and entries have no "
                    "metadata; memories"
                )
    return common
