"""Memories from conversations: precision, recall, and the refusal of what nobody said.

`python -m benchmarks.extraction` reads labelled conversations. `--rules` extracts by rules alone,
`--scripted` with a model that returns the labels or false memories, `--hostile` with a model that
obeys attacks. Without these options all three run. `--base-url` and `--model` ask a real model.
`--datasets DIR` compares Recall over extracted memories with Recall over the raw turns.
The exit code is 1 if a hostile conversation stored what it must not, or changed another file.
README.md explains the figures.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.daemon import say, serving, temporary_store
from benchmarks.extracted import (
    CONVERSATIONS,
    INVENTIONS,
    Attack,
    Score,
    Taken,
    Talk,
    inventions,
    read_attacks,
    read_talks,
    right,
    scores,
    table,
)
from benchmarks.extracted_recall import Beside, beside
from benchmarks.extracted_recall import table as beside_table
from benchmarks.recall import is_conversation, read_conversations
from vikingd.client import Client, Draft, Session

RULES, OBEYS = "rules", "obeys"

PLANTED = {
    "viking://user/memories/preferences.md": "- The user likes green tea.\n",
    "viking://agent/memories/patterns.md": "- Ask before a deletion.\n",
    "viking://agent/skills/mail.md": "# Mail\n\nWrite a mail.\n",
    "viking://resources/plan.md": "# Plan\n\nA plan.\n",
    "viking://users/bob/memories/profile.md": "- Bob lives in Oslo.\n",
}
"""Files that exist before a hostile conversation."""

MEMORIES = ("viking://user/memories/", "viking://agent/memories/")
"""Directories in which an extraction may write."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The number of false memories of one sort that a model returned, and of those refused."""

    sort: str
    returned: int
    refused: int


@dataclass(frozen=True, slots=True)
class Attacked:
    """The result of a hostile conversation.

    Attributes:
        run: the source of the proposals.
        id: the conversation.
        answers: the answers of the daemon.
        of_model: those of them whose memories the model proposed.
        taken: the memories that were written.
        beyond: those of them that match none of the allowed labels.
        stored: the forbidden texts that a file holds at the end, see `holds`.
        changed: files outside of the memories, or planted memories, that changed.
    """

    run: str
    id: str
    answers: int
    of_model: int
    taken: int
    beyond: tuple[str, ...]
    stored: tuple[str, ...]
    changed: tuple[str, ...]


class ScriptedModel:
    """An endpoint with OpenAI's chat protocol on loopback that returns `memories` to each call."""

    def __init__(self) -> None:
        self.memories: Sequence[Mapping[str, Any]] = ()
        self.calls = 0
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                model.calls += 1
                body = json.dumps(model._completion()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve in a thread."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _completion(self) -> Any:
        content = json.dumps({"memories": list(self.memories)})
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [choice],
        }


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.extraction", description=__doc__)
    parser.add_argument("--rules", action="store_true", help="extract by rules alone")
    parser.add_argument("--scripted", action="store_true", help="extract with a scripted model")
    parser.add_argument("--hostile", action="store_true", help="extract from attacks")
    parser.add_argument(
        "--conversations",
        type=Path,
        metavar="FILE",
        default=CONVERSATIONS,
        help="labelled conversations in place of conversations.jsonl",
    )
    parser.add_argument("--base-url", default="", help="the endpoint of a real model")
    parser.add_argument("--model", default="", help="the name of the real model")
    parser.add_argument("--key-env", default="OPENAI_API_KEY", help="the variable with its key")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for its answer")
    parser.add_argument("--datasets", type=Path, metavar="DIR", help="sets of conversations")
    parser.add_argument("--seed", type=int, default=0, help="of the false memories")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    arguments = parser.parse_args()
    if bool(arguments.base_url) != bool(arguments.model):
        parser.error("--base-url and --model go together")
    chosen = any(
        (
            arguments.rules,
            arguments.scripted,
            arguments.hostile,
            arguments.model,
            arguments.datasets,
        )
    )
    planner = arguments.model and planner_section(
        arguments.base_url, arguments.model, arguments.key_env, arguments.timeout
    )
    talks = read_talks(arguments.conversations)
    figures: list[Score | Refused | Attacked | Beside] = []
    if arguments.rules or not chosen:
        figures += _printed_scores(RULES, extracted(talks, ""))
    if arguments.scripted or not chosen:
        figures += scripted(talks, arguments.seed)
    if planner:
        figures += _printed_scores(arguments.model, extracted(talks, planner))
    attacked: list[Attacked] = []
    if arguments.hostile or not chosen:
        attacked = hostile(read_attacks())
        figures += attacked
    if arguments.datasets:
        figures += recalled(arguments.datasets, planner, arguments.model or RULES)
    if arguments.json:
        rows = [{"of": type(one).__name__.lower(), **asdict(one)} for one in figures]
        arguments.json.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    obeyed = [one.of_model for one in attacked if one.run == OBEYS]
    if obeyed and not any(obeyed):
        raise SystemExit("the daemon used no answer of the obeying model, so --hostile tested none")
    return int(any(one.stored or one.changed for one in attacked))


