"""The description of the HTTP interface: OpenAPI 3.1, made of the proto and its comments."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.rpc.status_pb2 import Status

from vikingd import __version__
from vikingd.gateway import schemas
from vikingd.gateway.contexts import PREFIX, TEXTS
from vikingd.gateway.errors import JSON
from vikingd.gateway.examples import EXAMPLE_OF_CONTEXT, EXAMPLES
from vikingd.gateway.rest import ALIASES, BY_QUERY
from vikingd.gateway.rpcs import RPCS, Rpc
from vikingd.pb.contexts_pb2 import Context, ContextInput

Part = dict[str, Any]

_ABOUT = (
    "vikingd over HTTP. `POST /v1/{rpc}` takes each RPC of the daemon in protobuf's JSON form: "
    "names are camelCase (snake_case is accepted, too), 64-bit integers and bytes (base64) are "
    "strings, a field with its default value is left out of a reply. An unknown field is an error. "
    "Errors are `google.rpc.Status` as JSON. A key is sent as `authorization: Bearer KEY`, or "
    "kept in a session: `POST /session`."
)
_SECURITY: Final[Part] = {
    "key": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": "vikingd-session-PORT"},
}
_ANONYMOUS: Final[list[Part]] = [{}]
_TENANT: Final[Part] = {
    "name": "vikingd-tenant",
    "in": "header",
    "description": "The tenant that the key of an operator works in.",
    "schema": {"type": "string"},
}
_TIMEOUT: Final[Part] = {
    "name": "timeout",
    "in": "query",
    "description": "Seconds until the deadline of the call. Unset: 30; of a backup: none.",
    "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
}
_COMMON: Final[list[Part]] = [
    {"$ref": "#/components/parameters/timeout"},
    {"$ref": "#/components/parameters/tenant"},
]
_PATH: Final[Part] = {
    "name": "path",
    "in": "path",
    "required": True,
    "description": "What follows viking:// in the URI of a context. Its slashes stay as they are.",
    "schema": {"type": "string"},
}
_IF_MATCH: Final[Part] = {
    "name": "if-match",
    "in": "header",
    "description": "The ETag of the revision that the context must have; otherwise 412.",
    "schema": {"type": "string"},
}
_IF_NONE_MATCH: Final[Part] = {
    "name": "if-none-match",
    "in": "header",
    "description": "`*`: the context must be new; otherwise 412.",
    "schema": {"type": "string"},
}
_ETAG: Final[Part] = {
    "etag": {"description": "The revision of the context.", "schema": {"type": "string"}}
}
_ERROR: Final[Part] = {"$ref": "#/components/responses/error"}


@cache
def description() -> Part:
    """Return the description."""
    messages = [
        message
        for rpc in RPCS.values()
        for message in (rpc.descriptor.input_type, rpc.descriptor.output_type)
    ]
    paths: Part = {f"/v1/{rpc.name}": {"post": _post(rpc)} for rpc in RPCS.values()}
    for name in BY_QUERY:
        paths[f"/v1/{name}"]["get"] = _get(RPCS[name])
    paths[f"{PREFIX}{{path}}"] = _contexts()
    paths["/session"] = _session()
    paths["/healthz"] = {"get": _health()}
    error = _json(schemas.reference(Status.DESCRIPTOR), "The request failed.")
    return {
        "openapi": "3.1.0",
        "info": {"title": "vikingd", "version": __version__, "description": _ABOUT},
        "security": [{"key": []}, {"session": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas.schemas(messages),
            "parameters": {"timeout": _TIMEOUT, "tenant": _TENANT},
            "responses": {"error": error},
            "securitySchemes": _SECURITY,
        },
    }


def _post(rpc: Rpc) -> Part:
    request, reply = rpc.descriptor.input_type, rpc.descriptor.output_type
    content: Part = {"schema": schemas.reference(request)}
    if rpc.name in EXAMPLES:
        content["example"] = EXAMPLES[rpc.name]
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
        "parameters": [*_COMMON, *_parameters(rpc.descriptor.input_type)],
        "responses": {
            "200": _json(schemas.reference(reply), schemas.COMMENTS[reply.full_name]),
            "default": _ERROR,
        },
    }


def _parameters(message: Descriptor) -> list[Part]:
    """Return the scalar fields of a message as parameters of a URL."""
    short = {name: alias for alias, name in ALIASES.items()}
    found = []
    for field in message.fields:
        if field.message_type is None:
            schema = schemas.of_field(field)
            about = schema.pop("description", "")
            name = short.get(field.name, field.json_name)
            found.append({"name": name, "in": "query", "description": about, "schema": schema})
    return found


def _about(rpc: Rpc, operation: str) -> Part:
    return {
        "operationId": operation,
        "tags": [rpc.descriptor.containing_service.name],
        "summary": schemas.COMMENTS[rpc.descriptor.full_name],
        "description": schemas.COMMENTS[rpc.descriptor.input_type.full_name],
    }


def _contexts() -> Part:
    written = schemas.reference(ContextInput.DESCRIPTOR)
    whole: Part = {"schema": written, "example": EXAMPLE_OF_CONTEXT}
    texts = {kind: {"schema": {"type": "string"}} for kind in TEXTS}
    found = _json(schemas.reference(Context.DESCRIPTOR), "The context.")
    put = _json(schemas.reference(RPCS["put"].descriptor.output_type), "The context is on disk.")
    gone = _json(schemas.reference(RPCS["delete"].descriptor.output_type), "The context is gone.")
    waits = _flag("wait_for_vectors", "Wait until the context is found by meaning, too.")
    misses = _flag("allow_missing", "A missing context is no error.")
    return {
        "parameters": [_PATH, *_COMMON],
        "get": {
            **_resource("get_context", "Reads one whole context."),
            "responses": {
                "200": {**found, "headers": _ETAG},
                "304": {"description": "The context has the revision of `if-none-match`."},
                "default": _ERROR,
            },
        },
        "put": {
            **_resource("put_context", "Writes a context whole; `uri` is not in the body."),
            "parameters": [_IF_MATCH, _IF_NONE_MATCH, waits],
            "requestBody": {"content": {JSON: whole, **texts}},
            "responses": {"200": put, "201": put, "default": _ERROR},
        },
        "delete": {
            **_resource("delete_context", "Removes a context with all below it."),
            "parameters": [_IF_MATCH, misses],
            "responses": {"200": gone, "default": _ERROR},
        },
    }


def _session() -> Part:
    state = {
        "type": "object",
        "properties": {
            "signedIn": {"type": "boolean"},
            "tenant": {"type": "string"},
            "keyNeeded": {"type": "boolean"},
        },
    }
    given = {
        "type": "object",
        "properties": {"key": {"type": "string"}, "tenant": {"type": "string"}},
        "required": ["key"],
        "additionalProperties": False,
    }
    return {
        "get": {
            **_resource("show_session", "Tells whether the browser is signed in."),
            "security": _ANONYMOUS,
            "responses": {"200": _json(state, "The session."), "default": _ERROR},
        },
        "post": {
            **_resource("sign_in", "Keeps a key in a session, which a cookie names."),
            "security": _ANONYMOUS,
            "requestBody": {"required": True, "content": {JSON: {"schema": given}}},
            "responses": {"200": _json(state, "Signed in."), "default": _ERROR},
        },
        "delete": {
            **_resource("sign_out", "Ends the session."),
            "responses": {"204": {"description": "Signed out."}, "default": _ERROR},
        },
    }


def _health() -> Part:
    state = {"type": "object", "properties": {"status": {"type": "string"}}}
    return {
        **_resource("health", "Tells whether the daemon serves."),
        "security": _ANONYMOUS,
        "responses": {
            "200": _json(state, "It serves."),
            "503": _json(state, "It does not serve, or cannot be reached."),
        },
    }


def _resource(operation: str, summary: str) -> Part:
    return {"operationId": operation, "tags": ["HTTP"], "summary": summary}


def _flag(name: str, about: str) -> Part:
    return {"name": name, "in": "query", "description": about, "schema": {"type": "boolean"}}


def _json(schema: Part, about: str) -> Part:
    return {"description": about, "content": {JSON: {"schema": schema}}}
