"""Random calls of random callers against a plain model of rights that shares no code with ours."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import grpc
import pytest

from tests.access import rights_model as model
from tests.daemons import serving
from vikingd.client.method_declarations import Stubs
from vikingd.pb import access_pb2, contexts_pb2, memories_pb2, retrieval_pb2

CASES = 300  # of a round
_NAMES = ("a", "b", "a-b", "c.md")
_USERS = ("", "ana", "bob")
_ROOTS = (
    "viking://",
    "viking://resources",
    "viking://user/memories",
    "viking://agent/skills",
    "viking://users",
    "viking://users/ana",
    "viking://users/ana/memories",
    "viking://users/bob/memories",
    "viking://users/bob/resources",
    "viking://projects/p/memories",
    "viking://~/memories",
)
_GLOBS = ("**", "*", "**/a", "*/*.md", "a/**", "resources/**/[bc]*", "**/a-b/*", "memories/b", "*/")
_WORDS = ("oolong", "kyoto", "lantern", "queue")


class Sender(NamedTuple):
    """A caller of the model with the metadata of its key."""

    model: model.Caller
    metadata: tuple[tuple[str, str], ...]
    key: str


@pytest.fixture
def stubs() -> Iterator[tuple[Stubs, tuple[tuple[str, str], ...]]]:
    """Yield the stubs of a daemon and the metadata of its operator."""
    with (
        serving("--provider", "none") as where,
        grpc.insecure_channel(where) as channel,
    ):
        made = Stubs(channel)
        first = made.access.CreateKey(access_pb2.CreateKeyRequest(operator=True))
        yield made, (("authorization", f"Bearer {first.secret}"),)


def some_uri(rng: random.Random, levels: int = 3) -> str:
    """Return a URI below a root, or outside of all roots."""
    root = rng.choice(_ROOTS) if rng.random() < 0.97 else "viking://elsewhere"
    rest = [rng.choice(_NAMES) for _ in range(rng.randint(0, levels))]
    return model.join((*model.split(root), *rest))


def sender(stubs: Stubs, operator: Any, rng: random.Random, world: model.World) -> Sender:
    """Create a key with random rights."""
    user = rng.choice(_USERS)
    grants = []
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        uri = rng.choice((some_uri(rng, 2), rng.choice(list(world.contexts))))
        if "~" not in uri:
            grants.append((rng.choice(("read", "write", "admin")), uri))
    grants = grants or [("read", "viking://resources/a")]
    created = stubs.access.CreateKey(
        access_pb2.CreateKeyRequest(
            user=user,
            grants=[{"right": model.LEVELS[right], "uri_prefix": uri} for right, uri in grants],
        ),
        metadata=operator,
    )
    metadata = (("authorization", f"Bearer {created.secret}"),)
    return Sender(model.Caller(world, grants, user), metadata, created.key.id)


def sent(call: Callable[..., Any], request: Any, of: Sender) -> tuple[str, Any, str]:
    """Return the name of the status, the reply and the message of an error."""
    try:
        return "OK", call(request, metadata=of.metadata), ""
    except grpc.RpcError as error:
        return error.code().name, None, error.details()


def pages(call: Callable[..., Any], request: Any, of: Sender) -> tuple[str, list[list[str]], str]:
    """Return the URIs of all pages of a listing."""
    found: list[list[str]] = []
    while True:
        code, reply, message = sent(call, request, of)
        if code != "OK":
            return code, found, message
        found.append([item.uri for field, items in reply.ListFields()
                      if field.is_repeated for item in items])  # fmt: skip
        request.page_token = reply.next_page_token
        if not request.page_token:
            return code, found, message


def one_call(stubs: Stubs, rng: random.Random, of: Sender) -> tuple[Any, Any, str, set[str]]:
    """Make one random call.

    Returns:
        What came, what the model says, the message of an error, and the URIs of the request.
    """
    known, uri, other = list(of.model.world.contexts), some_uri(rng), some_uri(rng)
    if rng.random() < 0.6:
        uri = rng.choice(known) + rng.choice(("", "", "/"))
    if rng.random() < 0.3:
        other = rng.choice(known)
    uri = "viking://" if uri == "viking:///" else uri
    contexts = stubs.contexts
    name = rng.choice(("get", "get", "list", "list", "tree", "tree", "glob", "grep", "grep",
                       "put", "put", "delete", "move", "link", "link", "unlink"))  # fmt: skip
    if name == "get":
        code, reply, message = sent(contexts.Get, contexts_pb2.GetRequest(uri=uri), of)
        expected = of.model.get(uri)
        related = {one.uri for one in reply.context.relations} if reply else set()
        return (code, related), (expected.code, expected.related), message, {uri, other}
    if name in ("list", "tree"):
        size, depth = rng.choice((1, 2, 3, 1000)), rng.choice((0, 1, 2))
        if name == "list":
            request: Any = contexts_pb2.ListRequest(uri=uri, page_size=size)
            expected = of.model.list(uri)
        else:
            request = contexts_pb2.TreeRequest(uri=uri, page_size=size, depth=depth)
            expected = of.model.tree(uri, depth)
        code, found, message = pages(getattr(contexts, name.title()), request, of)
        wanted = expected.pages(size) if expected.code == "OK" else []
        return (code, found), (expected.code, wanted), message, {uri, other}
    if name == "glob":
        pattern = rng.choice(_GLOBS)
        request = contexts_pb2.GlobRequest(
            pattern=pattern, target_uri=uri, page_size=rng.choice((1, 3, 1000))
        )
        code, found, message = pages(contexts.Glob, request, of)
        expected = of.model.glob(uri, pattern)
        return (code, [*chain(*found)]), (expected.code, expected.uris), message, {uri, other}
    if name == "grep":
        return grep(stubs, rng, of, uri)
    if name == "put":
        is_directory = rng.random() < 0.4
        one = {"uri": uri, "is_directory": is_directory}
        if not is_directory:
            one["content"] = f"{rng.choice(_WORDS)} {rng.choice(_WORDS)} of {uri}"
        batch: list[dict[str, Any]] = [one]
        if rng.random() < 0.2 and other != uri:
            batch.append({"uri": other, "content": f"{rng.choice(_WORDS)} of {other}"})
        code, _, message = sent(contexts.Put, contexts_pb2.PutRequest(contexts=batch), of)
        wanted = of.model.put(
            [(each["uri"], each.get("is_directory", False)) for each in batch],
            [each.get("content", "") for each in batch],
        )
        return code, wanted.code, message, {uri, other}
    if name == "delete":
        missing = rng.random() < 0.3
        request = contexts_pb2.DeleteRequest(uris=[uri], allow_missing=missing)
        code, _, message = sent(contexts.Delete, request, of)
        return code, of.model.delete([uri], allow_missing=missing).code, message, {uri, other}
    if name == "move":
        request = contexts_pb2.MoveRequest(source_uri=uri, destination_uri=other)
        code, _, message = sent(contexts.Move, request, of)
        return code, of.model.move(uri, other).code, message, {uri, other}
    if name == "link":
        code, _, message = sent(
            contexts.Link, contexts_pb2.LinkRequest(uri=uri, other_uri=other), of
        )
        return code, of.model.link(uri, other).code, message, {uri, other}
    code, _, message = sent(
        contexts.Unlink, contexts_pb2.UnlinkRequest(uri=uri, other_uri=other), of
    )
    return code, of.model.unlink(uri, other).code, message, {uri, other}


def grep(stubs: Stubs, rng: random.Random, of: Sender, uri: str) -> tuple[Any, Any, str, set[str]]:
    """Search for a word, in pages, or in one page with its figures; see `one_call`."""
    word, glob = rng.choice(_WORDS), rng.choice(("", "", *_GLOBS))
    request = contexts_pb2.GrepRequest(pattern=word, target_uri=uri, glob=glob)
    expected = of.model.grep(uri, word, ("" if "/" in glob else "**/") + glob if glob else "**")
    if rng.random() < 0.5:
        request.page_size = rng.choice((1, 2))
        code, found, message = pages(stubs.contexts.Grep, request, of)
        return (code, [*chain(*found)]), (expected.code, expected.uris), message, {uri}
    code, reply, message = sent(stubs.contexts.Grep, request, of)
    if code != "OK":
        return code, expected.code, message, {uri}
    searched = of.model.grep(uri, "", ("" if "/" in glob else "**/") + glob if glob else "**")
    contents = [of.model.world.contents[one].encode() for one in searched.uris]
    return (
        (code, [match.uri for match in reply.matches], reply.searched_files, reply.searched_bytes),
        (expected.code, expected.uris, len(contents), sum(map(len, contents))),
        message,
        {uri},
    )


def uris_in(message: Any) -> Iterator[str]:
    """Yield all values of fields that name a URI, at any depth."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in values:
                yield from uris_in(each)
        elif "uri" in field.name:
            yield from values


