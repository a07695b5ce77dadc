"""Contexts for prompts: the best pieces as one cited text, within a budget of tokens.

One list of steps decides which pieces are shown, and at which level. A step shows the abstract (L0)
of one more source, or replaces it by the overview (L1) or a full passage (L2). The steps depend on
the pieces and the tokenizer, never on the budget. A larger budget goes further down the same list.
So it shows every source of a smaller budget at least as fully.

- The first steps show the abstracts of the LISTED best sources. Each further step shows another
  abstract while abstracts have less than LISTED_SHARE of the tokens, up to MOST_LISTED. Else it
  shows the next overview while overviews have less than OVERVIEW_SHARE. Else it shows the best
  passage that is not yet full. A further source is shown when the passages of better ones are full.
- A source is never shown before a better one. A source whose passage is no longer than its abstract
  is shown in full at once.
- When every passage is full, the best OUTLINED sources that are shown in part get an overview that
  is made of them. So these take no token from passages.
- The first step that does not fit ends the list. The next passage in line fills the remaining
  tokens, cut, if that shows more than the abstract in its place.
- Without levels each step shows a full passage.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from vikingd.context.cited_text import Cited, Style, assemble
from vikingd.context.deduplicated_parts import (
    ABSTRACT,
    CONTENT,
    MIN_REPEATED,
    OVERVIEW,
    Part,
    Parts,
    Piece,
    Place,
)
from vikingd.context.text_cuts import LEFT_OUT, cut
from vikingd.context.tokenizers import DEFAULT, open_tokenizer
from vikingd.domain import cancellation
from vikingd.domain.answers import UNBOUNDED, size_of
from vikingd.domain.errors import InvalidField
from vikingd.domain.prompt_options import CitationStyle, ContextOrder, DropReason
from vikingd.domain.text import approximate_tokens

LISTED = 5  # sources that are listed by abstract before any is shown more fully
LISTED_SHARE = 0.25  # of the tokens for abstracts, while there are further sources
MOST_LISTED = 10  # sources that are listed by abstract before the passages of better ones
OVERVIEW_SHARE = 0.25  # of the tokens for overviews, while there are any
OUTLINED = 5  # sources with overviews that are made of them, in the tokens that passages leave


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a text to build."""

    max_tokens: int  # for the context and the reserve
    reserve_tokens: int = 0  # of these to keep free, for the question and the answer
    tokenizer: str = DEFAULT  # see `vikingd.context.tokenizers.known`
    citation: CitationStyle = CitationStyle.NUMBERED
    separator: str = "\n\n"  # between two passages
    order: ContextOrder = ContextOrder.SCORE
    levels: bool = True  # show abstracts and overviews of sources that do not fit in full
    max_bytes: int = UNBOUNDED  # of the text in UTF-8


@dataclass(frozen=True, slots=True)
class Dropped:
    """A piece that the built text leaves out, together with the summaries of its source.

    The reason is DUPLICATE (a better piece says the same, perhaps in another language), EMPTY (no
    text), BUDGET (this or an earlier piece did not fit) or GONE (there is no such context or
    passage).
    """

    uri: str
    section: str
    reason: DropReason


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """A built text, with the pieces that it cites and the pieces that were dropped."""

    text: str
    citations: tuple[Cited, ...]  # in the order of the text
    used_tokens: int  # of the whole text by the tokenizer of the plan, at most `budget`
    budget: int
    approximate: bool  # the tokens are an estimate
    dropped: tuple[Dropped, ...]  # best first
    from_items: int  # pieces that are shown, themselves or by a summary
    is_cut: bool = False  # the limit of bytes, not of tokens, ended the text
    shown: tuple[tuple[str, int, int], ...] = ()  # URI and code points of the contents that it has
    least: int = 0  # the smallest budget that shows a piece; 0: this one does, or there is none


class _Step(NamedTuple):
    """A step of the list by which a prompt's text is composed, see the module.

    It shows a part of a source. A full passage takes the place of the summary of its source.

    Attributes:
        part: the part to show: a passage, or the abstract or overview of a source.
        in_full: True for a full passage, False for a summary.
        tokens: an estimate of the tokens by which the text grows.
    """

    part: Part
    in_full: bool
    tokens: int