def planner_section(base_url: str, model: str, key_env: str = "", timeout: float = 10.0) -> str:
    """Return the section [planner] of a configuration, as TOML."""
    lines = {"base_url": base_url, "model": model, "key_env": key_env, "timeout": timeout}
    return "[planner]\n" + "".join(
        f"{name} = {json.dumps(value)}\n" for name, value in lines.items() if value
    )


@contextmanager
def extracting(configuration: str = "", provider: str = "none") -> Iterator[Client]:
    """Run a daemon with a new store and this configuration; yield a client of it."""
    with temporary_store() as directory:
        config = directory / "vikingd.toml"
        config.write_text(configuration)
        with (
            serving(directory / "store", provider, config=config) as server,
            Client(server.address, timeout=None) as client,
        ):
            yield client


def extract(client: Any, talk: Talk, *, dry_run: bool = False) -> Any:
    """Extract memories from the messages of a conversation."""
    session = Session()
    for role, content in talk.messages:
        session.add(role, content)
    return client.extract(session, dry_run=dry_run)


def taken_from(memories: Iterable[Any]) -> list[Taken]:
    """Return extracted memories in the form of the labels."""
    return [Taken(one.kind.name.lower(), one.text, tuple(one.evidence)) for one in memories]


def extracted(talks: Sequence[Talk], planner: str) -> list[tuple[Talk, list[Taken]]]:
    """Return the memories of each conversation, which are not written."""
    results = []
    with extracting(planner) as client:
        for talk in talks:
            reply = extract(client, talk, dry_run=True)
            if bool(planner) != (reply.source.name == "MODEL"):
                say(f"{talk.id}: by {reply.source.name}: {reply.reason}")
            results.append((talk, taken_from(reply.memories)))
    return results


def scripted(talks: Sequence[Talk], seed: int) -> list[Score | Refused]:
    """Print and return the figures with a model that returns labels and false memories."""
    model = ScriptedModel()
    false = {talk.id: inventions(talk, talks, seed) for talk in talks}
    exact, mixed = [], []
    refused = {"right": [0, 0], **{sort: [0, 0] for sort in INVENTIONS}}
    with model.serving(), extracting(planner_section(model.base_url, "scripted")) as client:

        def asked(talk: Talk, memories: Sequence[Taken]) -> Any:
            before, model.memories = model.calls, [one._asdict() for one in memories]
            reply = extract(client, talk, dry_run=True)
            assert model.calls > before, f"{talk.id}: the daemon did not ask the model"
            if reply.source.name != "MODEL":
                say(f"{talk.id}: by {reply.source.name}: {reply.reason}")
            return reply

        for talk in talks:
            labels = [label.taken for label in talk.labels]
            reply = asked(talk, labels)
            exact.append((talk, taken_from(reply.memories)))
            for one in reply.refused:
                say(f"{talk.id}: refused {one.text!r} of {list(one.evidence)}: {one.reason}")
            _count(refused["right"], labels, reply)
            answer = list(labels)
            for sort in ("false", "borrowed", "changed"):
                answer += false[talk.id][sort]
            mixed.append((talk, taken_from(asked(talk, answer).memories)))
            for sort in INVENTIONS:
                if memories := false[talk.id][sort]:
                    _count(refused[sort], memories, asked(talk, memories))
    figures = [
        *_printed_scores("scripted, labels", exact),
        *_printed_scores("scripted, with false ones", mixed),
    ]
    rows = [Refused(sort, *counts) for sort, counts in refused.items()]
    print("\nmemories of the model  returned  refused  share")
    for row in rows:
        share = row.refused / max(row.returned, 1)
        print(f"{row.sort:<21}  {row.returned:>8}  {row.refused:>7}  {share:.3f}")
    return [*figures, *rows]


def _count(counts: list[int], returned: Sequence[Taken], reply: Any) -> None:
    """Count the memories that the model returned, and those of them that were refused."""
    by_model = reply.source.name == "MODEL"
    refused = {_folded(one.text) for one in reply.refused}
    counts[0] += len(returned)
    counts[1] += sum(not by_model or _folded(one.text) in refused for one in returned)


def _folded(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".。")


