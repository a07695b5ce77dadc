"""Twins: results that say the same in two languages, such as docs/en/x.md and docs/zh/x.md.

Two files are twins if their paths differ only in a language code, their texts are in two scripts,
and their vectors are close.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from viking_kernels.arrays import F32, decode_file, is_file

from vikingd.answer.find_hits import FindHits, Hit, best
from vikingd.answer.texts_by_row import vector_of
from vikingd.domain import uri as uris
from vikingd.domain.text import ARABIC, CYRILLIC, HAN, HANGUL, KANA, LATIN
from vikingd.domain.vector_products import products
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FindPlan, FindScope

_NEAR = 1 / 3
"""The least cosine of twins after centring by the scope. All of 390 pairs of pages have more; of
pages of the same two trees that are no twins, 1% have more."""

_NEAR_BY_PRIOR = 0.4
"""The least cosine after centring by the prior mean, for a language with few vectors."""

_TEXTS = 8
"""The number of first texts of a file whose sum stands for the meaning of the file."""

_CODE = (
    r"(?:(?:en|zh|ja|ko|ru|uk|ar|fa|de|fr|es|pt|it|pl|tr|vi|nl)"
    r"(?:[-_](?:[a-z]{2}|hans|hant))?|cn|jp|kr)"
)
_DIRECTORY = re.compile(_CODE, re.IGNORECASE)
# Matches the file names x.en.md, x_zh-CN.md and README-ja.
_FILE = re.compile(rf"(.+?)[._-]({_CODE})((?:\.[^.]+)?)", re.IGNORECASE | re.DOTALL)
_CODES = {
    LATIN: ("", "en", "en-US"),
    HAN: ("zh", "zh-cn", "zh-CN", "zh_CN", "cn"),
    KANA: ("ja", "ja-JP", "jp"),
    HANGUL: ("ko", "ko-KR", "kr"),
    CYRILLIC: ("ru",),
    ARABIC: ("ar",),
}
"""The language codes of paths, by script, under which the twin of a result is looked up."""


class _Path(NamedTuple):
    """A path without its language code, such as "docs/" and "/x.md" of docs/en/x.md.

    Attributes:
        key: the path without the code; twins have the same key.
        before, after: the parts of the path before and after the code and its separator.
        separator: the character before a code in a file name, such as "." in x.en.md; "" if the
            code is a directory, or if there is no code.
    """

    key: str
    before: str
    separator: str
    after: str
    has_code: bool


def with_twins(plan: FindPlan, found: FindHits) -> FindHits:
    """Return the hits within the limit of the query, with their twins.

    `found` must have at least the FIRST best hits, so that a small limit shows the same first hits
    as a large one. If both twins are hits, the one in the query's script comes first and the other
    directly after it. The first gets the better of both scores, the second the next smaller float.
    """
    scripts = {mean.script for scope in plan.scopes for mean in scope.means}
    limit = plan.query.limit
    if len(scripts & _CODES.keys()) < 2:
        found.hits = found.hits[:limit]
        return found
    snapshot, twins = plan.snapshot, dict[int, int]()
    hits = {hit.row: hit for hit in found.hits}
    same: dict[str, list[Hit]] = {}
    for hit in found.hits:
        if is_file(hit.row):
            same.setdefault(_path(snapshot.uri(hit.row)).key, []).append(hit)
    for group in same.values():
        pair = [one for one in group[1:] if _are_twins(plan, group[0].row, one.row)]
        if not pair:
            continue
        asked, score = _scope(plan, group[0].row).query_script, group[0].score
        pair = sorted((group[0], *pair), key=lambda hit: _script(snapshot, hit.row) != asked)
        twins |= {one.row: pair[0].row for one in pair} | {pair[0].row: pair[1].row}
        for hit in pair:
            hits[hit.row] = hit._replace(score=score)
            score = math.nextafter(score, 0.0)  # ties would be in the order of URIs
    for hit in found.hits:
        if hit.row not in twins and is_file(hit.row):
            _look_up(plan, hit, twins)
    return replace(found, hits=best(snapshot, list(hits.values()), limit), twins=twins)


def _look_up(plan: FindPlan, hit: Hit, twins: dict[int, int]) -> None:
    """Add to `twins` the file in the query's script that is the twin of a hit in another script.

    Nothing is added if the scope has no such file.
    """
    snapshot, scope = plan.snapshot, _scope(plan, hit.row)
    asked = scope.query_script
    if asked not in _CODES or _script(snapshot, hit.row) in (asked, None):
        return
    path = _path(snapshot.uri(hit.row))
    for uri in _others(path, _CODES[asked]):
        row = snapshot.find(uri)
        if row is None or not is_file(row) or row in twins or row == hit.row:
            continue
        if _is_below(scope, uri) and _are_twins(plan, hit.row, row):
            twins[hit.row] = row
            return


def _others(path: _Path, codes: tuple[str, ...]) -> Iterator[str]:
    """Yield the URIs at which a twin may be: the path with each of the language codes.

    For docs/en/x.md and the code zh it is docs/zh/x.md; for x.md they are x.zh.md and x_zh.md.
    """
    before, separator, after, has_code = path[1:]
    for code in codes:
        if has_code and separator:
            yield f"{before}{separator}{code}{after}" if code else f"{before}{after}"
        elif has_code:
            yield f"{before}{code}/{after}" if code else f"{before}{after}"
        elif code:
            yield f"{before}.{code}{after}"
            yield f"{before}_{code}{after}"


@lru_cache(maxsize=1 << 12)
def _path(uri: str) -> _Path:
    above, slash, name = uri.rpartition("/")
    if found := _FILE.fullmatch(name):
        before, after = f"{above}{slash}{found[1]}", found[3]
        return _Path(before + after, before, name[found.end(1)], after, has_code=True)
    parts = above.split("/")
    for i in range(len(parts) - 1, 2, -1):
        if _DIRECTORY.fullmatch(parts[i]):
            before, after = "/".join((*parts[:i], "")), "/".join((*parts[i + 1 :], name))
            return _Path(before + after, before, "", after, has_code=True)
    stem, dot, extension = name.rpartition(".")
    if not stem:
        return _Path(uri, uri, "", "", has_code=False)
    return _Path(uri, f"{above}{slash}{stem}", "", dot + extension, has_code=False)


def _are_twins(plan: FindPlan, one: int, other: int) -> bool:
    """Return True if two files with the same key are in two scripts and have close vectors."""
    scripts = [_script(plan.snapshot, row) for row in (one, other)]
    if None in scripts or scripts[0] == scripts[1]:
        return False
    scopes = _scope(plan, one), _scope(plan, other)
    known = {m.script for m in scopes[0].means if not m.with_prior}
    has_means = scopes[0] is scopes[1] and known.issuperset(scripts)
    centroids = scopes[0].coded.raw if has_means else plan.snapshot.prior
    x, y = _meaning(scopes[0], one, centroids), _meaning(scopes[1], other, centroids)
    if x is None or y is None:
        return False
    dot, xx, yy = products(np.array((x, x, y)), np.array((y, x, y))).tolist()
    least = (_NEAR if has_means else _NEAR_BY_PRIOR) * math.sqrt(xx * yy)
    return bool(dot >= least > 0)


def _meaning(scope: FindScope, row: int, centroids: F32) -> F32 | None:
    """Return the sum [dim] of the first vectors of a file, each less the centroid of its script.

    None if the file has no vector.
    """
    snapshot, script = scope.snapshot, scope.snapshot.tree.texts.script
    total: F32 | None = None
    count = 0
    for text in _texts(snapshot, row):
        vector = vector_of(snapshot, scope.scope, text)
        if vector is None:
            continue
        centred = vector - centroids[script.item(text)]
        total, count = centred if total is None else total + centred, count + 1
        if count == _TEXTS:
            break
    return total


def _script(snapshot: Snapshot, row: int) -> int | None:
    """Return the script of a file's first text; None for a file without texts."""
    files, texts, file = snapshot.tree.files, snapshot.tree.texts, decode_file(row)
    first = -1
    if file < len(files.texts):
        low, high = files.texts.item(file, 0), files.texts.item(file, 1)
        if low < high and texts.tombstoned.item(low) > snapshot.revision:
            first = low
    if first < 0:
        first = next(_texts(snapshot, row), -1)
    return None if first < 0 else texts.script.item(first)


def _texts(snapshot: Snapshot, row: int) -> Iterator[int]:
    """Yield the texts of a file that are not removed, in the order that a compaction gives them."""
    files, texts, file = snapshot.tree.files, snapshot.tree.texts, decode_file(row)
    died, rows, base = texts.tombstoned, len(texts.tombstoned), snapshot.base.sizes.texts
    if file < len(files.texts):
        for text in range(*files.texts[file].tolist()):
            if died.item(text) > snapshot.revision:
                yield text
    later: list[int] = []
    text = files.newest.item(file)
    while text >= 0:
        if text < rows and died.item(text) > snapshot.revision:
            later.append(text)
        text = texts.older.item(text - base)
    yield from reversed(later)


def _scope(plan: FindPlan, row: int) -> FindScope:
    """Return the scope of the plan that a hit is in."""
    if len(plan.scopes) == 1:
        return plan.scopes[0]
    uri = plan.snapshot.uri(row)
    return next((one for one in plan.scopes if _is_below(one, uri)), plan.scopes[0])


def _is_below(scope: FindScope, uri: str) -> bool:
    return uris.is_within(uri, scope.query.target_uri)
