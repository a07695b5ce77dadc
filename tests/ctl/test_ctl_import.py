"""vikingctl import and demo, against real daemons."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse

from tests.daemons import serving
from tests.patience import eventually
from vikingd.client import batches
from vikingd.client.file_import import Importer
from vikingd.client.messages import MessageClient
from vikingd.client.watching import Watched
from vikingd.ctl import demo, main, progress
from vikingd.domain.contexts import Draft, Passage
from vikingd.ingest.import_remarks import Unreadable
from vikingd.pb import contexts_pb2
from vikingd.pb.retrieval_pb2 import BatchFindResponse
from vikingd.system.install_command import install_command

Ctl = Callable[..., tuple[int, str, str]]


def test_batches_are_bounded_by_count_and_by_bytes() -> None:
    """Every batch is as large as the bounds allow; only a single context may exceed them."""
    sizes = [10] * 250 + [1 << 20] * 9 + [5 << 20, 10]
    made = [contexts_pb2.ContextInput(content="x" * size) for size in sizes]
    made_batches = list(batches.batches(made))
    assert [context for batch in made_batches for context in batch] == made

    def fits(batch: list[contexts_pb2.ContextInput]) -> bool:
        size = sum(context.ByteSize() for context in batch)
        return len(batch) <= batches.MAX_COUNT and size <= batches.MAX_BYTES

    assert all(fits(batch) or len(batch) == 1 for batch in made_batches)
    assert not any(fits([*batch, after[0]]) for batch, after in pairwise(made_batches))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Return a small directory to import."""
    root = tmp_path / "docs"
    (root / "guide").mkdir(parents=True)
    (root / "README.md").write_text("# Docs\n\nAll about it.\n")
    (root / "guide" / "one.md").write_text("---\nyear: 2024\nratio: 2.0\n---\n# One\n\nFirst.\n")
    (root / "guide" / "two.md").write_text("# Two\n\nSecond.\n")
    (root / "picture.png").write_bytes(b"\x89PNG\0\0")
    return root


def _import(ctl: Ctl, *arguments: str) -> dict[str, Any]:
    code, out, err = ctl("import", *arguments, "--json")
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert isinstance(summary, dict)
    return summary


def test_very_many_passages_of_a_file_are_told(ctl: Ctl, docs: Path) -> None:
    """The report names a file of more than 1,000 passages, with its size; --quiet does not."""
    (docs / "long.txt").write_text("harbour lamps tide " * 50_000)
    code, _, err = ctl("import", str(docs), "viking://resources/d", "--dry-run")
    assert code == 0
    assert re.search(r"long\.txt: 1 line of 9\d\d\S* \w+, cut into 1,\d{3} passages", err), err
    assert "cut into" not in ctl("import", str(docs), "viking://resources/d", "--dry-run", "-q")[2]


def test_an_import_sends_what_changed_and_nothing_else(
    ctl: Ctl, client: MessageClient, docs: Path
) -> None:
    """The second import of the same files writes nothing; an edit touches its file alone."""
    top = "viking://resources/docs"
    first = _import(ctl, str(docs), top)
    assert (first["created"], first["updated"], first["unchanged"]) == (4, 0, 0)
    assert [item["path"] for item in first["unreadable"]] == [str(docs / "picture.png")]
    revision = client.stats().revision
    again = _import(ctl, str(docs), top)
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 4)
    assert again["revision"] == 0  # nothing was sent
    assert client.stats().revision == revision
    (docs / "guide" / "two.md").write_text("# Two\n\nAnother.\n")
    edited = _import(ctl, str(docs), top)
    assert (edited["created"], edited["updated"], edited["unchanged"]) == (0, 1, 3)
    assert "Another." in client.get(f"{top}/guide/two.md").context.content


