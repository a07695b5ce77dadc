"""The description of the HTTP interface as a page without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from vikingd.gateway.openapi import description

_STYLE = "docs.css"
_METHODS = ("get", "post", "put", "delete")

Part = dict[str, Any]


async def openapi(_: Request) -> Response:
    """Return the description as JSON."""
    return Response(_description(), media_type="application/json")


async def page(_: Request) -> Response:
    """Return the description as a page."""
    return Response(_page(), media_type="text/html")


async def style(_: Request) -> Response:
    """Return the style of the page."""
    text = resources.files("vikingd.gateway").joinpath(_STYLE).read_text(encoding="utf-8")
    return Response(text, media_type="text/css")


@cache
def _description() -> str:
    return json.dumps(description(), ensure_ascii=False, separators=(",", ":"))


@cache
def _page() -> str:
    about = description()
    info = about["info"]
    title = f"{info['title']} {info['version']}"
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/v1/{_STYLE}"></head><body>',
        f"<h1>{escape(title)}</h1><p>{_text(info['description'])}</p>",
        '<p><a href="/v1/openapi.json">OpenAPI 3.1</a></p><h2>Paths</h2>',
    ]
    for path, methods in about["paths"].items():
        for method in _METHODS:
            if method in methods:
                lines += _operation(path, method, methods[method], methods.get("parameters", []))
    lines.append("<h2>Messages</h2>")
    for name, schema in about["components"]["schemas"].items():
        lines += _schema(name, schema)
    return "\n".join([*lines, "</body></html>"])


def _operation(path: str, method: str, operation: Part, shared: list[Part]) -> Iterator[str]:
    yield f'<section id="{escape(operation["operationId"])}">'
    yield f"<h3><code>{method.upper()} {escape(path)}</code></h3>"
    for text in (operation["summary"], operation.get("description", "")):
        if text:
            yield f"<p>{_text(text)}</p>"
    yield from _parameters([*shared, *operation.get("parameters", [])])
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Body: <code>{escape(kind)}</code> {_type(content['schema'])}</p>"
        if "example" in content:
            example = json.dumps(content["example"], ensure_ascii=False, indent=2)
            yield f"<pre>{escape(example)}</pre>"
    for status, response in operation["responses"].items():
        if "$ref" in response:
            continue
        kinds = response.get("content", {}).values()
        types = " ".join(_type(content["schema"]) for content in kinds)
        yield f"<p>{escape(status)}: {_text(response['description'])} {types}</p>"
    yield "</section>"


def _parameters(parameters: list[Part]) -> Iterator[str]:
    common = description()["components"]["parameters"]
    rows = [common.get(one.get("$ref", "").rpartition("/")[2], one) for one in parameters]
    if rows:
        yield "<table>"
        for row in rows:
            yield (
                f"<tr><td><code>{escape(row['name'])}</code></td><td>{escape(row['in'])}</td>"
                f"<td>{_type(row['schema'])}</td><td>{_text(row['description'])}</td></tr>"
            )
        yield "</table>"


def _schema(name: str, schema: Part) -> Iterator[str]:
    yield f'<section id="{escape(name)}"><h3>{escape(name)}</h3>'
    for line in schema.get("description", "").split("\n"):
        yield f"<p>{_text(line)}</p>"
    if fields := schema.get("properties"):
        yield "<table>"
        for field, about in fields.items():
            yield (
                f"<tr><td><code>{escape(field)}</code></td><td>{_type(about)}</td>"
                f"<td>{_text(about.get('description', ''))}</td></tr>"
            )
        yield "</table>"
    yield "</section>"


def _type(schema: Part) -> str:
    """Return the type of a schema as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if schema.get("type") == "array":
        return f"{_type(schema['items'])}[]"
    kind = schema.get("format") or schema.get("contentEncoding") or schema.get("type", "any")
    return f"<code>{escape(str(kind))}</code>"


def _text(text: str) -> str:
    """Return a text as HTML; what is between backticks is code."""
    parts = escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if i % 2 and i + 1 < len(parts) else part
        for i, part in enumerate(parts)
    )
