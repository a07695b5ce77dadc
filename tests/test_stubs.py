"""The protos say what is allowed, and the committed stubs are theirs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vikingd.index.where import MAX_CLAUSES
from vikingd.wire.decode import MAX_CHOICES

GENERATE = Path(__file__).parents[1] / "proto" / "generate.py"


def test_a_fresh_generation_is_identical() -> None:
    """Nobody changes a proto, a comment even, and leaves the stubs behind."""
    done = subprocess.run(
        [sys.executable, str(GENERATE), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("message", "field", "limit"),
    [
        ("FindRequest", "context_types", MAX_CHOICES),
        ("FindRequest", "where", MAX_CLAUSES),
        ("SearchRequest", "context_types", MAX_CHOICES),
        ("RetrieveRequest", "include", MAX_CHOICES),
        ("RetrieveRequest", "optional_clauses", MAX_CLAUSES),
        ("RecallRequest", "without", MAX_CHOICES),
    ],
)
def test_the_proto_says_how_many_a_list_may_have(message: str, field: str, limit: int) -> None:
    """Who writes a client learns it there, and not from an error."""
    protos = "".join(path.read_text() for path in GENERATE.parent.rglob("*.proto"))
    body = protos[protos.index(f"\nmessage {message} {{") :]
    found = re.search(rf"((?:  // .*\n)+)  [\w. ]+ {field} = \d+;", body)
    assert found
    assert re.search(rf"at\s(?:\s*//\s)?most {limit}\b", found[1])
