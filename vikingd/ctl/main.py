"""vikingctl: all its commands on one screen."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

import vikingd
from vikingd.ctl import (
    extracting,
    keys,
    matching,
    reading,
    remembering,
    retrieving,
    running,
    tenants,
    writing,
)
from vikingd.ctl.backing_up import backup
from vikingd.ctl.demo import demo
from vikingd.ctl.exporting import export
from vikingd.ctl.importing import import_
from vikingd.ctl.mcp import mcp
from vikingd.ctl.options import Common, declare
from vikingd.ctl.session import (
    OTHER_OF_SEARCH,
    USAGE,
    connected,
    escape_what_cannot_be_encoded,
    escaped_json,
)

app = typer.Typer(
    name="vikingctl",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("demo")(demo)
app.command("import")(connected(import_, deadline=None))
app.command("export")(connected(export))
app.command("find")(connected(reading.find))
app.command("search")(connected(reading.search))
app.command("retrieve")(connected(retrieving.retrieve))
app.command("context")(connected(retrieving.context))
app.command("recall")(connected(remembering.recall))
app.command("remember")(connected(remembering.remember))
app.command("extract")(connected(extracting.extract))
app.command("reinforce")(connected(remembering.reinforce))
app.command("forget")(connected(remembering.forget))
app.command("put")(connected(writing.put))
app.command("get")(connected(reading.get))
app.command("ls")(connected(reading.ls))
app.command("tree")(connected(reading.tree))
app.command("grep")(connected(matching.grep, other=OTHER_OF_SEARCH))
app.command("glob")(connected(matching.glob, other=OTHER_OF_SEARCH))
app.command("rm")(connected(writing.rm))
app.command("mv")(connected(writing.mv))
app.command("link")(connected(writing.link))
app.command("unlink")(connected(writing.unlink))
app.command("stats")(connected(running.stats))
app.command("verify")(connected(running.verify, deadline=None))
app.command("optimize")(connected(running.optimize, deadline=None))
app.command("reembed")(connected(running.reembed, deadline=None))
app.command("backup")(connected(backup, deadline=None))
app.command("mcp")(mcp)
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")

# The base of BadParameter, which typer itself does not export.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vikingctl {vikingd.__version__}")
        raise typer.Exit


def _common(
    ctx: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
    **given: Any,
) -> None:
    """Call a vikingd daemon: import a tree, search it, maintain it.

    Exit codes: 1 failed, 2 usage or invalid argument, 3 daemon not reached, 4 not found, 5 the key
    is missing or lacks a right, 130 interrupted. Of grep and glob: 1 nothing matches, 6 failed.
    """
    ctx.obj = Common(**given)


declare(_common, _common)
app.callback()(_common)


def main() -> None:
    """Runs the command line and exits."""
    escape_what_cannot_be_encoded()
    # Otherwise gRPC logs failed handshakes, which the error explains.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if "--json" not in sys.argv:
        app()
    try:
        sys.exit(app(standalone_mode=False))
    except typer.Abort:
        sys.exit(1)
    except _UsageError as error:
        report = {"code": "INVALID_ARGUMENT", "reason": "USAGE", "message": error.format_message()}
        print(escaped_json(json.dumps(report, ensure_ascii=False)), file=sys.stderr)
        sys.exit(USAGE)


if __name__ == "__main__":
    main()
