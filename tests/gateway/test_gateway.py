"""The gateway's REST: each RPC by JSON, contexts as resources, its description and the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.gateway.gateway_helpers import NOTE, Gateway, reason
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.gateway import json_form, schemas
from vikingd.gateway.openapi import description, examples, further_examples
from vikingd.gateway.rpcs import RPCS
from vikingd.pb.contexts_pb2 import GetResponse
from vikingd.store.sqlite.backup import restore_into

PATH = "/v1/contexts/resources/notes/tea.md"


def test_each_example_succeeds(gateway: Gateway, client: MessageClient) -> None:
    """The documented requests succeed one after the other, on an empty daemon."""
    assert not list(client.list())
    for name, request in examples().items():
        reply = gateway.post(name, request)
        assert reply.status_code == 200, (name, reply.text)


def test_each_rpc_answers(gateway: Gateway, client: MessageClient) -> None:
    """Each RPC takes a JSON object; what fails, the daemon itself refuses."""
    client.put([Draft(NOTE, content="Oolong.")])
    for name in RPCS:
        reply = gateway.post(name, {})
        if reply.status_code != 200:
            assert reason(reply) in ("INVALID_FIELD", "NOT_FOUND"), (name, reply.text)
    assert gateway.post("nothing", {}).status_code == 404


def test_replies_are_those_of_grpc(gateway: Gateway, client: MessageClient) -> None:
    """A reply has the values of the gRPC reply, in protobuf's JSON form."""
    client.put([Draft(NOTE, content="Oolong: 90 degrees.", metadata={"topic": "tea"})])
    reply = gateway.post("get", {"uri": NOTE}).json()
    context = client.get(NOTE).context
    assert reply["context"]["content"] == "Oolong: 90 degrees."
    assert reply["context"]["metadata"] == {"topic": "tea"}
    assert reply["context"]["revision"] == str(context.revision)
    assert "overview" not in reply["context"]  # it has the default value
    above = gateway.post("get", {"uri": "viking://resources"}).json()["context"]
    assert (above["abstract"], above["abstractBy"]) == ("Oolong: 90 degrees.", "extract")
    assert (above["overview"][:2], above["overviewBy"]) == ("- ", "extract")
    found = gateway.get("/v1/find?q=oolong&target=viking://resources&limit=1&levels=LEVELS_BOTH")
    assert [one["uri"] for one in found.json()["resources"]] == [NOTE]
    assert found.json() == gateway.post(
        "find",
        {"query": "oolong", "target_uri": "viking://resources", "limit": 1, "levels": 3},
    ).json() | {"timings": found.json()["timings"]}


def test_parameters_are_fields_of_the_request(gateway: Gateway, client: MessageClient) -> None:
    """Parameters have the names of fields in both forms; lists are repeated parameters."""
    client.put([Draft(NOTE, content="Oolong."), Draft("viking://agent/skills/a", content="Oolong")])

    def found(query: str) -> list[str]:
        reply = gateway.get(f"/v1/find?{query}")
        assert reply.status_code == 200, reply.text
        body = reply.json()
        return sorted(one["uri"] for kind in ("resources", "skills") for one in body.get(kind, []))

    both = ["viking://agent/skills/a", NOTE]
    assert found("query=oolong") == both
    assert found("q=oolong&targetUri=viking://resources") == [NOTE]
    assert found("q=oolong&target_uri=viking://resources&trace=true") == [NOTE]
    kinds = "contextTypes=CONTEXT_TYPE_SKILL&contextTypes=CONTEXT_TYPE_RESOURCE"
    assert found(f"q=oolong&{kinds}") == both
    assert found("q=oolong&contextTypes=CONTEXT_TYPE_SKILL") == ["viking://agent/skills/a"]
    tree = gateway.get("/v1/tree?uri=viking://resources&depth=1").json()["contexts"]
    assert [one["uri"] for one in tree] == ["viking://resources", "viking://resources/notes"]


