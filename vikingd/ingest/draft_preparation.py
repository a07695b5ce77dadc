"""Checks of drafts against the limits of the API, and the texts of a draft that are indexed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from vikingd.domain import hidden_characters
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft, Passage, Prepared, Text
from vikingd.domain.errors import InvalidField
from vikingd.domain.pinned_text import without_pin
from vikingd.domain.spoken_text import without_speaker
from vikingd.domain.text import script_of, text_to_index
from vikingd.ingest.abstracts import (
    derive_abstract,
    opening_requests,
    stated_abstract,
)
from vikingd.ingest.code.parser_process import Ahead, Ask, Request, parser_process
from vikingd.ingest.limits import (
    MAX_CONTENT_BYTES,
    MAX_TIME,
    MAX_TITLE_BYTES,
    MIN_TIME,
    check_metadata,
    check_text,
)
from vikingd.ingest.passages import (
    MAX_PASSAGES,
    MAX_SECTION_BYTES,
    default_passages,
    passage_requests,
)

MAX_ABSTRACT_BYTES = 8 << 10
MAX_OVERVIEW_BYTES = 64 << 10
_TIMES = 16  # limit of all passages together, as a multiple of the length of the content
_MIN_TOGETHER = 1 << 16  # characters that the passages of any content may have together


def prepare(draft: Draft, ask: Ask | None = None) -> Prepared:
    """Derive the abstract of a checked draft if it has none, and make the texts to index.

    A directory has one text of its title and abstract, if it has either. A file has such a text
    with ordinal 0, and its passages as 1, 2, ... A file with a derived abstract and one passage has
    only the passage.

    `ask` sends a request to the parser of source code and returns the reply. Without `ask` all
    requests for this draft are sent in one batch.
    """
    ask = ask or Ahead(parser_requests(draft)).ask
    if draft.is_directory:
        abstract = draft.abstract
        texts = [head(draft, abstract)] if has_head(draft, abstract, 0, is_derived=True) else []
    else:
        name = uris.name(draft.uri)
        stated = draft.abstract or stated_abstract(draft.content, name)
        abstract = stated or derive_abstract(draft.content, name, ask)
        passages = draft.passages
        if passages is None:
            passages = cut(draft, ask)
        texts = list(_pieces(draft, passages))
        if has_head(draft, abstract, len(texts), is_derived=not stated):
            texts.insert(0, head(draft, abstract))
        elif len(texts) == 1 and draft.vector and not texts[0].vector:
            texts = [replace(texts[0], vector=draft.vector)]
    given = {i: p.entry for i, p in enumerate(draft.passages or (), start=1) if p.entry}
    return Prepared(draft, abstract, tuple(texts), draft.content_hash(), given)


def parser_requests(draft: Draft) -> list[Request]:
    """Return the requests that `prepare` sends to the source-code parser: at most two."""
    if draft.is_directory:
        return []
    content, name = draft.content, uris.name(draft.uri)
    found = [] if draft.passages is not None else passage_requests(draft.uri, content)
    if not (draft.abstract or stated_abstract(content, name)):
        found += opening_requests(content, name)
    return found


def cut(draft: Draft, ask: Ask = parser_process.ask) -> tuple[Passage, ...]:
    """Cut the content of a draft into passages; `ask` sends a request to the parser of source code.

    Raises:
        InvalidField: a memory file has more memories than a file may have. They are never joined.
    """
    passages = default_passages(draft.uri, draft.content, ask)
    if len(passages) > MAX_PASSAGES:
        what = "passages" if any(passage.continues for passage in passages) else "memories"
        raise InvalidField(
            "content",
            f"of {draft.uri} has {len(passages):,} {what}, a file may have {MAX_PASSAGES:,}: "
            "split it into several files",
        )
    return passages


def check(draft: Draft, field: str = "") -> Draft:
    """Return the checked draft: its URI in canonical form, its title without hidden characters.

    Of vectors only the length in bytes is checked. `field` is the path of the draft in the request,
    such as "contexts[3]".

    Raises:
        InvalidField: naming the field that exceeds a limit of ContextInput in the proto.
    """
    prefix = f"{field}." if field else ""
    uri = uris.parse_new(draft.uri, f"{prefix}uri")
    if draft.update_mask is None:
        _check_place(uri, draft.is_directory, f"{prefix}uri")
    check_text(draft.abstract, MAX_ABSTRACT_BYTES, f"{prefix}abstract")
    check_text(draft.overview, MAX_OVERVIEW_BYTES, f"{prefix}overview")
    check_text(draft.content, MAX_CONTENT_BYTES, f"{prefix}content")
    check_text(draft.title, MAX_TITLE_BYTES, f"{prefix}title")
    check_metadata(draft.metadata, f"{prefix}metadata")
    _check_vector(draft.vector, f"{prefix}vector")
    if draft.is_directory and draft.content:
        raise InvalidField(f"{prefix}content", "must be empty for a directory")
    if draft.is_directory and draft.passages:
        raise InvalidField(f"{prefix}passages", "must be empty for a directory")
    if draft.update_mask is None or "content" in draft.update_mask:
        check_passages(draft.passages or (), len(draft.content), f"{prefix}passages")
    if uris.context_type(uri) is not ContextType.MEMORY:
        for i, passage in enumerate(draft.passages or ()):
            if passage.entry is not None:
                raise InvalidField(f"{prefix}passages[{i}].memory", f"{uri} holds no memories")
            if passage.continues:
                raise InvalidField(f"{prefix}passages[{i}].continues", f"{uri} holds no memories")
    if draft.time is not None and not MIN_TIME <= draft.time <= MAX_TIME:
        raise InvalidField(f"{prefix}time", "must lie in the years 1 to 9999")
    title = hidden_characters.removed(draft.title)
    return (
        replace(draft, uri=uri, title=title) if (uri, title) != (draft.uri, draft.title) else draft
    )


def has_head(draft: Draft, abstract: str, passages: int, *, is_derived: bool) -> bool:
    """Return True if a context with this number of passages has a text of its title and abstract.

    `is_derived`: the abstract of the file was derived from its content.
    """
    if draft.is_directory:
        return bool(draft.title or abstract)
    if passages == 1 and is_derived:
        return False
    return bool(draft.title or abstract) or not passages


def head(draft: Draft, abstract: str) -> Text:
    """Return the text to index of a title and an abstract, with ordinal 0."""
    text = text_to_index(draft.title, "", abstract).strip()
    return Text(0, "", 0, 0, text, script_of(text), draft.vector)


def _pieces(draft: Draft, passages: Sequence[Passage]) -> Iterator[Text]:
    """Yield the text to index of each passage.

    Each text begins with its title and section. These are cut if there are many short passages, so
    that the size of all texts is linear in the content.
    """
    room = _most_together(len(draft.content)) // max(len(passages), 1)
    title = draft.title[:room]
    is_memory = uris.context_type(draft.uri) is ContextType.MEMORY
    for ordinal, p in enumerate(passages, start=1):
        section = p.section if draft.passages is not None else p.section[:room]
        passage = draft.content[p.start : p.end]
        said = without_speaker(without_pin(passage)) if is_memory else passage
        text = text_to_index(title, section, said)
        script = script_of(text)
        yield Text(
            ordinal, p.section, p.start, p.end, text, script, p.vector, is_memory and p.continues
        )


def _check_place(uri: str, is_directory: bool, field: str) -> None:
    if not is_shared(uri):
        return
    if not uris.may_exist(uri):
        roots = chain(*uris.TYPED_ROOTS.values(), *uris.NAMED_ROOTS.values())
        raise InvalidField(field, f"must lie below one of {', '.join(roots)}")
    if not is_directory:
        raise InvalidField(field, f"{uri} can only be a directory")


def is_shared(uri: str) -> bool:
    """Return True for a root such as viking://resources and for the directories above one.

    Many imports share these directories.
    """
    return uris.context_type(uris.parent(uri)) is ContextType.UNSPECIFIED


def _check_vector(vector: bytes, field: str) -> None:
    if len(vector) % 4:
        raise InvalidField(field, f"has {len(vector)} bytes, which is no whole number of float32")


def check_passages(passages: Sequence[Passage], length: int, field: str) -> None:
    """Raise InvalidField, naming the passage, for passages that do not fit a content.

    `length` is the number of characters of the content. Passages must be in order and within it.
    """
    count = len(passages)
    if count > MAX_PASSAGES:
        raise InvalidField(
            field,
            f"are {count:,}, at most {MAX_PASSAGES:,} are allowed: split the file into several",
        )
    previous, together = -1, 0
    for i, passage in enumerate(passages):
        here = f"{field}[{i}]"
        check_text(passage.section, MAX_SECTION_BYTES, f"{here}.section")
        if passage.start <= previous:
            raise InvalidField(
                f"{here}.start", "must be greater than the start of the passage before"
            )
        if passage.continues and (not i or passage.entry is not None):
            raise InvalidField(
                f"{here}.continues",
                "is for a passage behind another one, and without a memory of its own",
            )
        if passage.end <= passage.start:
            raise InvalidField(f"{here}.end", "must be greater than start")
        if passage.end > length:
            raise InvalidField(f"{here}.end", f"must be at most {length}, the content's length")
        _check_vector(passage.vector, f"{here}.vector")
        previous = passage.start
        together += passage.end - passage.start
    most = _most_together(length)
    if together > most:
        raise InvalidField(
            field,
            f"overlap: together they have {together:,} characters, at most {most:,} are "
            "allowed for this content",
        )


def _most_together(length: int) -> int:
    return max(_TIMES * length, _MIN_TOGETHER)
