"""The worker that embeds the texts of one store that have no vector yet."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from vikingd.domain.errors import EmbedderFailed
from vikingd.domain.store_changes import Waiting
from vikingd.models.embed.backlog_thread import Allowance, Backlogs, Store
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.embedding_process import Reply
from vikingd.models.embed.embedding_speed import Speed
from vikingd.models.embed.provider import PROBE, EmbedderBroke, EmbedderUnreachable

MIN_BACKOFF = 1.0
MAX_BACKOFF = 60.0
MAX_GROUP_CHARS = 32_000
"""The most characters of a group of texts; a small group is on disk sooner."""
MAX_FIRST_CHARS = 8000
"""The most characters of a group for an idle child; a small group gives vectors sooner."""
STALL = 30.0
"""The seconds without a new vector after which the log gives the reason."""
MAX_WRITE = 1000
"""The most vectors of one write."""
RECENT_BYTES = 16 << 20
"""The most bytes of recent vectors in memory, for texts that are deleted and written again."""

LIMIT_LOOK = 2.0
"""Seconds between two checks whether a reached daily limit was raised, or a new day began."""

_LOOK = 0.25  # seconds between two searches for new texts while the child works
_TURN = 0.5  # seconds after which a worker begins no new group while others wait

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of the worker.

    Attributes:
        embedded: how many texts got a vector since the start.
        reused: how many of these got the vector of an equal text.
        last_error: the error of the last attempt; "" if it succeeded.
        skipped: the number of skipped texts and the error of the last one; "" if there is none.
        retry_at: the time of the next attempt in microseconds since the epoch; None if none is
            planned.
        busy: True while a group is being embedded or written.
        rate: work done per second, in about the characters of the texts (see
            `store_changes.Backlog`); 0 while it is not known.
        stalled: the reason why texts wait: no vector was made for a long time, or the limit of the
            day is reached. "" if no text waits for such a reason.
    """

    embedded: int
    reused: int
    last_error: str
    skipped: str
    retry_at: int | None
    busy: bool
    rate: float
    stalled: str


@dataclass(slots=True)
class _Group:
    """Waiting texts that are embedded together.

    Attributes:
        items: all waiting texts of the group.
        vectors: the known vectors, by digest.
        texts: the texts that must be embedded, by digest, each once.
    """

    items: list[Waiting]
    vectors: dict[bytes, bytes]
    texts: dict[bytes, str] = field(default_factory=dict)


