"""The session of a command: the connection, the output, and the exit code of a failure."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import IO, Any, BinaryIO

import grpc
import typer
from google.protobuf.message import Message
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from vikingd.client import DEFAULT_TIMEOUT, ClientError, Unsendable
from vikingd.client.credentials import Credentials
from vikingd.client.messages import MessageClient
from vikingd.client.unreachable_daemon import unreachable
from vikingd.ctl.options import Common, with_common
from vikingd.ctl.output import (
    Form,
    escaped_json,
    is_structured,
    results_of,
    value_of,
    written,
)
from vikingd.ctl.result_rows import Words
from vikingd.domain.text import clean

OTHER, USAGE, UNREACHABLE, NOT_FOUND, REFUSED, INTERRUPTED = 1, 2, 3, 4, 5, 130
"""The exit codes other than 0; 130 is a shell's 128 + SIGINT."""

OTHER_OF_SEARCH = 6
"""Takes the place of OTHER in commands that exit with 1 if nothing matches."""

_EXIT_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: USAGE,
    grpc.StatusCode.UNAVAILABLE: UNREACHABLE,
    grpc.StatusCode.NOT_FOUND: NOT_FOUND,
    grpc.StatusCode.UNAUTHENTICATED: REFUSED,
    grpc.StatusCode.PERMISSION_DENIED: REFUSED,
}

# So wide that nothing wraps when the output is not a terminal.
_PIPE_WIDTH = 1 << 30
_WIDTH, _HEIGHT = 80, 25  # of a terminal that does not report its size

_NOT_DONE = grpc.StatusCode.FAILED_PRECONDITION


@dataclass(frozen=True, slots=True)
class Session:
    """A run of one command."""

    client: MessageClient
    form: Form
    quiet: bool
    out: Console
    err: Console
    of_tenant: Callable[[str], MessageClient]  # opens another client, for an operator

    @property
    def is_structured(self) -> bool:
        """True if programs read the output."""
        return is_structured(self.form)

    def show(
        self,
        reply: Message,
        *renderables: RenderableType | None,
        footer: RenderableType | None = None,
    ) -> None:
        """Print the reply in the form of the output.

        Args:
            reply: of the daemon.
            renderables: the reply as text for people; None prints nothing.
            footer: what is told about them, except with --quiet; it is on stderr if stdout is no
                terminal, so that stdout has the records alone.
        """
        if self.form is Form.URI:
            self.write("".join(f"{one.uri}\n" for one in results_of(reply)))
        elif self.form is Form.JSONL:
            self.show_value(*map(value_of, results_of(reply) or [reply]))
        elif self.is_structured:
            self.show_value(value_of(reply))
        else:
            self.print(*renderables)
            if footer is not None and not self.quiet:
                (self.out if self.out.is_terminal else self.err).print(footer)
        if self.form is Form.URI or self.quiet:  # texts for people include it
            for one in getattr(reply, "degraded", ()):
                self.warn(f"degraded: {one.detail}")

    def print(self, *renderables: RenderableType | None) -> None:
        """Print texts for people on stdout; None prints nothing."""
        for renderable in renderables:
            if renderable is not None:
                self.out.print(renderable)

    def show_value(self, *values: Any) -> None:
        """Print a value in the structured form; of JSON lines a line for each value."""
        self._put(written(values, self.form))

    def show_line(self, value: Any) -> None:
        """Print one of several values that come one by one; with -o json as a line of JSON."""
        self._put(written([value], Form.JSONL if self.form is Form.JSON else self.form))

    def _put(self, text: str) -> None:
        """Write a text without wrapping."""
        self.out.file.write(text)
        self.out.file.flush()

    def write(self, text: str) -> None:
        """Write a text; on a terminal its hidden characters are U+FFFD."""
        if self.out.is_terminal:
            text = clean(text if text.endswith("\n") or not text else f"{text}\n")
        self._put(text)

    def note(self, text: str, style: str = "") -> None:
        """Print a note on stderr, unless programs read the output or --quiet is given."""
        if not self.quiet:
            self.warn(text, style)

    def warn(self, text: str, style: str = "yellow") -> None:
        """Print a warning on stderr, unless programs read the output."""
        if not self.is_structured:
            self.err.print(Text(text, style))


def connected(
    function: Callable[..., None],
    *,
    deadline: float | None = DEFAULT_TIMEOUT,
    other: int = OTHER,
    has_uris: bool = False,
) -> Callable[..., None]:
    """Make a command of a function: add the common options, connect, and report failures.

    Args:
        function: takes the session, then its own options with typer's annotations.
        deadline: the default deadline of each call in seconds; None: no deadline.
        other: the exit code of failures that have no exit code of their own.
        has_uris: the results have URIs, so that -o uri can print them.
    """

    def run(common: Common, **given: Any) -> None:
        with usable():
            common = common.over(Common.from_environment())
            form, credentials = common.form(), common.credentials()
            if form is Form.URI and not has_uris:
                raise ValueError(f"-o {form}: the results of this command have no URIs")
            address, timeout = common.where(), common.timeout or deadline
        with opened(address, timeout, form, credentials, other, quiet=common.quiet) as session:
            function(session, **given)

    return with_common(run, function)