def test_a_context_is_a_resource(gateway: Gateway, client: MessageClient) -> None:
    """PUT writes a context as text or JSON, GET reads it, DELETE removes it."""
    put = gateway.http.put(PATH, content="Oolong: 90 °C.", headers={"content-type": "text/plain"})
    assert put.status_code == 201
    assert put.json()["outcomes"] == ["PUT_OUTCOME_CREATED"]
    assert client.get(NOTE).context.content == "Oolong: 90 °C."
    markdown = {"content-type": "text/markdown; charset=UTF-8"}
    assert gateway.http.put(PATH, content="# Tea\n\nGreen.", headers=markdown).status_code == 200
    assert gateway.get(PATH).json()["content"] == "# Tea\n\nGreen."
    put = gateway.http.put(PATH, json={"content": "White.", "title": "Tea", "metadata": {"a": 1}})
    assert put.status_code == 200
    context = client.get(NOTE).context
    assert (context.content, context.title, context.metadata["a"]) == ("White.", "Tea", 1)
    body = description()["paths"]["/v1/contexts/{path}"]["put"]["requestBody"]["content"]
    example = body["application/json"]["example"]
    assert gateway.http.put(PATH, json=example).status_code == 200
    gone = gateway.http.delete(PATH)
    assert (gone.status_code, gone.json()["deleted"]) == (200, "1")
    assert gateway.get(PATH).status_code == 404
    assert gateway.http.delete(PATH).status_code == 404
    assert gateway.http.delete(f"{PATH}?allow_missing=true").status_code == 200


