"""Does an import keep the words of files that other programs made?

`python -m benchmarks.files DIR` reads the files of a directory as `vikingctl import` does. With
`--peers OUT` it compares their words with the texts that `file_peers.py` has written for other
converters. README.md explains the columns.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from vikingd.domain.contexts import Draft
from vikingd.ingest.files import find_files, read_files
from vikingd.ingest.selected_files import Selection

OURS = "vikingd"
ROOT = "viking://resources/files"
_INSIDE = 5  # letters of a word that may stand inside of another one
_SHOWN = 12  # missing words that are shown of a file
# Scripts without spaces between words: their words are pairs of characters.
_UNSPACED = "\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_MARKS = "\u0300-\u036f\u0900-\u0963\u0980-\u0dff"
_WORD = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}](?:[^\\W_{_UNSPACED}]|[{_MARKS}])*")
_NO_TEXT = re.compile(
    r"\]\([^)\s]*(?:\s+\"[^\"]*\")?\)|data:[\w/;+-]*,[\w+/=]+|<!--.*?-->|https?://\S+", re.DOTALL
)
# Invisible characters, and optional marks of Arabic and Hebrew.
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u2060\ufeff\u202a-\u202e\u0640\u064b-\u0652\u0591-\u05bd\u05bf-\u05c7\\\\]"
)
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")


class Text(NamedTuple):
    """The distinct words of a text, and all its letters and digits in a row."""

    words: frozenset[str]
    letters: str

    def has(self, word: str) -> bool:
        """Return True for a word of the text; a longer one may be joined to others."""
        return word in self.words or (len(word) >= _INSIDE and word in self.letters)


@dataclass(slots=True)
class Sums:
    """The figures of a format.

    Attributes:
        files: number of files.
        languages: their languages.
        all: words that at least one converter keeps.
        kept: of these the number that each converter keeps.
        failed: the number of files that each converter does not read.
        missing: words that a peer keeps, and vikingd does not.
    """

    files: int = 0
    languages: set[str] = field(default_factory=set)
    all: int = 0
    kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    failed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    missing: int = 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.files", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="files, without directories")
    parser.add_argument("--peers", type=Path, metavar="OUT", help="texts of other converters")
    parser.add_argument("--languages", type=Path, metavar="FILE", help="file and language, by tabs")
    parser.add_argument("--worst", type=int, default=10, metavar="N", help="files that are listed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the lost words to a file")
    given = parser.parse_args(arguments)
    texts, told = _ours(given.directory)
    names = sorted(path.name for path in given.directory.iterdir() if path.is_file())
    converters = {OURS: texts}
    for peer in sorted(given.peers.iterdir()) if given.peers else ():
        if peer.is_dir():
            converters[peer.name] = _texts(peer)
    languages = _languages(given.languages) if given.languages else {}
    sums: dict[str, Sums] = defaultdict(Sums)
    missing = {name: _add(sums[_ending(name)], name, converters, languages) for name in names}
    print("\n".join(_table(sums, list(converters))))
    worst = sorted(names, key=lambda name: -len(missing[name]))[: given.worst]
    for name in worst:
        if lost := missing[name]:
            step = max(1, len(lost) // _SHOWN)
            print(f"\n{name}: {len(lost):,} words: {' '.join(lost[::step][:_SHOWN])}")
            print("".join(f"  {reason}\n" for reason in told.get(name, ())), end="")
    if given.json:
        rows = [{"file": n, "missing": missing[n], "told": told.get(n, [])} for n in names]
        given.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return 0


def words(text: str) -> Text:
    """Return the words of a Markdown text, without the targets of its links."""
    plain = _NO_TEXT.sub(" ", html.unescape(text))
    plain = unicodedata.normalize("NFKC", plain).casefold()
    plain = _GROUPED.sub("", _INVISIBLE.sub("", plain))
    found = frozenset(word for run in _WORD.findall(plain) for word in _split(run))
    return Text(found, "".join(_WORD.findall(plain)))


def _split(run: str) -> Iterator[str]:
    """Yield a word, or the pairs of characters of a text without spaces."""
    if re.match(f"[{_UNSPACED}]", run) and len(run) > 2:
        yield from map("".join, pairwise(run))
    else:
        yield run


def _ours(directory: Path) -> tuple[dict[str, Text], dict[str, list[str]]]:
    """Return the words of each file that an import reads, and its remarks on each file."""
    tree = find_files(directory, ROOT, Selection(no_ignore=True))
    names = {tree.uri_of(path.name): path.name for path in directory.iterdir()}
    texts: dict[str, Text] = {}
    told: dict[str, list[str]] = defaultdict(list)
    for item in read_files(tree):
        if isinstance(item, Draft):
            if name := names.get(item.uri):
                texts[name] = words(item.content or "")
        elif name := names.get(getattr(item, "uri", "")):
            told[name].append(str(getattr(item, "reason", type(item).__name__)))
    return texts, told


def _texts(directory: Path) -> dict[str, Text]:
    return {
        path.name.removesuffix(".md"): words(path.read_text("utf-8", errors="replace"))
        for path in directory.iterdir()
    }


def _languages(file: Path) -> dict[str, str]:
    lines = file.read_text("utf-8").splitlines()
    return dict(line.split("\t")[:2] for line in lines if "\t" in line)


def _ending(name: str) -> str:
    return Path(name).suffix.lower().removeprefix(".")


def _add(
    sums: Sums, name: str, converters: Mapping[str, Mapping[str, Text]], languages: dict[str, str]
) -> list[str]:
    """Add a file to the figures of its format; return the words that only peers keep."""
    texts = {converter: found[name] for converter, found in converters.items() if name in found}
    every = frozenset[str]().union(*(text.words for text in texts.values()))
    sums.files += 1
    sums.languages |= {languages[name]} if name in languages else set()
    sums.all += len(every)
    for converter in converters:
        if converter in texts:
            sums.kept[converter] += sum(map(texts[converter].has, every))
        else:
            sums.failed[converter] += 1
    ours = texts.get(OURS, Text(frozenset(), ""))
    missing = sorted(word for word in every if not ours.has(word))
    sums.missing += len(missing)
    return missing


def _table(sums: Mapping[str, Sums], converters: list[str]) -> Iterator[str]:
    """Yield the lines of a Markdown table with a row for each format."""
    kept = " | ".join(converters)
    failed = ", ".join(converters)
    yield f"| format | files | languages | words | {kept} | failed: {failed} | missing |"
    yield f"|{' --- |' * (6 + len(converters))}"
    for ending, one in sorted(sums.items()):
        shares = " | ".join(f"{one.kept[name] / max(1, one.all):.3f}" for name in converters)
        faults = ", ".join(str(one.failed[name]) for name in converters)
        yield (
            f"| {ending} | {one.files} | {len(one.languages)} | {one.all:,} | {shares} "
            f"| {faults} | {one.missing:,} |"
        )


if __name__ == "__main__":
    raise SystemExit(main())
