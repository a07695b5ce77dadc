"""Values of front matter as JSON that can be stored, with a note for each value that is lost."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vikingd.domain.errors import InvalidField
from vikingd.domain.text import one_line
from vikingd.ingest.limits import MAX_EXACT, MAX_METADATA_BYTES, check_metadata

_MAX_NAME = 64  # characters of a key in a note
_MAX_REASON = 200  # characters: a reason may quote a text of thousands
_MAX_DIGITS = 32  # of a number that may be exact; Python refuses to read thousands of digits

# Numbers of YAML 1.2. One with a leading zero is an identifier, such as the code of a town.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
# A number with a fraction or an exponent: "1.5", ".5", "2e10", but not "1".
_FLOAT = re.compile(
    r"[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|(?:0|[1-9][0-9]*)[eE][-+]?[0-9]+)"
)
_NOT_FINITE = re.compile(
    r"[-+]?(?:\.(?:inf|Inf|INF)|inf|Infinity)|[-+]?(?:\.(?:nan|NaN|NAN)|nan|NaN)"
)
_QUOTATION = re.compile(r"""(["'])(?:(?!\1).)*(?<=\S)\1(?=[\s,.:;!?])""")  # at a text's beginning


class FrontValues(NamedTuple):
    """The values of a block of front matter.

    Attributes:
        values: JSON values by their names; None if the block is no front matter.
        written: by the name of a top-level value, its text as it is written, if the value does not
            have it: "1.50" for the number 1.5.
        notes: "NAME: REASON" for each value that is lost, or that became a string although it
            looks like another type.
        reason: why the block is no front matter; "" if it is just prose or a list.
    """

    values: dict[str, Any] | None
    written: Mapping[str, str]
    notes: tuple[str, ...] = ()
    reason: str = ""


NO_VALUES = FrontValues(None, {})


class Notes(list[str]):
    """Notes on values that are lost or changed, each as "NAME: REASON"."""

    def add(self, name: str, reason: str) -> None:
        """Add a note on a value."""
        shown = one_line(name.encode(errors="backslashreplace").decode())
        self.append(f"{shown[:_MAX_NAME]}: {one_line(reason)[:_MAX_REASON]}")

    def twice(self, name: str) -> None:
        """Add a note on a key that occurs twice."""
        self.add(name, "stands twice; the last one is taken")

    def as_text(self, name: str, reason: str) -> None:
        """Add a note on a value that is taken as text."""
        self.add(name, f"is taken as text: {reason}")


def number(text: str) -> int | float | None:
    """Convert a text to a number by the rules of YAML 1.2; None if the text is not a number.

    Raises:
        OverflowError: the store would round the number, or JSON cannot write it (`.inf`, `.nan`).
    """
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise OverflowError("it has too many digits for a number")
        value: int | float = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    elif _FLOAT.fullmatch(text):
        value = float(text)
    elif _NOT_FINITE.fullmatch(text):
        raise OverflowError("JSON does not have this number")
    else:
        return None
    if not math.isfinite(value) or abs(value) > MAX_EXACT:
        raise OverflowError("numbers of magnitude 2^53 or more are rounded")
    return value


def number_or_text(text: str) -> int | float | str:
    """Return the number that a text is in TOML or JSON; the text if the store would round it."""
    try:
        value = number(text.replace("_", ""))
    except OverflowError:
        return text
    return text if value is None else value


def unquoted(text: str) -> str:
    """Return a text without the quotation marks around it.

    An opening mark that is never closed is removed too.
    """
    mark = text[:1]
    if mark not in ("'", '"') or len(text) < 2:
        return text
    inner = text[1:]
    if mark not in inner:
        return inner
    return inner[:-1] if inner.endswith(mark) and not _QUOTATION.match(text) else text


def is_storable(text: str) -> bool:
    """Return True for a text without NUL and without unpaired surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def storable(values: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """Return the values that can be stored, and add a note for each other one."""
    try:
        check_metadata(values, "metadata")
    except InvalidField:
        pass
    else:
        return values
    kept: dict[str, Any] = {}
    room = MAX_METADATA_BYTES - 2
    for key, value in values.items():
        try:
            check_metadata({key: value}, "")
        except InvalidField as error:
            notes.add(key, f"is left out: {error}")
            continue
        size = len(json.dumps({key: value}, ensure_ascii=False).encode())
        if size > room:
            notes.add(key, f"is left out: all values have at most {MAX_METADATA_BYTES:,} bytes")
            continue
        room -= size
        kept[key] = value
    return kept
