"""Imports that leave files out, assume encodings and rename, against a real daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client.watch_helpers import TOP, state, watching
from tests.patience import eventually
from vikingd.client import Client, InvalidField
from vikingd.client.messages import MessageClient

Ctl = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _no_global_excludes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the settings of this machine out."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-settings"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Return a small checkout with a secret and a build."""
    root = tmp_path / "code"
    for name, text in {
        ".git/info/exclude": "",
        ".gitignore": "secret.env\ndist/\n",
        "a.md": "# Tea\n\nOolong.",
        "secret.env": "TOKEN=hush",
        "dist/a.js": "let hush",
        "src/b.py": "print('harbour')",
        "src/c.py": "print('lighthouse')",
        "src/d.tmp": "x",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def stored(client: MessageClient) -> set[str]:
    """Return the stored files below TOP."""
    return {path for path in state(client, TOP) if "." in path}


def test_what_is_left_out_is_told_and_never_deleted(
    ctl: Ctl, client: MessageClient, code: Path
) -> None:
    """Secrets stay out; a new --exclude with --delete removes nothing, and says what is stored."""
    done, out, err = ctl("import", str(code), TOP)
    assert done == 0
    assert stored(client) == {"/a.md", "/src/b.py", "/src/c.py", "/src/d.tmp"}
    assert "left out: 3\n" in err
    assert "  .gitignore:1 secret.env: secret.env\n" in err
    assert "  .gitignore:2 dist/: dist/\n" in err
    assert "  hidden (--hidden takes them): .gitignore\n" in err

    (code / "a.md").unlink()
    given = "import", str(code), TOP, "--delete", "--exclude", "*.tmp", "--exclude", "c.py"
    before = stored(client)
    done, out, err = ctl(*given, "--dry-run")
    assert f"delete\t{TOP}/a.md\n" in out
    assert "src/d.tmp" not in out
    told = (
        "left out now, and still stored (`vikingctl rm -r URI` removes it): "
        f"{TOP}/src/c.py, {TOP}/src/d.tmp\n"
    )
    assert told in err
    assert "  --exclude *.tmp: src/d.tmp\n" in err
    assert stored(client) == before
    done, out, err = ctl(*given)
    assert told in err
    assert stored(client) == before - {"/a.md"}

    done, out, err = ctl(*given, "--json")
    summary = json.loads(out)
    assert summary["kept"] == [f"{TOP}/src/c.py", f"{TOP}/src/d.tmp"]
    outs = {one["path"]: (one["rule"], one["pattern"], one["uri"]) for one in summary["left_out"]}
    assert outs[f"{code}/dist/"] == (".gitignore:2", "dist/", f"{TOP}/dist")
    assert outs[f"{code}/src/c.py"] == ("exclude", "c.py", f"{TOP}/src/c.py")

    (code / "src/c.py").unlink()  # now it is gone, and not only left out
    ctl(*given)
    assert stored(client) == {"/src/b.py", "/src/d.tmp"}


def test_a_directory_left_out_keeps_what_is_stored_below(
    typed: Client, client: MessageClient, code: Path
) -> None:
    """A directory that is not entered any more protects all contexts below it."""
    typed.import_path(code, TOP)
    assert not typed.import_path(code, TOP, include=["*.md"]).kept
    assert typed.import_path(code, TOP, include=["*.md"], delete=True).kept
    summary = typed.import_path(code, TOP, delete=True, exclude=["src"])
    assert summary.kept == [f"{TOP}/src"]
    assert summary.deleted == 0
    assert stored(client) == {"/a.md", "/src/b.py", "/src/c.py", "/src/d.tmp"}


def test_the_report_is_bounded_and_json_is_not(ctl: Ctl, code: Path) -> None:
    """Of each rule three names are shown, of the rules twelve; --json has all."""
    for number in range(30):
        (code / f"x{number:02}.log").write_text("x")
        (code / f"y{number:02}.out").write_text("x")
    rules = [option for number in range(30) for option in ("--exclude", f"y{number:02}.*")]
    given = "import", str(code), TOP, "--dry-run", "--exclude", "*.log", *rules
    _, _, err = ctl(*given)
    assert "  --exclude *.log: x00.log, x01.log, x02.log and 27 more\n" in err
    assert "more rules; --json lists all\n" in err
    assert len(err.splitlines()) < 20
    _, out, _ = ctl(*given, "--json")
    assert len(json.loads(out)["left_out"]) == 63


def test_large_files_are_left_out_with_their_size(
    ctl: Ctl, client: MessageClient, code: Path
) -> None:
    """A limit of the size is told with the size, also of a single file."""
    (code / "big.txt").write_text("x" * 3000)
    _, _, err = ctl("import", str(code), TOP, "--max-file-size", "2k")
    assert "  larger than --max-file-size: big.txt (2.9 KiB)\n" in err
    assert "/big.txt" not in stored(client)
    done, _, err = ctl("import", str(code / "big.txt"), f"{TOP}/", "--max-file-size", "2k")
    assert done == 1  # nothing was imported
    assert "big.txt (2.9 KiB)" in err


def test_an_encoding_can_be_named_and_is_told(
    ctl: Ctl, typed: Client, client: MessageClient, code: Path
) -> None:
    """A text that is not UTF-8 is read as the caller says; one in UTF-8 stays as it is."""
    (code / "old.txt").write_bytes("茶と港".encode("euc-jp"))
    (code / "new.txt").write_text("茶と灯台")
    _, _, err = ctl("import", str(code), TOP, "--encoding", "euc-jp")
    assert "read as EUC-JP (assumed): old.txt\n" in err
    assert client.get(f"{TOP}/old.txt").context.content == "茶と港"
    assert client.get(f"{TOP}/new.txt").context.content == "茶と灯台"
    [told] = typed.import_path(code, TOP, encoding="euc-jp").encodings
    assert (told.uri, told.encoding, told.how) == (f"{TOP}/old.txt", "EUC-JP", "assumed")


def test_a_named_encoding_reaches_html(typed: Client, tmp_path: Path) -> None:
    """A page without a label is read as the caller says, and told; a label is believed."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "old.html").write_bytes("<p>茶と港</p>".encode("shift_jis"))
    (site / "stated.html").write_bytes('<meta charset="gbk"><p>防波堤和灯塔</p>'.encode("gbk"))
    summary = typed.import_path(site, TOP, encoding="shift_jis")
    assert typed.get(f"{TOP}/old.html").content == "茶と港\n"
    assert typed.get(f"{TOP}/stated.html").content == "防波堤和灯塔\n"
    assert not summary.unreadable
    [told] = summary.encodings
    assert (told.uri, told.encoding, told.how) == (f"{TOP}/old.html", "Shift_JIS", "assumed")


def test_names_in_nfd_are_told(ctl: Ctl, client: MessageClient, code: Path) -> None:
    """A renamed file can be got by its typed name; a second one of the same name is refused."""
    (code / "cafe\u0301.md").write_text("first")
    _, _, err = ctl("import", str(code), TOP)
    assert "renamed to NFC, the form of URIs: cafe\u0301.md\n" in err
    assert client.get(f"{TOP}/caf\u00e9.md").context.content == "first"
    _, _, err = ctl("import", str(code), TOP, "--delete")
    assert client.get(f"{TOP}/caf\u00e9.md").context.content == "first"
    (code / "caf\u00e9.md").write_text("second")
    _, _, err = ctl("import", str(code), TOP)
    assert "not imported: 1\n" in err
    assert "rename one" in err
    assert client.get(f"{TOP}/caf\u00e9.md").context.content == "second"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_file_size": "ten"}, "max_file_size"),
    ({"include": [""]}, "include"),
    ({"encoding": "klingon"}, "encoding"),
]


@pytest.mark.parametrize(("given", "field"), WRONG)
def test_the_client_names_a_wrong_argument(
    typed: Client, code: Path, given: dict[str, Any], field: str
) -> None:
    """An invalid rule raises the client's error before anything is sent."""
    with pytest.raises(InvalidField) as refused:
        typed.import_path(code, TOP, **given)
    assert [violation.field for violation in refused.value.field_violations] == [field]


REFUSED = [
    (("--max-file-size", "ten"), "--max-file-size"),
    (("--encoding", "klingon"), "--encoding"),
    (("--exclude", "#"), "--exclude"),
    (("--from", "mem0", "--exclude", "a"), "--from"),
]


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(("given", "option"), REFUSED)
def test_the_command_names_a_wrong_option(
    ctl: Ctl, code: Path, given: tuple[str, ...], option: str
) -> None:
    """An invalid rule ends the command with 2 and the option."""
    done, _, err = ctl("import", str(code), TOP, *given)
    assert done == 2
    assert option in err


def test_globs_need_a_directory(ctl: Ctl, code: Path) -> None:
    """One file and JSON lines are taken as they are; a glob is refused."""
    lines = code / "a.jsonl"
    lines.write_text("")
    for path in (code / "a.md", lines):
        done, _, err = ctl("import", str(path), TOP, "--include", "*.md")
        assert done == 2
        assert "--include" in err
    assert ctl("import", str(lines), TOP, "--encoding", "big5")[0] == 2


def test_a_watched_folder_obeys_its_rules(client: MessageClient, daemon: str, code: Path) -> None:
    """New files that a rule names stay out; a new rule keeps what is stored, and tells."""
    with watching(daemon, code) as run:
        assert stored(client) == {"/a.md", "/src/b.py", "/src/c.py", "/src/d.tmp"}
        (code / "dist/new.js").write_text("let x")
        (code / "new.md").write_text("new")
        eventually(lambda: "/new.md" in stored(client))
        assert "/dist/new.js" not in stored(client)
        (code / ".gitignore").write_text("secret.env\nnew.md\nc.py\n")
        eventually(lambda: "/dist/new.js" in stored(client))
        assert "/new.md" in stored(client)
        (code / "src/b.py").unlink()
        (code / "src/d.tmp").unlink()
        eventually(lambda: stored(client).isdisjoint({"/src/b.py", "/src/d.tmp"}))
        assert "/src/c.py" in stored(client)  # it is there, and nothing beside it is taken
        (code / "cafe\u0301.md").write_text("old")
        eventually(lambda: "/caf\u00e9.md" in stored(client))
        (code / "cafe\u0301.md").unlink()
        eventually(lambda: "/caf\u00e9.md" not in stored(client))
    assert run.error is None
    told = [one.pattern for summary in run.summaries for one in summary.left_out]
    assert told.count("dist/") == 1
    assert told.count("new.md") == 1
