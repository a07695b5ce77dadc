"""The OpenAPI 3.1 description of the HTTP interface, made of the proto and of openapi.yaml."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

import yaml
from google.protobuf.descriptor import Descriptor

from vikingd import __version__
from vikingd.gateway import schemas
from vikingd.gateway.http_errors import JSON
from vikingd.gateway.rest import ALIASES, BY_QUERY
from vikingd.gateway.rpcs import RPCS, Rpc

Part = dict[str, Any]

READS = "x-reads-only"
"""The key of an OpenAPI operation that is true if the operation changes nothing."""

_COMMON: Final[list[Part]] = [
    {"$ref": "#/components/parameters/timeout"},
    {"$ref": "#/components/parameters/tenant"},
]
_ERROR: Final[Part] = {"$ref": "#/components/responses/error"}


@cache
def _own() -> Part:
    """Return the parsed openapi.yaml, with the parts that the proto does not have."""
    text = resources.files("vikingd.gateway").joinpath("openapi.yaml").read_text(encoding="utf-8")
    own: Part = yaml.safe_load(text)
    return own


def examples() -> Part:
    """Return an example request by RPC; in this order all succeed on an empty daemon."""
    found: Part = _own()["examples"]
    return found


def further_examples() -> Part:
    """Return an example request for each other RPC; its ids and names may not exist."""
    found: Part = _own()["further_examples"]
    return found


@cache
def description() -> Part:
    """Return the whole OpenAPI description."""
    own = _own()
    messages = [
        message
        for rpc in RPCS.values()
        for message in (rpc.descriptor.input_type, rpc.descriptor.output_type)
    ]
    paths: Part = {f"/v1/{rpc.name}": {"post": _post(rpc)} for rpc in RPCS.values()}
    for name in BY_QUERY:
        paths[f"/v1/{name}"]["get"] = _get(RPCS[name])
    return {
        "openapi": own["openapi"],
        "info": {**own["info"], "version": __version__},
        "security": own["security"],
        "paths": paths | own["paths"],
        "components": {**own["components"], "schemas": schemas.schemas(messages)},
    }


def _post(rpc: Rpc) -> Part:
    request, reply = rpc.descriptor.input_type, rpc.descriptor.output_type
    example = (examples() | further_examples())[rpc.name]
    content: Part = {"schema": schemas.reference(request), "example": example}
    answer = _json(schemas.reference(reply), schemas.COMMENTS[reply.full_name])
    if rpc.streams:
        answer = {
            "description": "The bytes of the backup, for `vikingd restore`.",
            "content": {"application/octet-stream": {"schema": {"type": "string"}}},
        }
    return {
        **_about(rpc, rpc.name),
        "parameters": _COMMON,
        "requestBody": {"content": {JSON: content}},
        "responses": {"200": answer, "default": _ERROR},
    }


def _get(rpc: Rpc) -> Part:
    reply = rpc.descriptor.output_type
    return {
        **_about(rpc, f"{rpc.name}_by_query"),
        "parameters": [*_COMMON, *_parameters(rpc.descriptor.input_type, examples()[rpc.name])],
        "responses": {
            "200": _json(schemas.reference(reply), schemas.COMMENTS[reply.full_name]),
            "default": _ERROR,
        },
    }


def _parameters(message: Descriptor, example: Part) -> list[Part]:
    """Return the scalar fields of a message as URL parameters, with example values."""
    short = {name: alias for alias, name in ALIASES.items()}
    found = []
    for field in message.fields:
        if field.message_type is None:
            schema = schemas.of_field(field)
            about = schema.pop("description", "")
            name = short.get(field.name, field.json_name)
            one = {"name": name, "in": "query", "description": about, "schema": schema}
            if field.json_name in example:
                one["example"] = example[field.json_name]
            found.append(one)
    return found


def _about(rpc: Rpc, operation: str) -> Part:
    return {
        "operationId": operation,
        READS: rpc.name in _own()["reading"],
        "tags": [rpc.descriptor.containing_service.name],
        "summary": schemas.COMMENTS[rpc.descriptor.full_name],
        "description": schemas.COMMENTS[rpc.descriptor.input_type.full_name],
    }


def _json(schema: Part, about: str) -> Part:
    return {"description": about, "content": {JSON: {"schema": schema}}}
