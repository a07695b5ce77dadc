"""The failures of a command: the error on stderr, and the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict

import grpc
import typer
from rich.text import Text

from vikingd.client import ClientError, Unsendable
from vikingd.client.unreachable_daemon import unreachable
from vikingd.ctl.consoles import console
from vikingd.ctl.exit_codes import INTERRUPTED, NOT_FOUND, OTHER, REFUSED, UNREACHABLE, USAGE
from vikingd.ctl.output import Form, escaped_json, is_structured

_EXIT_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: USAGE,
    grpc.StatusCode.UNAVAILABLE: UNREACHABLE,
    grpc.StatusCode.NOT_FOUND: NOT_FOUND,
    grpc.StatusCode.UNAUTHENTICATED: REFUSED,
    grpc.StatusCode.PERMISSION_DENIED: REFUSED,
}

_NOT_DONE = grpc.StatusCode.FAILED_PRECONDITION


@contextmanager
def reporting_failures(form: Form, address: str = "", other: int = OTHER) -> Iterator[None]:
    """Run the block of a command; report its errors on stderr, and exit with their code.

    Ctrl-C exits with INTERRUPTED.

    Args:
        form: the output format; errors are JSON if it is structured.
        address: the address of the daemon, for the message of a failed connection.
        other: the exit code of errors that have no exit code of their own.
    """
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


def not_written(message: str) -> ClientError:
    """Return the error for a file that cannot be written."""
    return ClientError(_NOT_DONE, message, "NOT_WRITTEN")


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
