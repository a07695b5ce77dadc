"""The limits in the comments of the protos, and the stubs that are generated from them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vikingd.domain.contexts import MAX_DIMENSION
from vikingd.domain.pattern_queries import MAX_GLOB_BYTES, MAX_PATTERN_BYTES, MAX_SHOWN
from vikingd.domain.uri import MAX_BYTES
from vikingd.index.metadata.metadata_filters import MAX_CLAUSES
from vikingd.ingest.limits import MAX_TITLE_BYTES
from vikingd.ingest.passages import MAX_SECTION_BYTES
from vikingd.wire.request_limits import BUDGETS, MAX_REASON_BYTES, TABLE

GENERATE = Path(__file__).parents[2] / "proto" / "generate.py"


def test_a_fresh_generation_is_identical() -> None:
    """The committed stubs equal a fresh generation, comments included."""
    done = subprocess.run(
        [sys.executable, str(GENERATE), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("message", "field", "limit"),
    [
        (*name.split("."), most.entries)
        for name, most in TABLE.items()
        if most.entries is not None and not name.startswith("google.")
    ]
    + [
        ("FindRequest", "where", MAX_CLAUSES),
        ("ContextInput", "passages", BUDGETS["passages"].most),
        ("ContextInput", "metadata", BUDGETS["values"].most),
        ("ContextInput", "uri", MAX_BYTES),
        ("ContextInput", "title", MAX_TITLE_BYTES),
        ("Passage", "section", MAX_SECTION_BYTES),
        ("Passage", "vector", MAX_DIMENSION),
        ("LinkRequest", "reason", MAX_REASON_BYTES),
        ("GlobRequest", "pattern", MAX_GLOB_BYTES),
        ("GrepRequest", "glob", MAX_GLOB_BYTES),
        ("GrepRequest", "pattern", MAX_PATTERN_BYTES),
        ("GrepMatch", "text", MAX_SHOWN),
    ],
)
def test_the_proto_says_how_many_a_list_may_have(message: str, field: str, limit: int) -> None:
    """The proto comment of each limited field states its limit."""
    protos = "".join(path.read_text() for path in GENERATE.parent.rglob("*.proto"))
    body = protos[protos.index(f"\nmessage {message} {{") :]
    found = re.search(rf"((?:  // .*\n)+)  [\w. ]+ {field} = \d+;", body)
    assert found
    assert re.search(rf"(?i)\bat\s(?:\s*//\s)?most {limit:,}\b", found[1])
