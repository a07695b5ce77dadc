"""The hooks' calls to a daemon: present memories, memories for a prompt, and a commit."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence

from vikingd.hooks import memory_texts
from vikingd.hooks.agent_events import Message
from vikingd.hooks.memory_texts import Shown
from vikingd.hooks.session_files import session_name
from vikingd.hooks.unary_calls import INVALID_ARGUMENT, NOT_FOUND, CallFailed, Connection
from vikingd.hooks.wire_messages import Decoded, first, seconds_of, timestamp

PRESENT = (
    *("instructions", "preferences", "profile", "decisions", "patterns", "entities", "cases"),
)
"""The kinds of memories that a session gets at its start, in order: those about the present."""

MOST_QUERY = 16 << 10
"""The most bytes of a query; a longer one is shortened to its telling parts."""

NEAR = 0.45
"""The least score of a memory, as a share of the best one; replaced memories count half."""

_STRONG, _WEAK = 1, 2  # the scope is about the prompt, and perhaps
_MOST_MEMORIES = 20  # of a recall
_FEWEST_WORDS, _FEWEST_WIDE = 3, 5  # words, or characters of scripts without spaces
_ZONES = "/usr/share/zoneinfo"
_MOST_FILES = 200  # of a directory
_HALF_LIFE = 30.0  # days
_ENVELOPE = 120  # tokens of a text beside its memories


def metadata() -> dict[str, str]:
    """Return the metadata of each call, from the variables that all clients read.

    Raises:
        ValueError: the key or the tenant cannot be sent.
        OSError: the file of the key cannot be read.
    """
    key = os.environ.get("VIKINGD_KEY", "")
    if not key and (path := os.environ.get("VIKINGD_KEY_FILE")):
        with open(path, encoding="utf-8") as file:
            key = file.read(4096).strip()
    tenant = os.environ.get("VIKINGD_TENANT", "")
    for name, value in (("the key", key), ("the tenant", tenant)):
        if value and not (value.isascii() and value.isprintable() and " " not in value):
            raise ValueError(f"{name} has characters that cannot be sent")
    found = {"authorization": f"Bearer {key}"} if key else {}
    return found | ({"vikingd-tenant": tenant} if tenant else {})


def time_zone() -> str:
    """Return this machine's time zone by its name; "" if it has none, which is UTC."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        try:
            name = os.readlink("/etc/localtime").rpartition("/zoneinfo/")[2]
        except OSError:
            return ""
    # TZ may hold a rule or a path, too, and the daemon refuses a zone that is not in the table.
    is_name = name.replace("/", "").replace("_", "").replace("-", "").isalnum()
    is_name &= not name.startswith("/")
    return name if is_name and os.path.isfile(f"{_ZONES}/{name}") else ""


def present(daemon: Connection, project: str) -> list[Shown]:
    """Return the current memories of the user and of a project, with weights by age and repeats."""
    roots = ["viking://user/memories", "viking://agent/memories"]
    if "authorization" in daemon.metadata:  # a key may have a user of its own
        roots.append("viking://~/memories")
    if project:
        below = f"viking://projects/{project}/memories"
        roots += [below, f"{below}/agent"]
    files, series = list[tuple[str, str]](), list[tuple[str, str]]()
    for root, children in zip(roots, _listed(daemon, roots), strict=True):
        for kind in PRESENT:
            if f"{kind}.md" in children:
                files.append((kind, f"{root}/{kind}.md"))
            if kind in children:
                series.append((kind, f"{root}/{kind}"))
    # Of a series the newest file is read, too: there are the newest memories.
    listed = _listed(daemon, [uri for _, uri in series])
    for (kind, uri), children in zip(series, listed, strict=True):
        names = [name.removesuffix(".md") for name in children]
        if newest := max((int(one) for one in names if one.isdecimal()), default=0):
            files.append((kind, f"{uri}/{newest}.md"))
    many = [{"uri": uri} for _, uri in files]
    replies = daemon.calls("Contexts/Get", "GetRequest", "GetResponse", many)
    found: list[Shown] = []
    now = time.time()
    for (kind, _), reply in zip(files, replies, strict=True):
        if not isinstance(reply, CallFailed):  # else it was removed a moment ago
            found += _entries(kind, reply, now)
    return found


