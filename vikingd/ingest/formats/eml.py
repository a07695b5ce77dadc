"""Messages of e-mail: their subject, people and text."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_binary_file, policy
from email.message import MIMEPart
from email.utils import parsedate_to_datetime
from typing import BinaryIO, cast

from vikingd.ingest.formats.declared_encoding import stated_label
from vikingd.ingest.formats.document import (
    Document,
    Failed,
    Pages,
    clean,
    escaped,
    heading,
    time_of,
    title_of,
)
from vikingd.ingest.formats.encodings import decode
from vikingd.ingest.formats.hypertext import hidden_parts, markdown, parse

_PEOPLE = ("From", "To", "Cc", "Date")
_MAX_NESTED = 16
_NAMED = 5  # attachments that the report names


class _Message:
    """The text of a message that is being read.

    Attributes:
        pages: its text.
        lost: reasons why parts are not in it.
        left_out: names of attachments.
        hidden: number of parts that it hides from its reader.
    """

    def __init__(self) -> None:
        self.pages = Pages()
        self.lost: list[str] = []
        self.left_out: list[str] = []
        self.hidden = 0

    def add(self, message: MIMEPart, depth: int = 0) -> None:
        """Add a message with its subject and people; one inside of another is below it."""
        self.pages.add(heading(min(depth + 1, 6), _field(message, "Subject")))
        people = [f"{name}: {value}" for name in _PEOPLE if (value := _field(message, name))]
        self.pages.add(escaped("\n".join(people)))
        for part in _shown_parts(message, depth):
            if part.get_content_type() == "message/rfc822" and depth < _MAX_NESTED:
                for inner in part.iter_parts():
                    self.add(inner, depth + 1)
            elif part.get_content_maintype() == "text" and not part.is_attachment():
                self._add_text(part)
            elif not part.is_multipart() or depth >= _MAX_NESTED:
                self.left_out.append(part.get_filename() or part.get_content_type())

    def _add_text(self, part: MIMEPart) -> None:
        data = cast("bytes", part.get_payload(decode=True) or b"")
        label = part.get_content_charset()
        try:
            if part.get_content_subtype() == "html":
                page = decode(data, label=stated_label(data) or label)
                soup, hidden = parse(page.text)
                self.hidden += hidden
                if soup.head:
                    soup.head.decompose()
                self.pages.add(markdown(soup))
                return
            text = decode(data, label=label)
        except (ValueError, Failed) as error:
            self.lost.append(f"a part {error}")
            return
        if text.wrong:
            self.lost.append(f"{text.wrong:,} places are not {text.encoding}, and became U+FFFD")
        shown = text.text
        if str(part.get_param("format") or "").lower() == "flowed":
            shown = _unflowed(shown, keeps=str(part.get_param("delsp") or "").lower() != "yes")
        self.pages.add(escaped(clean(shown).strip()))


def read(file: BinaryIO) -> Document:
    """Read a message (RFC 5322).

    Of a text in two forms the plain one is taken. Attachments are named in the report.

    Raises:
        Failed: it is no message, or has no text.
    """
    message = cast("MIMEPart", message_from_binary_file(file, policy=policy.default))
    if not message.keys():
        raise Failed("is no message: it has no header")
    found = _Message()
    found.add(message)
    if not (text := found.pages.text()):
        raise Failed("has no text")
    lost = [*found.lost, *hidden_parts(found.hidden)]
    if found.left_out:
        names = ", ".join(repr(name) for name in found.left_out[:_NAMED])
        count = len(found.left_out)
        lost.append(f"{count:,} attachment{'' if count == 1 else 's'} left out: {names}")
    return Document(
        text, title_of(_field(message, "Subject")), {"format": "eml"}, _time(message), lost
    )


def _unflowed(text: str, *, keeps: bool) -> str:
    """Return a text of the format "flowed" (RFC 3676) with each of its paragraphs in one line.

    An empty line ends a paragraph, although a line before it may say that it goes on.

    Args:
        text: the text.
        keeps: the space that ends a line which goes on is a space of the text.
    """
    lines: list[list[str]] = []  # the parts of each line
    before = None  # the depth of the quotation in the line before, if that line goes on
    for raw in text.splitlines():
        line = raw.lstrip(">")
        depth = len(raw) - len(line)
        line = line.removeprefix(" ")
        goes_on = line.endswith(" ") and line != "-- "
        if not line or line == "-- " or before != depth:
            lines.append([f"{'>' * depth}{' ' * bool(depth)}"])
        lines[-1].append(line[:-1] if goes_on and not keeps else line)
        before = depth if goes_on else None
    return "\n".join(map("".join, lines))


def _shown_parts(message: MIMEPart, depth: int) -> Iterator[MIMEPart]:
    """Yield the parts of a message that are no containers; of alternatives the first with text."""
    if message.get_content_type() == "message/rfc822" or not message.is_multipart():
        yield message
        return
    parts = list(message.iter_parts())
    if message.get_content_subtype() == "alternative":
        texts = [part for part in parts if part.get_content_maintype() in ("text", "multipart")]
        chosen = next((p for p in texts if p.is_multipart() or p.get_payload(decode=True)), None)
        parts = [part for part in parts if part is chosen or part not in texts]
    for part in parts:
        yield from _shown_parts(part, depth + 1) if depth < 100 else iter((part,))


def _field(message: MIMEPart, name: str) -> str:
    """Return a field of the header in one line; "" if it is missing or damaged."""
    try:
        return " ".join(clean(str(message.get(name) or "")).split())
    except Exception:  # The parser has no class for the errors of damaged fields.
        return ""


def _time(message: MIMEPart) -> int | None:
    try:
        return time_of(parsedate_to_datetime(_field(message, "Date")))
    except (ValueError, OverflowError):
        return None
