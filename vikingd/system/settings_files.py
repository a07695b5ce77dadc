"""Settings for vikingd in JSON and TOML files of other programs: merged in and removed.

All other settings stay, and a file that cannot be read stays unchanged.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vikingd.system import platform
from vikingd.system.regular_files import read_regular

_ABSENT = object()
_MOST = 64 << 20  # bytes; programs keep their history in their settings


class NotChanged(Exception):
    """A file could not be changed, and is as it was. The message gives the reason."""


class Part(Protocol):
    """Some settings for vikingd in a file of another program.

    All methods raise ValueError if the file's settings have a wrong form. `whole` is the content of
    the file, parsed.
    """

    def put(self, whole: Any) -> None:
        """Write these settings into `whole`, and replace the form that older versions wrote."""

    def take(self, whole: Any) -> None:
        """Remove these settings from `whole`, and the lists and tables that are empty then."""

    def is_in(self, whole: Any) -> bool:
        """Return True if `whole` has any of these settings."""


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change of a file: checked, but not written yet.

    Attributes:
        path: the path of the file, with links resolved, so that a link stays a link.
        before: the present content; None if there is no file.
        after: the new content; None removes the file.
        keeps_copy: True to keep a copy of the old file.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    keeps_copy: bool = True

    @property
    def is_needed(self) -> bool:
        """True if the new content differs from the present one."""
        return self.before != self.after

    def make(self) -> Path | None:
        """Write the file and keep its permissions; return the path of its backup, if one was made.

        Raises:
            NotChanged: the file cannot be written, or another program has written it meanwhile.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            is_kept = self.keeps_copy and self.before is not None
            backup = _copied(self.path) if is_kept else None
            if self.after is not None:
                self._replace(self.after)
            elif self.before is not None:
                self.path.unlink()
        except OSError as error:
            raise NotChanged(f"{self.path} cannot be written: {error.strerror}") from None
        return backup

    def _replace(self, content: bytes) -> None:
        path = self.path
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                platform.sync(file.fileno())
            if self.before is not None:
                shutil.copymode(path, part)
            else:
                os.chmod(part, 0o644 & ~_umask())
            if _content(path) != self.before:
                raise NotChanged(f"{path} changed meanwhile and was not written: try again")
            os.replace(part, path)
        finally:
            Path(part).unlink(missing_ok=True)


def with_parts(path: Path, parts: Sequence[Part]) -> Change:
    """Return the change that merges settings into a file; nothing is written.

    Raises:
        NotChanged: the file cannot be parsed: it is damaged, or is JSON with comments.
    """
    return _change(path, parts, take=False)


def without_parts(path: Path, parts: Sequence[Part]) -> Change:
    """Return the change that removes settings from a file; nothing is written.

    A file without any other settings is removed as a whole.

    Raises:
        NotChanged: as `with_parts`.
    """
    return _change(path, parts, take=True)


def merged(path: Path, text: str, parts: Sequence[Part], *, take: bool = False) -> str:
    """Return the text of a file with settings merged in or removed; `text` if nothing changes.

    Args:
        path: the path of the file; its ending tells JSON from TOML.
        text: the present text of the file; "" if there is none.
        parts: the settings.
        take: remove the settings instead of merging them in.

    Raises:
        NotChanged: as `with_parts`.
    """
    old = _parsed(path, text)
    try:
        if take and not any(part.is_in(old) for part in parts):
            return text
        ours, dump = _editable(path, text)
        for part in parts:
            (part.take if take else part.put)(ours)
        changed = dump(ours)
        new = _parsed(path, changed)
        left = _without(parts, new)
        if any(left.get(key, _ABSENT) != value for key, value in _without(parts, old).items()):
            raise ValueError("a setting would be lost")
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    return text if old == new else changed


def text_with(path: Path, parts: Sequence[Part]) -> str:
    """Return the text of a new file that has these settings only; `path` tells JSON from TOML."""
    ours, dump = _editable(path, "")
    for part in parts:
        part.put(ours)
    return dump(ours)


def whole_file(path: Path, content: bytes | None, mark: bytes) -> Change:
    """Return the change that writes or removes a file that belongs to vikingd alone.

    Args:
        path: the path of the file.
        content: the new content; None removes the file.
        mark: the bytes that each file of vikingd begins with.

    Raises:
        NotChanged: the present file begins otherwise, so that somebody else wrote it.
    """
    path = path.resolve()
    before = _content_to_change(path)
    if before is not None and not before.startswith(mark):
        raise NotChanged(f"{path} was not changed, since vikingd did not write it: move it away")
    return Change(path, before, content, keeps_copy=False)