def matching(daemon: Connection, project: str, prompt: str, session: str) -> list[Shown]:
    """Return the memories for a prompt, best first, without those taken from this session.

    The result is empty unless the confidence of the recall is strong, because nobody has asked for
    memories. Only memories with scores near to the best are returned. A prompt of a word or two
    ("go on", "try again") gives none, since a search could find nothing for it.
    """
    wide = sum(ord(one) >= memory_texts.WIDE for one in prompt[:100])
    if len(prompt.split(None, _FEWEST_WORDS)) < _FEWEST_WORDS and wide < _FEWEST_WIDE:
        return []
    enough: tuple[int, ...] = (_STRONG,)
    if len(prompt.encode(errors="replace")) > MOST_QUERY:
        from vikingd.domain.long_queries import fitted

        prompt = fitted(prompt)
        enough = (_STRONG, _WEAK)  # the words of a pasted log are nowhere in the memories
    reply = daemon.call(
        "Memories/Recall",
        "RecallRequest",
        "RecallResponse",
        query=prompt,
        scope={"with_global": True, "project": project},
        max_tokens=memory_texts.MAX_TOKENS - _ENVELOPE,
        top_k=_MOST_MEMORIES,
        time_zone=time_zone(),
    )
    if first(first(reply, "confidence", {}), "strength", 0) not in enough:
        return []
    results = reply.get("results", [])
    least = NEAR * max((first(one, "score", 0.0) for one in results), default=0.0)
    own = f"/session-{session_name(session)}"
    return [
        Shown(
            first(one, "id", 0),
            first(one, "memory_type"),
            first(one, "content"),
            first(one, "section"),
            seconds_of(one, "time"),
        )
        for one in results
        if first(one, "score", 0.0) >= least
        and not any(first(one, "uri").partition(own)[2].startswith(end) for end in (".", "/"))
    ]


def commit(
    daemon: Connection,
    project: str,
    session: str,
    messages: Sequence[Message],
    first_new: int,
    now: float,
    zone: str,
    request_id: str,
) -> None:
    """Take memories from messages[first_new:]; calls with the same request_id count once."""
    sent = [
        {
            "role": one.role,
            "content": one.text,
            "time": timestamp(one.time or now),
        }
        for one in messages
    ]
    daemon.call(
        "Memories/Extract",
        "ExtractRequest",
        "ExtractResponse",
        session={"messages": sent, "id": session_name(session)},
        first=first_new,
        scope={"project": project},
        time=timestamp(now),
        time_zone=zone,
        request_id=request_id,
    )


def _listed(daemon: Connection, uris: Sequence[str]) -> list[list[str]]:
    """Return the names in each directory; [] for one that is missing or not readable."""
    many = [{"uri": uri, "page_size": _MOST_FILES} for uri in uris]
    found = list[list[str]]()
    for reply in daemon.calls("Contexts/List", "ListRequest", "ListResponse", many):
        if isinstance(reply, CallFailed):
            # A key without a user has no viking://~.
            if reply.status not in (NOT_FOUND, INVALID_ARGUMENT):
                raise reply
            found.append([])
        else:
            uris_of = (first(one, "uri") for one in reply.get("contexts", ()))
            found.append([uri.rpartition("/")[2] for uri in uris_of])
    return found


def _entries(kind: str, reply: Decoded, now: float) -> Iterator[Shown]:
    """Yield the memories of a file, without those below "Earlier"."""
    context: Decoded = first(reply, "context", {})
    content = first(context, "content")
    for passage in context.get("passages", ()):
        state: Decoded = first(passage, "memory", {})
        section = first(passage, "section")
        if first(passage, "continues", 0) or memory_texts.is_past(section):
            continue
        said = seconds_of(state, "time")
        age = max(now - said, 0) / 86_400
        weight = math.log2(1 + first(state, "reinforcement", 0)) - age / _HALF_LIFE
        text = content[first(passage, "start", 0) : first(passage, "end", 0)]
        yield Shown(
            first(state, "id", 0), kind, text.removeprefix("📌").strip(), section, said, weight
        )
