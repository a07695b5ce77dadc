"""An engine whose contexts a scripted model describes over a real socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import eventually
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.domain.contexts import Context, Draft
from vikingd.engine import Engine, EngineSettings, Shared
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.describe.describer_settings import DescriberSettings
from vikingd.models.embed.embed_settings import EmbedSettings

NOTES = "viking://resources/notes"
WORDLESS = EmbedSettings(provider="none")


def prose(about: str) -> str:
    """Return a text that is long enough for a description."""
    return (
        f"# {about.capitalize()}\n\nThe library keeps a record of {about}. "
        + f"Readers who ask for {about} find it on the second floor, near the window. " * 20
    )


def data_of(request: Request) -> dict[str, Any]:
    """Return the material in a question of the describer."""
    found: dict[str, Any] = json.loads(request.json["messages"][-1]["content"])
    return found


def answered(content: Mapping[str, str] | str, **more: Any) -> Reply:
    """Return a chat completion; a mapping is sent as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return Reply({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}, **more)


def obedient(request: Request) -> Reply:
    """Return a description that repeats words of the material."""
    data = data_of(request)
    lines = [line.strip("# ") for line in data["text"].splitlines() if line.strip("# ")]
    abstract = f"It tells of {lines[0][:150]}".strip()
    return answered({"abstract": abstract, "overview": f"- {lines[0][:200]}\n- {lines[-1][:200]}"})


class Asked:
    """A scripted model, and what it was asked about.

    Attributes:
        answer: the script; it may be replaced.
        timeout: the seconds for an answer.
    """

    def __init__(self, answer: Callable[[Request], Reply] = obedient) -> None:
        self.answer = answer
        self.timeout = 5.0
        self.server = ScriptedServer(lambda request: self.answer(request))

    @property
    def settings(self) -> PlannerSettings:
        """The settings of its endpoint."""
        return PlannerSettings(f"{self.server.url}/v1", "scribe", "", self.timeout, 4)

    def subjects(self) -> list[str]:
        """Return the first line of the material of each question, in order."""
        return [data_of(one)["text"].splitlines()[0] for one in list(self.server.requests)]


@contextmanager
def describing(
    path: Path, asked: Asked, settings: DescriberSettings | None = None
) -> Iterator[Engine]:
    """Yield an engine without an embedder whose describer asks a scripted model.

    It has looked at the contexts that it found. A file that is written meanwhile may be seen after
    the directories above it, which are then asked about twice.
    """
    shared = Shared(WORDLESS, describer=asked.settings)
    engine = Engine(
        EngineSettings(path, embedding=WORDLESS, describer=settings or DescriberSettings()),
        shared=shared,
    )
    try:
        work = engine.describing
        assert work is not None
        eventually(work.settle)
        yield engine
    finally:
        shared.stop()
        engine.close()
        shared.close()


def put(engine: Engine, texts: Mapping[str, str], **more: Any) -> None:
    """Write files by their names below NOTES."""
    drafts = [Draft(f"{NOTES}/{name}", content=text, **more) for name, text in texts.items()]
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()


def finish(engine: Engine) -> None:
    """Wait until no context waits for a description."""
    work = engine.describing
    assert work is not None
    eventually(lambda: work.settle() and not engine.stats().describer.backlog)


def get(engine: Engine, name: str = "") -> Context:
    """Return a context below NOTES."""
    return engine.store.get(f"{NOTES}/{name}" if name else NOTES)