@pytest.mark.parametrize("watched", [False, True])
def test_an_import_lists_each_directory_once(
    ctl: Ctl, client: MessageClient, docs: Path, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """One walk finds the files, their number for the progress, and the state that is watched."""
    listed: Counter[Path] = Counter()
    counts: list[int] = []
    scan = os.scandir

    def scandir(path: Any) -> Any:
        listed[Path(path)] += 1
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    if watched:
        summary = next(
            iter(Watched(client, docs, "viking://resources/docs", counted=counts.append))
        )
        assert summary.created == 4
        assert counts == [6]
    else:
        _import(ctl, str(docs), "viking://resources/docs")
    assert {path: n for path, n in listed.items() if path.is_relative_to(docs)} == {
        docs: 1,
        docs / "guide": 1,
    }


def test_an_import_of_which_nothing_can_be_read_fails(ctl: Ctl, docs: Path) -> None:
    """An import without a readable file fails and names the file."""
    picture, uri = docs / "picture.png", "viking://resources/picture.png"
    code, out, err = ctl("import", str(picture), uri, "--json")
    assert (code, err) == (1, "")
    assert [item["path"] for item in json.loads(out)["unreadable"]] == [str(picture)]
    code, _, err = ctl("import", str(picture), uri)
    assert code == 1
    assert "not imported: 1" in err


@pytest.mark.parametrize("value", [".nan", '"a\\0b"'])
def test_a_file_with_odd_front_matter_is_imported_and_told(
    ctl: Ctl, client: MessageClient, docs: Path, value: str
) -> None:
    """A file with a value of front matter that can't be stored is imported and reported."""
    top = "viking://resources/docs"
    content = f'---\n"\\e[31mweight": {value}\n---\n# Odd\n\nBut there.\n'
    (docs / "odd.md").write_text(content)
    for state in ("created", "unchanged"):
        summary = _import(ctl, str(docs), top)
        assert (summary["end"], summary[state]) == ("done", 5)
        assert [item["uri"] for item in summary["as_text"]] == [f"{top}/odd.md"]
    assert client.get(f"{top}/odd.md").context.content == content
    _, _, err = ctl("import", str(docs), top)
    assert f"front matter not as written: 1\n  {top}/odd.md: [31mweight: is taken as " in err


def test_delete_removes_what_is_gone_and_keeps_what_could_not_be_read(
    ctl: Ctl, client: MessageClient, docs: Path
) -> None:
    """Only --delete removes contexts whose file is gone; unreadable files keep their contexts."""
    top = "viking://resources/docs"
    _import(ctl, str(docs), top)
    client.put(
        [
            Draft("viking://resources/docs2/x.md", content="beside"),
            Draft(f"{top}/picture.png", content="an older version"),
        ]
    )
    (docs / "guide" / "one.md").unlink()
    (docs / "guide" / "two.md").unlink()
    (docs / "guide").rmdir()
    assert _import(ctl, str(docs), top)["deleted"] == 0
    planned = _import(ctl, str(docs), top, "--delete", "--dry-run")
    assert planned["deleted"] == 3
    assert client.get(f"{top}/guide/one.md")
    assert _import(ctl, str(docs), top, "--delete")["deleted"] == 3
    assert [context.uri for context in client.tree("viking://resources")] == [
        "viking://resources",
        top,
        f"{top}/README.md",
        f"{top}/picture.png",
        "viking://resources/docs2",
        "viking://resources/docs2/x.md",
    ]


def test_a_dry_run_lists_the_changes_and_makes_none(
    ctl: Ctl, client: MessageClient, docs: Path
) -> None:
    """A dry run lists every change and leaves the revision unchanged."""
    revision = client.stats().revision
    code, out, err = ctl("import", str(docs), "viking://resources/docs", "--dry-run")
    assert code == 0
    assert "create\tviking://resources/docs/guide/one.md" in out.splitlines()
    assert "4 would be created" in out
    assert "picture.png: is binary" in err
    assert client.stats().revision == revision


def test_a_file_becomes_a_directory_with_delete_only(
    ctl: Ctl, client: MessageClient, docs: Path
) -> None:
    """A stored file in the place of a directory fails without --delete; the rest is imported."""
    top = "viking://resources/docs"
    client.put([Draft(f"{top}/guide", content="a file once")])
    code, out, _ = ctl("import", str(docs), top, "--json")
    summary = json.loads(out)
    assert code == 1
    assert {fault["uri"] for fault in summary["failed"]} == {
        f"{top}/guide/one.md",
        f"{top}/guide/two.md",
    }
    assert client.get(f"{top}/README.md")
    _import(ctl, str(docs), top, "--delete")
    assert client.get(f"{top}/guide/one.md")


def test_json_lines_bring_their_own_uris(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """JSON Lines are imported under their own URIs, and a bad line is reported by its number."""
    uri = "viking://resources/laws/tea.txt"
    (tmp_path / "documents.jsonl").write_text(
        json.dumps({"uri": uri, "text": "Tea is free.", "year": 1773.0}) + "\n{\n"
    )
    (tmp_path / "directories.jsonl").write_text(
        json.dumps({"uri": "viking://resources/laws", "abstract": "Laws."}) + "\n"
    )
    for outcome in ("created", "unchanged"):
        summary = _import(ctl, str(tmp_path))
        assert summary[outcome] == 2
        assert summary["unreadable"][0]["path"].endswith("documents.jsonl:2")
    assert client.get(uri).context.metadata["year"] == 1773
    assert client.get("viking://resources/laws").context.abstract == "Laws."


def test_json_lines_delete_only_what_is_surely_gone(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """JSON Lines with an unreadable line delete nothing; directories without a line stay."""
    lines = tmp_path / "a.jsonl"
    kept = json.dumps({"uri": "viking://resources/deep/er/kept.txt", "text": "kept"})
    client.put([Draft("viking://resources/deep/gone.txt", content="gone")])
    lines.write_text(f"{kept}\n{{\n")
    assert _import(ctl, str(lines), "viking://resources", "--delete")["deleted"] == 0
    lines.write_text(f"{kept}\n")
    assert _import(ctl, str(lines), "viking://resources", "--delete")["deleted"] == 1
    assert [context.uri for context in client.tree("viking://resources/deep")] == [
        "viking://resources/deep",
        "viking://resources/deep/er",
        "viking://resources/deep/er/kept.txt",
    ]


class Counted:
    """A client that counts its puts."""

    def __init__(self, client: MessageClient) -> None:
        self.puts = 0
        self._client = client

    def put(self, *arguments: Any, **named: Any) -> Any:
        """Write contexts."""
        self.puts += 1
        return self._client.put(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def test_refused_contexts_do_not_spoil_their_batch(client: MessageClient) -> None:
    """Refused contexts fail alone, each with its reason, and no other is sent again for them."""
    top = "viking://resources"
    client.put([Draft(f"{top}/13.md", is_directory=True)])
    drafts = [Draft(f"{top}/{i}.md", content="x") for i in range(20)]
    drafts[7] = Draft(f"{top}/7.md", vector=b"123")
    drafts[9] = Draft(f"{top}/9.md", title="x" * 1025)
    counted: Any = Counted(client)
    importer = Importer(counted, top, stored=tuple)  # as if 13.md came during the import
    advanced: list[int] = []
    importer.run([*drafts, Unreadable("pic.png", "is binary")], advanced.append)
    failed = {failure.uri: failure.reason for failure in importer.summary.failed}
    assert failed == {
        f"{top}/7.md": "vector: has 3 bytes, which are not whole float32 numbers",
        f"{top}/9.md": "title: has 1,025 bytes, at most 1,024 are allowed",
        f"{top}/13.md": failed.get(f"{top}/13.md"),
    }
    assert failed[f"{top}/13.md"].startswith("uri: is a directory; write a file below it")
    assert (importer.summary.created, sum(advanced), importer.error) == (17, 21, None)
    assert counted.puts == 1


@pytest.mark.deep_after(3)
@pytest.mark.parametrize("refused", [(0,), (6, 7), (19,), tuple(range(20))])
def test_a_batch_that_is_refused_whole_is_sent_in_halves(
    client: MessageClient, refused: tuple[int, ...]
) -> None:
    """A context that a request may not have at all is found, and the others are written."""
    top = f"viking://resources/halves{len(refused)}{refused[0]}"
    passages = [Passage("", i, i + 1) for i in range(4097)]
    drafts = [
        Draft(f"{top}/{i}.md", content="x" * 5000, passages=passages if i in refused else None)
        for i in range(20)
    ]
    importer = Importer(client, top)
    importer.run(drafts, lambda _: None)
    assert [one.uri for one in importer.summary.failed] == [f"{top}/{i}.md" for i in refused]
    assert {one.reason for one in importer.summary.failed} == {
        "passages: has more than 4,096 entries, the limit; send fewer at once"
    }
    assert (importer.summary.created, importer.error) == (20 - len(refused), None)


@pytest.mark.deep
def test_ctrl_c_leaves_what_is_in_and_the_next_import_goes_on(
    ctl: Ctl, client: MessageClient, daemon: str, tmp_path: Path
) -> None:
    """An interrupted import ends with exit code 130, and a second import completes it."""
    count = 6000
    lines = tmp_path / "many.jsonl"
    with lines.open("w") as file:
        for i in range(count):
            text = f"Note {i} about tea. " * 20
            print(json.dumps({"uri": f"viking://resources/many/{i}.txt", "text": text}), file=file)
    command = [sys.executable, "-m", "vikingd.ctl.main", "--address", daemon, "import", str(lines)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        while not client.stats().files:
            time.sleep(0.01)
        first.send_signal(signal.SIGINT)
        out, err = first.communicate()
    assert first.returncode == 130, err
    assert b"stopped after" in out
    inside = client.stats().files
    assert 0 < inside < count
    assert client.verify().ok
    again = _import(ctl, str(lines))
    assert (again["unchanged"], again["created"]) == (inside, count - inside)


@pytest.mark.deep
def test_an_embedder_that_fails_ends_the_waiting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], docs: Path
) -> None:
    """An import succeeds although the embedder fails, and reports the error."""
    monkeypatch.setattr(progress, "_PATIENCE", 0.5)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        for name, value in {
            "PROVIDER": "openai",
            "OPENAI_MODEL": "m",
            "OPENAI_BASE_URL": url,
            "DIMENSION": "8",
            "RETRIES": "0",
        }.items():
            monkeypatch.setenv(f"VIKINGD_EMBEDDING__{name}", value)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        with serving() as where:
            arguments = ["vikingctl", "--address", where, "import", str(docs), "viking://resources"]
            monkeypatch.setattr(sys, "argv", arguments)
            monkeypatch.setenv("GRPC_VERBOSITY", "ERROR")  # vikingctl would set it for good
            with pytest.raises(SystemExit) as ended:
                main.main()
    out, err = capsys.readouterr()
    assert not ended.value.code
    assert "the text is in" in out
    assert "texts have no vector yet, the embedder fails: " in err


def _running(store: Path) -> list[Path]:
    """Return the processes whose command line names a path below `store`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process may have ended
            if str(store).encode() in (process / "cmdline").read_bytes():
                found.append(process)
    return found


def test_the_demo_answers_five_questions(
    ctl: Ctl, client: MessageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo answers five questions, on the daemon that it gets."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo, "serving", lambda **_: nullcontext(client.address))
    code, out, _ = ctl("demo", "--json")
    replies = Parse(out, BatchFindResponse()).responses
    assert (code, len(replies)) == (0, 5)
    assert all(reply.HasField("trace") for reply in replies)


@pytest.mark.deep
def test_the_demo_answers_five_questions_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """The demo answers five questions and leaves no store and no daemon behind."""
    environment = os.environ | {"VIKINGD_EMBEDDING__PROVIDER": "none", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "vikingd.ctl.main", "demo", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    replies = Parse(done.stdout, BatchFindResponse()).responses
    assert len(replies) == 5
    assert all(reply.HasField("trace") for reply in replies)
    assert list(tmp_path.iterdir()) == []
    assert _running(tmp_path) == []


@pytest.mark.deep
def test_the_demo_cleans_up_when_it_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C during the start of the demo ends the demo and its daemon with exit code 130."""
    environment = os.environ | {"VIKINGD_EMBEDDING__PROVIDER": "none", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "vikingd.ctl.main", "demo"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as demo:
        while not list(tmp_path.glob("*/demo/*")):
            time.sleep(0.01)
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate()
    assert demo.returncode == 130
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert _running(tmp_path) == []


def test_the_demos_daemon_ends_with_it(tmp_path: Path) -> None:
    """The daemon of the demo ends after the demo is killed."""
    environment = os.environ | {"VIKINGD_EMBEDDING__PROVIDER": "none", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "vikingd.ctl.main", "demo"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()  # the daemon serves
        demo.kill()
    eventually(lambda: not _running(tmp_path))


def test_the_demo_says_how_to_install_the_daemon(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the server's packages, the demo ends with exit code 1 and the install command."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setitem(sys.modules, "numba", None)
    code, out, err = ctl("demo")
    assert (code, out) == (1, "")
    assert install_command("server") in err


def test_one_file_is_imported_by_its_uri_or_into_a_directory(
    ctl: Ctl, client: MessageClient, docs: Path
) -> None:
    """A file gets the given URI, or its own name below a URI that ends in a slash."""
    one = docs / "guide" / "one.md"
    assert _import(ctl, str(one), "viking://resources/first.md")["created"] == 1
    assert _import(ctl, str(one), "viking://resources/notes/")["created"] == 1
    assert _import(ctl, str(one), "viking://resources/notes/")["unchanged"] == 1
    assert [context.uri for context in client.tree("viking://resources")] == [
        "viking://resources",
        "viking://resources/first.md",
        "viking://resources/notes",
        "viking://resources/notes/one.md",
    ]


@pytest.mark.parametrize("command", ["import", "import --dry-run"])
def test_an_empty_path_is_no_working_directory(ctl: Ctl, command: str) -> None:
    """An unset variable of a shell imports nothing."""
    code, out, err = ctl(*command.split(), "", "viking://resources/empty")
    assert (code, out) == (2, "")
    assert "for PATH: is empty; . is the working directory" in err
