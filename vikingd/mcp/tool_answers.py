"""The answers of the tools: typed results with a compact text form.

In the text form stored text is marked, so that it cannot be taken for words of the server: each of
its lines begins with a bar, or it is between fences.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from vikingd.domain.answers import Confidence, Degradation
from vikingd.domain.errors import shortened
from vikingd.domain.line_numbers import shown_lines
from vikingd.domain.text import clean
from vikingd.mcp.arguments import Kind

_NOTE = 300  # characters

Sure = Field(
    default="strong",
    description="strong; weak: perhaps nothing here is about this; nothing: say that you do not "
    "know. Even a strong answer may lack the very fact: read it.",
)
Rest = Field(default="", description="What is left out, and how to get it.")
Note = Field(default="", description="Parts of the answer that failed, and why.")


def quoted(text: str, indent: str = "") -> str:
    """Return stored text with a bar before each line."""
    shown = clean(text).strip()
    return "\n".join(f"{indent}| {line}" for line in shown.split("\n")) if shown else ""


def fenced(text: str) -> str:
    """Return stored text between two fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{clean(text)}{end}{fence}"


def named(uri: str) -> str:
    """Return a URI without line breaks, as text for a model."""
    return clean(uri).replace("\n", " ")


def lines(*parts: str) -> str:
    """Join the non-empty parts with line breaks."""
    return "\n".join(part for part in parts if part)


class Answer(BaseModel):
    """A result of a tool; `str` is its text form."""

    model_config = ConfigDict(frozen=True)

    @abstractmethod
    def __str__(self) -> str: ...


def doubt_sentence(sure: str, nothing: str) -> str:
    """Return a sentence that warns of an answer with weak or no confidence; "" for a strong one.

    Args:
        sure: the strength of the confidence: "strong", "weak" or "nothing".
        nothing: the beginning of the sentence, such as "Nothing here is about this".
    """
    if sure == "weak":
        return f"This is weak: perhaps {nothing[0].lower()}{nothing[1:]}. Say so if you use it."
    return f"{nothing}: say that you do not know." if sure == "nothing" else ""


class FoundPassage(BaseModel):
    """A passage of a file that matches."""

    offset: int = Field(description="Its first character in the file, for read.")
    lines: str = Field(default="", description="Its lines in the file, for read.")
    section: str = Field(default="", description="The headings above it.")
    content: str

    def place(self) -> str:
        """Return the lines of the passage in words."""
        place = f"from character {self.offset}"
        return f"lines {self.lines}, {place}" if self.lines else place


class FoundFile(BaseModel):
    """A file that matches."""

    uri: str
    type: Kind
    score: float = Field(description="In (0, 1], comparable between queries.")
    abstract: str = Field(default="", description="One or two sentences on the file.")
    passages: list[FoundPassage] = Field(default=[], description="The best passages.")
    twin: str = Field(default="", description="The same page in another language.")

    def text(self, number: int) -> str:
        """Return the file as lines of text."""
        head = f"{number}. {named(self.uri)} ({self.type}, score {self.score})"
        passages = (
            lines(f"   {passage.place()}:", quoted(passage.content, "   "))
            for passage in self.passages
        )
        twin = f"   the same in another language: {named(self.twin)}" if self.twin else ""
        return lines(head, quoted(self.abstract, "   "), *passages, twin)


class FoundFiles(Answer):
    """Files that match, best first."""

    results: list[FoundFile]
    queries: list[str] = Field(default=[], description="The queries that the text became.")
    confidence: str = Sure
    rest: str = Rest
    note: str = Note

    def __str__(self) -> str:
        head = "Nothing was found."
        if self.results:
            head = f"{len(self.results)} results, best first; lines after | are stored text."
        asked = ("Queries:", *(quoted(query) for query in self.queries)) if self.queries else ()
        found = (result.text(number) for number, result in enumerate(self.results, start=1))
        doubt = doubt_sentence(self.confidence, "Nothing here is about this")
        return lines(*asked, head, doubt, *found, self.rest, self.note)


