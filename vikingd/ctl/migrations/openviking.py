"""The tree of OpenViking: contents, abstracts, overviews and relations keep their URIs.

| URI there | URI here |
|---|---|
| viking://resources/... | the same |
| viking://user/NAME/memories/..., resources, skills | viking://users/NAME/... |
| viking://user/default/memories/... | viking://user/memories/... |
| viking://user/memories/... | the same |
| viking://agent/memories/..., viking://agent/skills/... | the same |
| viking://agent/NAME/memories/..., skills | viking://agent/memories/NAME/..., skills/NAME |

Contexts with any other URI, such as sessions, are not imported, and a remark counts them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vikingd.client.file_import import Item
from vikingd.ctl.migrations import source
from vikingd.ctl.migrations.workspace import Entry, Place, Server, Unavailable, opened_workspace
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft, Passage
from vikingd.domain.contexts import Entry as Memory
from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import Linked
from vikingd.ingest.abstracts import derive_title
from vikingd.ingest.draft_preparation import is_shared
from vikingd.ingest.file_syntax import Syntax, syntax_of
from vikingd.ingest.frontmatter import front_matter
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.jsonl import Tree
from vikingd.ingest.passages import default_passages

_ABSTRACT, _OVERVIEW, _RELATIONS = ".abstract.md", ".overview.md", ".relations.json"
_FIELDS = re.compile(r"\s*<!-- MEMORY_FIELDS\s*(\{.*\})\s*-->\s*\Z", re.DOTALL)
_KINDS = ("memories", "resources", "skills")
_TIMES = ("updated_at", "created_at")
_DEFAULT = "default"  # the user of a server without users


def opened(asked: source.Asked) -> source.Source:
    """Open a workspace or a server of OpenViking.

    Raises:
        InvalidField: there is no workspace, no server answers, or the workspace has several
            accounts; the error names the argument.
    """
    top = uris.parse(asked.uri or uris.ROOT)
    if asked.delete and not asked.uri:
        raise InvalidField("delete", "needs a URI")
    place: Place = (
        Server(asked.place, asked.key)
        if source.is_url(asked.place)
        else opened_workspace(asked.place)
    )
    return source.Source(top, _Reading(place, asked, top).items(), place.count())


def mapped(parts: Sequence[str]) -> str:
    """Return the URI in vikingd for a URI of OpenViking; "" if there is none."""
    match parts:
        case ["resources", *_] | ["user" | "agent", "memories", *_] | ["agent", "skills", *_]:
            return uris.ROOT + "/".join(parts)
        case ["user", name, "memories", *rest] if name == _DEFAULT:
            return uris.ROOT + "/".join(["user", "memories", *rest])
        case ["user", name, kind, *rest] if kind in _KINDS:
            return uris.ROOT + "/".join(["users", name, kind, *rest])
        case ["agent", name, ("memories" | "skills") as kind, *rest]:
            return uris.ROOT + "/".join(["agent", kind, name, *rest])
    return ""


@dataclass(slots=True)
class _Reading:
    """Reads a tree of OpenViking and yields its items: drafts, links and unreadable files."""

    place: Place
    asked: source.Asked
    top: str
    tree: Tree = field(default_factory=Tree)
    links: list[Linked] = field(default_factory=list)
    given: set[str] = field(default_factory=set)

    def items(self) -> Iterator[Item]:
        yield from self._directory(())
        for link in self.links:
            if {link.uri, link.other} <= self.given:
                yield link
            else:
                self.asked.notes.add("relations to a context that is not imported")

    def _directory(self, parts: tuple[str, ...]) -> Iterator[Item]:
        uri, where = mapped(parts), self.place.name(parts)
        if len(parts) > uris.MAX_LEVELS:
            yield Unreadable(where, f"is deeper than {uris.MAX_LEVELS} levels, with all below it")
            return
        try:
            entries = sorted(self.place.entries(parts), key=lambda e: (e.is_directory, e.name))
        except Unavailable as error:
            yield Unreadable(where, str(error), uri)
            return
        if uri and self._is_wanted(uri):
            yield from self._description(parts, uri, where, entries)
        for entry in entries:
            child = (*parts, entry.name)
            at = mapped(child)
            if entry.name.startswith("."):
                continue
            if entry.is_directory:
                # Directories below `user` and `agent` are read for their memories and skills.
                if at or (child[0] in ("user", "agent") and len(child) <= 2):
                    yield from self._directory(child)
                else:
                    self.asked.notes.add(f"directories that have no place here, {_kind(child)}")
            elif at and self._is_wanted(at):
                yield self._file(child, at)
            elif not at:
                self.asked.notes.add("files outside of memories, resources and skills")

    def _is_wanted(self, uri: str) -> bool:
        return uris.is_within(uri, self.top)

    def _description(
        self, parts: tuple[str, ...], uri: str, where: str, entries: Sequence[Entry]
    ) -> Iterator[Item]:
        """Yield the directory, if it has an abstract, an overview or relations."""
        if is_shared(uri):
            return  # a root such as viking://resources, which many imports share
        there = {entry.name for entry in entries}
        try:
            texts = {
                name: self.place.text((*parts, name))
                for name in (_ABSTRACT, _OVERVIEW, _RELATIONS)
                if name in there
            }
        except Unavailable as error:
            yield Unreadable(where, str(error), uri)
            return
        if not texts:
            return
        draft = Draft(
            uri,
            is_directory=True,
            abstract=_body(texts.get(_ABSTRACT, "")),
            overview=_body(texts.get(_OVERVIEW, "")),
        )
        item = source.checked(where, draft, self.tree)
        yield item
        if isinstance(item, Draft):
            self.given.add(uri)
            if _RELATIONS in texts:
                yield from self._relations(texts[_RELATIONS], uri, f"{where}/{_RELATIONS}")

    def _relations(self, text: str, uri: str, where: str) -> Iterator[Item]:
        try:
            for relation in json.loads(text):
                for other in relation["uris"]:
                    parts = [part for part in other.removeprefix(uris.ROOT).split("/") if part]
                    self.links.append(Linked(uri, mapped(parts), relation.get("reason") or ""))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            yield Unreadable(where, f"is no list of relations: {error!r}", uri)

    def _file(self, parts: tuple[str, ...], uri: str) -> Item:
        where = self.place.name(parts)
        try:
            content = self.place.text(parts)
        except Unavailable as error:
            return Unreadable(where, str(error), uri)
        fields: Mapping[str, Any] = {}
        if uris.context_type(uri) is ContextType.MEMORY:
            content, fields = _without_fields(content)
        try:
            updated, created = (source.time_of(fields.get(key), key) for key in _TIMES)
            state = Memory(time=updated or created, created_at=created)
        except InvalidField as error:
            return Unreadable(where, str(error), uri)
        cut: Sequence[Passage] = default_passages(uri, content)
        if state != Memory():
            cut = [replace(passage, entry=state) for passage in cut]
        stated = front_matter(content)[0] if syntax_of(parts[-1]) is Syntax.MARKDOWN else {}
        item = source.checked(
            where,
            Draft(
                uri,
                content=content,
                title=derive_title(content, "/".join(parts)),
                metadata={**stated, **source.fitted(fields, self.asked.notes)},
                passages=cut or None,
            ),
            self.tree,
        )
        if isinstance(item, Draft):
            self.given.add(item.uri)
        return item


def _kind(parts: Sequence[str]) -> str:
    """Return a URI with NAME for its second segment, such as viking://user/NAME/sessions."""
    return uris.ROOT + "/".join([parts[0], *("NAME" for _ in parts[1:2]), *parts[2:]])


def _body(text: str) -> str:
    """Return a description without the front matter of its generator."""
    return text[front_matter(text)[1] :].strip()


def _without_fields(content: str) -> tuple[str, dict[str, Any]]:
    """Return a memory without its last comment, and the JSON object in this comment.

    The comment is `<!-- MEMORY_FIELDS {...} -->`; without one the object is empty.
    """
    found = _FIELDS.search(content)
    if found is None:
        return content, {}
    try:
        fields = json.loads(found[1])
    except ValueError:
        return content, {}
    return f"{content[: found.start()]}\n", fields