def one_query(stubs: Stubs, rng: random.Random, of: Sender) -> tuple[Any, Any, str, set[str]]:
    """Make one random query.

    Returns:
        What of the reply the caller may not see, nothing, and the rest as `one_call`.
    """
    words = " ".join(rng.choices(_WORDS, k=2))
    target = rng.choice(("", "", some_uri(rng, 1), rng.choice(list(of.model.world.contexts))))
    find = retrieval_pb2.FindRequest(
        query=words,
        target_uri=target,
        limit=50,
        levels=rng.choice((0, 1, 2)),
        trace=rng.random() < 0.5,
        method=rng.choice((0, 1, 2)),
    )
    retrieve = retrieval_pb2.RetrieveRequest(
        query=rng.choice((words, "")), target_uri=target, top_k=rng.choice((2, 50))
    )
    known = rng.sample(list(of.model.world.contexts), k=min(3, len(of.model.world.contexts)))
    call, request = rng.choice(
        (
            (stubs.retrieval.Find, find),
            (stubs.retrieval.BatchFind, retrieval_pb2.BatchFindRequest(requests=[find])),
            (
                stubs.retrieval.Search,
                retrieval_pb2.SearchRequest(query=words, target_uri=target, limit=50),
            ),
            (stubs.retrieval.Retrieve, retrieve),
            (stubs.retrieval.BuildContext, retrieval_pb2.BuildContextRequest(find=find)),
            (stubs.retrieval.BuildContext, retrieval_pb2.BuildContextRequest(uris={"uris": known})),
            (
                stubs.memories.Recall,
                memories_pb2.RecallRequest(
                    query=rng.choice((words, "preferences", "yesterday")),
                    scope={"with_global": True, "project": rng.choice(("", "p"))},
                ),
            ),
        )
    )
    code, reply, message = sent(call, request, of)
    if code in ("NOT_FOUND", "INVALID_ARGUMENT"):
        return set(), set(), message, {target, *known}
    seen = set(uris_in(reply)) if reply is not None else {code}
    asked = set(known) if request.DESCRIPTOR.name == "BuildContextRequest" else set()
    return seen - of.model.visible() - asked, set(), message, {target, *known}


