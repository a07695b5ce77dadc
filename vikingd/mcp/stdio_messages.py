"""Messages on stdin; a line that is no JSON-RPC message is answered with an error."""

from __future__ import annotations

import json
import re
from typing import Any, Self

from anyio import EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

_NO_JSON = "Parse error: the line is not JSON; send one message of JSON-RPC 2.0 in each line."
_NO_UNICODE = (
    "Parse error: a text of the message has half of a surrogate pair, such as \\ud83d, which is no "
    "character; send whole characters."
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NO_MESSAGE = (
    "Invalid request: the line is not a message of JSON-RPC 2.0; send an object with jsonrpc, "
    "method and id."
)


class AnsweredFaults:
    """A stream of the readable messages; it answers unreadable ones with errors.

    Args:
        messages: the stream of the SDK, which has an exception for an unreadable message.
        replies: the stream of the answers.
    """

    def __init__(self, messages: Any, replies: Any) -> None:
        self._messages = messages
        self._replies = replies

    @property
    def last_context(self) -> Any:
        """The context of the last message, for the SDK."""
        return self._messages.last_context

    async def receive(self) -> Any:
        """Return the next message that can be read."""
        while isinstance(message := await self._messages.receive(), Exception):
            if (reply := _reply(message)) is not None:
                await self._replies.send(SessionMessage(reply))
        return message

    async def aclose(self) -> None:
        """Close the stream."""
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _reply(fault: Exception) -> JSONRPCError | None:
    """Return the error to reply to an unreadable line; None for an empty line."""
    faults = fault.errors() if isinstance(fault, ValidationError) else []
    if faults and faults[0]["type"] != "json_invalid":
        values = (one["input"] for one in faults)
        names = (value.get("id") for value in values if isinstance(value, dict))
        name = next((one for one in names if type(one) in (int, str)), None)
        return _error(name, INVALID_REQUEST, _NO_MESSAGE)
    line = str(faults[0]["input"]) if faults else ""
    if faults and not line.strip():
        return None
    if "\\u" in line:  # The SDK's parser refuses half of a surrogate pair; Python's reads it.
        try:
            message = json.loads(line)
            has_half = _SURROGATE.search(json.dumps(message, ensure_ascii=False)) is not None
        except (ValueError, RecursionError):
            message, has_half = None, False
        if isinstance(message, dict) and has_half:
            name = message.get("id")
            return _error(name if type(name) in (int, str) else None, PARSE_ERROR, _NO_UNICODE)
    return _error(None, PARSE_ERROR, _NO_JSON)


def _error(name: int | str | None, code: int, text: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=name, error=ErrorData(code=code, message=text))
