"""TOML of front matter, read so that an invalid value does not affect the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time
from typing import Any

from vikingd.domain.text import join_lines, one_line
from vikingd.ingest.json_values import (
    NO_VALUES,
    FrontValues,
    Notes,
    number_or_text,
    storable,
    unquoted,
)
from vikingd.ingest.limits import MAX_EXACT

_HEADER = re.compile(r"[ \t]*\[{1,2}[^\[\]=]+\]{1,2}[ \t]*(?:#.*)?")
_KEY = re.compile(r"""[ \t]*(?P<key>[\w.-]+|"[^"\n]+"|'[^'\n]+')[ \t]*=(?P<value>.*)""")


def read_toml(block: str) -> FrontValues:
    """Return the values of a block of TOML."""
    notes = Notes()
    try:
        values = _parsed(block)
    except Exception as error:  # RecursionError, and ValueError for thousands of digits
        repaired = _repaired(block.splitlines(), notes)
        if repaired is None:
            return NO_VALUES._replace(reason=one_line(str(error)))
        values = repaired
    return FrontValues(storable(_json(values, notes, ""), notes), {}, tuple(notes))


def _parsed(text: str) -> dict[str, Any]:
    import tomllib  # few files need it

    return tomllib.loads(text.replace("\r\n", "\n") + "\n", parse_float=number_or_text)


def _repaired(lines: list[str], notes: Notes) -> dict[str, Any] | None:
    """Read each key with its value separately; None if there is no key."""
    values: dict[str, Any] = {}
    place = values
    pairs: list[tuple[dict[str, Any], re.Match[str], list[str]]] = []
    for line in lines:
        if _HEADER.fullmatch(line):
            try:
                place = _table(values, _parsed(line))
            except ValueError as error:
                notes.add(line, f"is left out: {error}")
                place = {}
        elif match := _KEY.match(line):
            pairs.append((place, match, [line]))
        elif pairs:
            pairs[-1][2].append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            return None
    for place, match, text in pairs:
        key = unquoted(match["key"])
        try:
            found = _parsed("\n".join(text))
        except Exception as error:
            found = {key: unquoted(join_lines((match["value"], *text[1:])))}
            if match["value"].lstrip()[:1] in ("'", '"', "[", "{"):
                notes.as_text(key, str(error))
        for name in found:
            if name in place and not isinstance(place[name], dict):
                notes.twice(name)
        _merge(place, found)
    return values if pairs else None


def _table(values: dict[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of `values` that a header opens; create it if needed.

    `shape` is the header, parsed: {"a": {"b": {}}} for `[a.b]`, {"a": [{}]} for `[[a]]`.

    Raises:
        ValueError: a key of the header is no table.
    """
    place = values
    while shape:
        ((key, below),) = shape.items()
        if isinstance(below, list):
            rows = place.setdefault(key, [])
            if not isinstance(rows, list):
                raise ValueError(f"{key} is no list of tables")
            rows.append({})
            return rows[-1]  # type: ignore[no-any-return]
        place = place.setdefault(key, {})
        if isinstance(place, list) and place:
            place = place[-1]
        if not isinstance(place, dict):
            raise ValueError(f"{key} is no table")
        shape = below
    return place


def _merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value


def _json(value: Any, notes: Notes, name: str) -> Any:
    if isinstance(value, dict):
        above = f"{name}." if name else ""
        return {key: _json(one, notes, f"{above}{key}") for key, one in value.items()}
    if isinstance(value, list):
        return [_json(one, notes, f"{name}[{i}]") for i, one in enumerate(value)]
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        notes.as_text(name, "numbers of magnitude 2^53 or more are rounded")
        return str(value)
    return value
