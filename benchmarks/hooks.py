"""Hooks of a coding agent as whole processes, from the start to the exit.

`python -m benchmarks.hooks` measures each event in rounds of its own, by turns with
`python -c pass`, which is the floor, over a daemon with its embedder on a unix socket. Commits run
in the background of the stops alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.daemon import say, serving
from vikingd.client import Client, Document, Session

_PROJECT = "moon"
_PARTS = ("parser", "cache", "scheduler", "importer", "gateway", "linter", "exporter", "planner")
_TOOLS = ("pnpm", "cargo", "ruff", "terraform", "buf", "vitest", "helm", "meson")
_HOOK = [str(Path(sys.executable).with_name("vikingctl")), "hook", "claude-code"]
_FLOOR = "python -c pass"
_EVENTS: dict[str, dict[str, str]] = {
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {},
    "Stop": {},
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.hooks", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000, help="contexts beside the memories")
    parser.add_argument("--memories", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=200, help="processes of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hooks-") as directory:
        home = Path(directory)
        address = f"unix:{home}/run/socket"
        with serving(home / "store", "e5", address):
            with Client(address, timeout=600) as client:
                _fill(client, given.nodes, given.memories)
            taken = _measure(home, address, given.rounds)
    figures = {}
    print(f"{'process':18} {'p50 ms':>8} {'p99 ms':>8} {'most ms':>8}")
    for name, seconds in taken.items():
        p50, p99, most = (
            float(one) for one in np.percentile(np.array(seconds) * 1e3, (50, 99, 100))
        )
        figures[name] = {"p50": round(p50, 1), "p99": round(p99, 1), "most": round(most, 1)}
        print(f"{name:18} {p50:8.1f} {p99:8.1f} {most:8.1f}")
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


def _fill(client: Client, nodes: int, memories: int) -> None:
    """Write contexts and memories, and wait until they have vectors."""
    say(f"{nodes:,} contexts and {memories:,} memories")
    documents = (
        Document(
            f"viking://resources/notes/{i // 100}/{i}.md",
            f"Note {i}: the {_PARTS[i % 8]} of part {i // 8} is built with {_TOOLS[i // 8 % 8]}.",
        )
        for i in range(nodes)
    )
    client.put_many(documents)
    kinds = ("preferences", "entities", "decisions", "patterns", "cases")
    for i in range(memories // 2):
        text = f"The {_PARTS[i % 8]} number {i} is checked with {_TOOLS[i // 8 % 8]}."
        client.remember(text, kinds[i % 5], project=_PROJECT if i % 2 else "")
    for number in range(memories // 20):
        session = Session()
        for i in range(10):
            words = (
                f"We looked at the {_PARTS[i % 8]} in round {number} and ran {_TOOLS[number % 8]}."
            )
            session.add("assistant" if i % 2 else "user", words)
        client.extract(session, project=_PROJECT)
    while client.stats().embedder.backlog:
        time.sleep(0.5)
    client.optimize()


def _measure(home: Path, address: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of the processes by kind."""
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(home / "state"),
        "VIKINGCTL_ADDRESS": address,
        "VIKINGD_PROJECT": _PROJECT,
    }
    transcript = home / "transcript.jsonl"
    taken: dict[str, list[float]] = {}
    for name, more in _EVENTS.items():
        for number in range(-2, rounds):  # the first rounds warm up
            line = {"message": {"content": f"Round {number} is over."}, "type": "user"}
            with transcript.open("a") as file:
                file.write(json.dumps(line) + "\n")
            part = f"the {_PARTS[number % 8]} number {number % 16}"
            # A session is not given twice what it had, so each event is of another session.
            event = {
                "session_id": f"{name}-{number}",
                "cwd": str(home),
                "transcript_path": str(transcript),
                "hook_event_name": name,
                "prompt": f"Which tool checks {part}? ({number})",
                **more,
            }
            floor = _seconds([sys.executable, "-c", "pass"], {}, environment)[0]
            seconds, answer = _seconds(_HOOK, event, environment)
            if number >= 0:
                taken.setdefault(_FLOOR, []).append(floor)
                taken.setdefault(name, []).append(seconds)
            if name != "Stop" and not answer:
                raise SystemExit(f"{name} has no answer; see {home}/state/vikingd/hooks.log")
    return taken


def _seconds(
    command: Sequence[str], event: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[float, bytes]:
    """Run a process; return its seconds and its answer."""
    started = time.perf_counter()
    done = subprocess.run(
        command,
        input=json.dumps(event).encode(),
        stdout=subprocess.PIPE,
        check=True,
        env=environment,
    )
    return time.perf_counter() - started, done.stdout


if __name__ == "__main__":
    main()