@contextmanager
def opened(
    address: str,
    timeout: float | None,
    form: Form,
    credentials: Credentials | None = None,
    other: int = OTHER,
    *,
    quiet: bool = False,
) -> Iterator[Session]:
    """Open a session for the context, and report failures at its end; no credentials: no key."""
    used = credentials or Credentials()

    def client_of(tenant: str) -> MessageClient:
        with usable():
            return MessageClient(address, timeout, **asdict(replace(used, tenant=tenant)))

    with failures_told(form, address, other), client_of(used.tenant) as client:
        yield Session(client, form, quiet, console(), console(stderr=True), client_of)


@contextmanager
def usable() -> Iterator[None]:
    """Turn errors of an argument, such as an address or a URI, into those of usage."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def failures_told(form: Form, address: str = "", other: int = OTHER) -> Iterator[None]:
    """Report client errors on stderr; turn them, and Ctrl-C, into exit codes; see `connected`."""
    try:
        yield
    except ClientError as error:
        _tell(error, address, form)
        raise typer.Exit(_EXIT_CODES.get(error.code, other)) from None
    except Unsendable as error:
        raise typer.BadParameter(f"an argument can't be sent: {error}") from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:  # the reader of stdout has ended
        raise
    except OSError as error:
        _tell(ClientError(_NOT_DONE, f"can't read or write: {error.strerror}", "IO"), "", form)
        with suppress(OSError):  # do not write the rest of stdout's buffer again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(other) from None


def escape_what_cannot_be_encoded() -> None:
    """Make stdout and stderr accept any text in any encoding; JSON stays valid."""
    codecs.register_error("json", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def not_written(message: str) -> ClientError:
    """Return the error for a file that cannot be written."""
    return ClientError(_NOT_DONE, message, "NOT_WRITTEN")


def text_of(file: BinaryIO) -> str:
    """Return the whole text of a file or of stdin."""
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise typer.BadParameter("the content is not UTF-8 text") from None


class SafeConsole(Console):
    """A console that shows hidden characters as U+FFFD."""

    @property  # type: ignore[misc]  # nobody sets it
    def size(self) -> ConsoleDimensions:
        """The size of the terminal, by COLUMNS if it is set; elsewhere nothing wraps."""
        width = _columns(self.file) if self.is_terminal else _PIPE_WIDTH
        return ConsoleDimensions(width, _HEIGHT)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as usual, but leave words that are too long, as a URI may be, to the terminal."""
        if not options.get("soft_wrap"):
            objects = tuple(Words(one) if isinstance(one, Text | str) else one for one in objects)
        given: dict[str, Any] = {"crop": False} | options
        super().print(*objects, **given)

    def on_broken_pipe(self) -> None:
        """Let `main` end the command; rich's own method exits with 1."""
        raise BrokenPipeError

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as usual, then replace hidden characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """Return a console for plain text; it wraps, and has colours, on a terminal only."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return SafeConsole(
        stderr=stderr,
        force_terminal=is_terminal,  # no variable of rich makes a terminal of a pipe
        markup=False,
        highlight=False,
        emoji=False,
    )


def _columns(stream: IO[str]) -> int:
    """Return the width of a terminal in characters."""
    named = os.environ.get("COLUMNS", "")
    if named.isdigit() and int(named):
        return int(named)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def _tell(error: ClientError, address: str, form: Form) -> None:
    err = console(stderr=True)
    if not is_structured(form):
        for line in _explain(error, address):
            err.print(line)
        return
    report = {
        "code": error.code.name,
        "reason": error.reason,
        "message": error.message,
        "metadata": error.metadata,
        "fieldViolations": [asdict(violation) for violation in error.field_violations],
    }
    err.file.write(escaped_json(json.dumps(report, ensure_ascii=False)) + "\n")


def tell_error(message: str, hint: str) -> None:
    """Print an error on stderr, and what helps."""
    err = console(stderr=True)
    err.print(Text.assemble(("error: ", "bold red"), message))
    err.print(Text(hint, "dim"))


def _explain(error: ClientError, address: str) -> list[Text]:
    message, hint = error.message, ""
    if not error.reason and error.code is grpc.StatusCode.UNAVAILABLE:
        reason, hint = unreachable(message, address)
        message = f"no daemon answers at {address} ({reason})"
    elif not error.reason and error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        message, hint = f"{address} gave no answer in time", "--timeout SECONDS waits longer"
    lines = [Text.assemble(("error: ", "bold red"), message)]
    lines += [
        Text(f"  {v.field}: {v.description}")
        for v in error.field_violations
        if v.field not in message
    ]
    if hint:
        lines.append(Text(hint, "dim"))
    return lines
