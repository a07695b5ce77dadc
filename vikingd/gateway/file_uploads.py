"""Uploads from a browser: PUT /v1/files/{path}, GET /v1/formats and POST /v1/demo.

A file is read on a thread, as an import reads it, and written with the key of its caller.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from vikingd.client.client_errors import ClientError, NotFound
from vikingd.client.file_import import Importer, Item
from vikingd.client.import_summary import ImportSummary
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.gateway.body_reading import Bodies
from vikingd.gateway.callers import Caller
from vikingd.gateway.context_resources import uri_of
from vikingd.gateway.daemon_calls import Calls, while_connected
from vikingd.gateway.http_errors import JSON, CallFailed, Fault
from vikingd.gateway.rest import check_json, check_uncompressed
from vikingd.gateway.upload_results import reply_fields
from vikingd.gateway.url_parameters import Query
from vikingd.ingest.draft_preparation import check
from vikingd.ingest.file_syntax import known_endings
from vikingd.ingest.files import read_tree
from vikingd.ingest.formats.document_reader import Limits
from vikingd.ingest.selected_files import Selection
from vikingd.pb.contexts_pb2 import Context
from vikingd.system.scratch import scratch

PREFIX = "/v1/files/"

MOST_BYTES = 64 << 20
"""The most bytes of an uploaded file. Texts have a lower limit, which their reader checks."""

_AT_ONCE = 2  # imports; more of them wait
_LONGEST_NAME = 255  # bytes of a name on disk


class Uploads:
    """The handlers of file uploads and of the demo.

    Args:
        calls: finds the callers, and checks their keys.
        client: a client of the daemon without a key.
    """

    def __init__(self, calls: Calls, client: MessageClient) -> None:
        self._calls = calls
        self._client = client
        self._bodies = Bodies(MOST_BYTES, "`vikingctl import` takes files of any size")
        self._threads = ThreadPoolExecutor(_AT_ONCE, "upload")

    async def put(self, request: Request) -> Response:
        """Read the file in the body, and write its contents as contexts."""
        uri = _target(request)
        check_uncompressed(request)
        for name in ("if-match", "if-none-match"):
            if name in request.headers:
                raise Fault(400, "is not for a file: PUT /v1/contexts/{path} takes it", field=name)
        with Query(request) as query:
            timeout = query.timeout()
        with self._calls.caller(request) as caller:
            await self._calls.check(caller)  # a wrong key takes no thread
            async with _directory() as directory:
                path = directory / uris.name(uri)
                async with self._bodies.save(request, partial(self._calls.check, caller), path):
                    client = self._client_of(caller, timeout)
                    work = partial(_import_file, client, path, uri)
                    summary = await _on_thread(request, self._threads, work)
        return _json(reply_fields(uri, summary))

    async def formats(self, _: Request) -> Response:
        """Return the kinds of files that can be uploaded."""
        return _json({"extensions": known_endings(), "maxBytes": MOST_BYTES})

    async def demo(self, request: Request) -> Response:
        """Write the contexts of the demo, except those that exist."""
        check_json(request)
        with Query(request) as query:
            timeout = query.timeout()
        async with self._calls.body(request) as (caller, body):
            if body.strip() not in (b"", b"{}"):
                raise Fault(400, "must be empty, or {}", field="body")
            await self._calls.check(caller)
            work = partial(_import_demo, self._client_of(caller, timeout))
            summary = await _on_thread(request, self._threads, work)
        return _json({"created": summary.created, "uri": uris.ROOT})

    def close(self) -> None:
        """Stop the threads; all their work must have ended or been cancelled."""
        self._threads.shutdown()

    def _client_of(self, caller: Caller, timeout: float | None) -> MessageClient:
        return self._client.with_key(caller.key, caller.tenant).with_timeout(timeout)


def _target(request: Request) -> str:
    """Return the URI at which an uploaded file is stored, by the path of the request.

    Raises:
        Fault: no file can have this URI.
    """
    uri = uri_of(request, PREFIX)
    try:
        parsed = uris.parse_new(uri)
        if uri.endswith("/"):
            raise InvalidField("uri", "names a directory: add the name of the file")
        check(Draft(parsed))
    except InvalidField as error:
        raise Fault(400, error.description, field="path") from None
    if len(uris.name(parsed).encode()) > _LONGEST_NAME:
        raise Fault(400, f"has a name of more than {_LONGEST_NAME} bytes", field="path")
    return parsed


@asynccontextmanager
async def _directory() -> AsyncIterator[Path]:
    """Yield a new temporary directory for this user alone; delete it at the end."""
    made = scratch("upload")
    path = await asyncio.to_thread(made.__enter__)
    try:
        yield path
    finally:
        await asyncio.to_thread(made.__exit__, None, None, None)


async def _on_thread(
    request: Request,
    threads: ThreadPoolExecutor,
    work: Callable[[threading.Event], ImportSummary],
) -> ImportSummary:
    """Run an import on a thread and return its result; cancel it if the client goes away.

    The import has ended when this function returns or raises.

    Raises:
        CallFailed: the daemon refuses the caller, or cannot be reached.
        ClientDisconnect: the client went away.
    """
    cancelled = threading.Event()
    submitted = threads.submit(work, cancelled)
    running = asyncio.wrap_future(submitted)

    async def result() -> ImportSummary:
        return await asyncio.shield(running)

    try:
        return await while_connected(request, result())
    except ClientError as error:
        raise CallFailed.of_client(error) from None
    finally:
        cancelled.set()
        submitted.cancel()  # if no thread has it yet
        await asyncio.wait([running])


def _import_file(
    client: MessageClient, path: Path, uri: str, cancelled: threading.Event
) -> ImportSummary:
    items = read_tree(path, uri, Limits(cancelled=cancelled), Selection())
    importer = Importer(client, uri, cancelled=cancelled, stored=lambda: _stored(client, uri))
    return _run(importer, items)


def _import_demo(client: MessageClient, cancelled: threading.Event) -> ImportSummary:
    """Import the files of the demo; contexts that exist are not changed."""
    importer = Importer(client, uris.ROOT, cancelled=cancelled, stored=lambda: ())
    with importlib.resources.as_file(importlib.resources.files("vikingd") / "demo_tree") as tree:
        items = (
            replace(item, expected_revision=0) if isinstance(item, Draft) else item
            for item in read_tree(tree, uris.ROOT)
        )
        return _run(importer, items)


def _run(importer: Importer, items: Iterable[Item]) -> ImportSummary:
    """Run an import.

    Raises:
        ClientError: the daemon refuses the caller, or cannot be reached.
    """
    importer.run(items, lambda _: None)
    if importer.error is not None:
        raise importer.error
    return importer.summary


def _stored(client: MessageClient, uri: str) -> Iterator[Context]:
    """Yield the stored context with a URI if it is a file; the import compares the new one with it.

    A put at the URI of a directory is refused.
    """
    with suppress(NotFound):
        context = client.get(uri).context
        if not context.is_directory:
            yield context


def _json(value: dict[str, Any]) -> Response:
    return Response(json.dumps(value, ensure_ascii=False), media_type=JSON)
