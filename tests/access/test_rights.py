"""Rights by URI prefix, and the table of what each RPC needs."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from vikingd.domain.errors import InvalidField, NotFound, NotReadable, PermissionDenied
from vikingd.domain.rights import LOCAL, Caller, Grant, Right
from vikingd.pb import contexts_pb2, retrieval_pb2
from vikingd.wire.rights_table import FILES, NEEDS, rules

_NAMES = ("a", "b", "a-b", "ab")


def caller(*grants: tuple[Right, str], user: str = "") -> Caller:
    """Return a caller with rights."""
    return Caller("k", "t", user, [Grant(*grant) for grant in grants])


def check(rpc: str, request: object, of: Caller) -> None:
    """Check a request as the boundary does."""
    [rule] = [rule for rule in rules().values() if rule.name == rpc]
    rule.check(request, of)


def test_rights_are_those_of_a_plain_model() -> None:
    """A right holds for a URI if a prefix of its segments has it or a greater right."""
    rng = random.Random(25)

    def uri(levels: int) -> str:
        return "viking://" + "/".join(rng.choice(_NAMES) for _ in range(rng.randint(0, levels)))

    def segments(of: str) -> list[str]:
        return [one for one in of.removeprefix("viking://").split("/") if one]

    for _ in range(2000):
        grants = [(Right(rng.randint(1, 3)), uri(3)) for _ in range(rng.randint(0, 4))]
        one, asked = caller(*grants), uri(4)
        for right in Right:
            allowed = any(
                given >= right and segments(asked)[: len(segments(prefix))] == segments(prefix)
                for given, prefix in grants
            )
            assert one.may(right, asked) == allowed
        parts = one.parts(asked)
        for below in (uri(5) for _ in range(20)):
            if segments(below)[: len(segments(asked))] == segments(asked):
                covering = [
                    part
                    for part in parts
                    if segments(below)[: len(segments(part))] == segments(part)
                ]
                assert len(covering) == one.may(Right.READ, below)
        assert list(parts) == sorted(parts)


def test_errors_depend_on_the_uri_alone() -> None:
    """An unreadable URI looks like a missing one; a missing right to write is told."""
    one = caller((Right.READ, "viking://resources"))
    with pytest.raises(NotReadable) as hidden:
        one.check_read("viking://user/x")
    assert str(hidden.value) == str(NotFound("viking://user/x"))
    assert hidden.value.reason == NotFound.reason
    for uri in ("viking://resources/x", "viking://user/x"):
        with pytest.raises(PermissionDenied, match=f"no right to write {uri}"):
            one.check(Right.WRITE, uri)


def test_an_operator_may_do_all() -> None:
    """The caller without keys may do all everywhere."""
    assert LOCAL.may(Right.ADMIN, "viking://")
    assert LOCAL.parts("viking://") == ("viking://",)


def test_each_rpc_has_its_needs() -> None:
    """No RPC is without a row, and no row without an RPC."""
    known = {
        method.name
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert known == set(NEEDS)
    assert len(rules()) == len(known)


def test_each_uri_of_a_request_is_in_the_table() -> None:
    """A field that names a URI is checked or left to its service by name, never forgotten."""

    def named(message: Descriptor, prefix: str = "") -> Iterator[str]:
        for field in message.fields:
            if field.message_type and field.message_type.full_name.startswith("viking."):
                yield from named(field.message_type, f"{prefix}{field.name}.")
            elif field.type == FieldDescriptor.TYPE_STRING and "uri" in field.name:
                yield prefix + field.name

    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                assert set(named(method.input_type)) == set(NEEDS[method.name].fields), method.name


def test_own_uris_are_replaced_everywhere() -> None:
    """viking://~ becomes the directory of the user, in single and repeated fields at any depth."""
    ana = caller((Right.WRITE, "viking://users/ana"), user="ana")
    put = contexts_pb2.PutRequest(contexts=[{"uri": "viking://~/memories/a.md"}])
    check("Put", put, ana)
    assert put.contexts[0].uri == "viking://users/ana/memories/a.md"
    delete = contexts_pb2.DeleteRequest(uris=["viking://users/ana/x", "viking://~"])
    check("Delete", delete, ana)
    assert list(delete.uris) == ["viking://users/ana/x", "viking://users/ana"]
    build = retrieval_pb2.BuildContextRequest(
        retrieve={"target_uri": "viking://~/", "boosts": [{"uri_prefix": "viking://~/memories"}]}
    )
    check("BuildContext", build, ana)
    assert build.retrieve.target_uri == "viking://users/ana/"
    assert build.retrieve.boosts[0].uri_prefix == "viking://users/ana/memories"
    grep = contexts_pb2.GrepRequest(target_uri="viking://~/memories", glob="~/*", pattern="~")
    check("Grep", grep, ana)
    assert (grep.target_uri, grep.glob) == ("viking://users/ana/memories", "~/*")
    glob = contexts_pb2.GlobRequest(target_uri="viking://~", pattern="~/*")
    check("Glob", glob, ana)
    assert (glob.target_uri, glob.pattern) == ("viking://users/ana", "~/*")
    with pytest.raises(InvalidField):
        check("Delete", contexts_pb2.DeleteRequest(uris=["viking://~"]), LOCAL)


@pytest.mark.parametrize("uri", ["viking://users/bob", "viking://users/anabel/x", "viking://", ""])
def test_one_foreign_uri_refuses_the_request(uri: str) -> None:
    """All URIs of a batch are checked, a trailing slash changes nothing."""
    ana = caller((Right.WRITE, "viking://users/ana"), user="ana")
    own = "viking://users/ana/"
    check("Delete", contexts_pb2.DeleteRequest(uris=[own]), ana)
    with pytest.raises(PermissionDenied):
        check("Delete", contexts_pb2.DeleteRequest(uris=[own, uri]), ana)
    with pytest.raises(NotFound):
        check("Get", contexts_pb2.GetRequest(uri=uri), ana)
    move = contexts_pb2.MoveRequest(source_uri=own + "a", destination_uri=uri)
    with pytest.raises(PermissionDenied):
        check("Move", move, ana)
