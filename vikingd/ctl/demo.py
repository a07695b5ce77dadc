"""vikingctl demo: a temporary daemon, a small tree, five questions."""

from __future__ import annotations

import collections
import importlib.resources
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import typer
from rich.console import Console
from rich.text import Text

from vikingd.client import DEFAULT_TIMEOUT, ClientError
from vikingd.client.importing import Importer
from vikingd.ctl import render
from vikingd.ctl.options import AsJson, Common, Output, Quiet
from vikingd.ctl.output import Form
from vikingd.ctl.progress import meter, wait_for_vectors
from vikingd.ctl.session import Session, console, failures_told, opened, usable
from vikingd.ctl.trace import reason
from vikingd.domain import uri as uris
from vikingd.ingest.files import read_tree
from vikingd.pb.retrieval_pb2 import BatchFindResponse, FindResponse
from vikingd.system.scratch import scratch

QUESTIONS = (
    ("Which foods is the user allergic to?", "a memory"),
    ("How do we roll back a bad release?", "asked in English, answered in Chinese"),
    ("E4102", "an exact error code"),
    ("为什么缓存的过期时间定为五分钟？", "asked and answered in Chinese"),
    ("怎么从 PDF 里提取表格？", "asked in Chinese, answered in English"),
)

_SERVER_MODULES = (
    "faiss",
    "grpc_health",
    "grpc_reflection",
    "numba",
    "numpy",
    "prometheus_client",
    "pydantic_settings",
    "re2",
    "Stemmer",
    "structlog",
)
_SERVING = re.compile(r"vikingd \S+ serving on (\S+)")
_EVENT = re.compile(r'\bevent=(?:"((?:[^"\\]|\\.)*)"|(\S+))')
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
    with usable():
        common = common.over(Common.from_environment())
        form = common.form()
        if form is Form.URI:
            raise ValueError(f"-o {form}: the results of this command have no URIs")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with (
        failures_told(form),
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
    replies = []
    for question, about in QUESTIONS:
        reply = session.client.find(question, limit=3, trace=True)
        replies.append(reply)
        if not session.is_structured:
            _show_answer(session.out, question, about, reply)
    if session.is_structured:
        session.show(BatchFindResponse(responses=replies))
    else:
        session.out.print(_GO_ON, end="")


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
    if not all(map(importlib.util.find_spec, _SERVER_MODULES)):
        raise ClientError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "the daemon is not installed; install it with: pip install 'vikingd[server]'",
            "SERVER_NOT_INSTALLED",
        )
    with scratch("demo") as store:
        command = [sys.executable, "-P", "-m", "vikingd.ctl.daemon", "serve"]
        command += ["--path", str(store), "--listen", "127.0.0.1:0", "--config", os.devnull]
        # Ctrl-C reaches only this process, which then shuts the daemon down.
        daemon = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield _address(daemon, quiet=quiet)
        finally:
            _stop(daemon)


def _address(daemon: subprocess.Popen[str], *, quiet: bool) -> str:
    """Wait until the daemon serves, and show its log until then."""
    assert daemon.stdout is not None
    said: collections.deque[str] = collections.deque(maxlen=10)
    err = console(stderr=True)
    err.quiet = quiet
    with err.status("starting the daemon") as status:

        def listen() -> None:
            assert daemon.stderr is not None
            for line in daemon.stderr:
                event = _EVENT.search(line)
                said.append((event[1] or event[2]) if event else line.strip())
                status.update(Text(said[-1]))

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        found = _SERVING.match(daemon.stdout.readline())
    if found is None:
        daemon.wait()
        listener.join()
        lines = "\n  ".join(["the daemon did not start", *said])
        raise ClientError(grpc.StatusCode.FAILED_PRECONDITION, lines, "SERVER_NOT_STARTED")
    return found[1]


def _stop(daemon: subprocess.Popen[str]) -> None:
    daemon.terminate()
    try:
        daemon.wait(10)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C does not wait
        daemon.kill()
        daemon.wait()