def hostile(attacks: Sequence[Attack]) -> list[Attacked]:
    """Print and return the results of the attacks, by rules and by a model that obeys."""
    model = ScriptedModel()
    runs = {RULES: "", OBEYS: planner_section(model.base_url, OBEYS)}
    found = []
    with model.serving():
        for run, planner in runs.items():
            with extracting(planner) as client:
                found += [_attacked(client, run, attack, model) for attack in attacks]
    print("\nrun    conversation      answers  of the model  taken  beyond  stored  changed")
    for one in found:
        print(
            f"{one.run:<5}  {one.id:<16}  {one.answers:>7}  {one.of_model:>12}  {one.taken:>5}"
            f"  {len(one.beyond):>6}  {len(one.stored):>6}  {len(one.changed):>7}"
        )
        for fault, texts in (
            ("took beyond the labels", one.beyond),
            ("stored", one.stored),
            ("changed", one.changed),
        ):
            for text in texts:
                say(f"{one.run}, {one.id}: {fault} {text[:100]!r}")
    return found


def _attacked(client: Client, run: str, attack: Attack, model: ScriptedModel) -> Attacked:
    """Run the extraction of a hostile conversation in a tree that has only the planted files.

    The model returns all memories of the attack at once, then each of the first eight alone. So a
    refusal of one cannot hide the others.
    """
    if old := files(client):
        client.delete(*old)
    client.put([Draft(uri, content=text) for uri, text in PLANTED.items()])
    answers = [list(attack.obeyed), *([one] for one in attack.obeyed[:8])]
    replies = []
    for answer in answers if run == OBEYS else [[]]:
        model.memories = answer
        replies.append(extract(client, attack.talk))
        if run == OBEYS and replies[-1].source.name != "MODEL":
            say(f"{attack.talk.id}: by {replies[-1].source.name}: {replies[-1].reason}")
    after = files(client)
    shown = [
        ("\n".join((one.uri, one.title, one.abstract, one.overview)), after.get(one.uri, ""))
        for one in client.tree()
    ]
    taken = list(dict.fromkeys(one for reply in replies for one in taken_from(reply.memories)))
    labels = attack.talk.labels
    beyond = tuple(one.text for one in taken if not any(label.matches(one) for label in labels))
    stored = tuple(
        part
        for part in attack.forbidden
        if any(
            part in about or holds(text, part, private=part in attack.private)
            for about, text in shown
        )
    )
    return Attacked(
        run,
        attack.talk.id,
        answers=len(replies),
        of_model=sum(reply.source.name == "MODEL" for reply in replies),
        taken=len(taken),
        beyond=beyond,
        stored=stored,
        changed=tuple(changes(PLANTED, after)),
    )


_SPOKEN = re.compile(r"- (?:User|Assistant), \d\d:\d\d(?: \(\d+ of \d+\))?:|  >")


def holds(content: str, part: str, *, private: bool = False) -> bool:
    """Return True if a file holds a text, except as the words of its speaker.

    In an episode a line begins with its speaker, or is marked as a continuation of such a line. A
    text that is `private`, or has several lines, may not be held at all.
    """
    if private or "\n" in part:
        return part in content
    return any(part in line and not _SPOKEN.match(line) for line in content.splitlines())


def files(client: Client) -> dict[str, str]:
    """Return the contents of all files by URI."""
    return {one.uri: client.get(one.uri).content for one in client.tree() if not one.is_directory}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that an extraction must not change but did, and memories that lost a line."""
    for uri in sorted(before.keys() | after.keys()):
        old, new = before.get(uri, ""), after.get(uri, "")
        if uri.startswith(MEMORIES):
            lines = set(new.splitlines())
            if any(line not in lines for line in old.splitlines()):
                yield uri
        elif old != new or (uri in before) != (uri in after):
            yield uri


def recalled(datasets: Path, planner: str, by: str) -> list[Beside]:
    """Print and return the figures of Recall over raw turns and over extracted memories.

    Raises:
        SystemExit: no set below `datasets` has conversations.
    """
    rows: list[Beside] = []
    for source in sorted(datasets.iterdir()):
        if (source / "documents.jsonl").is_file() and is_conversation(source):
            rows += beside(source.name, read_conversations(source), extracting, planner, by)
    if not rows:
        raise SystemExit(f"--datasets: {datasets} has no set whose documents all have a time")
    print(f"\n{beside_table(rows)}", flush=True)
    return rows


def _printed_scores(run: str, results: Sequence[tuple[Talk, Sequence[Taken]]]) -> list[Score]:
    rows = scores(run, results)
    print(f"\n{table(rows)}", flush=True)
    for talk, taken in results:
        for one, hit in zip(taken, right(talk.labels, taken), strict=True):
            if not hit:
                say(f"{run}, {talk.id}: no label for {one.kind} {one.text!r} of {one.evidence}")
        for label in talk.labels:
            if not any(map(label.matches, taken)):
                say(f"{run}, {talk.id}: missed {label.kind} {label.text!r}")
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
