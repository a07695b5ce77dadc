"""The contexts that a model describes, and the texts from which it describes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from vikingd.describe.directory_description import directory_abstract
from vikingd.describe.topics import Child
from vikingd.domain.contexts import HAND, Context, ContextType
from vikingd.domain.description import Described
from vikingd.domain.errors import NotFound
from vikingd.domain.text import one_line
from vikingd.domain.uri import context_type, join, name, user_of
from vikingd.ingest.abstracts import derive_abstract, shorten
from vikingd.ingest.file_kinds import KEY, FileKind
from vikingd.models.describe.describer import RESPONSE_FORMAT, SYSTEM, Material
from vikingd.store.reads import Reads
from vikingd.store.reads.description_reads import ChildOf, DirectoryToDescribe, FileToDescribe

MAX_CHILDREN = 300
"""The most children of a directory that its material has."""

_MAX_LINE = 300  # characters of the abstract of a child
_LEFT_OUT = (FileKind.DATA, FileKind.GENERATED)
_DIGEST_BYTES = 16
_VERSION = blake2b(json.dumps([SYSTEM, RESPONSE_FORMAT]).encode(), digest_size=4).digest()


class Subject(NamedTuple):
    """A context to describe, with the text that the model reads (its material).

    Attributes:
        basis: the digest of what the model reads: the prompt and the material. Equal texts of one
            user have the same.
        material: the text; None for a directory that has become empty, whose description must be
            removed.
        is_current: True if the stored description was made from this basis.
    """

    uri: str
    content_hash: bytes
    basis: bytes
    material: Material | None
    is_current: bool

    def has_text_of(self, before: Subject) -> bool:
        """Return True if the material of this subject still has all of the text of `before`.

        A description of `before` may quote that text, and must not be stored if some was deleted.
        """
        if self.material is None or before.material is None or not self.material.is_directory:
            return self.basis == before.basis
        lines = set(self.material.text.splitlines())
        return lines.issuperset(before.material.text.splitlines())


class Materials:
    """Reads the texts to describe from a store.

    A model describes files of at least `min_characters` and directories with children. It does not
    describe memories, data, generated files, and contexts whose abstract and overview a user wrote.
    The text of a memory is in no material, so that a forgotten memory is in no description.

    Args:
        store: the store.
        maker: the name of the model.
        min_characters: the minimum length of a file.
    """

    def __init__(self, store: Reads, maker: str, min_characters: int) -> None:
        self._store = store
        self._maker = maker
        self._min_characters = min_characters

    def subject(self, uri: str) -> Subject | None:
        """Return a context with its material; None if it does not exist or is not to be described.

        Raises:
            StoreDamaged: the context is damaged.
            StoreAway, StoreFailed: the store cannot be read.
        """
        if context_type(uri) is ContextType.MEMORY:
            return None
        try:
            context = self._store.get(uri)
        except NotFound:
            return None
        by_hand = context.abstract if context.abstract_by == HAND else ""
        if by_hand and context.overview_by == HAND:
            return None
        described = self._store.described([uri]).get(uri)
        if context.is_directory:
            return self._directory(context, by_hand, described)
        return self._file(context, by_hand, described)

    def _file(self, context: Context, by_hand: str, described: Described | None) -> Subject | None:
        is_short = len(context.content) < self._min_characters
        if is_short or context.metadata.get(KEY) in _LEFT_OUT:
            return None
        # Without URI and name, so that equal texts anywhere share a description.
        extract = by_hand or derive_abstract(context.content, name(context.uri))
        material = Material("", False, context.title, context.content, extract)
        return self._subject(context, material, by_hand, described)

    def _directory(
        self, context: Context, by_hand: str, described: Described | None
    ) -> Subject | None:
        found, _ = self._store.children_of([context.uri], MAX_CHILDREN).get(context.uri, ([], 0))
        if not found:
            if described is None or not described.slots:
                return None
            return Subject(context.uri, context.content_hash, _VERSION, None, False)
        children = self._children(context.uri, found)
        text = "\n".join(map(_line, children))
        extract = by_hand or directory_abstract(children)
        material = Material(name(context.uri), True, context.title, text, extract)
        return self._subject(context, material, by_hand, described)

    def _children(self, uri: str, found: Sequence[ChildOf]) -> list[Child]:
        """Return the children of a directory; directories without an abstract get an extract."""
        children = [_child(uri, child) for child in found]
        without = [
            join(uri, child.name)
            for child in children
            if child.is_directory and not child.abstract and not _is_memory(uri, child.name)
        ]
        below = self._store.children_of(without, MAX_CHILDREN) if without else {}
        extracts = {
            one: directory_abstract([_child(one, child) for child in grandchildren])
            for one, (grandchildren, _) in below.items()
        }
        return [
            child._replace(abstract=child.abstract or extracts.get(join(uri, child.name), ""))
            for child in children
        ]

    def _subject(
        self, context: Context, material: Material, by_hand: str, described: Described | None
    ) -> Subject:
        read = [
            user_of(context.uri),
            material.is_directory,
            material.uri,
            material.title,
            material.text,
            by_hand,
        ]
        made = json.dumps(read).encode()
        basis = _VERSION + blake2b(made, digest_size=_DIGEST_BYTES).digest()
        is_current = described is not None and self._is_of(described.maker, described.basis, basis)
        return Subject(context.uri, context.content_hash, basis, material, is_current)

    def _is_of(self, maker: str | None, found: bytes | None, basis: bytes) -> bool:
        return maker == self._maker and found is not None and found.startswith(basis)

    def waiting_files(self, files: Iterable[FileToDescribe]) -> list[str]:
        """Return the URIs of those files that need a description; contents are not read.

        A file with a description by the same model and prompt needs none.
        """
        missing = [
            one.uri
            for one in files
            if one.length >= self._min_characters
            and not self._is_of(one.maker, one.basis, _VERSION)
        ]
        kinds = self._store.metadata(missing) if missing else {}
        return [uri for uri in missing if kinds.get(uri, {}).get(KEY) not in _LEFT_OUT]

    def waiting_directories(self, directories: Sequence[DirectoryToDescribe]) -> list[str]:
        """Return the URIs of those directories whose description is missing or out of date."""
        without = [one.uri for one in directories if one.basis is None]
        filled = self._store.children_of(without, 1) if without else {}
        return [
            one.uri
            for one in directories
            if context_type(one.uri) is not ContextType.MEMORY
            and (one.uri in filled if one.basis is None else self.is_waiting(one.uri))
        ]

    def is_waiting(self, uri: str) -> bool:
        """Return True if the description of a context is missing or out of date."""
        subject = self.subject(uri)
        return subject is not None and not subject.is_current


def _is_memory(uri: str, child: str) -> bool:
    return context_type(join(uri, child)) is ContextType.MEMORY


def _child(uri: str, child: ChildOf) -> Child:
    """Convert a child of a directory for the material; a memory keeps its name alone."""
    if _is_memory(uri, child.name):
        return Child(child.name, child.is_directory, "", "")
    return Child(*child)


def _line(child: Child) -> str:
    mark = "/" if child.is_directory else ""
    about = shorten(one_line(child.abstract or child.title), _MAX_LINE)
    return f"{one_line(child.name)}{mark}: {about}".rstrip(": ")
