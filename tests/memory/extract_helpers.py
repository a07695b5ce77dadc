"""Conversations, a daemon with a scripted model that extracts memories, and its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.answer.intent_helpers import completion
from tests.nodes.reader_helpers import serving
from tests.scripted import Reply, ScriptedServer
from vikingd.client import Client, ExtractResult, Session, SessionMessage

ROOT = "viking://user/memories"
PROFILE, PREFERENCES, ENTITIES = (
    f"{ROOT}/{name}.md" for name in ("profile", "preferences", "entities")
)


def session(*messages: str | tuple[str, str], summary: str = "") -> Session:
    """Return a conversation; a message without a role is of the user."""
    pairs = [one if isinstance(one, tuple) else ("user", one) for one in messages]
    return Session(summary, [SessionMessage(*pair) for pair in pairs])


def note(kind: str, text: str, *evidence: int, **fields: Any) -> dict[str, Any]:
    """Return a memory in the answer of a model."""
    made = {"kind": kind, "text": text, "evidence": list(evidence), "section": "", "replaces": 0}
    return made | fields


def noted(*memories: Any) -> Reply:
    """Return a model's reply with these memories."""
    return Reply(completion(json.dumps({"memories": list(memories)})))


def texts(result: ExtractResult) -> list[tuple[str, str, str]]:
    """Return kind, outcome and text of the memories."""
    return [(one.kind.name, one.outcome.name, one.text) for one in result]


def reasons(result: ExtractResult) -> dict[str, str]:
    """Return the reasons of the refused proposals by text."""
    return {one.text: one.reason for one in result.refused}


@dataclass
class Asked:
    """A daemon, and the model that it asks."""

    client: Client
    model: ScriptedServer

    def extract(self, reply: Reply, *messages: str | tuple[str, str], **how: Any) -> ExtractResult:
        """Extract from a conversation with this reply of the model."""
        self.model.answer = lambda _: reply
        self.model.requests.clear()
        return self.client.extract(session(*messages), **how)

    def data(self) -> dict[str, Any]:
        """Return what the model was told last, without the prompt."""
        told: dict[str, Any] = json.loads(self.model.requests[-1].json["messages"][1]["content"])
        return told

    def clear(self) -> None:
        """Remove all contexts."""
        for context in list(self.client.list()):
            self.client.delete(context.uri)


@contextmanager
def asking(path: Path, provider: str = "none", **environment: str) -> Iterator[Asked]:
    """Run a daemon whose planner asks a scripted model."""
    with (
        ScriptedServer(lambda _: noted()) as model,
        serving(
            path,
            "--provider",
            provider,
            VIKINGD_PLANNER__BASE_URL=f"{model.url}/v1",
            VIKINGD_PLANNER__MODEL="m",
            **environment,
        ) as daemon,
        Client(daemon.address) as client,
    ):
        yield Asked(client, model)


def files(client: Client) -> dict[str, str]:
    """Return the contents of all files by their URIs."""
    return {one.uri: client.get(one.uri).content for one in client.tree() if not one.is_directory}
