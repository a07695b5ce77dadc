"""A commit on its way into a generation."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from viking_kernels import changes as kernels
from viking_kernels.arrays import DIRECTORIES, FILES, I32, NEVER, decode_file, encode_file, is_file
from viking_kernels.postings import grouped, merged
from viking_kernels.quantize import int4_room, quantize_int4, quantize_rows

from vikingd.domain import uri as uris
from vikingd.domain.errors import Corrupt
from vikingd.domain.model import AllLinks, Filled, IndexedText, Linked, Unlinked, Upsert
from vikingd.index import postings, tokens
from vikingd.index.rows import grown

if TYPE_CHECKING:
    from vikingd.index.generation import Generation


_MANY_CHARACTERS = 1 << 22  # of texts that a commit keeps before it looks at their words


class Commit:
    """One commit on its way into a generation.

    Rows are made at once; their terms, their vectors and the directories' numbers at the end, all
    together. `in_base` are the URIs of the commit's upserts that the base may have.
    """

    def __init__(self, generation: Generation, revision: int, in_base: set[str]) -> None:
        self.g = generation
        self.revision = revision
        self.in_base = in_base
        self.parents: dict[str, int] = {}  # rows of directories that upserts were put in
        self.unposted: list[Sequence[str]] = []  # the newest texts, see tokens.parts
        self.titles: list[tuple[int, int, int]] = []  # of these: term, row, number of terms
        self.characters = 0  # that these have
        self.nodes: list[tuple[int, int, int]] = []  # directory, sign, column
        self.texts: list[tuple[int, int]] = []  # row, sign
        self.vectors: list[tuple[int, int]] = []  # row, sign
        self.given: list[tuple[int, bytes]] = []  # row, its new vector
        self.links: dict[int, dict[int, str]] = {}  # copies of those that change

    def upsert(self, change: Upsert) -> None:
        """A context as it stands from now on; its old metadata end, and its texts that changed."""
        g = self.g
        is_new = change.uri not in g.names.tail_rows and change.uri not in self.in_base
        row = None if is_new else g.find(change.uri)
        if row is not None and (row >= 0) != change.is_directory:
            raise Corrupt(f"{change.uri} is a {'directory' if row >= 0 else 'file'} in the index")
        columns = g.dir_columns if change.is_directory else g.file_columns
        abstracts = g.contents.directories if change.is_directory else g.contents.files
        kept = 0
        if row is None:
            parent = self._parent(change.uri)
            number = (
                self._add_directory(parent, change)
                if change.is_directory
                else self._add_file(parent, change)
            )
        else:
            number = decode_file(row) if is_file(row) else row
            if change.is_directory:
                g.columns["dir_id"][number] = change.context_id
            kept = self._keep_texts(number, change)
            columns.remove(number, self.revision)
            g.replaced += 1
        abstracts.put(number, change.abstract, self.revision)
        if change.metadata:
            columns.add(number, change.metadata, self.revision)
        for text in change.texts[kept:]:
            self._add_text(number, change, text, first=text is change.texts[0])

    def _parent(self, uri: str) -> int:
        above = uris.parent(uri)
        row = self.parents.get(above)
        if row is None:
            row = self.g.find(above)
            if row is None or row < 0:
                raise Corrupt(f"{uri} has no directory above it in the index")
            self.parents[above] = row
        return row

    def _add_directory(self, parent: int, change: Upsert) -> int:
        g = self.g
        row, c = g.dirs, g.columns
        c["dir_parent"][row] = parent
        c["dir_died"][row] = NEVER
        c["dir_first"][row] = c["dir_tail"][row] = c["dir_text"][row] = -1
        c["dir_key"][row] = tokens.term_hash(change.uri)
        c["dir_id"][row] = change.context_id
        c["dir_type"][row] = int(c["dir_type"][parent]) or uris.context_type(change.uri)
        g.dir_older[row - g.base_dirs] = c["dir_tail"][parent]
        g.names.directories.append(uris.name(change.uri))
        g.names.tail_rows.setdefault(change.uri, []).append(row)
        g.dirs += 1
        c["dir_tail"][parent] = row
        self.nodes.append((row, 1, DIRECTORIES))
        return row

    def _add_file(self, parent: int, change: Upsert) -> int:
        g = self.g
        row, c = g.files, g.columns
        name = uris.name(change.uri)
        siblings = g.files_by_name(parent)
        at = bisect_left(siblings, (name, -1))
        previous = siblings[at - 1][1] if at else -1
        following = int(c["file_next"][previous] if at else c["dir_first"][parent])
        c["file_dir"][row] = parent
        c["file_died"][row] = NEVER
        c["file_tail"][row] = -1
        c["file_id"][row] = change.context_id
        c["file_next"][row] = following
        c["file_previous"][row] = previous
        g.names.files.append(name)
        g.names.tail_rows.setdefault(change.uri, []).append(encode_file(row))
        g.files += 1
        # Linked in last: who follows the chain meanwhile finds a row that leads on.
        if following >= 0:
            c["file_previous"][following] = row
        if at:
            c["file_next"][previous] = row
        else:
            c["dir_first"][parent] = row
        insort(siblings, (name, row))
        self.nodes.append((parent, 1, FILES))
        return row

    def _add_text(self, number: int, change: Upsert, text: IndexedText, first: bool) -> None:
        g = self.g
        row, c = g.texts, g.columns
        if first and change.title and not change.is_directory:
            keys = tokens.title_keys(change.title)
            self.titles += [(key, row, len(keys)) for key in keys]
        self.unposted.append(
            tokens.parts(
                text.text,
                uris.name(change.uri) if first else "",
                tokens.heading_of(text, change.abstract),
            )
        )
        self.characters += len(text.text)
        c["text_file"][row] = -1 if change.is_directory else number
        c["text_dir"][row] = number if change.is_directory else c["file_dir"][number]
        c["text_script"][row] = text.script
        c["text_died"][row] = NEVER
        c["text_id"][row] = text.text_id
        c["text_ordinal"][row] = text.ordinal
        c["text_embeddable"][row] = text.embeddable
        c["vector_at"][row] = NEVER
        tail = row - g.base_texts
        g.contents.add_text(text)
        g.text_older[tail] = -1 if change.is_directory else c["file_tail"][number]
        g.texts += 1
        if change.is_directory:
            c["dir_text"][number] = row
        else:
            c["file_tail"][number] = row
        self.texts.append((row, 1))
        if self.characters >= _MANY_CHARACTERS:
            self._post_words()
        if text.vector:
            self._set_vector(row, text.vector)
        elif text.embeddable:
            g.pending[text.text_id] = row

    def _post_words(self) -> None:
        """Adds the terms of the newest texts to the postings, and says how many each has."""
        g = self.g
        terms, lengths = g.vocabulary.hashes(self.unposted)
        first = g.texts - len(lengths)
        g.columns["text_length"][first : g.texts] = lengths
        new = grouped(terms, lengths, first)
        if self.titles:
            new = merged(new, postings.of_titles(self.titles))
        g.postings = postings.added(g.postings, new)
        self.unposted, self.titles, self.characters = [], [], 0

    def _set_vector(self, row: int, vector: bytes) -> None:
        if len(vector) != 4 * self.g.dimension:
            raise Corrupt(
                f"a vector of {len(vector) // 4} numbers in an index of {self.g.dimension}"
            )
        self.g.columns["vector_at"][row] = self.revision
        self.vectors.append((row, 1))
        self.given.append((row, vector))

    def fill(self, change: Filled) -> None:
        """A late vector; nothing when its text is gone or has one."""
        row = self.g.pending.pop(change.text_id, None)
        if row is not None:
            self._set_vector(row, change.vector)
            self.g.filled_in_base += row < self.g.base_texts

    def _keep_texts(self, number: int, change: Upsert) -> int:
        """How many texts at the beginning stay the rows that they are; the others' rows end.

        Their order is that of the rows, so nothing behind a text that changed is kept.
        """
        rows = self._texts_of(number, change.is_directory)
        kept = 0
        for row, text in zip(rows, change.texts, strict=False):
            if not self._keep(row, text):
                break
            kept += 1
        self._kill(rows[kept:])
        return kept

    def _keep(self, row: int, text: IndexedText) -> bool:
        """Whether a row can stay for a text, with the vector that the text may have by now."""
        c = self.g.columns
        if c["text_id"][row] != text.text_id:
            return False
        if c["vector_at"][row] == NEVER:
            if text.vector:
                self.fill(Filled(text.text_id, text.vector))
            return True
        return bool(self.g.raw(np.array([row]))[0].tobytes() == text.vector)

    def _texts_of(self, number: int, is_directory: bool) -> list[int]:
        """Rows of the living texts of a directory or file, rising."""
        if not is_directory:
            return self.g.texts_of_file(number)
        row = int(self.g.columns["dir_text"][number])
        return [row] if row >= 0 else []

    def _kill_texts(self, number: int, is_directory: bool) -> None:
        self._kill(self._texts_of(number, is_directory))

    def _kill(self, rows: list[int]) -> None:
        c = self.g.columns
        for row in rows:
            if c["text_file"][row] < 0:
                c["dir_text"][c["text_dir"][row]] = -1
            c["text_died"][row] = self.revision
            self.texts.append((row, -1))
            self.g.pending.pop(int(c["text_id"][row]), None)
            if c["vector_at"][row] != NEVER:
                self.vectors.append((row, -1))
        self.g.dead_texts += len(rows)

    def remove(self, uri: str) -> None:
        """A context and all below it end."""
        self.parents.clear()
        row = self.g.find(uri)
        if row is None:
            return  # came and went since the base was written
        if is_file(row):
            file = decode_file(row)
            directory = int(self.g.columns["file_dir"][file])
            siblings = self.g.files_by_name(directory)
            del siblings[bisect_left(siblings, (self.g.names.files[file], -1))]
            self._remove_file(file)
            self.nodes.append((directory, -1, FILES))
            return
        self._remove_directory(row)

    def _remove_file(self, file: int) -> None:
        self._kill_texts(file, is_directory=False)
        self.g.file_columns.remove(file, self.revision)
        self.g.columns["file_died"][file] = self.revision

    def _remove_directory(self, directory: int) -> None:
        g = self.g
        for _, file in g.files_by_name(directory):
            self._remove_file(file)
            self.nodes.append((directory, -1, FILES))
        g.forget_order(directory)
        for child in g.subdirectories(directory):
            self._remove_directory(child)
        self._kill_texts(directory, is_directory=True)
        g.dir_columns.remove(directory, self.revision)
        g.columns["dir_died"][directory] = self.revision
        self.nodes.append((directory, -1, DIRECTORIES))

    def link(self, change: Linked) -> None:
        """Two contexts are linked, for this reason."""
        for one, other in self._ends(change):
            self._links_of(one)[other] = change.reason

    def unlink(self, change: Unlinked) -> None:
        """Two contexts are linked no longer."""
        for one, other in self._ends(change):
            self._links_of(one).pop(other, None)

    def relink(self, change: AllLinks) -> None:
        """These are all links there are."""
        self.g.links, self.links = {}, {}
        for link in change.links:
            self.link(link)

    def _ends(self, change: Linked | Unlinked) -> tuple[tuple[int, int], tuple[int, int]]:
        one, other = self.g.find(change.uri), self.g.find(change.other)
        if one is None or other is None:
            raise Corrupt(f"a link of {change.uri} and {change.other} has an end that is not here")
        return (one, other), (other, one)

    def _links_of(self, row: int) -> dict[int, str]:
        known = self.links.get(row)
        if known is None:
            known = self.links[row] = dict(self.g.links.get(row, {}))
        return known

    def finish(self) -> None:
        """Writes terms and vectors, and brings the numbers of all directories above up to date."""
        if self.unposted:
            self._post_words()
        self._write_vectors()
        g, c = self.g, self.g.columns
        if self.links:
            g.links = {**g.links, **self.links}
        text_rows = np.array([r for r, _ in self.texts], np.int64)
        text_signs = np.array([s for _, s in self.texts], np.int8)
        text_dirs = c["text_dir"][text_rows]
        node_dirs = np.array([n[0] for n in self.nodes], np.int32)
        vector_rows = np.array([r for r, _ in self.vectors], np.int64)
        vector_dirs = c["text_dir"][vector_rows]
        parents = c["dir_parent"][: g.dirs]
        affected = np.concatenate([text_dirs, node_dirs, vector_dirs]).astype(np.int32)
        if not len(affected):
            return
        touched = kernels.touched_directories(parents, affected)
        self._fresh_slots(touched)
        above = kernels.Ancestors(parents, g.slot)
        kernels.count_nodes(above, g.counts, np.array(self.nodes, np.int32).reshape(-1, 3))
        texts = np.column_stack(
            [
                text_dirs,
                text_signs,
                c["text_script"][text_rows],
                c["text_length"][text_rows],
                c["text_file"][text_rows] >= 0,
            ]
        ).astype(np.int32)
        kernels.count_texts(above, g.counts, texts)
        self._sum_vectors(above, vector_rows, vector_dirs)

    def _write_vectors(self) -> None:
        """Writes the new vectors and their codes; some arrive late, for rows of the base."""
        g, base = self.g, self.g.base
        if not self.given:
            return
        rows = np.array([row for row, _ in self.given], np.int64)
        raw = np.frombuffer(b"".join([vector for _, vector in self.given]), "<f4")
        raw = raw.reshape(len(rows), g.dimension)
        codes = np.zeros((len(rows), base.codes.shape[1]), np.int8)
        scale, error = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
        quantize_rows(raw, codes, scale, error)
        late = rows < g.base_texts
        if late.any():
            at = rows[late]
            base.raw[at], base.codes[at] = raw[late], codes[late]
            base.scale[at], base.error[at] = scale[late], error[late]
            int4 = int4_room(len(at), base.int4_axis)
            quantize_int4(raw[late], int4)
            base.int4_codes[at], base.int4_scale[at] = int4.codes, int4.scale
            base.int4_error[at], base.int4_along[at] = int4.residual, int4.along
        new = ~late
        at = rows[new] - g.base_texts
        g.tail_raw[at], g.tail_codes[at] = raw[new], codes[new]
        g.tail_scale[at], g.tail_error[at] = scale[new], error[new]

    def _fresh_slots(self, touched: I32) -> None:
        """Gives the touched directories copies of their numbers; published ones stay."""
        g = self.g
        there = g.slots.end
        fresh = g.slots.take(len(touched))
        if g.slots.end > len(g.counts):
            g.counts = grown(g.counts[:there], g.slots.end * 5 // 4 + 256)
            g.mean_slot = grown(g.mean_slot[:there], g.slots.end * 5 // 4 + 256)
        old = np.full(len(touched), -1, np.int32)
        known = touched < len(g.slot)
        old[known] = g.slot[touched[known]]
        slot = np.full(g.dirs, -1, np.int32)
        slot[: len(g.slot)] = g.slot
        slot[touched] = fresh
        g.counts[fresh[known]] = g.counts[old[known]]
        g.mean_slot[fresh[known]] = g.mean_slot[old[known]]
        g.counts[fresh[~known]] = 0
        g.mean_slot[fresh[~known]] = -1
        g.slot = slot
        g.slots.replace(old)

    def _sum_vectors(
        self, above: kernels.Ancestors, rows: npt.NDArray[np.int64], directories: I32
    ) -> None:
        g = self.g
        if not len(rows):
            return
        scripts = g.columns["text_script"][rows]
        fresh = []
        for script in np.unique(scripts):
            touched = kernels.touched_directories(above.parent, directories[scripts == script])
            fresh.append(self._fresh_means(g.slot[touched], int(script)))
        base = len(g.base.mean_count)
        signs = np.array([sign for _, sign in self.vectors])
        vectors = np.column_stack([directories, signs, scripts]).astype(np.int32)
        raw = g.raw(rows)
        kernels.add_vectors(above, g.mean_slot, base, g.tail_sum, g.mean_count[base:], vectors, raw)
        new = np.concatenate(fresh)
        mean = np.empty((len(new), g.dimension), np.float32)
        kernels.divide_sums(g.tail_sum[new - base], g.mean_count[new], mean)
        g.tail_mean[new - base] = mean

    def _fresh_means(self, slots: I32, script: int) -> I32:
        """Gives the slots copies of their sums of one script; the copies' rows."""
        g = self.g
        base, there = len(g.base.mean_count), g.means.end
        fresh = g.means.take(len(slots))
        if g.means.end > len(g.mean_count):
            size = g.means.end * 5 // 4 + 64
            g.mean_count = grown(g.mean_count[:there], size)
            g.tail_sum = grown(g.tail_sum[: there - base], size - base)
            g.tail_mean = grown(g.tail_mean[: there - base], size - base)
        old = g.mean_slot[slots, script]
        g.mean_count[fresh] = np.where(old >= 0, g.mean_count[np.maximum(old, 0)], 0)
        sums = np.zeros((len(slots), g.dimension), np.int64)
        of_base, of_tail = (old >= 0) & (old < base), old >= base
        sums[of_base] = g.base.mean_sum[old[of_base]]
        sums[of_tail] = g.tail_sum[old[of_tail] - base]
        g.tail_sum[fresh - base] = sums
        g.mean_slot[slots, script] = fresh
        g.means.replace(old)
        return fresh
