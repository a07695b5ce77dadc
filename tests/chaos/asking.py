"""All answers of a store, from the engine in a forked process, without a server.

A process forked from the nursery opens keys and store, asks, and writes one file of JSON. An answer
is a dict; the first word of each of its names is a URI or the id of a key. So a difference belongs
to something that the damage has to be told of by name.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.chaos import worlds
from tests.index.find_helpers import find, retrieved
from vikingd.access.keys import KeyStore
from vikingd.domain.contexts import Context, Draft
from vikingd.domain.errors import (
    Corrupt,
    InvalidField,
    NotFound,
    StoreDamaged,
    StoreFailed,
    Unauthenticated,
    VikingError,
)
from vikingd.domain.find_query import FindQuery, Levels, Method
from vikingd.domain.retrieve_query import Mode, RetrieveQuery, Rrf
from vikingd.domain.rights import Right
from vikingd.engine import Engine, EngineSettings
from vikingd.index.settings import IndexSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.memory.memory_types import MemoryScope, RecallQuery, Salience
from vikingd.memory_calls.memory_search import MemorySearch
from vikingd.models.embed.embed_settings import EmbedSettings

PROBE = "viking://resources/probe/probe.md"
PROBE_WORD = "prbx"
REFUSED = "refused"
"""The only name in an answer that is a refusal for damage."""

_TOP = "viking://resources"  # the rights of the keys are rights on it
_ALL = 1000
_QUERIES = 4  # vectors that are asked
_SECONDS = 30.0  # for the check in the background, and for a write

Answer = dict[str, Any]


def main(order: Mapping[str, Any]) -> None:
    """Ask the store of an order, and write the result to the file that it names."""
    result = ask(Path(order["store"]), order["questions"])
    target = Path(order["ask"])
    target.with_suffix(".part").write_text(json.dumps(result))
    target.with_suffix(".part").rename(target)


def ask(store: Path, questions: Mapping[str, Any], *, close: bool = False) -> dict[str, Any]:
    """Return the answers of a store.

    Args:
        store: the directory.
        questions: `uris`, `words` (URI by unique word), `keys` (texts by label), `projects`, and
            `put`: write a probe at the end.
        close: close the store at the end; else the process must end, as if it was killed.

    Returns:
        `refused`: the error of the start, or "".
        `answers`: by query, then by name.
        `told`: warnings of the log, problems of Verify, refusals of calls.
        `failure`: the reason why writes are refused, or "".
        `crash`: the traceback of an error that is no refusal, or "".
    """
    result: dict[str, Any] = {
        "refused": "",
        "answers": {},
        "told": [],
        "failure": "",
        "crash": "",
        "put": "",
    }
    told: list[str] = result["told"]
    with _listening(told, result):
        try:
            keys = KeyStore(store)
        except VikingError as error:
            result["refused"] = f"{type(error).__name__}: {error}"
            return result
        except BaseException:
            result["crash"] = traceback.format_exc()
            return result
        try:
            engine = Engine(_settings(store))
        except VikingError as error:
            result["refused"] = f"{type(error).__name__}: {error}"
            return result
        except BaseException:
            result["crash"] = traceback.format_exc()
            return result
        try:
            _Asking(engine, keys, questions, result).all()
        except BaseException:
            result["crash"] = traceback.format_exc()
        if close:
            engine.close()
            keys.close()
    return result


def warm() -> None:
    """Ask a small store, so that the processes forked after it have all code and kernels."""
    with tempfile.TemporaryDirectory(prefix="vikingd-chaos-warm-") as scratch:
        store = Path(scratch) / "store"
        engine = Engine(_settings(store))
        files = [
            Draft(f"{_TOP}/{n}.md", content=f"harbour light {n}", vector=worlds.vector(n))
            for n in range(80)
        ]
        notes = Draft("viking://projects/w/memories/notes.md", content="- memory of the tide\n")
        engine.writable_store.put([prepare(file) for file in [*files, notes]]).result()
        engine.optimize()
        engine.close()
        questions = {
            "uris": [file.uri for file in files],
            "directories": [_TOP],
            "words": {"harbour": files[0].uri},
            "keys": {},
            "projects": ["w"],
        }
        result = ask(store, questions, close=True)
        if result["crash"] or result["refused"]:
            raise RuntimeError(f"{result['refused']}{result['crash']}")


def _settings(store: Path) -> EngineSettings:
    return EngineSettings(
        store,
        embedding=EmbedSettings(provider="none"),
        index=IndexSettings(compact_min=60, ivf_rows=20),
    )


@contextmanager
def _listening(told: list[str], result: dict[str, Any]) -> Iterator[None]:
    """Collect warnings of the log, and errors of threads."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())
            if record.exc_info:
                result["crash"] = f"logged: {logging.Formatter().formatException(record.exc_info)}"

    def failed(args: threading.ExceptHookArgs) -> None:
        lines = traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)
        result["crash"] = "in a thread: " + "".join(lines)

    handler = Handler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    before, threading.excepthook = threading.excepthook, failed
    try:
        yield
    finally:
        threading.excepthook = before
        logging.getLogger().removeHandler(handler)


