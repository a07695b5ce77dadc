"""vikingctl: all its commands on one screen."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import typer

import vikingd
from vikingd.ctl import (
    extracting,
    keys,
    matching,
    models,
    reading,
    remembering,
    retrieving,
    running,
    tenants,
    writing,
)
from vikingd.ctl.backing_up import backup
from vikingd.ctl.completing import completion, prepare_completion
from vikingd.ctl.copying import copy_
from vikingd.ctl.demo import demo
from vikingd.ctl.exporting import export
from vikingd.ctl.importing import import_
from vikingd.ctl.mcp import mcp
from vikingd.ctl.options import Common, declare
from vikingd.ctl.output import Form, escaped_json, is_structured
from vikingd.ctl.session import (
    OTHER_OF_SEARCH,
    USAGE,
    connected,
    escape_what_cannot_be_encoded,
)

app = typer.Typer(
    name="vikingctl",
    no_args_is_help=True,
    add_completion=False,  # `vikingctl completion` shows the script
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_START, _ASK, _MEMORIES = "Start", "Ask", "Memories"
_TREE, _OPERATE = "Read and write the tree", "Operate"


def _add(name: str, panel: str, run: Callable[..., None]) -> None:
    app.command(name, rich_help_panel=panel)(run)


_add("demo", _START, demo)
_add("import", _START, connected(import_, deadline=None))
_add("export", _START, connected(export))
_add("mcp", _START, mcp)
_add("completion", _START, completion)
_add("find", _ASK, connected(reading.find, has_uris=True))
_add("search", _ASK, connected(reading.search, has_uris=True))
_add("retrieve", _ASK, connected(retrieving.retrieve, has_uris=True))
_add("context", _ASK, connected(retrieving.context, has_uris=True))
_add("recall", _MEMORIES, connected(remembering.recall, has_uris=True))
_add("extract", _MEMORIES, connected(extracting.extract, has_uris=True))
_add("remember", _MEMORIES, connected(remembering.remember))
_add("reinforce", _MEMORIES, connected(remembering.reinforce))
_add("forget", _MEMORIES, connected(remembering.forget, has_uris=True))
_add("put", _TREE, connected(writing.put))
_add("get", _TREE, connected(reading.get, has_uris=True))
_add("ls", _TREE, connected(reading.ls, has_uris=True))
_add("tree", _TREE, connected(reading.tree, has_uris=True))
_add("grep", _TREE, connected(matching.grep, other=OTHER_OF_SEARCH, has_uris=True))
_add("glob", _TREE, connected(matching.glob, other=OTHER_OF_SEARCH, has_uris=True))
_add("rm", _TREE, connected(writing.rm))
_add("mv", _TREE, connected(writing.mv))
_add("link", _TREE, connected(writing.link))
_add("unlink", _TREE, connected(writing.unlink))
_add("health", _OPERATE, connected(running.health))
_add("version", _OPERATE, connected(running.version))
_add("stats", _OPERATE, connected(running.stats))
_add("verify", _OPERATE, connected(running.verify, deadline=None))
_add("optimize", _OPERATE, connected(running.optimize, deadline=None))
_add("reembed", _OPERATE, connected(running.reembed, deadline=None))
_add("backup", _OPERATE, connected(backup, deadline=None))
_add("copy", _OPERATE, connected(copy_, deadline=None))
app.add_typer(keys.app, name="keys", rich_help_panel=_OPERATE)
app.add_typer(models.app, name="models", rich_help_panel=_OPERATE)
app.add_typer(tenants.app, name="tenants", rich_help_panel=_OPERATE)

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


def _wants_structure(arguments: list[str]) -> bool:
    """Return True if errors of usage must be JSON, as far as the arguments can be read."""
    forms = [form for form in Form if is_structured(form)]
    given = {f"-o{form}" for form in forms} | {f"--output={form}" for form in forms} | {"--json"}
    return (
        not given.isdisjoint(arguments)
        or any(one in ("-o", "--output") and after in forms for one, after in pairwise(arguments))
        or os.environ.get("VIKINGCTL_OUTPUT") in forms
    )


def main() -> None:
    """Runs the command line and exits."""
    escape_what_cannot_be_encoded()
    # Otherwise gRPC logs failed handshakes, which the error explains.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    prepare_completion()
    if not _wants_structure(sys.argv[1:]):
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