class RecalledMemory(BaseModel):
    """A memory."""

    id: int = Field(default=0, description="For forget. Not set: a whole file.")
    content: str
    uri: str = Field(description="Its file.")
    section: str = Field(default="", description="The headings above it.")
    date: str = Field(default="", description="The day when it was last said.")
    said: int = Field(default=1, description="How often it was said.")
    pinned: bool = Field(default=False, description="Only its id forgets it.")

    def __str__(self) -> str:
        about = [f"memory {self.id}" if self.id else "file"]
        about += [self.date] if self.date else []
        about += [f"said {self.said} times"] if self.said > 1 else []
        about += ["pinned"] if self.pinned else []
        return lines(f"- {', '.join(about)}, {named(self.uri)}", quoted(self.content, "  "))


class RecalledMemories(Answer):
    """The memories that matter now, best first."""

    memories: list[RecalledMemory]
    queries: list[str] = Field(default=[], description="The questions that were searched.")
    reason: str = Field(default="", description="How they were found, and why the list ends.")
    confidence: str = Sure
    rest: str = Rest
    note: str = Note

    def __str__(self) -> str:
        head = "Nothing is remembered that matches."
        if self.memories:
            head = f"{len(self.memories)} memories, best first; lines after | are stored text."
        asked = ("Queries:", *map(quoted, self.queries)) if self.queries else ()
        found = map(str, self.memories)
        doubt = doubt_sentence(self.confidence, "Nothing is known about that")
        return lines(*asked, head, doubt, *found, named(self.reason), self.rest, self.note)


class Source(BaseModel):
    """The source of a passage."""

    marker: str = Field(description="Its marker in the text.")
    uri: str
    lines: str = Field(default="", description="Its lines in the file, for read.")


class BuiltText(Answer):
    """A text of passages with markers, and their sources."""

    content: str
    sources: list[Source]
    confidence: str = Sure
    rest: str = Rest
    note: str = Note

    def __str__(self) -> str:
        doubt = doubt_sentence(self.confidence, "Nothing here is about this")
        if not self.content:
            return lines("Nothing was found.", doubt, self.note)
        sources = (
            f"{one.marker} {named(one.uri)}" + (f":{one.lines}" if one.lines else "")
            for one in self.sources
        )
        return lines(doubt, fenced(self.content), "Sources:", *sources, self.rest, self.note)


class FileContent(Answer):
    """A text of a file, or a part of it; of a directory, its overview or abstract."""

    uri: str
    directory: bool = False
    level: str = "content"
    content: str
    offset: int = Field(default=0, description="The first character of this part.")
    characters: int = Field(description="The length of the whole text.")
    revision: int | None = Field(
        default=None, description="For write and forget. Only with the last part of the file."
    )
    related: list[str] = Field(default=[], description="URIs that are linked with it.")
    rest: str = Rest

    def __str__(self) -> str:
        end = self.offset + len(self.content)
        of = f", its {self.level}" if self.level != "content" else ""
        head = f"{named(self.uri)}{of}, characters {self.offset} to {end} of {self.characters}"
        if self.directory:
            level = "abstract" if self.level == "abstract" else "overview"
            head = f"{named(self.uri)} is a directory. Its {level}:"
        if self.revision is not None:
            head += f", revision {self.revision}"
        linked = ("Related:", *map(named, self.related)) if self.related else ()
        return lines(head, fenced(self.content), *linked, self.rest)


class Entry(BaseModel):
    """A file or a directory."""

    uri: str
    directory: bool = False
    abstract: str = ""

    def __str__(self) -> str:
        slash = "/" if self.directory else ""
        return lines(f"- {named(self.uri)}{slash}", quoted(self.abstract, "  "))


class Listing(Answer):
    """The answer of a tool that lists files and directories."""

    entries: list[Entry]
    rest: str = Rest

    def __str__(self) -> str:
        head = "There is nothing."
        if self.entries:
            head = f"{len(self.entries)} entries; a directory ends with /."
        return lines(head, *map(str, self.entries), self.rest)


class FoundLine(BaseModel):
    """A line that matches."""

    uri: str
    line: int = Field(description="Its number in the file, from 1; read takes it.")
    text: str