@dataclass(slots=True)
class _Shown:
    """The parts that are shown after a number of steps: full ones, and summaries by URI."""

    summaries: dict[str, Part]
    full: list[Part]

    def parts(self) -> list[Part]:
        return [*self.full, *self.summaries.values()]


def build(
    pieces: Sequence[Piece], plan: Plan, outline_of: Callable[[str], str] = lambda _: ""
) -> BuiltContext:
    """Build a text of the pieces, which may be in any order.

    Args:
        pieces: the pieces.
        plan: the settings.
        outline_of: returns an overview made of the file with a URI; "" for none. It is called for
            few files, and only if tokens are left.

    Raises:
        InvalidField: `max_tokens`, `reserve_tokens` or `tokenizer` cannot be used; the error names
            it.
    """
    budget = _budget(plan)
    tokenizer = open_tokenizer(plan.tokenizer)
    style = Style(plan.citation, plan.order, plan.separator)
    ranked = sorted(pieces, key=_rank)
    parts = Parts(ranked)

    too_large = False

    def tokens(shown: list[Part]) -> int:
        nonlocal too_large
        cancellation.check()
        text = assemble(shown, style).text
        if size_of(text) > plan.max_bytes:
            too_large = True
            return budget + 1
        return tokenizer.count(text)

    order = _Steps(parts, tokenizer.count, style, outline_of)
    steps = _Lazy(order.by_level() if plan.levels else order.in_full())
    count = _fitting(steps, budget, lambda n: tokens(_after(steps, n).parts()))
    shown = _after(steps, count)
    _fill(shown, steps, count, lambda added: tokens([*shown.parts(), added]) <= budget)

    least = 0
    if not shown.parts() and not too_large and (first := steps.get(0)):
        least = _least(first.part, lambda part: tokens([part]))
    assembled = assemble(shown.parts(), style)
    dropped = tuple(_dropped(parts, shown))
    return BuiltContext(
        assembled.text,
        assembled.citations(),
        tokenizer.count(assembled.text),
        budget,
        tokenizer.approximate,
        dropped,
        len(pieces) - len(dropped),
        too_large,
        tuple(_places(shown)),
        least,
    )


def _rank(piece: Piece) -> tuple[float | str, ...]:
    """Return a sort key, best first; only pieces with all fields equal have equal keys."""
    return (
        -piece.score,
        piece.uri,
        piece.start,
        piece.end,
        piece.section,
        piece.text,
        piece.abstract,
        piece.overview,
        piece.content is not None,
        piece.content or "",
    )


def _budget(plan: Plan) -> int:
    if plan.max_tokens < 1:
        raise InvalidField("max_tokens", f"is {plan.max_tokens}, must be at least 1")
    if not 0 <= plan.reserve_tokens < plan.max_tokens:
        raise InvalidField(
            "reserve_tokens",
            f"is {plan.reserve_tokens}, must be at least 0 and below max_tokens, {plan.max_tokens}",
        )
    return plan.max_tokens - plan.reserve_tokens


class _Lazy:
    """The steps of an iterator by index; each step is made when it is first asked for."""

    def __init__(self, steps: Iterator[_Step]) -> None:
        self._steps = steps
        self._made: list[_Step] = []

    def get(self, n: int) -> _Step | None:
        while len(self._made) <= n:
            if (step := next(self._steps, None)) is None:
                return None
            self._made.append(step)
        return self._made[n]


def _after(steps: _Lazy, count: int) -> _Shown:
    shown = _Shown({}, [])
    for n in range(count):
        step = steps.get(n)
        assert step is not None
        uri = step.part.piece.uri
        if step.in_full:
            shown.summaries.pop(uri, None)
            shown.full.append(step.part)
        else:
            shown.summaries[uri] = step.part
    return shown


