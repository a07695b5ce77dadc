"""Helpers of the export tests: trees, edits and snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from tests.patience import eventually
from vikingd.client.file_import import Importer
from vikingd.client.import_summary import ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.ctl.export_command import Exporter
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.ingest.files import read_tree
from vikingd.ingest.jsonl import read_jsonl

Ctl = Callable[..., tuple[int, str, str]]

TOP = "viking://user/memories"
NOTES = f"{TOP}/notes.md"
EDITED = "# Me\n\n- likes oolong\n- drives a bike\n- likes oolong\n"
MOVING = {"revision", "updateTime", "createTime", "contentHash"}


def snapshot(
    client: MessageClient, top: str = uris.ROOT, *, hashes: bool = False
) -> dict[str, Any]:
    """Return all contexts below a top by URI, without fields that a Put cannot set."""
    found = {}
    for node in client.tree(top):
        context = MessageToDict(client.get(node.uri).context)
        for passage in context.get("passages", ()):
            passage.get("memory", {}).pop("id", None)
        left_out = MOVING - {"contentHash"} if hashes else MOVING
        found[node.uri] = {key: v for key, v in context.items() if key not in left_out}
    return found


def clear(client: MessageClient) -> None:
    """Delete the whole tree."""
    for context in list(client.list()):
        client.delete(context.uri)


def written(client: MessageClient, top: str, path: Path) -> dict[str, bytes]:
    """Export to `path`, and return the files by their relative paths."""
    Exporter(client, top).write(path, lambda _: None)
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def brought_back(client: MessageClient, path: Path, top: str = uris.ROOT) -> ImportSummary:
    """Import `path`, and check that nothing fails."""
    importer = Importer(client, top)
    items = read_jsonl(path) if path.suffix == ".jsonl" else read_tree(path, top)
    importer.run(items, lambda _: None)
    assert not importer.summary.failed
    assert not importer.summary.unreadable
    return importer.summary


def counted(client: MessageClient, uri: str = NOTES) -> list[tuple[str, int, int, int, int]]:
    """Return (text, reinforcement, accesses, time, creation) of each memory of a file."""
    context = client.get(uri).context
    return [
        (
            context.content[p.start : p.end],
            p.memory.reinforcement,
            p.memory.access_count,
            p.memory.time.ToMicroseconds(),
            p.memory.create_time.ToMicroseconds(),
        )
        for p in context.passages
    ]


def lived(client: MessageClient) -> None:
    """Put a file of memories, then reinforce and recall some of them."""
    client.put([Draft(NOTES, content=EDITED)])
    first, _, third = (p.memory.id for p in client.get(NOTES).context.passages)
    client.reinforce(first, by=2)
    client.reinforce(third, by=5)
    found = client.recall("oolong bike", with_global=True).results
    assert len(found) == 2  # equal memories are recalled once
    client.recall("oolong bike", used=[first])
    eventually(lambda: client.get(NOTES).context.access_count >= 3)


def run(ctl: Ctl, *arguments: str) -> dict[str, Any]:
    """Run a command that succeeds, and return its summary."""
    code, out, err = ctl(*arguments, "--json")
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert isinstance(summary, dict)
    return summary


def edited_lines(path: Path, *lines: str) -> None:
    """Write lines to a file, as an editor does."""
    path.write_text("\n".join(lines) + "\n")
