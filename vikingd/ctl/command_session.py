"""The session of a command: the connection and the output.

gRPC, protobuf and rich are imported when a command runs: the help of most commands needs none.
"""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from vikingd.client.connection_defaults import DEFAULT_TIMEOUT
from vikingd.client.credentials import Credentials
from vikingd.ctl.common_options import Common, with_common
from vikingd.ctl.exit_codes import OTHER
from vikingd.ctl.output import Form, is_structured, results_of, value_of, written
from vikingd.domain.text import clean

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from rich.console import Console, RenderableType

    from vikingd.client.messages import MessageClient


@dataclass(frozen=True, slots=True)
class Session:
    """The client and the output of one run of a command."""

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
            reply: the reply of the daemon.
            renderables: the reply as text for people; None prints nothing.
            footer: a line below the results, such as their number; not with --quiet. It goes to
                stderr if stdout is no terminal, so that stdout has the results alone.
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
        """Print one value as JSON or YAML, or several values as JSON lines."""
        self._put(written(values, self.form))

    def show_line(self, value: Any) -> None:
        """Print one of several values as soon as it is known; `-o json` prints it as one line."""
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
            from rich.text import Text

            self.err.print(Text(text, style))


def connected(
    function: Callable[..., None],
    *,
    deadline: float | None = DEFAULT_TIMEOUT,
    other: int = OTHER,
    has_uris: bool = False,
) -> Callable[..., None]:
    """Return a command that connects to the daemon, calls a function and reports failures.

    The command has the common options and those of the function.

    Args:
        function: takes the session, then its own options with typer's annotations.
        deadline: the default deadline of each call in seconds; None: no deadline.
        other: the exit code of failures that have no exit code of their own.
        has_uris: the results have URIs, so that -o uri can print them.
    """

    def run(common: Common, **given: Any) -> None:
        with usage_errors():
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
    """Yield a session that is connected to the daemon; report failures of the block.

    Without credentials the calls have no key. The errors and exit codes are those of
    `reporting_failures`.
    """
    from vikingd.client.messages import MessageClient
    from vikingd.ctl.call_failures import reporting_failures
    from vikingd.ctl.consoles import console
    from vikingd.ctl.near_uris import naming_near_uris

    used = credentials or Credentials()

    def client_of(tenant: str) -> MessageClient:
        with usage_errors():
            return MessageClient(address, timeout, **asdict(replace(used, tenant=tenant)))

    with (
        reporting_failures(form, address, other),
        client_of(used.tenant) as client,
        naming_near_uris(client),
    ):
        yield Session(client, form, quiet, console(), console(stderr=True), client_of)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError of the block, such as one for a wrong URI, into an error of usage."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def escape_what_cannot_be_encoded() -> None:
    """Make stdout and stderr accept any text in any encoding; JSON stays valid."""
    codecs.register_error("json", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def text_of(file: BinaryIO) -> str:
    """Return the whole text of a file or of stdin."""
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise typer.BadParameter("the content is not UTF-8 text") from None