def test_revisions_are_etags(gateway: Gateway, client: MessageClient) -> None:
    """If-Match guards a write by the revision that GET has shown; If-None-Match: * a new one."""
    client.put([Draft(NOTE, content="one")])
    etag = gateway.get(PATH).headers["etag"]
    assert etag == f'"{client.get(NOTE).context.revision}"'
    unchanged = gateway.get(PATH, if_none_match=etag)
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert gateway.get(PATH, if_none_match='"901", "902"').status_code == 200

    def put(content: str, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return gateway.http.put(PATH, json={"content": content}, headers=named).status_code

    assert put("two", if_match=etag) == 200
    assert put("three", if_match=etag) == 412
    assert put("three", if_none_match="*") == 412
    assert client.get(NOTE).context.content == "two"
    refused = gateway.http.delete(PATH, headers={"if-match": etag})
    assert (refused.status_code, reason(refused)) == (412, "REVISION_DIFFERS")
    now = gateway.get(PATH).headers["etag"]
    assert gateway.http.delete(PATH, headers={"if-match": now}).status_code == 200
    assert put("new", if_none_match="*") == 201
    # Without a precondition of HTTP it is the daemon's own error.
    fields = {"contexts": [{"uri": NOTE, "content": "x", "expectedRevision": "1"}]}
    assert gateway.post("put", fields).status_code == 409
    for wrong in ("*", "W/" + now, "1", f"{now}, {now}"):
        assert put("x", if_match=wrong) == 400, wrong
    assert put("x", if_none_match=now) == 400
    assert put("x", if_match=now, if_none_match="*") == 400


@pytest.mark.parametrize("name", ["Größe & Maß 100%.md", "a?b#c.md", "茶/普洱.md", "a+b;c=d.md"])
def test_paths_are_unescaped_once(gateway: Gateway, client: MessageClient, name: str) -> None:
    """A path may have any characters; their escapes are of UTF-8."""
    uri = f"viking://resources/{name}"
    escaped = "".join(c if (c.isalnum() and c.isascii()) or c in "/." else _hex(c) for c in name)
    put = gateway.http.put(f"/v1/contexts/resources/{escaped}", json={"content": "x"})
    assert put.status_code == 201, put.text
    assert client.get(uri).context.content == "x"
    assert gateway.get(f"/v1/contexts/resources/{escaped}").json()["uri"] == uri


def _hex(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def test_a_backup_is_a_stream_that_restores(
    gateway: Gateway, client: MessageClient, tmp_path: Path
) -> None:
    """POST /v1/backup sends the bytes of a backup, with their number and a name."""
    client.put([Draft(NOTE, content="Oolong. " * 100_000)])
    file = tmp_path / "backup"
    with gateway.http.stream("POST", "/v1/backup", json={}) as reply, file.open("wb") as out:
        assert reply.headers["content-type"] == "application/octet-stream"
        assert "attachment" in reply.headers["content-disposition"]
        for part in reply.iter_bytes():
            out.write(part)
    assert int(reply.headers["content-length"]) == file.stat().st_size > 500_000
    label, _ = restore_into(tmp_path / "store", file, replace=False, advance=lambda _: None)
    assert label.revision == client.stats().revision


def test_the_description_is_valid() -> None:
    """The description is OpenAPI 3.1."""
    OpenAPIV31SpecValidator(description()).validate()


def test_the_description_has_each_rpc_with_its_comment(gateway: Gateway) -> None:
    """It is served, and each RPC and each field of a message with a text has its own."""
    reply = gateway.get("/v1/openapi.json")
    assert reply.headers["content-type"] == "application/json"
    described = reply.json()
    assert described == description()
    for rpc in RPCS.values():
        operation = described["paths"][f"/v1/{rpc.name}"]["post"]
        assert operation["summary"] == schemas.COMMENTS[rpc.descriptor.full_name]
    for schema in described["components"]["schemas"].values():
        if schema["type"] == "object" and schema.get("description"):
            for name, field in schema["properties"].items():
                assert field.get("description") or "$ref" in field, name


def test_each_documented_field_is_accepted() -> None:
    """Each field of each request can be set to a value that its schema describes."""
    described = description()["components"]["schemas"]
    tried = 0
    for rpc in RPCS.values():
        for request in _objects(described, rpc.descriptor.input_type.name):
            tried += 1
            assert rpc.request.FromString(json_form.fill(rpc.request(), request)) != rpc.request()
    assert tried > 200


def _objects(described: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield objects of a schema, each with one property."""
    for field, about in described[name]["properties"].items():
        for value in _values(described, about):
            yield {field: value}


def _values(described: Any, about: dict[str, Any]) -> Iterator[Any]:
    """Yield values of a schema."""
    if "$ref" in about:
        name = about["$ref"].rpartition("/")[2]
        if "enum" in described[name]:
            yield described[name]["enum"][-1]
        else:
            yield from _objects(described, name)
    elif about["type"] == "array":
        yield from ([value] for value in _values(described, about["items"]))
    elif about.get("format") == "date-time":
        yield "2026-03-04T05:06:07Z"
    elif "pattern" in about:
        yield "1.5s"
    elif isinstance(about["type"], list):
        yield from ("7", 7)
    else:
        values = {"string": "abcd", "boolean": True, "integer": 7, "number": 0.5}
        yield values.get(about["type"], {"a": [1, None, {"b": "c"}]})


def test_the_page_of_the_description_names_all(gateway: Gateway) -> None:
    """The page has each path and each message, and needs its own style and script alone."""
    page = gateway.get("/v1/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path in description()["paths"]:
        assert path in page.text
    for name in description()["components"]["schemas"]:
        assert page.text.count(f'id="{name}"') == 1, name
    assert page.text.count("<script") == 1
    assert "style=" not in page.text
    for name, kind in (("docs.css", "text/css"), ("docs.js", "text/javascript")):
        assert f'"/v1/{name}"' in page.text
        assert gateway.get(f"/v1/{name}").headers["content-type"] == f"{kind}; charset=utf-8"


def test_each_further_example_is_a_request() -> None:
    """An example that cannot succeed anywhere has the fields of its request all the same."""
    assert examples().keys() | further_examples().keys() == RPCS.keys()
    for name, request in further_examples().items():
        json_form.fill(RPCS[name].request(), request)


def test_responses_have_the_headers_of_safety(gateway: Gateway) -> None:
    """Each response, an error too, forbids inline code, foreign frames, sniffing and caching."""
    for path in ("/v1/docs", "/v1/find?q=a", "/v1/nothing", "/healthz", "/session"):
        headers = gateway.get(path).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_health_says_only_whether_the_daemon_serves(gateway: Gateway) -> None:
    """/healthz is 200 with one word."""
    reply = gateway.get("/healthz")
    assert (reply.status_code, reply.json()) == (200, {"status": "SERVING"})


def test_a_head_is_a_get_without_its_body(gateway: Gateway, client: MessageClient) -> None:
    """HEAD has the headers of GET."""
    client.put([Draft(NOTE, content="Oolong.")])
    head, got = gateway.http.head(PATH), gateway.get(PATH)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["etag"] == got.headers["etag"]


@pytest.mark.parametrize("lines", [0, pytest.param(40_000, marks=pytest.mark.deep)])
def test_large_requests_and_replies_pass(
    gateway: Gateway, client: MessageClient, lines: int
) -> None:
    """A body of megabytes, and a reply with it, are what they would be over gRPC."""
    content = "\n\n".join(f"Paragraph {i} about tea, 茶." for i in range(lines)) or "x" * 1_100_000
    fields = {"contexts": [{"uri": NOTE, "content": content}]}
    assert len(json.dumps(fields, ensure_ascii=False).encode()) > 1_000_000
    assert gateway.post("put", fields).status_code == 200
    assert client.get(NOTE).context.content == content
    assert gateway.get(PATH).json()["content"] == content


def test_parsed_messages_are_those_of_grpc(client: MessageClient, gateway: Gateway) -> None:
    """The JSON of a context parses to the message that gRPC returns."""
    from google.protobuf.json_format import Parse

    client.put([Draft(NOTE, content="# Tea\n\nOolong.\n\n## Cups\n\nWarm.", metadata={"n": 1.5})])
    parsed = Parse(gateway.post("get", {"uri": NOTE}).text, GetResponse())
    assert parsed == client.get(NOTE)
