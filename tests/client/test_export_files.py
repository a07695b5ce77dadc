"""vikingctl export as files, and their import, against a real daemon."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from tests.client.export_helpers import (
    NOTES,
    TOP,
    Ctl,
    brought_back,
    clear,
    counted,
    edited_lines,
    lived,
    run,
    snapshot,
    written,
)
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.ctl.export_command import Exporter
from vikingd.ingest.limits import as_sent


def test_a_file_edited_by_hand_and_imported_keeps_what_is_known_of_its_memories(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An import of an edited file keeps the counters of its unchanged memories."""
    lived(client)
    before = counted(client)
    file = tmp_path / "notes.md"
    edited_lines(
        file,
        "# Me",
        "",
        "- plays chess",
        "- drives a bike",
        "",
        "## Tea",
        "",
        "- likes oolong",
        "- likes oolong",
    )
    assert run(ctl, "import", str(file), NOTES)["updated"] == 1
    chess, *kept = counted(client)
    assert kept == [before[1], before[0], before[2]]
    assert chess[:3] == ("plays chess", 0, 0)


def test_an_edited_export_keeps_the_states_of_unchanged_memories(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An import of an edited export keeps the states of unchanged memories and adds new files."""
    lived(client)
    before = counted(client)
    out = tmp_path / "out"
    assert run(ctl, "export", TOP, "--to", str(out))["memories"] == 3
    edited_lines(out / "notes.md", "# Me", "", "- likes oolong", "- plays chess", "- likes oolong")
    (out / "new").mkdir()
    edited_lines(out / "new" / "more.md", "# More", "", "- by hand")
    assert run(ctl, "import", str(out), TOP)["unreadable"] == []
    first, chess, third = counted(client)
    assert (first, third) == (before[0], before[2])
    assert chess[:3] == ("plays chess", 0, 0)
    assert client.get(f"{TOP}/new/more.md").context.title == "More"


def test_a_file_that_states_everything_is_exported_as_it_is(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """A file that states all its fields is exported unchanged, and its import changes nothing."""
    stated = "---\ntitle: Own  # a comment\nn: 2.0\n---\n# Heading\r\n\ntext\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_bytes(stated.encode())
    (tmp_path / "in" / "b.py").write_text("print(1)\n")
    top = "viking://resources/in"
    run(ctl, "import", str(tmp_path / "in"), top)
    out = tmp_path / "out"
    files = written(client, top, out)
    assert files == {"a.md": stated.encode(), "b.py": b"print(1)\n"}
    assert run(ctl, "import", str(out), top)["unchanged"] == 2


@pytest.mark.parametrize("content", ["", "text\n", "---\nlang: de\nn: 7\n---\n# Heading\n"])
def test_front_matter_carries_what_the_content_does_not_state(
    client: MessageClient, tmp_path: Path, content: str
) -> None:
    """An export as files keeps title, abstract, metadata and time, but not the overview."""
    metadata: dict[str, Any] = {"n": 1, "deep": {"a": [True, None, "é: 中"], "b": 0.5}}
    uri = "viking://resources/d/a.md"
    draft = Draft(
        uri,
        abstract="Given: an abstract.",
        overview="L1",
        content=content,
        title="Given",
        metadata=metadata,
        time=5,
    )
    client.put([draft])
    files = written(client, "viking://resources/d", tmp_path / "out")
    assert files["a.md"].endswith(content.rpartition("---\n")[2].encode())
    clear(client)
    brought_back(client, tmp_path / "out", "viking://resources/d")
    found = client.get(uri).context
    assert (found.title, found.abstract, found.overview) == ("Given", "Given: an abstract.", "")
    assert found.time.ToMicroseconds() == 5
    assert metadata.items() <= MessageToDict(found.metadata).items()
    assert written(client, "viking://resources/d", tmp_path / "again") == files


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("metadata", [{"a": True}, {"": 1}, {"x": "\u2028\ufeff\x85"}])
def test_metadata_of_any_form_never_spoil_a_file(
    client: MessageClient, tmp_path: Path, metadata: dict[str, Any]
) -> None:
    """Metadata is exported as front matter that reads as equal metadata, or is left out."""
    uri = "viking://resources/d/a.md"
    client.put([Draft(uri, content="text\n", metadata=metadata)])
    files = written(client, "viking://resources/d", tmp_path / "out")
    assert files["a.md"].endswith(b"text\n")
    brought_back(client, tmp_path / "out", "viking://resources/d")
    found = as_sent(MessageToDict(client.get(uri).context.metadata))
    expected = metadata if files["a.md"] != b"text\n" else {}
    assert json.dumps(found) == json.dumps(as_sent({"kind": "documentation", **expected}))


def test_an_export_as_files_says_what_they_do_not_hold(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An export as files names the lossless form; an export as JSON lines does not."""
    client.put([Draft(NOTES, content="- a\n")])
    code, _, err = ctl("export", TOP, "--to", str(tmp_path / "out"))
    assert (code, "--to FILE.jsonl is lossless" in " ".join(err.split())) == (0, True)
    code, _, err = ctl("export", TOP, "--to", str(tmp_path / "out.jsonl"))
    assert (code, "lossless" in err) == (0, False)


def test_a_file_removed_from_an_export_goes_with_delete(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An import with --delete removes a context without a file, and the links to this context."""
    other = f"{TOP}/other.md"
    client.put([Draft(NOTES, content="- a\n"), Draft(other, content="- b\n")])
    client.link(NOTES, other, "why")
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    (out / "other.md").unlink()
    assert run(ctl, "import", str(out), TOP, "--delete")["deleted"] == 1
    assert not client.get(NOTES).context.relations


def test_one_file_is_exported_into_a_directory(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """One file is exported into a directory, and the summary has the URI above the file."""
    client.put([Draft(f"{TOP}/d/README.md", content="x")])
    out = tmp_path / "out"
    summary = run(ctl, "export", f"{TOP}/d/README.md", "--to", str(out))
    assert (summary["uri"], summary["files"], summary["directories"]) == (f"{TOP}/d", 1, 0)
    assert [p.name for p in out.iterdir()] == ["README.md"]


def test_what_is_there_is_not_overwritten(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """An export refuses existing files and filled directories, and uses an empty directory."""
    client.put([Draft(NOTES, content="- a\n"), Draft(f"{TOP}/d/b.md", content="- b\n")])
    lines, full, empty = tmp_path / "x.jsonl", tmp_path / "full", tmp_path / "empty"
    lines.write_text("mine")
    full.mkdir()
    empty.mkdir()
    (full / "mine").write_text("mine")
    for path in (lines, full, full / "mine", tmp_path / "none" / "below"):
        code, _, err = ctl("export", TOP, "--to", str(path), "--json")
        assert code == 1
        assert json.loads(err)["reason"] == "NOT_WRITTEN"
        assert str(path) in json.loads(err)["message"]
    assert [p.name for p in full.iterdir()] == ["mine"]
    assert lines.read_text() == "mine"
    run(ctl, "export", TOP, "--to", str(empty))
    assert sorted(p.name for p in empty.iterdir()) == ["d", "notes.md"]


@pytest.mark.parametrize("name", ["x" * 300 + ".md", f"{'d' * 300}/a.md"])
def test_a_name_that_no_file_can_have_is_left_out_and_told(
    ctl: Ctl, client: MessageClient, tmp_path: Path, name: str
) -> None:
    """A context whose name no file can have is left out and reported; the rest is written."""
    client.put([Draft(NOTES, content="- a\n"), Draft(f"{TOP}/{name}", content="# B\n\n- b\n")])
    out = tmp_path / "out"
    assert f"{TOP}/{name}" in run(ctl, "export", TOP, "--to", str(out))["left_out"]
    assert [p.name for p in out.iterdir()] == ["notes.md"]
    _, _, err = ctl("export", TOP, "--to", str(tmp_path / "again"))
    assert "left out, because a file name has at most 255 bytes: " in err


def test_an_export_without_a_daemon_or_a_context_says_so(
    ctl: Ctl, client: MessageClient, tmp_path: Path
) -> None:
    """An export without a daemon or a context has an exit code of its own and writes no file."""
    del client
    assert ctl("export", f"{TOP}/none", "--to", str(tmp_path / "a"))[0] == 4
    code, _, err = ctl("--address", "127.0.0.1:9", "export", TOP, "--to", str(tmp_path / "a"))
    assert code == 3
    assert "no daemon answers" in err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_no_half_an_export(
    client: MessageClient, daemon: str, tmp_path: Path
) -> None:
    """Ctrl-C during an export ends with exit code 130 and leaves no file."""
    client.put([Draft(f"{TOP}/{i}.md", content=f"- note {i}\n") for i in range(1000)])
    command = [
        sys.executable,
        "-m",
        "vikingd.ctl.main",
        "--address",
        daemon,
        "export",
        TOP,
        "--to",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        while not list(tmp_path.glob(".vikingd-export-*/out/*.md")):
            assert running.poll() is None
            time.sleep(0.002)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert running.returncode == 130, err
    assert err == "stopped; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_what_goes_while_it_is_exported_is_left_out(client: MessageClient, tmp_path: Path) -> None:
    """A context that is deleted during an export is left out without an error."""
    client.put([Draft(NOTES, content="- a\n"), Draft(f"{TOP}/zz.md", content="- b\n")])
    exporter = Exporter(client, TOP)
    client.delete(f"{TOP}/zz.md")
    done: list[int] = []
    exporter.write(tmp_path / "out", done.append)
    assert (exporter.summary.files, sum(done)) == (1, 3)
    assert [p.name for p in (tmp_path / "out").glob("*.md")] == ["notes.md"]


@pytest.mark.parametrize("name", ["a.md", "d"])
def test_delete_keeps_what_became_a_link(
    ctl: Ctl, client: MessageClient, tmp_path: Path, name: str
) -> None:
    """An import with --delete keeps and reports contexts whose path is now a symbolic link."""
    client.put([Draft(f"{TOP}/a.md", content="- a\n"), Draft(f"{TOP}/d/b.md", content="- b\n")])
    before = set(snapshot(client, TOP))
    out = tmp_path / "out"
    run(ctl, "export", TOP, "--to", str(out))
    (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    summary = run(ctl, "import", str(out), TOP, "--delete")
    assert summary["deleted"] == 0
    assert [u["reason"] for u in summary["unreadable"]] == ["is a symbolic link"]
    assert set(snapshot(client, TOP)) == before


def test_a_derived_kind_is_not_written_into_a_file(client: MessageClient, tmp_path: Path) -> None:
    """An export leaves out the kind that an import of the file gives, and writes any other."""
    top, text = "viking://resources/site", "# Heading\n\ntext\n"
    own = "---\nkind: documentation\n---\n# Heading\n"
    kinds = {
        "guide/a.md": "documentation",
        "tests/b.md": "test",
        "vendor/c.md": "vendored",
        "guide/d.md": "generated",
    }
    client.put(
        [
            *(
                Draft(f"{top}/{path}", content=text, metadata={"kind": kind, "n": 1})
                for path, kind in kinds.items()
            ),
            Draft(f"{top}/guide/plain.md", content=text, metadata={"kind": "documentation"}),
            Draft(f"{top}/guide/own.md", content=own, metadata={"kind": "documentation"}),
        ]
    )
    files = written(client, top, tmp_path / "out")
    found = {name: data.decode() for name, data in files.items()}
    assert found.pop("guide/plain.md") == text
    assert found.pop("guide/own.md") == own
    assert found.pop("guide/d.md") == f"---\nkind: generated\nn: 1\n---\n\n{text}"
    assert found == dict.fromkeys(
        ("guide/a.md", "tests/b.md", "vendor/c.md"), f"---\nn: 1\n---\n\n{text}"
    )
