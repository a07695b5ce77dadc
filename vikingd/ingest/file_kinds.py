"""Kinds of files: source, test, documentation and others, by path and first kilobytes.

Source of the rules for vendored, generated and documentation paths: GitHub's linguist. The rules
for tests are the conventions of the test runners of each language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from vikingd.ingest.file_kind_names import (
    CODE,
    CONFIGURATION,
    CONFIGURATION_DIRECTORIES,
    CONFIGURATION_NAME,
    DATA,
    DATA_DIRECTORIES,
    DOCUMENT,
    DOCUMENTATION_DIRECTORIES,
    DOCUMENTATION_NAME,
    EXAMPLE_DIRECTORIES,
    EXAMPLE_NAME,
    GENERATED_DIRECTORIES,
    GENERATED_NAME,
    LICENCE_DIRECTORIES,
    LICENCE_NAME,
    NAMESPACES,
    OUTPUT_DIRECTORIES,
    PAGE_DIRECTORIES,
    PROSE,
    SOURCE_DIRECTORIES,
    TEMPLATE_DIRECTORIES,
    TEST_DIRECTORIES,
    TEST_DIRECTORY,
    TEST_NAME,
    TYPESET,
    VENDORED_DIRECTORIES,
    VENDORED_NAME,
    VENDORED_NEAR_THE_TOP,
    is_sql_dump,
)
from vikingd.ingest.git_attributes import GitAttributes

_COMPLETIONS = frozenset({"completion", "completions", "shell-completion", "shell-completions"})
_SHELL = frozenset({"", ".bash", ".elv", ".fish", ".nu", ".ps1", ".sh", ".zsh"})

KEY = "kind"
"""The key of the kind in the metadata of a context."""

_BEGINNING = 8_192  # characters
_HEADER_LINES = 60
_MINIFIED = 400  # characters of a line, on the average

_T = TypeVar("_T")


class FileKind(StrEnum):
    """The purpose of a file in its tree."""

    SOURCE = "source"
    TEST = "test"
    DOCUMENTATION = "documentation"
    EXAMPLE = "example"
    CONFIGURATION = "configuration"
    DATA = "data"
    GENERATED = "generated"
    VENDORED = "vendored"
    LICENCE = "licence"


def file_kind(path: str, beginning: str = "", attributes: GitAttributes | None = None) -> FileKind:
    """Return the kind of a file.

    Args:
        path: its path from the top of a tree, with "/" between names. The name of the top
            directory may stand before it.
        beginning: the first kilobytes of its text, for a header that says that it is generated.
        attributes: the .gitattributes files of the tree. They decide before all rules.
    """
    above, _, name = path.rpartition("/")
    directories = above.lower().split("/") if above else []
    stated = _stated(path, attributes)
    if any(stated.values()):
        return next(kind for kind, value in stated.items() if value)
    suffix = _suffix(name)
    if FileKind.VENDORED not in stated and _is_vendored(directories, name):
        return FileKind.VENDORED
    is_prose = suffix in PROSE or suffix in DOCUMENT
    if FileKind.GENERATED not in stated and _is_generated(
        directories, name, suffix, "" if is_prose and not CONFIGURATION_NAME(name) else beginning
    ):
        return FileKind.GENERATED
    if _is_licence(directories, name, suffix):
        return FileKind.LICENCE
    if DOCUMENTATION_NAME(name) and suffix not in CODE:
        return FileKind.DOCUMENTATION
    is_in_docs = FileKind.DOCUMENTATION not in stated and not DOCUMENTATION_DIRECTORIES.isdisjoint(
        directories
    )
    if not (is_in_docs and is_prose) and _is_test(above, directories, name, suffix):
        return FileKind.TEST
    return _of_purpose(path, directories, name, beginning, is_in_docs=is_in_docs)


def without_derived_kind(metadata: Mapping[str, _T], path: str) -> dict[str, _T]:
    """Return metadata without `kind` if an import would derive the same kind from the path."""
    derived = file_kind(path).value
    return {key: value for key, value in metadata.items() if key != KEY or value != derived}


def _is_completion(directories: list[str], suffix: str, beginning: str) -> bool:
    """Return True for a shell script that completes the options of a command."""
    if beginning.startswith("#compdef"):
        return True
    return suffix in _SHELL and not _COMPLETIONS.isdisjoint(directories)


def _of_purpose(
    path: str, directories: list[str], name: str, beginning: str, *, is_in_docs: bool
) -> FileKind:
    """Return the kind of a file that is neither vendored, generated nor a test."""
    suffix = _suffix(name)
    is_prose = suffix in PROSE
    is_requirement = directories[-1:] == ["requirements"] and suffix in (".txt", ".in")
    is_configuration = is_requirement or CONFIGURATION_NAME(name)
    if is_configuration and not _is_example(directories):
        return FileKind.CONFIGURATION
    if _is_completion(directories, suffix, beginning):
        return FileKind.CONFIGURATION
    if is_prose and not is_configuration:
        is_template = "templates" in directories and suffix in TYPESET
        return FileKind.SOURCE if is_template else FileKind.DOCUMENTATION
    if _is_example(directories) or (suffix in CODE and EXAMPLE_NAME(name)):
        return FileKind.EXAMPLE
    if suffix in DOCUMENT:
        return _of_page(directories, suffix, beginning)
    if suffix in CODE:
        is_near = not DOCUMENTATION_DIRECTORIES.isdisjoint(_near_the_top(directories))
        if suffix == ".sql" and is_sql_dump(path, beginning):
            return FileKind.DATA
        return FileKind.DOCUMENTATION if is_in_docs and is_near else FileKind.SOURCE
    if suffix in CONFIGURATION:
        is_data = not DATA_DIRECTORIES.isdisjoint(directories) and suffix in (".yaml", ".yml")
        return FileKind.DATA if is_data else FileKind.CONFIGURATION
    if suffix in DATA:
        if not CONFIGURATION_DIRECTORIES.isdisjoint(directories):
            return FileKind.CONFIGURATION
        return FileKind.DOCUMENTATION if is_in_docs and suffix == ".svg" else FileKind.DATA
    if not CONFIGURATION_DIRECTORIES.isdisjoint(directories) or name.startswith("."):
        return FileKind.CONFIGURATION
    if beginning.startswith("#!"):
        return FileKind.SOURCE
    is_shouted = "." not in name and name.isupper() and len(name) > 2
    return FileKind.DOCUMENTATION if is_in_docs or is_shouted else FileKind.SOURCE


def _of_page(directories: list[str], suffix: str, beginning: str) -> FileKind:
    """Return the kind of a page or document: SOURCE for a template, else DOCUMENTATION."""
    if suffix not in (".html", ".htm", ".xhtml"):
        return FileKind.DOCUMENTATION
    if not TEMPLATE_DIRECTORIES.isdisjoint(directories) or _TEMPLATE.search(beginning[:_BEGINNING]):
        return FileKind.SOURCE
    return FileKind.DOCUMENTATION


# A mark of a template: "{% if", "{{ name }}", "<%= name", ' v-if="ok"'.
_TEMPLATE = re.compile(
    r"\{%-?\s*\w|\{\{[-#/]?\s*[\w$.]+.{0,80}\}\}|<%[=@-]?\s|\s(?:v-(?:if|for|model|bind|on)|\*ng|x-data)\b"
    r"|<script[^>]{0,80}\stype=[\"']module[\"'][^>]{0,80}\ssrc=[\"']/src/"
)


def _stated(path: str, attributes: GitAttributes | None) -> dict[FileKind, bool]:
    """Return what .gitattributes files state about a path: True or False by kind.

    `linguist-vendored` gives {VENDORED: True}, and `-linguist-vendored` gives {VENDORED: False}.
    """
    if not attributes:
        return {}
    values = {
        FileKind.VENDORED: attributes.value(path, "linguist-vendored"),
        FileKind.GENERATED: attributes.value(path, "linguist-generated"),
        FileKind.DOCUMENTATION: attributes.value(path, "linguist-documentation"),
    }
    return {kind: value for kind, value in values.items() if value is not None}


def _suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f".{suffix.lower()}" if dot and stem else ""


def _near_the_top(directories: list[str]) -> list[str]:
    """Return the first two directories of a path.

    If the first one is for source code, such as `src`, return only that.
    """
    return directories[: 1 if directories and directories[0] in SOURCE_DIRECTORIES else 2]


def _is_vendored(directories: list[str], name: str) -> bool:
    return (
        not VENDORED_DIRECTORIES.isdisjoint(directories)
        or not VENDORED_NEAR_THE_TOP.isdisjoint(_near_the_top(directories))
        or VENDORED_NAME(name)
    )


def _is_generated(directories: list[str], name: str, suffix: str, beginning: str) -> bool:
    if not GENERATED_DIRECTORIES.isdisjoint(directories) or GENERATED_NAME(name):
        return True
    if not OUTPUT_DIRECTORIES.isdisjoint(_near_the_top(directories)) and suffix not in PROSE:
        return True
    text = beginning[:_BEGINNING]
    if suffix in (".js", ".mjs", ".cjs", ".css") and len(text) > 2 * _MINIFIED:
        return len(text) > _MINIFIED * (text.count("\n") + 1) or _has_marker(text)
    return bool(text) and _has_marker(text)


def _is_licence(directories: list[str], name: str, suffix: str) -> bool:
    if suffix in CODE or suffix in CONFIGURATION or suffix in DATA:
        return False
    if not LICENCE_DIRECTORIES.isdisjoint(directories[:2]) and suffix in ("", ".txt"):
        return True
    is_page = name.islower() and not PAGE_DIRECTORIES.isdisjoint(directories)
    return LICENCE_NAME(name) and not is_page


def _is_test(above: str, directories: list[str], name: str, suffix: str) -> bool:
    if "src/main/" in f"{above}/":
        return False
    if not TEST_DIRECTORIES.isdisjoint(directories):
        return True
    if any(TEST_DIRECTORY(one) for one in above.split("/")):
        return True
    if suffix in CODE and not {"spec", "specs"}.isdisjoint(directories):
        return True
    return TEST_NAME(name)


def _is_example(directories: list[str]) -> bool:
    """Return True if a directory of the path is for examples; `example` in `com/example` is not."""
    if EXAMPLE_DIRECTORIES.isdisjoint(directories):
        return False
    return any(
        one in EXAMPLE_DIRECTORIES and not (i and directories[i - 1] in NAMESPACES)
        for i, one in enumerate(directories)
    )


_COMMENT = re.compile(r"(?://|/\*|\*|#|--|;|<!--|%|\"\"\"|'''|\(\*|\{-|@?rem\b|'|!)", re.IGNORECASE)
_BEFORE_COMMENTS = re.compile(
    r"<\?(?:php|xml)\b|<!doctype|[\"']use (?:strict|client|server)[\"'];?$", re.IGNORECASE
)
_OPENS = {"/*": "*/", "<!--": "-->", '"""': '"""', "'''": "'''", "(*": "*)", "{-": "-}"}
_SIGNS = re.compile(r"^[\s/*#;%<!\"'({-]+|(?<=\s)[-=*#/]{3,}")
# A text about headers quotes one: "Adds `Code generated by x. DO NOT EDIT.` to files."
_QUOTED = re.compile(r"(?<![\w\"'`])([\"'`]{1,2}|“)[^\"'`”]{4,200}(?:\1|”)(?![\w\"'`])")
# A header: "Code generated by protoc. DO NOT EDIT", "This file is automatically generated".
_MARKER = re.compile(
    r"@(?:partially)?generated\b(?![.(])"
    r"|\bauto-?generated\s*/?>"
    r"|\bcode generated\b.{0,200}\bdo not edit\b"
    r"|\bgenerated by the protocol buffer compiler\b"
    r"|^generated protocol buffer code\b"
    r"|^client and server classes corresponding to protobuf-defined services"
    r"|^(?:(?:note|warning|caution|attention)[:!.]?\s+)?"
    r"(?:(?:this|the)(?: source| header| output| class| python| js)?"
    r"(?: file| code| module| document| class| script| client)?"
    r" (?:is|was|has been|were|are) )"
    r"(?:an? )?(?:auto(?:matically)?[ -]?)?generated\b(?: automatically)?"
    r"|^(?:an? )?auto(?:matically)?[ -]?generated\b"
    r"(?: (?:file|code|by|from|with|using|on|at|via|parser|client|source|header|bindings)\b"
    r"|[.!:,;]|\s*$)"
    r"|^generated (?:automatically|code|file|source|header)\b"
    r"|^(?:file |code |source )?generated (?:by|from|with|using|via) (?!django\b|hand\b)"
    r"|^a bison parser, made by\b"
    r"|^a lexical scanner generated by\b",
    re.IGNORECASE,
)
_GENERATED = re.compile(r"\bgenerated\b", re.IGNORECASE)
_NO_EDITING = re.compile(
    r"\b(?:do not|don't|never|not be|should not) (?:\w+ ){0,2}"
    r"(?:edit|edited|modify|modified|change|changed)\b|\bDO NOT (?:EDIT|MODIFY|CHANGE)\b",
    re.IGNORECASE,
)


def _has_marker(text: str) -> bool:
    """Return True if the comments at the beginning say that a program generated the file."""
    end, mentions, forbids = "", False, False
    lines = text.removeprefix("\ufeff").lstrip().split("\n", _HEADER_LINES)[:_HEADER_LINES]
    for raw in lines:
        line = raw.strip()[:500]
        if not line or (not end and _BEFORE_COMMENTS.match(line)):
            continue
        is_inside, after = bool(end), line
        if not is_inside:
            sign = _COMMENT.match(line)
            if sign is None:
                return False
            end, after = _OPENS.get(sign[0], ""), line[sign.end() :]
        if end and end in after:
            end = ""
        words = _QUOTED.sub("", _SIGNS.sub("", line))
        if _MARKER.search(words):
            return True
        mentions = mentions or _GENERATED.search(words) is not None
        forbids = forbids or _NO_EDITING.search(words) is not None
        if mentions and forbids:
            return True
    return False