class BacklogWorker:
    """Embeds the waiting texts of a store, group by group, on a thread that workers may share.

    While it writes the vectors of one group, the child embeds the next ones. Equal texts are
    embedded once. If the provider fails, the texts go on waiting, and it is tried again with
    back-off (1 s, doubling to 60 s). A text that fails while others succeed is skipped until the
    next start. A text at which the provider breaks down or the child dies is skipped after the
    second time. When the allowance of the day is used up, texts wait for the next day or a higher
    limit.

    Args:
        settings: the size of groups.
        store: the store whose texts get vectors.
        dimension: the dimension of the vectors.
        backlogs: the thread and the child; None: the worker makes its own, and `stop` ends them.
        recent_bytes: the most bytes of recent vectors to keep in memory; None: RECENT_BYTES.
        allowance: the texts that may be embedded in a day; None: any number.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        store: Store,
        dimension: int,
        backlogs: Backlogs | None = None,
        recent_bytes: int | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self._group_size = settings.batch_size
        self._store = store
        self._dimension = dimension
        self._allowance = allowance
        self._is_used_up = False  # the allowance, and texts wait for it
        self._is_alone = backlogs is None
        self._backlogs = backlogs or Backlogs(settings)
        self._embedder = self._backlogs.embedder
        self._is_stopping = False
        self._is_leaving = False  # no new group: other workers wait
        self._backoff = MIN_BACKOFF
        self._asked: Counter[int] = Counter()
        self._asked_lock = threading.Lock()
        self._flight: dict[int, _Group] = {}
        self._failed: list[tuple[_Group, EmbedderFailed]] = []
        self._unwritten: _Group | None = None
        self._recent: OrderedDict[bytes, bytes] = OrderedDict()
        self._recent_most = (recent_bytes or RECENT_BYTES) // (4 * dimension)
        self._speed = Speed()
        self._skipped: dict[int, str] = {}
        self._failure = ""
        self._retry_at: int | None = None
        self._embedded = self._reused = 0
        self._progress_at = 0.0
        self._processor: float | None = None  # seconds that the child had until then
        self._stalled = ""

    def start(self) -> None:
        """Begin to look for waiting texts; the first one starts the child."""
        self.wake()

    def wake(self) -> None:
        """Tell the worker that there may be new texts."""
        self._backlogs.wake(self)

    @property
    def has_work(self) -> bool:
        """True while the worker embeds texts or waits for its turn.

        It is False while the worker waits for a failing provider or for the next day.
        """
        return self._backlogs.has_work(self) and not (self._failure or self._is_used_up)

    @contextlib.contextmanager
    def asked_for(self, text_ids: Sequence[int]) -> Iterator[None]:
        """Within the block, embed these texts before others."""
        with self._asked_lock:
            self._asked.update(text_ids)
        try:
            yield
        finally:
            with self._asked_lock:
                self._asked.subtract(text_ids)
                self._asked = +self._asked  # drops counts of zero

    def stop(self) -> None:
        """Stop within 2 s; texts without a vector are embedded after the next start."""
        self._is_stopping = True
        if self._is_alone:
            self._backlogs.stop()
        else:
            self._backlogs.remove(self)

    def state(self) -> WorkerState:
        """Return the current state."""
        return WorkerState(
            self._embedded,
            self._reused,
            self._failure,
            self._skipped_text(),
            self._retry_at,
            self._busy,
            self._speed.rate(time.monotonic()),
            self._stalled,
        )

    @property
    def _busy(self) -> bool:
        return bool(self._flight or self._failed or self._unwritten)

    def _skipped_text(self) -> str:
        # The worker's thread may add texts; a dict is copied atomically, its items are not.
        skipped = self._skipped.copy()
        if not skipped:
            return ""
        text_id, reason = next(reversed(skipped.items()))
        return f"{len(skipped)} skipped until the next start, last text {text_id}: {reason}"

    def turn(self, others_wait: Callable[[], bool]) -> float | None:
        """Embed until no text waits; half a second if other workers wait; see `Worker.turn`."""
        if self._is_used_up and self._allowance is not None and not self._allowance.left():
            return LIMIT_LOOK
        self._is_leaving = self._is_used_up = False
        self._restart_speed()
        until = time.monotonic() + _TURN
        while not self._is_stopping:
            before = self._embedded
            try:
                worked = self._step()
            except BaseException as error:
                if self._is_stopping:
                    return None
                return self._fail(error)
            if self._embedded > before or not worked:
                self._backoff = MIN_BACKOFF
                self._failure, self._retry_at = "", None
            if not worked:
                if self._is_used_up:
                    return self._wait_for_allowance()
                return 0.0 if self._is_leaving else None
            self._is_leaving = time.monotonic() > until and others_wait()
        return None

    def _wait_for_allowance(self) -> float:
        """Report that the limit of the day is reached; return the seconds until the next check."""
        assert self._allowance is not None
        self._stalled, self._retry_at = self._allowance.reason()
        return LIMIT_LOOK

    def _fail(self, error: BaseException) -> float:
        """Record a failure for all texts; return the seconds until the next attempt."""
        self._flight.clear()  # another worker may drop their replies
        self._failed.clear()
        self._unwritten = None
        backoff, self._backoff = self._backoff, min(2 * self._backoff, MAX_BACKOFF)
        self._failure = str(error) or type(error).__name__
        self._retry_at = time.time_ns() // 1000 + int(backoff * 1e6)
        _log.warning("embedding failed, next try in %g s: %s", backoff, self._failure)
        return backoff

    def _restart_speed(self) -> None:
        """Restart the measurement of the speed, because the child had no work before."""
        self._speed.begin(self._progressed())

    def _progressed(self) -> float:
        """Record progress, which ends a stall; return the present time."""
        self._progress_at, self._processor = time.monotonic(), self._embedder.processor_seconds()
        self._stalled = ""
        return self._progress_at

    def _step(self) -> bool:
        """Do the next piece of work; return False if there is nothing to do."""
        self._fill_child()
        if not self._flight:
            return self._retry_failed() if self._failed else False
        try:
            answer = self._embedder.receive(_LOOK)
        except EmbedderBroke as error:
            self._fail_groups_of_child(error)
            return True
        if answer is None:
            self._look_for_a_stall()
            return True
        number, reply = answer
        group = self._flight.pop(number, None)
        if group is None:  # of a worker that was stopped
            return True
        try:
            self._take(group, reply)
        except EmbedderFailed as error:
            self._failed.append((group, error))
            return True
        self._unwritten = group
        self._fill_child()  # before the write, so that the child is not idle
        self._keep(group)
        return True

    def _fill_child(self) -> None:
        """Send groups of waiting texts to the child until it has as many as it takes (`depth`).

        None is sent after a failure, or when other workers wait and the turn of this one must end.
        """
        while len(self._flight) < self._embedder.depth and not (self._failed or self._is_leaving):
            group = self._next()
            if group is None:
                return
            if not group.texts:
                if self._unwritten is None:
                    self._keep(group)
                    continue
                self._unwritten.items += group.items
                self._unwritten.vectors |= group.vectors
                if len(self._unwritten.items) > MAX_WRITE:
                    return
                continue
            if not self._flight and self._unwritten is None:
                self._restart_speed()
            number = next(self._backlogs.numbers)
            try:
                self._embedder.send(number, list(group.texts.values()))
            except EmbedderBroke as error:
                self._failed.append((group, error))
                self._fail_groups_of_child(error)
            else:
                self._flight[number] = group

    def _next(self) -> _Group | None:
        """Return the next group of waiting texts; None if there is none to send.

        If an equal text is being embedded, a text stays in the backlog until its vector is there.
        """
        groups = [*self._flight.values(), *([self._unwritten] if self._unwritten else [])]
        in_work = {item.text_id for group in groups for item in group.items}
        digests = {digest for group in self._flight.values() for digest in group.texts}
        with self._asked_lock:
            asked = list(self._asked)
        limit = self._group_size + len(in_work) + len(self._skipped)
        items = [
            item
            for item in self._store.backlog(limit, asked)
            if not (item.text_id in in_work or item.text_id in self._skipped)
            and item.digest not in digests
        ][: self._group_size]
        if not items:
            return None
        group = self._cut(items, self._known({item.digest for item in items}))
        self._is_used_up = not group.items
        return group if group.items else None

    def _left(self) -> int:
        """Return how many more texts may be sent to the child today."""
        if self._allowance is None:
            return sys.maxsize
        return self._allowance.left() - sum(len(group.texts) for group in self._flight.values())

    def _known(self, digests: set[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that exist already, in memory or in the store, by digest."""
        recent = {digest: self._recent[digest] for digest in digests if digest in self._recent}
        others = [digest for digest in digests if digest not in recent]
        stored = self._store.made_vectors(others) if others else {}
        # A damaged vector is not copied.
        size = 4 * self._dimension
        return recent | {d: v for d, v in stored.items() if type(v) is bytes and len(v) == size}

    def _cut(self, waiting: list[Waiting], known: dict[bytes, bytes]) -> _Group:
        """Return a group of the first texts within the limits of characters and of the day.

        It has at least one text, unless the limit of the day is reached.
        """
        group, chars, left = _Group([], known), 0, self._left()
        most = MAX_GROUP_CHARS if self._flight or self._unwritten else MAX_FIRST_CHARS
        for item in waiting:
            if item.digest not in known and item.digest not in group.texts:
                chars += len(item.text)
                if (group.items and chars > most) or len(group.texts) >= left:
                    break
                group.texts[item.digest] = item.text
            group.items.append(item)
        return group

    def _take(self, group: _Group, reply: Reply) -> None:
        """Add the vectors in a reply to a group; also keep them in memory, in case the write fails.

        Raises:
            EmbedderFailed: the reply is an error.
            EmbedderUnreachable: the vectors have another dimension than the store.
        """
        if isinstance(reply, EmbedderFailed):
            raise reply
        if reply.shape != (len(group.texts), self._dimension):
            raise EmbedderUnreachable(
                f"the embedder makes vectors of {reply.shape[1]} numbers, the store has "
                f"{self._dimension}"
            )
        rows = np.asarray(reply, dtype="<f4")
        made = {digest: row.tobytes() for digest, row in zip(group.texts, rows, strict=True)}
        group.vectors |= made
        if self._allowance is not None:
            self._allowance.count(len(made))
        self._recent.update(made)
        while len(self._recent) > self._recent_most:
            self._recent.popitem(last=False)

    def _keep(self, group: _Group) -> None:
        """Write the vectors of a group to the store; the group must have all of them."""
        self._unwritten = group
        self._store.fill(
            [(item.text_id, group.vectors[item.digest]) for item in group.items],
            {item.text_id: item.digest for item in group.items},
            self._allowance.stored_count() if self._allowance is not None else {},
        ).result()
        self._unwritten = None
        self._embedded += len(group.items)
        self._reused += len(group.items) - len(group.texts)
        self._speed.add(self._progressed(), sum(item.cost for item in group.items))

    # Failures

    def _fail_groups_of_child(self, error: EmbedderBroke) -> None:
        """Mark the groups of texts as failed that the child worked on when it died."""
        self._failed += [(group, error) for group in self._flight.values()]
        self._flight.clear()

    def _retry_failed(self) -> bool:
        """Retry the failed groups; called while the child has no other group."""
        for _, error in self._failed:
            if isinstance(error, EmbedderUnreachable):
                raise error
        self._ask_probe(self._failed[0][1])
        for group, error in self._failed:
            # Each group in a dead child may be the cause.
            together = len(self._failed) > 1 and isinstance(error, EmbedderBroke)
            failure = self._try(group) if together else error
            if failure is not None:
                self._do_singly(group, failure)
        self._failed.clear()
        return True

    def _do_singly(self, group: _Group, error: EmbedderFailed) -> None:
        _log.warning("a group of %d texts failed, trying them singly: %s", len(group.items), error)
        for item in group.items:
            texts = {} if item.digest in group.vectors else {item.digest: item.text}
            single = _Group([item], dict(group.vectors), texts)
            failure = self._try(single)
            if isinstance(failure, EmbedderBroke):  # which may be chance
                failure = self._try(single)
            if failure is not None:
                self._skipped[item.text_id] = str(failure)
                _log.warning("text %d cannot be embedded, skipped: %s", item.text_id, failure)
            group.vectors |= single.vectors

    def _try(self, group: _Group) -> EmbedderFailed | None:
        """Embed and write a group; return its error, or None.

        Raises:
            EmbedderFailed: the provider fails for all texts, not only for this group.
        """
        try:
            if group.texts:
                self._take(group, self._embedder.embed(list(group.texts.values())))
            self._keep(group)
        except EmbedderFailed as error:
            self._ask_probe(error)
            return error
        return None

    def _ask_probe(self, error: EmbedderFailed) -> None:
        """Embed a fixed short text, the probe, to learn if the provider works at all.

        Raises:
            EmbedderFailed: the provider fails for all texts.
        """
        if isinstance(error, EmbedderUnreachable) or self._is_stopping:
            raise error
        self._embedder.embed([PROBE])

    # Progress

    def _look_for_a_stall(self) -> None:
        """Log a warning, once, if texts wait but no vector was made for STALL seconds."""
        now = time.monotonic()
        if not self._embedder.is_ready:
            self._speed.begin(now)
        idle = now - self._progress_at
        if idle < STALL:
            return
        embedder, was_stalled = self._embedder, self._stalled
        before, until_now = self._processor, embedder.processor_seconds()
        had = None if before is None or until_now is None else until_now - before
        self._stalled = why_stalled(idle, had, embedder.is_ready, embedder.is_remote)
        if not was_stalled:
            _log.warning("texts wait, but no vector comes: %s", self._stalled)


def why_stalled(idle: float, had: float | None, is_ready: bool, is_remote: bool) -> str:
    """Return an explanation for a time in which texts waited and no vector was made.

    Args:
        idle: the length of that time in seconds.
        had: the processor time in seconds of the embedding process in it; None: unknown.
        is_ready: True if the embedding process has loaded its model.
        is_remote: True if an endpoint makes the vectors, not the embedding process itself.
    """
    since = f"for {idle:.0f} s"
    if is_remote and is_ready:
        return f"the embeddings endpoint has not answered {since}"
    doing = "has finished no text" if is_ready else "has been loading its model"
    doing = f"the embedding process {doing} {since}"
    if had is None:
        return doing
    share = f"{had / idle:.0%} of a processor"
    if had < idle / 2:
        return f"{doing}: it had {share}, others keep the machine busy"
    return f"{doing}, with {share}"
