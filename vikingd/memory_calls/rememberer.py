"""Remember: one memory is compared with the entries of its file, then written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vikingd.answer.deadline import Deadline, FutureBridge, Threads
from vikingd.answer.query_vector import embed_in_share, embedder_failed
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.errors import EmbedderFailed, InvalidField
from vikingd.domain.store_changes import Committed, Once
from vikingd.engine import Engine
from vikingd.memory import same
from vikingd.memory.remember import Remembering, SimilarityThreshold
from vikingd.memory.series import Key, Known, KnownFiles, Rewrite, Series

_T = TypeVar("_T")


@dataclass(slots=True)
class RememberCall:
    """A memory to write."""

    remembered: Remembering
    exact: bool  # compare wordings alone
    names_file: bool  # the request names the file, not a type of memory
    degraded: Degraded = ()  # for the reply


class Rememberer:
    """Answers Remember.

    `same_meaning` is the cosine from which two texts say the same; 0: that of the model.
    """

    def __init__(self, engine: Engine, threads: Threads, same_meaning: float) -> None:
        self._engine = engine
        self._threads = threads
        self._same_meaning = same_meaning
        self._known = KnownFiles()
        self._writes = FutureBridge()

    async def answer(
        self,
        call: RememberCall,
        once: Once | None,
        deadline: Deadline,
        reply: Callable[[Committed], _T | None],
        parse: Callable[[bytes], _T],
    ) -> _T:
        """Write a memory and return the reply.

        If `reply` returns None, the file changed since the comparison, and it tries again. `parse`
        makes a reply of the bytes kept for a repeated call.

        Raises:
            InvalidField: the file cannot hold the memory.
        """
        remembered = call.remembered
        while True:
            call.degraded = await self.compare(remembered, deadline, exact=call.exact)
            deadline.left()
            try:
                done = await self.written([(remembered.uri, remembered)], once)
            except InvalidField as error:
                if error.field != "contexts[0].uri":
                    raise
                field = "uri" if call.names_file else "memory_type"
                raise InvalidField(field, f"{remembered.uri} {error.description}") from None
            if done.reply:
                return parse(done.reply)
            if (answer := reply(done)) is not None:
                return answer

    async def written(
        self, rewrites: Sequence[tuple[str, Rewrite]], once: Once | None
    ) -> Committed:
        """Write files of memories, all or none."""
        return await self._writes.result(self._engine.writable_store.rewrite(rewrites, once))

    async def compare(
        self, remembered: Remembering, deadline: Deadline, *, exact: bool = False
    ) -> Degraded:
        """Compare a memory with its files, so that little is left to do in the transaction.

        Unless an entry has its wording, or `exact` is set, embed it. Return notes for the reply.
        """
        engine, threads = self._engine, self._threads
        series, known = await self.series(remembered.uri, deadline)
        text = await threads.prepare(deadline, remembered.indexed_text, series, known)
        if exact or engine.embedding.query_embedder is None:
            return ()
        threshold = self._threshold()
        if threshold is None:
            detail = (
                "from which cosine on texts say the same is not known of the model "
                f"{engine.embedding.model} (recall.same_meaning sets it): "
                "wordings alone were compared"
            )
            return (Degradation(DegradationReason.NOT_CALIBRATED, detail),)
        if text is None:
            return ()
        try:
            vector = await embed_in_share(threads, deadline, engine.embedding.embed_document, text)
        except EmbedderFailed as error:
            return (embedder_failed(error, "wordings alone were compared"),)
        if vector is not None:
            remembered.compare_by_meaning(text, vector, threshold)
        return ()

    async def series(self, uri: str, deadline: Deadline) -> tuple[Series, Mapping[Key, Known]]:
        """Return a memory file with its continuations, which are one series.

        Args:
            uri: the URI of the first file.
            deadline: the deadline of the call.

        Returns:
            The series, and its files as prepared for comparisons, by their keys. Only files that
            changed since the last call are read.
        """
        threads, store = self._threads, self._engine.store
        kept = self._known.all()
        if self._engine.embedding.query_embedder is not None:
            # A vector comes after its text, without a change of the file.
            kept = {key: known for key, known in kept.items() if not known.waiting}
        series = await threads.read(deadline, store.memory_series, uri, kept)
        known = await threads.prepare(deadline, _known, series, kept)
        self._known.keep(known)
        return series, known

    def _threshold(self) -> SimilarityThreshold | None:
        """Return the threshold of the configuration, else the model's; None if neither has one."""
        if self._same_meaning:
            return SimilarityThreshold(self._same_meaning, with_words=False)
        calibrated = same.threshold(self._engine.embedding.model)
        return None if calibrated is None else SimilarityThreshold(calibrated)


def _known(series: Series, kept: Mapping[Key, Known]) -> dict[Key, Known]:
    """Return the files of a series, by their keys; those that are not kept are compared first."""
    found: dict[Key, Known] = {}
    for uri, key in series.files:
        if (known := kept.get(key)) is not None:
            found[key] = known
        elif (file := series.read(uri)) is not None:
            found[key] = Known(file)
    return found
