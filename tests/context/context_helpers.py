"""Helpers of the context tests: pieces, plans and their strategies."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.tiers import examples
from vikingd.context.deduplicated_parts import Piece
from vikingd.context.prompt_context import BuiltContext, Plan, build
from vikingd.domain.prompt_options import CitationStyle, ContextOrder

some = examples(60)

A, B, C = "viking://resources/a.md", "viking://resources/b.md", "viking://user/memories/c.md"
FOX = "The quick brown fox jumps over the lazy dog beside the river."
CAT = "A grey cat sleeps on the warm stones of the old harbour wall."
OWL = "Every night the owl watches the mill from the tallest poplar tree."
IMPORT = "每次导入只会触及内容有变化的那些文件。"
RUNS = "daemon 停止之前会完成正在进行的请求。"

ATOMS = [
    FOX,
    CAT,
    OWL,
    IMPORT,
    RUNS,
    "Short one.",
    "🎉👨‍👩‍👧‍👦",
    "e\u0301\u0302",
    "ab" * 80,
    "```python\ndef f(x):\n    return x\n```",
    "    code = 1\n    more = 2",
    "中" * 50,
    "- item one.\n- item two.",
    "<|endoftext|>",
    "{[(;)]}",
    "\u3000",
    "\t",
    "한국어 문장입니다.",
    "[1]",
    "…",
]
spaces = st.sampled_from([" ", "", "\n", "\n\n"])
atoms = st.tuples(st.sampled_from(ATOMS) | st.text(max_size=8), spaces).map("".join)
texts = st.lists(atoms, max_size=12).map("".join)
scores = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@st.composite
def files(draw: st.DrawFn) -> list[Piece]:
    """Draw the pieces of a file: ranges, which may overlap, or the whole file."""
    uri = f"viking://resources/{draw(st.sampled_from('abcdef'))}.md"
    content = draw(texts)
    shown = content if draw(st.booleans()) else None
    abstract, overview = draw(texts), draw(texts)
    pieces = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, len(content)))
        section = draw(st.sampled_from(["", "Guide", "Guide > Set up", "指南"]))
        said = (section, content[start:end], start, end, abstract, overview, shown)
        pieces.append(Piece(uri, draw(scores), *said))
    return pieces


retrieved = st.lists(files(), max_size=6).map(lambda found: [p for f in found for p in f])
plans = st.builds(
    Plan,
    max_tokens=st.integers(1, 40) | st.integers(1, 600),
    tokenizer=st.sampled_from(["o200k_base", "cl100k_base", "qwen3", "llama3", "approx"]),
    citation=st.sampled_from(CitationStyle),
    separator=st.sampled_from(["\n\n", "", "\n---\n", " ", "<|endoftext|>"]),
    order=st.sampled_from(ContextOrder),
    levels=st.booleans(),
)


def piece(uri: str, score: float, text: str = "", start: int | None = None, **more: str) -> Piece:
    """Return a piece, at a known place if `start` is given."""
    end = 0 if start is None else start + len(text)
    return Piece(uri, score, text=text, start=start or 0, end=end, **more)


def bodies(built: BuiltContext) -> list[str]:
    """Return the cited texts."""
    return [built.text[c.start : c.end] for c in built.citations]


def levels(built: BuiltContext) -> dict[str, int]:
    """Return the best level at which each source is shown."""
    best: dict[str, int] = {}
    for c in built.citations:
        best[c.uri] = max(c.level, best.get(c.uri, 0))
    return best


def plain(pieces: Sequence[Piece], **more: object) -> BuiltContext:
    """Return the context built with ample room, without levels and citations."""
    return build(pieces, Plan(100_000, levels=False, citation=CitationStyle.NONE, **more))  # type: ignore[arg-type]
