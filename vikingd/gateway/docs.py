"""The HTML page that documents the HTTP interface, with a form to try each call.

Without JavaScript the page can be read; the script copies, tries and filters calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from importlib import resources
from itertools import groupby
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vikingd.gateway import html_forms
from vikingd.gateway.html_forms import Part, text_of
from vikingd.gateway.openapi import READS, description
from vikingd.gateway.rpcs import RPCS

_FILES = {"docs.css": "text/css", "docs.js": "text/javascript"}
_METHODS = ("get", "post", "put", "delete")
_HTTP = "HTTP"
_TITLES = {_HTTP: "Files, sessions, health"}
"""The titles of groups of calls whose OpenAPI tag is not their title."""


class _Call(NamedTuple):
    """A method of a path, such as GET /v1/contexts/{path}.

    Attributes:
        parameters: all parameters, also those in the path.
    """

    path: str
    method: str
    operation: Part
    parameters: list[Part]

    @property
    def name(self) -> str:
        return str(self.operation["operationId"])

    @property
    def reads(self) -> bool:
        return bool(self.operation.get(READS, self.method == "get"))


async def openapi(_: Request) -> Response:
    """Return the OpenAPI description as JSON."""
    return Response(_description(), media_type="application/json")


async def page(_: Request) -> Response:
    """Return the HTML page."""
    return Response(_page(), media_type="text/html")


async def file(request: Request) -> Response:
    """Return the style sheet or the script of the page."""
    name = request.scope["path"].rpartition("/")[2]
    text = resources.files("vikingd.gateway").joinpath(name).read_text(encoding="utf-8")
    return Response(text, media_type=_FILES[name])


FILES = tuple(f"/v1/{name}" for name in _FILES)
"""The paths of the files of the page."""


@cache
def _description() -> str:
    return json.dumps(description(), ensure_ascii=False, separators=(",", ":"))


@cache
def _page() -> str:
    about = description()
    info = about["info"]
    title = f"{info['title']} {info['version']}"
    groups = [(tag, list(calls)) for tag, calls in groupby(_calls(about), _tag)]
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}: the API</title>",
        '<link rel="icon" href="/icon.svg" type="image/svg+xml">',
        '<link rel="stylesheet" href="/v1/docs.css">',
        '<script type="module" src="/v1/docs.js"></script></head><body>',
        '<a class="skip" href="#calls">Skip to the calls</a>',
        *_header(info),
        *_navigation(groups),
        '<main id="calls" tabindex="-1">',
        f'<div class="intro"><h1>The API of {escape(info["title"])}</h1>',
        f"<p>{text_of(info['description'])}</p>",
        "<p>The examples follow one another. With keys, <code>key.header</code> is a file with the "
        "line <code>authorization: Bearer KEY</code>.</p></div>",
    ]
    for tag, calls in groups:
        lines.append(f'<h2 id="group-{escape(tag)}">{escape(_TITLES.get(tag, tag))}</h2>')
        for call in calls:
            lines += _call(call)
    lines.append('<h2 id="messages">Messages</h2>')
    for name, schema in about["components"]["schemas"].items():
        if name not in _requests():
            lines += _schema(name, schema)
    return "\n".join([*lines, "</main></body></html>"])


def _calls(about: Part) -> list[_Call]:
    """Return the calls in the order of the page, by groups."""
    found = [
        _Call(
            path,
            method,
            methods[method],
            html_forms.resolved([*methods.get("parameters", []), *_own(methods[method])], about),
        )
        for path, methods in about["paths"].items()
        for method in _METHODS
        if method in methods
    ]
    tags = list(dict.fromkeys(map(_tag, found)))
    return sorted(found, key=lambda call: tags.index(_tag(call)))


def _own(operation: Part) -> list[Part]:
    parameters: list[Part] = operation.get("parameters", [])
    return parameters


def _tag(call: _Call) -> str:
    return str(call.operation["tags"][0])


def _header(info: Part) -> Iterator[str]:
    yield '<header class="top"><a class="home" href="/"><img src="/icon.svg" alt="" width="24"'
    yield f' height="24"> {escape(info["title"])}</a><span class="version">'
    yield f'{escape(info["version"])}</span><span class="grow"></span>'
    yield '<span id="signed" role="status"></span>'
    yield '<a href="/v1/openapi.json">OpenAPI 3.1</a></header>'


def _navigation(groups: Iterable[tuple[str, list[_Call]]]) -> Iterator[str]:
    yield '<nav aria-label="Calls"><details id="contents" open><summary>All calls</summary>'
    yield '<input id="filter" type="search" placeholder="Filter: press /" autocomplete="off"'
    yield ' aria-label="Filter the calls" spellcheck="false" hidden>'
    for tag, calls in groups:
        yield f"<h2>{escape(_TITLES.get(tag, tag))}</h2><ul>"
        for call in calls:
            short = call.path.removeprefix("/v1")
            yield f'<li><a href="#{escape(call.name)}"><span class="method {call.method}">'
            yield f"{call.method}</span> <span>{escape(short)}</span></a></li>"
        yield "</ul>"
    yield '<h2>More</h2><ul><li><a href="#messages">Messages</a></li></ul>'
    yield '<p id="none" hidden>No call has this name.</p></details></nav>'


def _call(call: _Call) -> Iterator[str]:
    operation, name = call.operation, escape(call.name)
    yield f'<section class="call" id="{name}" aria-labelledby="title-{name}"><div class="about">'
    yield f'<h3 id="title-{name}"><span class="method {call.method}">{call.method.upper()}</span> '
    yield f"<code>{escape(call.path)}</code></h3>"
    if not call.reads:
        yield '<p class="writes">Changes what is stored</p>'
    for text in (operation["summary"], operation.get("description", "")):
        if text:
            yield f"<p>{text_of(text)}</p>"
    yield '</div><div class="use">'
    yield from html_forms.form(call.name, call.method, call.path, operation, call.parameters)
    yield '</div><div class="fields">'
    yield from _parameters(call.parameters)
    yield from _messages(operation)
    yield "</div></section>"


def _parameters(parameters: list[Part]) -> Iterator[str]:
    if parameters:
        yield "<details><summary>Parameters</summary>"
        yield from _table((one["name"], one["schema"], one["description"]) for one in parameters)
        yield "</details>"


def _messages(operation: Part) -> Iterator[str]:
    """Yield HTML about the messages of an operation: the fields of the body, the types."""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        yield f'<p class="quiet">Body: <code>{escape(kind)}</code> {_type(schema)}</p>'
        if _name(schema) in _requests():
            yield f'<div id="{escape(_name(schema))}">'
            yield from _properties(description()["components"]["schemas"][_name(schema)])
            yield "</div>"
        yield from _properties(schema)
    for status, response in operation["responses"].items():
        if "$ref" in response:
            continue
        schemas = [content["schema"] for content in response.get("content", {}).values()]
        types = " ".join(map(_type, schemas))
        about = text_of(response["description"])
        yield f'<p class="quiet">{escape(status)}: {about} {types}</p>'
        for schema in schemas:
            yield from _properties(schema)


@cache
def _requests() -> frozenset[str]:
    """Return the names of the request messages, which the page shows beside their calls."""
    return frozenset(rpc.descriptor.input_type.name for rpc in RPCS.values())


def _schema(name: str, schema: Part) -> Iterator[str]:
    yield f'<section class="message" id="{escape(name)}"><h3>{escape(name)}</h3>'
    for line in schema.get("description", "").split("\n"):
        if line:
            yield f"<p>{text_of(line)}</p>"
    yield from _properties(schema)
    yield "</section>"


def _properties(schema: Part) -> Iterator[str]:
    if fields := schema.get("properties"):
        yield from _table(
            (field, about, about.get("description", "")) for field, about in fields.items()
        )


def _table(rows: Iterable[tuple[str, Part, str]]) -> Iterator[str]:
    """Yield HTML for a list of names, each with its type and its description."""
    yield "<dl>"
    for name, schema, about in rows:
        yield f"<div><dt><code>{escape(name)}</code> {_type(schema)}</dt>"
        yield f"<dd>{text_of(about)}</dd></div>"
    yield "</dl>"


def _name(schema: Part) -> str:
    """Return the name of the message that a schema refers to; "" if it refers to none."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _type(schema: Part) -> str:
    """Return the type in a schema as HTML."""
    if "$ref" in schema:
        name = escape(_name(schema))
        return f'<a class="type" href="#{name}">{name}</a>'
    if schema.get("type") == "array":
        return f'{_type(schema["items"])}<span class="type">[]</span>'
    if "enum" in schema:
        return f'<span class="type">{escape(" or ".join(schema["enum"]))}</span>'
    kind: Any = schema.get("format") or schema.get("contentEncoding") or schema.get("type", "any")
    return f'<span class="type">{escape(str(kind))}</span>'
