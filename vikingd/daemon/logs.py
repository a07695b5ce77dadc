"""The logs: key=value lines on stderr, with long values cut and unprintable ones escaped."""

from __future__ import annotations

import logging
from typing import Any

import structlog

from vikingd.domain.errors import shortened

_MAX_LOGGED = 1024  # characters of a value
_MAX_TRACEBACK = 8192


def _bound(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Cut and escape the values of a log entry, so that no caller can fill or forge the log."""
    for key, value in event.items():
        if key.startswith("_"):  # structlog's own
            continue
        text = given = value if isinstance(value, str) else str(value)
        if key == "exception" and len(text) > _MAX_TRACEBACK:
            text = f"{text[:_MAX_LOGGED]} [...] {text[_MAX_LOGGED - _MAX_TRACEBACK :]}"
        elif key != "exception":
            text = shortened(text, _MAX_LOGGED)
        if not text.isprintable():
            text = "".join(map(_escaped, text))
        if text is not given:
            event[key] = text
    return event


def _escaped(character: str) -> str:
    is_safe = character.isprintable() or character == "\n"  # which the renderer escapes
    return character if is_safe else repr(character)[1:-1]


def _is_fault(record: logging.LogRecord) -> bool:
    """Return False for grpc's error about a caller that has disconnected before the reply."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "ExecuteBatchError"


def configure_logs(level: str) -> None:
    """Write the logs of vikingd and of libraries as key=value lines on stderr."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _bound,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.LogfmtRenderer(
                    key_order=["timestamp", "level", "logger", "event"]
                ),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_fault)
    logging.getLogger("vikingd").setLevel(level.upper())
