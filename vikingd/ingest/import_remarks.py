"""The remarks of an import: files that are left out, changed or not read, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file, a line or a part of a file that is not imported: a printable path and the reason.

    `uri` is the URI that the file or line would have; "" if no URI is possible.
    """

    path: str
    reason: str
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A text file or HTML page whose encoding is not certain.

    A byte order mark, a label in the file and valid UTF-8 make an encoding certain.

    Attributes:
        path: a printable path.
        encoding: the name of the encoding that it was read in.
        how: "assumed" if the caller named it, else "detected".
        uri: the URI of the file.
    """

    path: str
    encoding: str
    how: str
    uri: str = ""


@dataclass(frozen=True, slots=True)
class SecretLeftOut:
    """A secret that an import replaces by a marker.

    Attributes:
        path: the printable path of its file.
        line: the line on which it begins, from 1; in a document, the line of its Markdown.
        kind: its kind, such as "GitHub token".
        uri: the URI of the file.
    """

    path: str
    line: int
    kind: str
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A file or directory whose name is not in NFC (a Unicode form), so that its URI differs."""

    path: str
    uri: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or directory that a rule leaves out of an import, or the rest of a file that is cut.

    Attributes:
        path: a printable path. The path of a directory ends in "/"; nothing in it is read.
        rule: the file and line of a pattern, such as "docs/.gitignore:3", or "hidden", "include",
            "exclude", "max_file_size", "always left out", "secrets" or a rule of `unread_files`.
        pattern: the pattern, or the kind of the secrets; "" for other rules.
        uri: the URI that it would have; "" if no URI is possible.
        size: the bytes that are left out, if they are the reason.
    """

    path: str
    rule: str
    pattern: str = ""
    uri: str = ""
    size: int = 0


MANY = 1000
"""The number of passages above which the report of an import names a file."""


@dataclass(frozen=True, slots=True)
class ManyPassages:
    """A file that was cut into more than MANY passages. Nothing is lost, but the embedding is slow.

    Attributes:
        path: a printable path.
        passages: their number.
        lines: number of lines of its content.
        size: bytes of its content.
        uri: the URI of the file.
    """

    path: str
    passages: int
    lines: int
    size: int
    uri: str = ""


Remark: TypeAlias = LeftOut | Renamed | Assumed | SecretLeftOut | ManyPassages
"""The remarks of a report on files that were left out or changed."""