class _Asking:
    """All questions to one engine."""

    def __init__(
        self,
        engine: Engine,
        keys: KeyStore,
        questions: Mapping[str, Any],
        result: dict[str, Any],
    ) -> None:
        self._engine = engine
        self._keys = keys
        self._questions = questions
        self._result = result
        self._answers: dict[str, Answer] = result["answers"]

    def all(self) -> None:
        """Ask everything; the questions that change something come last."""
        for thread in threading.enumerate():
            if thread.name == "store-check":
                thread.join(_SECONDS)
        store = self._engine.store
        self._ask("tree", self._tree)
        self._ask("children", self._children)
        for uri in self._questions["uris"]:
            self._ask("get", lambda uri=uri: {uri: self._get(uri)}, uri)
        self._ask("memories", self._memories)
        self._ask("mixed counts", lambda: dict(store.counts()._asdict(), bytes=0))
        for word, uri in self._questions["words"].items():
            self._ask("words", lambda word=word, uri=uri: {f"{uri} {word}": self._word(word)}, uri)
        for number in range(_QUERIES):
            self._ask(f"meaning {number}", lambda n=number: self._meaning(n))
            self._ask(f"mixed {number}", lambda n=number: self._mixed(n))
        for project in self._questions["projects"]:
            self._ask(f"mixed recall {project}", lambda p=project: self._recall(p))
        self._ask("keys", self._key_texts)
        self._ask("key list", self._key_list)
        self._ask("verify", self._verify)
        if self._questions.get("put"):
            self._put()
        self._result["failure"] = self._engine.failure() or ""

    def _ask(self, query: str, asked: Callable[[], Answer], uri: str = REFUSED) -> None:
        """Add an answer; a refusal for damage is told, and another one is a wrong answer."""
        try:
            found = asked()
        except (StoreDamaged, Corrupt) as error:
            self._result["told"].append(str(error))
            found = {uri: {REFUSED: str(error)}}
        except VikingError as error:
            found = {"whole": f"{type(error).__name__}: {error}"}
        self._answers.setdefault(query, {}).update(found)

    def _tree(self) -> Answer:
        tree = self._engine.store.tree("viking://", 0, "", 10**6)
        return {context.uri: _listed(context) for context in tree}

    def _children(self) -> Answer:
        found: Answer = {}
        for uri in self._questions["directories"]:
            try:
                children = self._engine.store.children(uri, "", 10**6)
            except (NotFound, InvalidField) as error:
                found[uri] = f"{type(error).__name__}"
                continue
            found |= {f"{child.uri} in {uri}": child.is_directory for child in children}
        return found

    def _get(self, uri: str) -> Any:
        try:
            context = self._engine.store.get(uri)
        except NotFound:
            return "not found"
        passages = [
            [p.section, p.start, p.end, _fields(p.entry) if p.entry else None]
            for p in context.passages
        ]
        relations = [[relation.uri, relation.reason] for relation in context.relations]
        return {
            "listed": _listed(context),
            "overview": context.overview,
            "content": context.content,
            "passages": passages,
            "relations": relations,
        }

    def _memories(self) -> Answer:
        return {
            f"{stored.uri} {stored.entry.id}": [*_fields(stored.entry), stored.passage]
            for stored in self._engine.store.memories_below("viking://projects")
        }

    def _word(self, word: str) -> list[str]:
        query = FindQuery(word, limit=3)
        return [match.uri for match in find(self._engine, query, None).matches][:1]

    def _meaning(self, number: int) -> Answer:
        """Return the scores by meaning alone, which depend on the mean of all vectors, too."""
        query = RetrieveQuery("", mode=Mode.VECTOR, top_k=_ALL)
        items = retrieved(self._engine, query, _vector(number))
        return {f"{i.uri} {i.passage}": [i.score, i.section, i.start, i.end, i.text] for i in items}

    def _mixed(self, number: int) -> Answer:
        """Return scores that depend on other contexts, too."""
        found: Answer = {}
        for method in (Method.EXHAUSTIVE, Method.EXACT):
            asked = FindQuery(
                "the harbour light", limit=_ALL, method=method, levels=Levels.BOTH, trace=False
            )
            matches = find(self._engine, asked, _vector(number)).matches
            found |= {f"{m.uri} {method.name}": [m.score, m.abstract] for m in matches}
        query = RetrieveQuery("night tide note", mode=Mode.HYBRID, top_k=_ALL)
        items = retrieved(self._engine, query, _vector(number))
        return found | {f"{item.uri} {item.passage}": item.score for item in items}

    def _recall(self, project: str) -> Answer:
        query = RecallQuery(
            "memory tide",
            MemoryScope(project=project),
            now=10**9,
            time_zone="UTC",
            max_tokens=10**6,
            tokenizer="o200k_base",
            top_k=_ALL,
            without=frozenset(),
            fusion=Rrf(),
            salience=Salience(),
            skip_oversize=False,
            no_touch=True,
            min_revision=0,
        )
        found = MemorySearch(self._engine, query).answer([None]).memories
        return {f"memory {m.entry.id}": [m.content, *_fields(m.entry)] for m in found}

    def _key_texts(self) -> Answer:
        found: Answer = {}
        for label, text in self._questions["keys"].items():
            name = f"{text.split('_')[1]} {label}"
            try:
                caller, limits = self._keys.caller(text)
                rights = {right.name: caller.may(right, _TOP) for right in Right}
                readable = caller.parts("viking://")
                of = f"{caller.key} {caller.tenant} {caller.user} {caller.is_operator}"
                found[name] = f"valid: {of} {readable} {rights} {limits}"
            except Unauthenticated as error:
                found[name] = f"not valid: {error}"
            except StoreDamaged as error:
                self._result["told"].append(str(error))
                found[name] = {REFUSED: str(error)}
        return found

    def _key_list(self) -> Answer:
        return {
            key.id: [v for name, v in _named(key).items() if name != "used_at"]
            for key in self._keys.keys("default", by_operator=True)
        }

    def _verify(self) -> Answer:
        report = self._engine.verify()
        self._result["told"].extend(f"verify: {problem}" for problem in report.problems)
        return {}

    def _put(self) -> None:
        """Write the probe, which must be found at once and after the next start."""
        written = prepare(Draft(PROBE, content=f"note {PROBE_WORD} of the harbour"))
        try:
            self._engine.writable_store.put([written]).result(_SECONDS)
        except (StoreDamaged, StoreFailed, Corrupt) as error:
            self._result["told"].append(str(error))
            self._result["put"] = f"refused: {error}"
            return
        self._result["put"] = "done" if self._word(PROBE_WORD) == [PROBE] else "not found"


def _vector(number: int) -> Any:
    return np.frombuffer(worlds.vector(number), "<f4")


def _named(record: Any) -> dict[str, Any]:
    return {name: _plain(getattr(record, name)) for name in record.__dataclass_fields__}


def _fields(record: Any) -> list[Any]:
    return list(_named(record).values())


def _listed(context: Context) -> list[Any]:
    whole = ("overview", "content", "passages", "relations")
    return [value for name, value in _named(context).items() if name not in whole]


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else repr(value)
