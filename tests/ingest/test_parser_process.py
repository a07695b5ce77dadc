"""The child process that parses source code: its limits, its ends and its beginnings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.ingest.test_code_passages import assert_whole
from vikingd.domain.contexts import Draft, Prepared
from vikingd.ingest import parser_child
from vikingd.ingest.abstracts import derive_abstract
from vikingd.ingest.code import parser_process
from vikingd.ingest.code.outline import outline
from vikingd.ingest.code.parser_process import OUTLINE, ParserProcess
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.files import read_tree
from vikingd.ingest.original_draft import is_written
from vikingd.ingest.passages import default_passages, split
from vikingd.lanes.queues import Deadline
from vikingd.pb import contexts_pb2
from vikingd.wire.put_preparation import PutBatch

SOURCE = "def first():\n    return 1\n"
ENDLESS = "class A {\n\tval a = b\n\n\t@T"
"""The parser of Kotlin never ends with an annotation behind a value at the end of a file."""


def _children() -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(None, 1) for line in found.stdout.splitlines()]
    return [int(pid) for pid, args in lines if "ingest.parser_child" in args]


def test_a_parser_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is cut without its syntax, and the next one is read as ever."""
    monkeypatch.setattr(parser_process.parser_process, "_seconds", 0.2)
    parser_process.parser_process.close()  # the next child has this limit
    assert split(SOURCE, "a.py")
    (before,) = _children()
    assert_whole(ENDLESS, split(ENDLESS, "a.kt"))
    assert before not in _children()
    assert outline(ENDLESS, "a.kt") is None
    assert derive_abstract(ENDLESS, "a.kt") == "class A"
    assert [one.name for one in outline(SOURCE, "a.py") or ()] == ["first"]
    parser_process.parser_process.close()


@pytest.mark.deep
def test_of_many_files_the_one_that_ends_the_parser_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The files before it and behind it in a put are cut by their syntax."""
    monkeypatch.setattr(parser_process.parser_process, "_seconds", 0.2)
    parser_process.parser_process.close()  # the next child has this limit
    contents = {"a.py": SOURCE, "b.kt": ENDLESS, "c.py": SOURCE.replace("first", "third")}
    request = contexts_pb2.PutRequest(
        contexts=[
            contexts_pb2.ContextInput(uri=f"viking://resources/{name}", content=content)
            for name, content in contents.items()
        ]
    )
    batch = PutBatch(request, None)
    while not batch.do_slice(Mock(spec=Deadline)):
        pass
    found = [one for one in batch.contexts if isinstance(one, Prepared)]
    sections = [[text.section for text in one.texts] for one in found]
    assert sections == [["first"], [""], ["third"]]
    abstracts = [one.abstract.partition(":")[0] for one in found]
    assert abstracts == ["def first()", "class A", "def third()"]
    parser_process.parser_process.close()


def test_requests_and_replies_may_be_larger_than_the_buffers() -> None:
    """Neither process waits for the other one to read."""
    source = "".join(f"def number_{i}():\n    return {i}\n\n\n" for i in range(2000))
    requests = [(OUTLINE, f"{source}# {i}\n", "a.py") for i in range(8)]
    replies = parser_process.parser_process.replies(parser_process.parser_process.send(requests))
    assert [len(reply) for reply in replies] == [2000] * 8


def test_batches_that_are_sent_before_a_reply_is_read_fail_alone() -> None:
    """A file that ends the parser costs its own batch the rest, and no other batch anything."""
    asked = ParserProcess(0.2)
    third = SOURCE.replace("first", "third")
    one = asked.send([(OUTLINE, SOURCE, "a.py"), (OUTLINE, ENDLESS, "b.kt"), (OUTLINE, third, "c")])
    other = asked.send([(OUTLINE, third, "d.py")])
    abandoned = asked.send([(OUTLINE, SOURCE + third, "e.py")])
    assert [[symbol[1] for symbol in reply] for reply in asked.replies(other)] == [["third"]]
    found, failed = asked.replies(one)
    assert ([symbol[1] for symbol in found], failed) == (["first"], None)
    assert asked.ask(OUTLINE, SOURCE, "a.py") == found
    asked.close()
    # Its reply came before the last one.
    assert [[symbol[1] for symbol in reply] for reply in abandoned.replies] == [["first", "third"]]


def test_a_child_that_is_killed_costs_one_file() -> None:
    """The file in its hands is cut without syntax; a child that was idle is replaced unseen."""
    asked = ParserProcess()
    assert asked.ask(OUTLINE, SOURCE, "a.py")
    assert asked._child is not None
    asked._child.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        waits = thread.submit(asked.ask, OUTLINE, SOURCE + SOURCE, "a.py")
        asked._child.kill()
        assert waits.result() is None
    assert asked.ask(OUTLINE, SOURCE, "a.py")
    asked.close()


def test_an_idle_child_ends_and_another_one_starts() -> None:
    """An end without a fault loses no file."""
    asked = ParserProcess()
    assert asked.ask(OUTLINE, SOURCE, "a.py")
    child = asked._child
    assert child is not None
    # As after IDLE_SECONDS: the child ends by itself with status 0.
    assert asked._link is not None
    asked._link.shutdown(socket.SHUT_WR)
    assert child.wait(30) == 0
    assert asked.ask(OUTLINE, SOURCE, "a.py")
    assert asked._child is not child
    asked.close()


def test_a_child_ends_with_its_parent() -> None:
    """No process stays behind after a kill."""
    program = (
        "import os, signal; from vikingd.ingest.passages import split\n"
        "from vikingd.ingest.code.parser_process import parser_process as asked\n"
        "split('def f():\\n    pass\\n', 'a.py'); print(asked._child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    child = int(run.stdout)
    for _ in range(600):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{child}/stat") as file:  # an orphan that ended waits for its new parent
            if file.read().rpartition(")")[2].split()[0] == "Z":
                return
        signal.sigtimedwait([], 0.05)
    pytest.fail("the child is still there")


def test_a_fork_has_a_child_of_its_own() -> None:
    """Two processes never read each other's replies."""
    assert split(SOURCE, "a.py")
    before = parser_process.parser_process._child
    if not (pid := os.fork()):
        code = 1
        try:
            mine = outline("def second():\n    return 2\n", "a.py")
            code = 0 if [one.name for one in mine or ()] == ["second"] else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert [one.name for one in outline(SOURCE, "a.py") or ()] == ["first"]
    assert parser_process.parser_process._child is before


def test_the_child_reads_all_kinds() -> None:
    """Each kind of request has a reading."""
    kinds = {parser_process.PASSAGES, parser_process.OUTLINE, parser_process.OPENING}
    assert set(parser_child._READINGS) == kinds


def test_an_import_leaves_the_parsing_to_the_daemon(tmp_path: Path) -> None:
    """A file whose context was written with the passages of an older import is unchanged."""
    (tmp_path / "a.py").write_text(SOURCE)
    (tmp_path / "b.md").write_text("# A pier\n\nIt is long.\n")
    parser_process.parser_process.close()
    found = {
        draft.uri.rpartition("/")[2]: draft
        for draft in read_tree(tmp_path, "viking://resources/t")
        if isinstance(draft, Draft) and not draft.is_directory
    }
    assert not _children()
    draft = found["a.py"]
    assert draft.passages is None
    assert found["b.md"].passages
    assert [text.section for text in prepare(draft).texts] == ["first"]
    older = replace(draft, passages=default_passages(draft.uri, draft.content))
    changed = replace(draft, content=SOURCE.replace("first", "other"))
    assert is_written(draft, older.content_hash(), 0)
    assert not is_written(changed, older.content_hash(), 0)
