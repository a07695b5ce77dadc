"""The comments at the beginning of source code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vikingd.domain.text import approximate_tokens
from vikingd.ingest.code.definition_comments import is_legal
from vikingd.ingest.first_prose import PROSE_TOKENS
from vikingd.ingest.plain_paragraphs import paragraphs

_BLOCK_COMMENT = (
    r"/\*(.*?)\*/|\{-(.*?)-\}|\(\*(.*?)\*\)|<!--(.*?)-->"
    r"|[rRuU]?\"\"\"(.*?)\"\"\"|[rR]?'''(.*?)'''|--\[\[(.*?)\]\]"
)
_DECORATION = re.compile(r"^[ \t]*[*!/#;\-]*[ \t]?(?:[|^][ \t])?", re.MULTILINE)
_PRAGMA = re.compile(r"\{-#.*?#-\}", re.DOTALL)  # of Haskell
_FOR_TOOLS = re.compile(
    r"^(?:#!|.*(?:\b(?:coding[:=]|eslint|[jt]slint|jshint|stylelint|pylint|noqa|nolint|vim:|mypy:"
    r"|ruff:|rubocop:|istanbul|prettier|shellcheck|clang-format|swiftlint|yamllint"
    r"|yaml-language-server|frozen_string_literal|go:(?:build|generate|embed)|type: ?ignore"
    r"|sourceMappingURL|typed: ?(?:true|false|strict))"
    r"|/[ \t]*<(?:reference|amd-)[^\n]*"
    r"|@(?:ts-\w+|flow|jest-environment|jsx\w*)\b|-\*-|//[ \t]*\+build\b"
    r"|(?<![/*#])[/*#]+[ \t]*globals?[ \t]+[\w$, :]+\*/)).*$",
    re.MULTILINE,
)
_FIELD = re.compile(
    r"```|@?(?:run with|module|file|filename|name|authors?|date|created|version|copyright|license"
    r"|maintainer|stability|portability|since|see)\b\s*:?(?:\s|\Z)",
    re.IGNORECASE,
)
_DESCRIBES = re.compile(r"[@\\](?:file(?:overview)?|brief|description|desc|summary)\s+")
_GENERATED = re.compile(
    r"(?i)\b(?:auto[- ]?)?generated (?:by|from|with|using|code|file)\b|\bdo not (?:edit|modify)\b"
    r"|^the version of the openapi document|^may contain unused imports"
)
_ADDRESS = re.compile(r"\S*://\S*")
_TAGS = re.compile(
    r"\s[@\\](?:author|see|since|version|module|license|param|returns?|type|example)\b.*"
)


def first_comment(text: str, mark: str) -> str:
    """Return the first paragraph of the comments; with the next ones if it is a label.

    `mark` begins a comment line; "" for none. Legal comments and those for tools are passed over.
    """
    found = ""
    for paragraph in _comments(text, mark):
        found = f"{found.rstrip(':')}: {paragraph}" if found else paragraph
        if approximate_tokens(found) >= PROSE_TOKENS or found.endswith((".", "!", "。")):
            break
    return found


def end_of_comments(text: str, mark: str) -> int:
    """Return the place behind the comments before the first line of code."""
    *_, end = 0, *(one.end() for one in _opening(text, mark))
    return end


def _opening(text: str, mark: str) -> Iterator[re.Match[str]]:
    line_comment = rf"(?:[ \t]*+{re.escape(mark)}[^\n]*(?:\n|\Z))+" if mark else r"(?!)"
    comment = re.compile(rf"\s*+(?:{_BLOCK_COMMENT}|({line_comment}))", re.DOTALL)
    position = 0
    while found := comment.match(text, position):
        yield found
        position = found.end()


def _comments(text: str, mark: str) -> Iterator[str]:
    """Yield the paragraphs of the comments before the first line of code."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n")
    text = _FOR_TOOLS.sub("", _PRAGMA.sub("", text) if "{-#" in text else text)
    for found in _opening(text, mark):
        body = next(group for group in found.groups() if group is not None)
        for paragraph in paragraphs(_DECORATION.sub("", body)):
            if _FIELD.match(paragraph) or _GENERATED.search(paragraph):
                continue
            if is_legal(paragraph):
                break
            plain = _TAGS.sub("", _DESCRIBES.sub("", paragraph, count=1))
            if _ADDRESS.sub("", plain).strip():
                yield plain
