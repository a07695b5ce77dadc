"""HTML forms that make the calls of an API, and the same calls as curl commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any
from urllib.parse import quote

from vikingd.gateway.http_errors import JSON

Part = dict[str, Any]

ADDRESS = "http://127.0.0.1:7717"
"""The address in a command until the script of the page replaces it by the page's own."""

_BYTES = "application/octet-stream"
_LONGEST = 30  # lines of a field for a body
_SHORT = 56  # characters of a body on one line
_UNQUOTED = "!'()*~"  # what encodeURIComponent of a browser leaves, beside letters and -._


def resolved(parameters: list[Part], about: Part) -> list[Part]:
    """Return the parameters of an operation with references to common ones resolved.

    `about` is the whole OpenAPI description.
    """
    common = about["components"]["parameters"]
    return [common.get(one.get("$ref", "").rpartition("/")[2], one) for one in parameters]


def form(
    name: str, method: str, path: str, operation: Part, parameters: list[Part]
) -> Iterator[str]:
    """Yield the form of a call as HTML: its parameters, its body, its command and a button.

    Args:
        name: the name of the call; the ids of its elements begin with it.
        method: the HTTP method, in lower case.
        path: the path, with its variables in braces, such as /v1/contexts/{path}.
        operation: the OpenAPI operation.
        parameters: the parameters in the path, the URL and the headers.
    """
    content = operation.get("requestBody", {}).get("content", {})
    kind = next(iter(content), "")
    example = content[kind].get("example") if kind else None
    text = "" if example is None else _shown(example)
    yield f'<form class="make" data-method="{method.upper()}" data-path="{escape(path)}"'
    yield f' data-kind="{escape(kind)}" aria-label="Try {method.upper()} {escape(path)}">'
    first = [one for one in parameters if "example" in one or one.get("required")]
    more = [one for one in parameters if one not in first]
    for one in first:
        yield from _field(name, one)
    if kind == _BYTES:
        yield f'<label class="field"><span>File</span><input type="file" id="{name}-file"></label>'
    elif kind:
        lines = min(text.count("\n") + 1, _LONGEST)
        yield f'<div class="block"><div class="bar"><label for="{name}-body">Body</label>'
        yield _copy(f"{name}-body", "the body")
        yield f'</div><textarea id="{name}-body" name="body" rows="{lines}" spellcheck="false"'
        yield f' autocomplete="off" autocapitalize="off">{escape(text)}</textarea></div>'
    if more:
        yield f'<details class="more"><summary>{len(more)} more parameters</summary>'
        for one in more:
            yield from _field(name, one)
        yield "</details>"
    command = escape(curl(method, path, kind, text, parameters))
    yield '<div class="block"><div class="bar"><span>curl</span>'
    yield _copy(f"{name}-curl", "the command")
    yield f'</div><pre id="{name}-curl" class="curl" tabindex="0" aria-label="curl">{command}</pre>'
    yield '</div><p class="send"><button class="primary">Try</button></p>'
    yield '<div class="reply" role="status"></div></form>'


def curl(method: str, path: str, kind: str, body: str, parameters: list[Part]) -> str:
    """Return the curl command of a call with example values; the page's script builds equal ones.

    Args:
        method: the HTTP method, in lower case.
        path: the path, with its variables in braces.
        kind: the media type of the body; "" without a body.
        body: the body, if it is JSON.
        parameters: the parameters in the path, the URL and the headers.
    """
    given = {where: _examples(parameters, where) for where in ("path", "query", "header")}
    for name, value in given["path"].items():
        path = path.replace(f"{{{name}}}", quote(value, safe=f"/{_UNQUOTED}"))
    query = "&".join(
        f"{name}={quote(given['query'][name], safe=_UNQUOTED)}" for name in given["query"]
    )
    usual = "POST" if kind == JSON else "GET"
    first = ["curl -sf"] if method.upper() == usual else [f"curl -sf --request {method.upper()}"]
    lines = [" ".join([*first, _quoted(f"{ADDRESS}{path}{'?' if query else ''}{query}")])]
    if kind == JSON:
        lines += [f"--header 'content-type: {kind}'", f"--data {_quoted(body)}"]
    elif kind:
        lines.append(f"--data-binary {_quoted('@FILE')}")
    return " \\\n  ".join(lines)


def text_of(text: str) -> str:
    """Return a text as HTML; parts between backticks become code."""
    parts = escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if i % 2 and i + 1 < len(parts) else part
        for i, part in enumerate(parts)
    )


def _field(call: str, parameter: Part) -> Iterator[str]:
    name, where = escape(parameter["name"]), escape(parameter["in"])
    kind = parameter["schema"].get("type", "string")
    value = escape(_plain(parameter["example"])) if "example" in parameter else ""
    hint = kind if isinstance(kind, str) else kind[0]
    yield f'<label class="field"><span>{name}</span><input id="{call}-{where}-{name}"'
    yield f' data-in="{where}" data-name="{name}" value="{value}" placeholder="{escape(hint)}"'
    yield ' autocomplete="off" autocapitalize="off" spellcheck="false"></label>'


def _copy(of: str, what: str) -> str:
    """Return a button that copies the text of the element with the id `of`."""
    label = f'aria-label="Copy {what}"'
    return f'<button type="button" class="copy" data-copy="{of}" {label}>Copy</button>'


def _examples(parameters: list[Part], where: str) -> dict[str, str]:
    return {
        one["name"]: _plain(one["example"])
        for one in parameters
        if one["in"] == where and "example" in one
    }


def _plain(value: Any) -> str:
    """Return a value in the form that a URL has."""
    return value if isinstance(value, str) else json.dumps(value)


def _shown(example: Any) -> str:
    """Return an example as JSON, on one line if it is short."""
    line = json.dumps(example, ensure_ascii=False)
    return line if len(line) <= _SHORT else json.dumps(example, ensure_ascii=False, indent=2)


def _quoted(text: str) -> str:
    """Return a text quoted for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"
