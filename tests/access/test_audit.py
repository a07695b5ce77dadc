"""Audit lines, through the formatter of the daemon's log."""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
from typing import Any

import pytest

from vikingd.access.audit import MAX_CHARACTERS, MAX_OBJECTS, Audit
from vikingd.pb import contexts_pb2
from vikingd.wire.rights_table import rules

WRITER = """
import json, sys
from vikingd.daemon.logs import configure_logs
configure_logs(sys.argv[1])
from vikingd.access.audit import Audit
audit = Audit()
for line in sys.stdin:
    audit.write(**json.loads(line))
"""

PLAIN: dict[str, Any] = {
    "who": "k7",
    "user": "ana",
    "tenant": "acme",
    "peer": "ipv6:%5B2001:db8::1%5D:5678",
    "method": "Put",
    "objects": ["viking://resources/a.md", "viking://users/ana/memories/b"],
    "code": "OK",
    "revision": 42,
}
FIELDS = ["timestamp", "level", "logger", "event", "who", "user", "tenant", "peer", "method"]
FIELDS += ["objects", "code"]
TEXTS = ("who", "user", "tenant", "peer", "method", "code")
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HOSTILE = [
    "viking://a\nlevel=info logger=vikingd.audit event=call who=admin",
    "viking://a\r2026-11-25 forged",
    'viking://a" who="admin',
    'viking://a\\" who=admin \\',
    "viking://a\\",
    "viking://a who=admin",
    "who=admin",
    "=",
    '"',
    '\\"',
    "\\n",
    "viking://a\tb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\u00a0i\u3000j",
    "viking://\x00\x1b[2J\x1b]0;title\x07\x9b1m\x7f",
    f"viking://{BIDI}",
    "viking://\udfff\ud800\ufeff\u200b\U000e0041",
    "viking://港口/été 😀",
    "",
]


def written(*lines: dict[str, Any], level: str = "info") -> list[str]:
    """Return the lines that a process with the daemon's log writes."""
    given = "".join(json.dumps(line) + "\n" for line in lines)
    run = subprocess.run(
        [sys.executable, "-c", WRITER, level],
        input=given.encode(),
        capture_output=True,
        check=True,
    )
    assert run.stdout == b""
    return run.stderr.decode().split("\n")[:-1]


def read(line: str) -> dict[str, str]:
    """Return the fields of a logfmt line; fail if it is not one, or has a field twice."""
    out: dict[str, str] = {}
    at = 0
    while at < len(line):
        end = line.index("=", at)
        key, at = line[at:end], end + 1
        assert key.replace("_", "").isalpha(), line
        value = ""
        if line[at : at + 1] == '"':
            at += 1
            while line[at] != '"':
                if line[at] == "\\":
                    at += 1
                    assert line[at] in '\\"', line
                value += line[at]
                at += 1
            at += 1
        else:
            end = min(n for n in (line.find(" ", at), len(line)) if n >= 0)
            value, at = line[at:end], end
            assert '"' not in value, line
            assert "=" not in value, line
        assert key not in out, line
        out[key] = value
        assert line[at : at + 1] in ("", " "), line
        at += 1
    return out


def plain(text: str) -> str:
    """Return the text of a value, with its escapes read as in Python."""
    return text.encode("unicode_escape").replace(b"\\\\", b"\\").decode("unicode_escape")


def test_a_line_has_all_fields() -> None:
    """The line of a write is bounded by its fields, in a stable order."""
    (line,) = written(PLAIN)
    assert line.partition(" ")[2] == (
        "level=info logger=vikingd.audit event=call who=k7 user=ana tenant=acme peer=2001:db8::1 "
        'method=Put objects="viking://resources/a.md viking://users/ana/memories/b" code=OK '
        "revision=42"
    )