def _fitting(steps: _Lazy, budget: int, tokens: Callable[[int], int]) -> int:
    """Return how many steps fit into a budget of tokens; `tokens(n)` counts the text after n steps.

    The tokens of a text are not the sum of the tokens of its parts. So the sum is only the first
    guess, and the count is then changed by one step at a time. A larger budget never means fewer
    steps.
    """
    count = total = 0
    while (step := steps.get(count)) and total + step.tokens <= budget:
        total += step.tokens
        count += 1
    if tokens(count) > budget:
        return next(fewer for fewer in range(count - 1, -1, -1) if tokens(fewer) <= budget)
    while steps.get(count) and tokens(count + 1) <= budget:
        count += 1
    return count


class _Steps:
    """Makes the list of steps, one by one."""

    def __init__(
        self,
        parts: Parts,
        tokens: Callable[[str], int],
        style: Style,
        outline_of: Callable[[str], str],
    ) -> None:
        self._parts = parts
        self._outline_of = outline_of
        self._remaining = iter(parts)
        self._tokens = tokens
        self._style = style
        self._sources = len({p.uri for p in parts.pieces if not (p.gone or p.is_repeated)})
        # Ends of full passages: a passage that touches one of them has no marker and heading.
        self._edges: defaultdict[Place, set[int]] = defaultdict(set)
        self._spent = {ABSTRACT: 0, OVERVIEW: 0, CONTENT: 0}
        self._summaries: dict[str, tuple[int, int]] = {}  # level and tokens of those shown
        self._waiting: deque[Part] = deque()  # best first; all but the last are of listed sources
        self._without_overview: deque[str] = deque()

    def in_full(self) -> Iterator[_Step]:
        """Yield steps that show every part in full, without summaries."""
        for part in self._remaining:
            yield _Step(part, True, self._cost(part))

    def by_level(self) -> Iterator[_Step]:
        """Yield the steps of the module's rules: abstracts, overviews and full passages."""
        are_listed = False
        while True:
            if not are_listed and (self._wants_abstract() or not self._waiting):
                best = self._next_source()
                if best is None:
                    are_listed = True
                else:
                    yield self._list(best)
                continue
            if uri := self._next_overview():
                yield self._show(self._parts.sources[uri].summary(OVERVIEW), OVERVIEW)
            elif best := self._waiting.popleft() if self._waiting else next(self._remaining, None):
                yield self._show(best, CONTENT)
            else:
                yield from self._outlines()
                return

    def _outlines(self) -> Iterator[_Step]:
        """Yield steps that add overviews, once every passage is shown in full.

        An overview is made of the file of a source that is shown by passages and has none.
        """
        sources = self._parts.sources
        in_part = (
            uri
            for uri, source in sources.items()
            if uri not in self._summaries and not source.overview and source.is_in_part
        )
        for uri in islice(in_part, OUTLINED):
            sources[uri].outline(self._outline_of(uri))
            if sources[uri].overview:
                part = sources[uri].summary(OVERVIEW)
                yield _Step(part, False, self._cost(part))

    def _wants_abstract(self) -> bool:
        total = sum(self._spent.values())
        listed = len(self._parts.sources)
        has_share = self._spent[ABSTRACT] < LISTED_SHARE * total
        return listed < LISTED or (listed < MOST_LISTED and has_share)

    def _next_source(self) -> Part | None:
        """Read parts until one is the first of its source, and return that; None at the end.

        All parts that are read are added to `_waiting`, for the steps that show them in full.
        """
        sources = self._parts.sources
        while len(sources) < self._sources and (part := next(self._remaining, None)):
            self._waiting.append(part)
            if sources[part.piece.uri].first is part:
                return part
        return None

    def _list(self, best: Part) -> _Step:
        """Return the first step of a source, given its best part, which was just read.

        The step shows the abstract, or the part itself if that is not longer.
        """
        source = self._parts.sources[best.piece.uri]
        if len(best.text.strip()) <= len(source.abstract):
            return self._show(self._waiting.pop(), CONTENT)
        if len(source.overview) > len(source.abstract):
            self._without_overview.append(best.piece.uri)
        return self._show(source.summary(ABSTRACT), ABSTRACT)

    def _next_overview(self) -> str | None:
        """Return the URI of the source whose overview comes next; None if a passage comes next."""
        queue = self._without_overview
        while queue and queue[0] not in self._summaries:
            queue.popleft()
        if queue and self._spent[OVERVIEW] < OVERVIEW_SHARE * sum(self._spent.values()):
            return queue.popleft()
        return None

    def _show(self, part: Part, level: int) -> _Step:
        """Return a step that shows a part, and update the tokens spent on each level."""
        uri = part.piece.uri
        old_level, old_tokens = self._summaries.pop(uri, (level, 0))
        tokens = self._cost(part)
        self._spent[old_level] -= old_tokens
        self._spent[level] += tokens
        if level != CONTENT:
            self._summaries[uri] = level, tokens
        return _Step(part, level == CONTENT, tokens - old_tokens)

    def _cost(self, part: Part) -> int:
        """Estimate the tokens of a part."""
        if part.level == CONTENT:
            here = self._edges[part.place]
            first, last = part.segments[0].start, part.segments[-1].end
            joins = not here.isdisjoint((*range(first - 2, first + 1), *range(last, last + 3)))
            here |= {first, last}
            if joins:
                return self._tokens(part.text)
        return self._tokens(assemble([part], self._style).text + self._style.separator)


