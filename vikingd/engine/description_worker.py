"""The worker that lets a model describe the contexts of one store, one after the other."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from vikingd.domain.description import Description
from vikingd.domain.errors import StoreDamaged, VikingError
from vikingd.domain.store_changes import Upsert
from vikingd.engine.allowance import DESCRIBER_TOKENS, DailyAllowance
from vikingd.engine.description_material import Materials, Subject
from vikingd.engine.description_queue import DescriptionQueue
from vikingd.models.chat.chat_model import Late, NotAnswered
from vikingd.models.describe.describer import Described, Material, Unusable, material_tokens
from vikingd.models.describe.describer_thread import DescriberThread
from vikingd.store.shared_store import SharedStore
from vikingd.store.store_writes import WritableStore

MIN_BACKOFF = 1.0
MAX_BACKOFF = 60.0

_TRIES = 3  # questions without an answer, after which the context is suspected
_PROBE = Material("", False, "", "The reading room opens in the morning, except on Sundays.", "")
_LIMIT_LOOK = 2.0  # seconds between two looks whether a new day began
_LEAD_LOOK = 20.0  # seconds between two looks whether this node describes
_PAGE = 500  # contexts
_RECENT = 256  # answers in memory, for equal texts

_log = logging.getLogger(__name__)


class DescriptionWorker:
    """Describes the waiting contexts of a store, as a task on the thread that asks the model.

    It first checks all contexts. Each answer is written at once, so a kill loses only the questions
    in flight. If the model does not answer, the contexts stay in the queue, and the model is asked
    again with back-off (1 s, doubling to 60 s). A context is refused if its answers cannot be used,
    or if it gets no answer three times while another question gets one. A refused context keeps its
    extract until it changes or the daemon starts again. When the tokens of a day are used up, the
    waiting contexts wait for the next day.

    Call its methods on that thread, unless they say that any thread may.

    Args:
        store: the store.
        thread: the thread that asks the model; workers of other stores may use it, too.
        materials: reads the texts to describe.
        tokens_per_day: the most tokens in a UTC day; 0: no limit.

    Attributes:
        queue: the contexts that wait.
        is_complete: True once all contexts were checked, so that the queue has all that wait.
        described: the number of contexts that were described since the start.
        refused: the number of contexts without a usable answer since the start.
        tokens: the tokens that were used since the start.
        ended: set when `run` has ended.
    """

    def __init__(
        self,
        store: WritableStore,
        thread: DescriberThread,
        materials: Materials,
        tokens_per_day: int,
    ) -> None:
        self._store = store
        self._thread = thread
        self._materials = materials
        self._limit = tokens_per_day
        self._allowance = self._new_allowance()
        self._reserved = 0  # tokens of the questions in flight, by estimate
        self._needed = 0  # tokens of the question that waits for a new day; 0: none does
        self.queue = DescriptionQueue()
        self.described = self.refused = self.tokens = 0
        self.ended = threading.Event()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._shared = store if isinstance(store, SharedStore) else None
        self._is_leader = self._shared is None
        self._leads_until = 0.0
        self.is_complete = self._has_changed = False
        self._asking: dict[bytes, list[Subject]] = {}
        self._recent: OrderedDict[bytes, Described] = OrderedDict()
        self._refusals: dict[str, bytes] = {}  # the basis of each refused context
        self._writing: dict[str, str] = {}  # the abstracts that are being written, by URI
        self._tries: dict[str, tuple[int, int]] = {}  # (questions, answers before the first one)
        self._answers = 0  # of the model to any question
        self._failure = ""
        self._backoff = MIN_BACKOFF
        self._retry_after, self._retry_at = 0.0, 0

    def is_own(self, change: Upsert) -> bool:
        """Return True if a change is a description that this worker is writing; for any thread."""
        return self._writing.get(change.uri) == change.abstract

    def add(self, contexts: Sequence[tuple[str, bool]]) -> None:
        """Queue changed contexts, (URI, is a directory) each, and the directories above them."""
        if self._is_leader:
            for uri, is_directory in contexts:
                self.queue.add(uri, is_directory)
            self._wake.set()

    def ask_for(self, contexts: Sequence[tuple[str, bool]], *, again: bool) -> None:
        """Queue contexts, even if refused earlier; with `again` even if described."""
        self._recent.clear()
        for uri, is_directory in contexts:
            self._refusals.pop(uri, None)
            self._tries.pop(uri, None)
            self.queue.ask_for(uri, is_directory, again=again)
        self._wake.set()

    def check_all(self) -> None:
        """Make `run` check all contexts again, because commits were missed."""
        self.is_complete, self._has_changed = False, True
        self._wake.set()

    def waits(self) -> tuple[str, int | None]:
        """Return (the reason why no context is described now, the time of the next attempt).

        ("", None) if contexts are described, or if none waits. The time is in microseconds since
        1970-01-01 UTC. For any thread.
        """
        if not len(self.queue):
            return "", None
        if self._failure:
            return self._failure, self._retry_at
        # Questions in flight reserve an estimate of tokens, and may use fewer.
        is_used_up = self._needed and self._allowance.left() < self._needed
        return self._allowance.reason() if is_used_up else ("", None)

    def tokens_today(self) -> int:
        """Return the tokens that were used today; for any thread."""
        return self._allowance.used()

    async def run(self) -> None:
        """Describe the waiting contexts until the task is cancelled."""
        try:
            while True:
                self._wake.clear()
                try:
                    seconds = await self._step()
                except VikingError as error:  # the store cannot be read now
                    seconds = self._fail(str(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), seconds)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.ended.set()

    async def _step(self) -> float | None:
        """Start as many descriptions as possible; return the seconds to wait for more, if known."""
        if self._shared is not None and time.monotonic() >= self._leads_until:
            await self._lead(self._shared)
        if self._is_leader and not self.is_complete:
            self._has_changed = False
            await self._check_all()
            self.is_complete = not self._has_changed
        now = time.monotonic()
        seconds = self._begin(now)
        if self._shared is None:
            return seconds
        lead = self._leads_until - now
        return lead if seconds is None else min(lead, seconds)

    async def _lead(self, store: SharedStore) -> None:
        """Ask the database whether this node describes contexts now; set `_is_leader`.

        A node that begins to describe reads from the store how many tokens of the day are used, and
        checks of all contexts whether they need a description.
        """
        leads = await self._thread.read(store.lead_descriptions)
        if leads and not self._is_leader:
            self._allowance = self._new_allowance()  # another node may have used some
            self.is_complete = False
        self._is_leader = leads
        self._leads_until = time.monotonic() + _LEAD_LOOK

    def _new_allowance(self) -> DailyAllowance:
        return DailyAllowance(self._store, lambda: self._limit, counted=DESCRIBER_TOKENS)

    async def _check_all(self) -> None:
        store, materials, read = self._store, self._materials, self._thread.read
        await read(self._allowance.used)  # it is read from the store
        after = ""
        while files := await read(store.files_to_describe, after, _PAGE):
            for uri in await read(materials.waiting_files, files):
                self.queue.add(uri, False)
            after = files[-1].uri
            self._begin(time.monotonic())
        after = ""
        while directories := await read(store.directories, after, _PAGE):
            for uri in await read(materials.waiting_directories, directories):
                self.queue.add(uri, True)
            after = directories[-1].uri
            self._begin(time.monotonic())

    def _begin(self, now: float) -> float | None:
        if now < self._retry_after:
            return self._retry_after - now
        if self._needed and self._allowance.left() - self._reserved < self._needed:
            return _LIMIT_LOOK
        self._needed = 0
        # After a failure one context shows whether the model answers again.
        most = 1 if self._failure else self._thread.concurrency
        while len(self._tasks) < most and (uri := self.queue.take(now)):
            task = asyncio.create_task(self._work_on(uri))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        return self.queue.due(now)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def _work_on(self, uri: str) -> None:
        """Describe one context from the queue, and handle all errors."""
        try:
            await self._describe(uri)
        except StoreDamaged as error:
            _log.warning("%s is not described: %s", uri, error)
            self.queue.done(uri)
        except VikingError as error:  # the store cannot be read now
            self.queue.put_back(uri)
            self._fail(str(error))
        except Exception:
            _log.exception("%s is not described", uri)
            self.queue.done(uri)

    async def _describe(self, uri: str) -> None:
        """Describe one context from the queue, unless it needs no description."""
        subject = await self._thread.read(self._materials.subject, uri)
        again = self.queue.is_again(uri)
        if subject is None or (subject.is_current and not again):
            self.queue.done(uri)
        elif subject.material is None:
            await self._write([subject], Described("", "", 0))
        elif not again and self._refusals.get(uri) == subject.basis:
            self.queue.done(uri)
        elif known := await self._known(subject, again):
            await self._write([subject], known)
        elif subject.basis in self._asking:
            self._asking[subject.basis].append(subject)
        else:
            await self._ask(subject, subject.material)

    async def _known(self, subject: Subject, again: bool) -> Described | None:
        """Return the description of an equal text, from the store or recent answers, or None.

        With `again` the store is not read.
        """
        if not again:
            read, name = self._store.described_as, self._thread.name
            found = await self._thread.read(read, subject.basis, name)
            if found is not None:
                return Described(*found, 0)
        return self._recent.get(subject.basis)

    async def _ask(self, subject: Subject, material: Material) -> None:
        """Ask the model about a text, and write the answer to all contexts with an equal text.

        If the tokens of the day do not suffice, the context goes back into the queue.
        """
        uri, basis = subject.uri, subject.basis
        tokens = material_tokens(material)
        if self._allowance.left() - self._reserved < tokens:
            self._needed = tokens
            self.queue.put_back(uri)
            return
        if not self.queue.may_ask(uri, time.monotonic()):
            return
        self._asking[basis] = [subject]
        self._reserved += tokens
        try:
            described = await self._thread.describe(material)
        except Unusable as error:
            self._answered(error.tokens)
            await self._refuse(self._asking.pop(basis), str(error))
        except NotAnswered as error:
            self._use(error.tokens + (tokens if isinstance(error, Late) else 0))
            await self._not_answered(self._asking.pop(basis), str(error))
        except Exception as error:  # its message may quote a text
            _log.exception("a question of the describer failed")
            await self._not_answered(self._asking.pop(basis), type(error).__name__)
        else:
            self._answered(described.tokens)
            self.queue.answered(uri, time.monotonic())
            self._recent[basis] = described
            while len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
            await self._write(self._asking.pop(basis), described)
        finally:
            self._reserved -= tokens

    def _use(self, tokens: int) -> None:
        self.tokens += tokens
        self._allowance.count(tokens)

    def _answered(self, tokens: int) -> None:
        """Record an answer of the model: count its tokens, and end the back-off."""
        self._use(tokens)
        self._answers += 1
        self._backoff, self._failure, self._retry_after = MIN_BACKOFF, "", 0.0

    async def _write(self, subjects: Sequence[Subject], made: Described) -> None:
        """Write a description to contexts from the queue.

        A context whose material has lost text since is not written, but queued again: the
        description may quote a text that was deleted while the model was asked.
        """
        subjects = [one for one in subjects if await self._is_present(one)]
        name, kept = self._thread.name, self._allowance.stored_count()
        rows = [
            Description(one.uri, made.abstract, made.overview, name, one.basis, one.content_hash)
            for one in subjects
        ]
        self._writing |= {one.uri: made.abstract for one in subjects}
        try:
            done = await self._thread.read(lambda: self._store.describe(rows, kept).result())
        except VikingError as error:
            for one in subjects:
                self.queue.put_back(one.uri)
            self._fail(str(error))
            return
        finally:
            for one in subjects:
                del self._writing[one.uri]
        self.described += done.count
        for one in subjects:
            self._tries.pop(one.uri, None)
            self.queue.done(one.uri)

    async def _is_present(self, subject: Subject) -> bool:
        """Return True if a context still has the text that was described; else queue it again."""
        try:
            now = await self._thread.read(self._materials.subject, subject.uri)
        except VikingError:
            now = None
        if now is None or not now.has_text_of(subject):
            self.queue.put_back(subject.uri)
            return False
        return True

    async def _refuse(self, subjects: Sequence[Subject], reason: str) -> None:
        """Give up on contexts: they keep their extracts until they change."""
        self.queue.answered(subjects[0].uri, time.monotonic())
        for one in subjects:
            _log.warning("%s keeps its extract, the model's texts cannot be used: %s",
                         one.uri, reason)  # fmt: skip
            self._refusals[one.uri] = one.basis
            self._tries.pop(one.uri, None)
            self.queue.done(one.uri)
        self.refused += len(subjects)
        await self._keep_count()

    async def _not_answered(self, subjects: Sequence[Subject], reason: str) -> None:
        """Queue contexts again after a failed question; refuse them if only they fail.

        After the third failure a test question shows whether the model answers others.
        """
        uri = subjects[0].uri
        tries, before = self._tries.get(uri, (0, self._answers))
        self._tries[uri] = tries + 1, before
        if tries + 1 >= _TRIES:
            if self._answers > before:
                await self._refuse(subjects, reason)
                return
            await self._probe()
        for one in subjects:
            self.queue.put_back(one.uri)
        self._fail(reason)

    async def _probe(self) -> None:
        """Ask the model a test question, and record whether it answers."""
        with suppress(NotAnswered):
            try:
                described = await self._thread.describe(_PROBE)
            except Unusable as error:
                self._answered(error.tokens)
            else:
                self._answered(described.tokens)

    async def _keep_count(self) -> None:
        """Write today's count of tokens to the store."""
        for key, value in self._allowance.stored_count().items():
            with suppress(VikingError):  # for example, the disk is full
                await self._thread.read(self._store.set_meta, key, value)

    def _fail(self, reason: str) -> float:
        """Record a failure that stops all descriptions; return the seconds to the next attempt."""
        now = time.monotonic()
        if now >= self._retry_after:  # calls that were in flight together fail once
            if reason != self._failure:
                _log.warning("contexts are not described, next try in %g s: %s",
                             self._backoff, reason)  # fmt: skip
            self._retry_after = now + self._backoff
            self._retry_at = time.time_ns() // 1000 + int(self._backoff * 1e6)
            self._backoff = min(2 * self._backoff, MAX_BACKOFF)
        self._failure = reason
        return self._retry_after - now