def test_further_objects_are_counted() -> None:
    """A call with many URIs has five and the number of the others; a denial has no revision."""
    many = [f"viking://a/{n}" for n in range(1000)]
    line, few = written(
        PLAIN | {"objects": many, "revision": None, "code": "PERMISSION_DENIED"},
        PLAIN | {"objects": many[:MAX_OBJECTS], "revision": 0},
    )
    fields = read(line)
    assert fields["objects"].split(" ") == many[:5]
    assert fields["more_objects"] == "995"
    assert "revision" not in fields
    assert read(few)["objects"].split(" ") == many[:5]
    assert "more_objects" not in read(few)
    assert read(few)["revision"] == "0"


def test_no_value_forges_a_line_or_a_field() -> None:
    """Whatever a value has in it, each call has one line with just its fields, and all its text."""
    calls = [PLAIN | {"objects": HOSTILE[n : n + 3]} for n in range(len(HOSTILE))]
    calls += [PLAIN | dict.fromkeys(TEXTS, text) for text in HOSTILE]
    rng = random.Random(5)
    alphabet = ' ="\\\n\r\t,:/aé港\u202e\u2028\x1b\x00\ud800'
    for _ in range(500):
        texts = ["".join(rng.choices(alphabet, k=rng.randrange(15))) for _ in range(9)]
        calls.append(PLAIN | dict(zip(TEXTS, texts, strict=False)) | {"objects": texts[6:]})
    lines = written(*calls)
    assert len(lines) == len(calls)
    for call, line in zip(calls, lines, strict=True):
        assert line.isprintable(), ascii(line)  # no controls, line separators, bidi characters
        fields = read(line)
        assert list(fields) == [*FIELDS, "revision"]
        assert fields["logger"] == "vikingd.audit"
        assert [plain(uri) for uri in fields["objects"].split(" ")] == call["objects"]
        for name in TEXTS:
            if name != "peer":  # its port is left out
                assert plain(fields[name]) == call[name]


def test_values_are_bounded() -> None:
    """Long values are cut, and five long URIs are below the bound of a value of the log."""
    calls = [
        PLAIN | dict.fromkeys(TEXTS, text) | {"objects": [text] * 7}
        for text in ("viking://" + "a" * 10**5, "\u202e" * 10**5, "\U000e0041" * 10**5, " " * 10**5)
    ]
    for line in written(*calls):
        fields = read(line)
        assert line.isprintable()
        assert len(line) < 7 * MAX_CHARACTERS + 1200
        objects = fields["objects"].split(" ")
        assert len(objects) == MAX_OBJECTS
        for value in (*objects, *(fields[name] for name in TEXTS)):
            assert value.endswith("\\...")
            assert len(value) <= MAX_CHARACTERS + 4
        assert fields["more_objects"] == "2"


def test_a_level_that_excludes_the_lines_costs_nothing() -> None:
    """At the level warning nothing is written, and the URIs are not looked at."""

    class Untouched(list[str]):
        def __getitem__(self, _: object) -> Any:
            raise AssertionError

        __len__ = __iter__ = __getitem__  # type: ignore[assignment]

    assert written(PLAIN, level="warning") == []
    logger = logging.getLogger("vikingd.audit")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        assert not Audit().is_on
        Audit().write(**PLAIN | {"objects": Untouched()})
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize("level", ["info", "debug"])
def test_other_levels_have_the_lines(level: str) -> None:
    """The default level has them."""
    assert len(written(PLAIN, PLAIN, level=level)) == 2


def test_a_refused_context_is_no_object_of_a_put() -> None:
    """A partial Put names the contexts that were written, and no others."""
    rule = rules()["/viking.retrieval.v1.Contexts/Put"]
    request = contexts_pb2.PutRequest(partial_success=True)
    for name in "abc":
        request.contexts.add(uri=f"viking://resources/{name}.md")
    reply = contexts_pb2.PutResponse(refusals=[contexts_pb2.PutRefusal(index=1)])
    assert rule.objects(request, reply) == [
        "viking://resources/a.md",
        "viking://resources/c.md",
    ]