def is_in(path: Path, part: Part) -> bool:
    """Return True if a file has any of these settings.

    Raises:
        NotChanged: as `with_parts`.
    """
    path = path.resolve()
    whole = _parsed(path, _text(path, _content_to_change(path)))
    try:
        return part.is_in(whole)
    except ValueError as error:
        raise _unreadable(path, error) from None


def table(value: Any, name: str) -> Any:
    """Return the value if it is a table (a dict).

    Raises:
        ValueError: it is not; the message has `name`.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{name or 'the file'} is no {'table' if name else 'object'}")
    return value


class Entry:
    """A `Part` that is one table in a file, such as the entry of an MCP server.

    Other keys in this table, and in tables inside it, stay as they are.
    """

    def __init__(self, place: Sequence[str], value: Mapping[str, Any]) -> None:
        """Declare the entry.

        Args:
            place: the keys that lead to the entry; the last one is its own.
            value: the keys and values to set in the entry.
        """
        self._place, self._value = place, value

    def put(self, whole: Any) -> None:
        """Write the entry into `whole`; see `Part.put`."""
        own = table(whole, "")
        for key in self._place:
            own = table(own.setdefault(key, {}), key)
        for key, value in self._value.items():
            if isinstance(value, Mapping):
                table(own.setdefault(key, {}), key).update(value)
            elif own.get(key) != value:
                own[key] = value

    def take(self, whole: Any) -> None:
        """Remove the entry from `whole`; see `Part.take`."""
        _take(table(whole, ""), self._place)

    def is_in(self, whole: Any) -> bool:
        """Return True if `whole` has the entry."""
        for key in self._place:
            if key not in table(whole, ""):
                return False
            whole = whole[key]
        return True


def _take(whole: Any, place: Sequence[str]) -> None:
    if place[0] in whole:
        if len(place) > 1:
            _take(table(whole[place[0]], place[0]), place[1:])
        if len(place) == 1 or not whole[place[0]]:
            del whole[place[0]]


def _change(path: Path, parts: Sequence[Part], *, take: bool) -> Change:
    path = path.resolve()
    before = _content_to_change(path)
    text = _text(path, before)
    changed = merged(path, text, parts, take=take)
    if changed == text:
        return Change(path, before, before)
    left = changed.encode() if not take or _parsed(path, changed) else None
    return Change(path, before, left)


def _unreadable(path: Path, error: Exception) -> NotChanged:
    return NotChanged(
        f"{path} was not changed, since it cannot be read as it is: {error}. Mend it, or edit it "
        "by hand"
    )


def _without(parts: Sequence[Part], whole: Any) -> Any:
    others = copy.deepcopy(whole)
    for part in parts:
        part.take(others)
    return others


def _parsed(path: Path, text: str) -> Any:
    """Parse the text of a settings file: TOML if its path ends in .toml, else JSON.

    Raises:
        NotChanged: the text cannot be parsed.
    """
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        return json.loads(text, object_pairs_hook=_unique) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None


def _editable(path: Path, text: str) -> tuple[Any, Callable[[Any], str]]:
    """Return (parsed settings that can be changed, function that converts them to text).

    TOML keeps its comments and order.
    """
    if path.suffix == ".toml":
        import tomlkit  # keeps comments and the order; it is an extra
        from tomlkit.exceptions import TOMLKitError

        try:
            return tomlkit.parse(text), tomlkit.dumps
        except TOMLKitError as error:
            raise ValueError(error) from None
    return _parsed(path, text), _written_json


def _written_json(whole: Any) -> str:
    return json.dumps(whole, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert pairs of a JSON object to a dict.

    Raises:
        ValueError: a key occurs twice; one of the values would be lost.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"it has {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return made


def _content(path: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist."""
    return read_regular(path, _MOST) if path.exists() else None


def _content_to_change(path: Path) -> bytes | None:
    """Return the content of a file, None if it does not exist.

    Raises:
        NotChanged: the file cannot be read.
    """
    try:
        return _content(path)
    except OSError as error:
        raise NotChanged(
            f"{path} was not changed, since it cannot be read: {error.strerror}"
        ) from None


def _text(path: Path, content: bytes | None) -> str:
    try:
        return (content or b"").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotChanged(f"{path} was not changed, since it is not UTF-8 text") from None


def _copied(path: Path) -> Path:
    """Copy a file to the first free name of NAME.bak, NAME.bak2, ...; return the new path."""
    number, backup = 1, path.with_name(f"{path.name}.bak")
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.bak{number}")
    shutil.copy2(path, backup)
    return backup


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