def hidden_in(message: str, of: Sender, named: set[str]) -> list[str]:
    """Return the contexts that an error names although the caller may not see them.

    An error may name a URI of its request and those above it, and the roots, which all know.
    """
    told = {of.model.full(uri) or "" for uri in named} | set(_ROOTS)
    hidden = set(of.model.world.contexts) - of.model.visible()
    words = re.findall(r"viking://[^\s,:;']*", message)
    return [
        uri
        for uri in hidden.intersection(words)
        if not any(one == uri or one.startswith(f"{uri}/") for one in told)
    ]


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.deep)])
def test_no_call_sees_or_changes_more_than_its_rights(
    stubs: tuple[Stubs, Sequence[tuple[str, str]]], rounds: int
) -> None:
    """Each status, listing and relation is the model's; no reply names what is not readable."""
    made, operator = stubs
    seed = 2511
    rng = random.Random(seed)
    for number in range(rounds):
        tops = made.contexts.List(contexts_pb2.ListRequest(), metadata=operator).contexts
        for context in tops:
            made.contexts.Delete(contexts_pb2.DeleteRequest(uris=[context.uri]), metadata=operator)
        world = model.World({"viking://": True})
        root = Sender(model.Caller(world, [("admin", "viking://")]), operator, "")
        for _ in range(60):
            uri = some_uri(rng)
            if "~" not in uri:
                content = f"{rng.choice(_WORDS)} {rng.choice(_WORDS)} of {uri}"
                put = contexts_pb2.PutRequest(contexts=[{"uri": uri, "content": content}])
                wanted = root.model.put([(uri, False)], [content]).code
                assert sent(made.contexts.Put, put, root)[0] == wanted
        senders = [sender(made, operator, rng, world) for _ in range(6)]
        for case in range(CASES):
            of = rng.choice(senders)
            state = rng.getstate()
            kind = one_query if rng.random() < 0.4 else one_call
            came, wanted, message, named = kind(made, rng, of)
            assert not hidden_in(message, of, named), (message, of.model._grants)
            assert came == wanted, (seed, number, case, state[1][-1], of.model._grants, message)