def _fill(shown: _Shown, steps: _Lazy, count: int, fits: Callable[[Part], bool]) -> None:
    """Fill the tokens that are left with the beginning of one more passage.

    The passage is the next one after the first `count` steps of the selection; a step adds one part
    to the prompt. If the prompt already has the abstract of that file, the beginning replaces it,
    unless the abstract is longer. A very short beginning is not added.
    """
    n = count
    while (step := steps.get(n)) and not (step.in_full or n == 0):
        n += 1
    if step is None:
        return
    uri = step.part.piece.uri
    replaced = shown.summaries.pop(uri, None)
    known = replaced or n == count or any(p.piece.uri == uri for p in shown.full)
    part = step.part
    kept, mark = cut(part.text, lambda *short: fits(part.shortened(*short))) if known else ("", "")
    enough = (
        len(kept) > len(replaced.text)
        if replaced
        else (not shown.full and not shown.summaries) or approximate_tokens(kept) >= MIN_REPEATED
    )
    if kept and enough:
        added = part.shortened(kept, mark)
        if step.in_full:
            shown.full.append(added)
        else:
            shown.summaries[uri] = added
    elif replaced:
        shown.summaries[uri] = replaced


def _least(part: Part, tokens: Callable[[Part], int]) -> int:
    """Return the smallest budget in which `_fill` shows a beginning of a part.

    `cut` tries shorter and shorter beginnings while none fits.
    """
    least = tokens(part)

    def never_fits(kept: str, mark: str) -> bool:
        nonlocal least
        least = min(least, tokens(part.shortened(kept, mark)))
        return False

    cut(part.text, never_fits)
    return least


def _places(shown: _Shown) -> Iterator[tuple[str, int, int]]:
    """Yield (URI, start, end) of the contents that are shown; (URI, 0, 0) for other texts."""
    for part in shown.parts():
        if part.is_placed:
            for segment in part.segments:
                if segment.text != LEFT_OUT:
                    yield part.piece.uri, segment.start, segment.end
        else:
            yield part.piece.uri, 0, 0


def _dropped(parts: Parts, shown: _Shown) -> Iterator[Dropped]:
    """Yield the pieces that are shown neither in full nor by a summary, best first."""
    full = {part.rank for part in shown.full}
    for rank, piece in enumerate(parts.pieces):
        if piece.gone:
            yield Dropped(piece.uri, piece.section, DropReason.GONE)
        elif piece.is_repeated:
            yield Dropped(piece.uri, piece.section, DropReason.DUPLICATE)
        elif rank not in full and piece.uri not in shown.summaries:
            reason = parts.left_out.get(rank, DropReason.BUDGET)
            yield Dropped(piece.uri, piece.section, reason)
