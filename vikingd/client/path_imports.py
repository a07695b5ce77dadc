"""The import of files and addresses for both clients."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import grpc

from vikingd.client.client_connection import AsyncConnection, Connection
from vikingd.client.client_errors import FieldViolation, InvalidField
from vikingd.client.file_import import Importer, items_of
from vikingd.client.import_summary import ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.client.source_imports import (
    Progress,
    check_of_addresses,
    chosen_options,
    import_source,
    record_of,
)
from vikingd.domain import errors
from vikingd.ingest.selected_files import Selection
from vikingd.sources.addresses import address_of


class Options(NamedTuple):
    """The options of an import of files or of an address; see `Client.import_path`."""

    include: Iterable[str]
    exclude: Iterable[str]
    no_ignore: bool
    max_file_size: int | str | None
    encoding: str
    with_secrets: bool
    hidden: bool
    ref: str
    below: str
    depth: int | None
    max_pages: int | None
    delete: bool


@contextmanager
def _argument_errors() -> Iterator[None]:
    """Raise the client's InvalidField for an error of an argument."""
    try:
        yield
    except errors.InvalidField as error:
        violation = FieldViolation(error.field, error.description)
        raise InvalidField(
            grpc.StatusCode.INVALID_ARGUMENT, str(error), error.reason, error.metadata, (violation,)
        ) from None


def import_path(
    client: Connection | AsyncConnection,
    path: str | os.PathLike[str],
    uri: str,
    given: Options,
    *,
    dry_run: bool,
    progress: Callable[[int], None] | None,
    cancelled: threading.Event | None = None,
) -> ImportSummary:
    """Import files; `cancelled` ends the import, and Ctrl-C ends it with KeyboardInterrupt."""
    advance = progress or (lambda _: None)
    with _argument_errors():
        options = chosen_options(given._asdict())
        if not os.fspath(path):
            raise errors.InvalidField("path", "is empty; . is the working directory")
        address = address_of(os.fspath(path))
        if address is None:
            check_of_addresses(options)
            Path(path).stat()  # raises if the path does not exist
            selection = Selection(**options.selection)
            top, items, _ = items_of(Path(path), uri, selection, delete=given.delete)
        else:
            record = record_of(client.address, client.tenant, address, uri, options)
    with MessageClient(
        client.address,
        client.timeout,
        retries=client.retries,
        consistent=client.consistent,
        **asdict(client._credentials),
    ) as messages:
        messages._seen = client._seen  # one session
        if address is None:
            importer = Importer(
                messages, top, delete=given.delete, dry_run=dry_run, cancelled=cancelled
            )
            importer.run(items, advance)
            summary = importer.summary
        else:
            with _argument_errors():
                summary = import_source(
                    messages,
                    address,
                    record,
                    dry_run=dry_run,
                    progress=Progress(advance=advance),
                    cancelled=cancelled,
                )
    if summary.end == "interrupted" and not (cancelled and cancelled.is_set()):
        raise KeyboardInterrupt
    return summary
