"""Builds the text of a context: what fits of the best pieces, cited, within a budget of tokens.

Which pieces stand in it, and how fully, is decided by one list of steps. A step shows one more
source by its abstract (L0), or puts its overview (L1) or a passage in full (L2) in that one's
place. The steps and their order depend on the pieces and the tokenizer, never on the budget: a
larger budget goes further down the same list, so it shows every source that a smaller one shows,
and none of them less fully.

- First come the abstracts of the LISTED best sources. From then on the next step shows another
  abstract while abstracts are less than LISTED_SHARE of the tokens so far, else the next overview
  while these are less than OVERVIEW_SHARE, else the best passage that is not in full yet.
- A source is never shown before one that is ranked better; one whose passage is no longer than its
  abstract is shown in full at once.
- The first step that does not fit ends the list. The passage that is next in line takes the room
  that is left, cut, if that shows more than the abstract in its place.
- Without levels each step is a passage in full.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vikingd.context.assemble import Citation, Cited, Order, Style, assemble
from vikingd.context.cut import cut
from vikingd.context.parts import (
    ABSTRACT,
    CONTENT,
    MIN_REPEATED,
    OVERVIEW,
    Part,
    Parts,
    Piece,
    Place,
)
from vikingd.context.tokenizers import DEFAULT, open_tokenizer
from vikingd.domain import pace
from vikingd.domain.errors import InvalidField
from vikingd.domain.query import DropReason
from vikingd.domain.reply_budget import UNBOUNDED, size_of
from vikingd.domain.text import approximate_tokens

LISTED = 5
"""Sources that are named before any is shown more fully."""

LISTED_SHARE = 0.25
"""Of the tokens, for abstracts, as long as there are further sources."""

OVERVIEW_SHARE = 0.25
"""Of the tokens, for overviews, as long as there are any."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be built.

    Attributes:
        max_tokens: of the model's window, for the context and what is reserved.
        reserve_tokens: kept free of it, for the question and the answer.
        tokenizer: one of vikingd.context.tokenizers.names().
        separator: stands between two passages.
        levels: abstracts and overviews stand for what does not fit in full.
        max_bytes: that the text may have in UTF-8; it ends there as at the end of the tokens.
    """

    max_tokens: int
    reserve_tokens: int = 0
    tokenizer: str = DEFAULT
    citation: Citation = Citation.NUMBERED
    separator: str = "\n\n"
    order: Order = Order.SCORE
    levels: bool = True
    max_bytes: int = UNBOUNDED


@dataclass(frozen=True, slots=True)
class Dropped:
    """A piece of which neither itself nor a summary of its source stands in the context.

    It says what a better one says (DUPLICATE), has no text (EMPTY), it or one before it did not fit
    (BUDGET), or there is no such thing (GONE).
    """

    uri: str
    section: str
    reason: DropReason


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """A context and what became of the pieces.

    Attributes:
        citations: in the order of the text.
        used_tokens: of the whole text, by the plan's tokenizer; never more than `budget`.
        approximate: whether they are an estimate.
        dropped: best first.
        from_items: how many pieces stand in the text, themselves or by a summary.
        is_cut: whether it ends where it does for its bytes, not for its tokens.
    """

    text: str
    citations: tuple[Cited, ...]
    used_tokens: int
    budget: int
    approximate: bool
    dropped: tuple[Dropped, ...]
    from_items: int
    is_cut: bool = False


class _Step(NamedTuple):
    """A part that is shown from here on, in the place of its source's summary if there is one.

    `tokens` is about what the text grows by.
    """

    part: Part
    in_full: bool
    tokens: int


@dataclass(slots=True)
class _Shown:
    """What some first steps show."""

    summaries: dict[str, Part]
    full: list[Part]

    def parts(self) -> list[Part]:
        return [*self.full, *self.summaries.values()]


def build(pieces: Sequence[Piece], plan: Plan) -> BuiltContext:
    """Builds a context of the pieces; the order that they come in does not matter.

    Raises:
        InvalidField: naming `max_tokens`, `reserve_tokens` or `tokenizer`.
    """
    budget = _budget(plan)
    tokenizer = open_tokenizer(plan.tokenizer)
    style = Style(plan.citation, plan.order, plan.separator)
    ranked = sorted(pieces, key=_rank)
    parts = Parts(ranked)

    too_large = False

    def tokens(shown: list[Part]) -> int:
        nonlocal too_large
        pace.step()
        text = assemble(shown, style)[0]
        if size_of(text) > plan.max_bytes:
            too_large = True
            return budget + 1
        return tokenizer.count(text)

    steps = _Lazy(_steps(parts, plan.levels, tokenizer.count, style))
    count = _fitting(steps, budget, lambda n: tokens(_after(steps, n).parts()))
    shown = _after(steps, count)
    _fill(shown, steps, count, lambda added: tokens([*shown.parts(), added]) <= budget)

    text, citations = assemble(shown.parts(), style)
    dropped = tuple(_dropped(parts, shown))
    return BuiltContext(
        text,
        citations,
        tokenizer.count(text),
        budget,
        tokenizer.approximate,
        dropped,
        len(pieces) - len(dropped),
        too_large,
    )


def _rank(piece: Piece) -> tuple[float | str, ...]:
    """Best first; what differs in anything has an order."""
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
            f"is {plan.reserve_tokens}, must be from 0 to below max_tokens, {plan.max_tokens}",
        )
    return plan.max_tokens - plan.reserve_tokens


class _Lazy:
    """An iterator's elements by number, made when they are first asked for."""

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
    """How many steps fit; `tokens` counts the whole text after so many.

    The tokens of a text are not the sum of those of its parts. The sum is only where to look
    first, and from there it goes one step at a time: so more budget never means fewer steps.
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


def _steps(
    parts: Parts, levels: bool, tokens: Callable[[str], int], style: Style
) -> Iterator[_Step]:
    remaining = iter(parts)
    # Where passages in full begin and end: what touches them goes without marker and heading.
    edges: defaultdict[Place, set[int]] = defaultdict(set)

    def cost(part: Part) -> int:
        if part.level != CONTENT:
            return tokens(assemble([part], style)[0] + style.separator)
        here = edges[part.place]
        first, last = part.segments[0].start, part.segments[-1].end
        joins = not here.isdisjoint((*range(first - 2, first + 1), *range(last, last + 3)))
        here |= {first, last}
        return tokens(part.text if joins else assemble([part], style)[0] + style.separator)

    if not levels:
        for part in remaining:
            yield _Step(part, True, cost(part))
        return

    uris = len({piece.uri for piece in parts.pieces if not piece.gone})
    spent = [0, 0, 0]
    standing: dict[str, tuple[int, int]] = {}  # level and tokens of each summary
    unlisted = True
    waiting: deque[Part] = deque()  # best first; of sources that are listed, but for the last
    without_overview: deque[str] = deque()

    def show(part: Part, level: int) -> _Step:
        uri = part.piece.uri
        old_level, old = standing.pop(uri, (level, 0))
        new = cost(part)
        spent[old_level] -= old
        spent[level] += new
        if level != CONTENT:
            standing[uri] = level, new
        return _Step(part, level == CONTENT, new - old)

    def next_source() -> Part | None:
        while len(parts.sources) < uris and (part := next(remaining, None)):
            waiting.append(part)
            if parts.sources[part.piece.uri].first is part:
                return part
        return None

    while True:
        more = len(parts.sources) < LISTED or spent[ABSTRACT] < LISTED_SHARE * sum(spent)
        if unlisted and (more or not waiting):
            best = next_source()
            unlisted = best is not None
            if best is None:
                continue
            source = parts.sources[best.piece.uri]
            if len(best.text.strip()) <= len(source.abstract):
                yield show(waiting.pop(), CONTENT)
            else:
                yield show(source.summary(ABSTRACT), ABSTRACT)
                if len(source.overview) > len(source.abstract):
                    without_overview.append(best.piece.uri)
            continue
        while without_overview and without_overview[0] not in standing:
            without_overview.popleft()
        if without_overview and spent[OVERVIEW] < OVERVIEW_SHARE * sum(spent):
            source = parts.sources[without_overview.popleft()]
            yield show(source.summary(OVERVIEW), OVERVIEW)
        elif best := waiting.popleft() if waiting else next(remaining, None):
            yield show(best, CONTENT)
        else:
            return


def _fill(shown: _Shown, steps: _Lazy, count: int, fits: Callable[[Part], bool]) -> None:
    """Shows as much as fits of the next passage in line."""
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


def _dropped(parts: Parts, shown: _Shown) -> Iterator[Dropped]:
    """What stands in the context neither in full nor by a summary, best first."""
    full = {part.rank for part in shown.full}
    for rank, piece in enumerate(parts.pieces):
        if piece.gone:
            yield Dropped(piece.uri, piece.section, DropReason.GONE)
        elif rank not in full and piece.uri not in shown.summaries:
            reason = parts.left_out.get(rank, DropReason.BUDGET)
            yield Dropped(piece.uri, piece.section, reason)