class FoundLines(Answer):
    """Lines that match, by file and line."""

    lines: list[FoundLine]
    rest: str = Rest

    def __str__(self) -> str:
        head = "No line matches."
        if self.lines:
            head = (
                f"{len(self.lines)} lines; the number of a line is before |, stored text after it."
            )
        shown: list[str] = []
        for number, found in enumerate(self.lines):
            if not number or found.uri != self.lines[number - 1].uri:
                shown.append(f"- {named(found.uri)}")
            shown.append(f"  {found.line:>4} | {named(found.text)}")
        return lines(head, *shown, self.rest)


class OutlinedName(BaseModel):
    """A name that a file defines, or a heading."""

    name: str
    kind: str
    path: list[str] = Field(default=[], description="The names around it, or headings above it.")
    line: int = Field(description="Its first line, for read.")
    last_line: int = Field(description="Its last line.")
    signature: str = ""

    def __str__(self) -> str:
        told = " > ".join((*self.path, self.name))
        if self.signature:
            is_in = self.name in self.signature
            told = "  " * len(self.path) + (
                self.signature if is_in else f"{told}: {self.signature}"
            )
        return f"{shown_lines(self.line, self.last_line):>9} | {self.kind}  {told}"


class OutlinedFile(BaseModel):
    """A file with its names."""

    uri: str
    names: list[OutlinedName]

    def __str__(self) -> str:
        shown = (named(str(name)) for name in self.names)
        return lines(f"- {named(self.uri)}", *shown)


class Outline(Answer):
    """The names in a file, or in the files below a directory."""

    files: list[OutlinedFile]
    rest: str = Rest
    note: str = Note

    def __str__(self) -> str:
        head = "No names are there."
        if self.files:
            head = "The lines of a name are before |, stored text after it."
        return lines(head, *map(str, self.files), self.rest, self.note)


class Remembered(Answer):
    """The outcome of a remember."""

    outcome: str = Field(
        description="added, reinforced: it was said before, or not_stored: it asks to forget."
    )
    id: int = Field(default=0, description="For forget.")
    uri: str = Field(default="", description="The file of the memory.")
    to_forget: list[RecalledMemory] = Field(
        default=[], description="Of a request to forget: what it means. Pass the ids to forget."
    )
    near: str = Field(default="", description="The wording before.")
    note: str = Note

    def __str__(self) -> str:
        if self.outcome == "not_stored":
            head = "Nothing was stored: the text asks to forget."
            head += " It means these memories; forget takes their ids:" if self.to_forget else ""
            return lines(head, *map(str, self.to_forget), self.note)
        head = f"{self.outcome}: memory {self.id} in {named(self.uri)}"
        if self.near:
            head += ". It was said before as:"
        return lines(head, quoted(self.near), self.note)


class Written(Answer):
    """The outcome of a write."""

    uri: str
    outcome: str = Field(description="created, updated or unchanged.")
    revision: int | None = Field(
        default=None, description="For the next write. Not set: others wrote after you, read it."
    )

    def __str__(self) -> str:
        if self.revision is None:
            return f"{self.outcome}: {named(self.uri)}; others wrote after you, read it again"
        return f"{self.outcome}: {named(self.uri)} has revision {self.revision}"


class Forgotten(Answer):
    """The answer of `forget`: the removed memories."""

    uris: list[str] = Field(default=[], description="The removed file.")
    memories: list[str] = Field(default=[], description="The removed memories.")
    in_doubt: list[RecalledMemory] = Field(
        default=[], description="Not removed: what the words may mean. Ask, then pass the ids."
    )
    note: str = Note

    def __str__(self) -> str:
        removed = (f"removed {named(uri)}" for uri in self.uris)
        head = f"forgot {len(self.memories)} memories:" if self.memories else ""
        doubt = "in doubt, not removed; ask the user, then pass the ids:" if self.in_doubt else ""
        shown = (*map(quoted, self.memories), doubt, *map(str, self.in_doubt))
        return lines(*removed, head, *shown, self.note)


def strength_of(confidence: Confidence | None) -> str:
    """Return "strong", "weak" or "nothing"; "strong" for an answer without a confidence."""
    return "strong" if confidence is None else confidence.strength.name.lower()


def note_of(degraded: Iterable[Degradation]) -> str:
    """Return a text on the parts of an answer that failed."""
    return shortened("; ".join(one.detail for one in degraded), _NOTE)
