"""The output of commands of vikingctl in a pipe and on terminals of three widths, kept in files.

`python -m tests.ctl.terminal_outputs [DIRECTORY]` writes the files again. Times, durations, paths
and sizes of files are masked, since they differ from run to run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import vikingd
from tests.daemons import serving
from tests.vikingctl import shown, started
from vikingd.ctl.demo import QUESTIONS

KEPT = Path(__file__).with_name("terminal_outputs")
PIPE = 0
WIDTHS = (PIPE, 60, 80, 200)
_TREE = Path(vikingd.__file__).with_name("demo_tree")
_NOTES = "viking://resources/notes"
_LONG = f"{_NOTES}/a-directory-with-a-long-name/the-file-of-the-status-codes-and-headers.md"
_API = "viking://resources/lantern-api"
_SESSION = '{"summary": "", "messages": [{"role": "user", "content": "I moved to Lyon in May."}]}'
_UNREACHABLE = "127.0.0.1:1"

BEFORE = (
    f"put {_LONG} --content 'A status code tells how a call ended.' --title 'Status codes'",
    f"put {_NOTES}/tea.md --content 'Oolong: 90 degrees, three minutes.' --title Tea "
    '--metadata \'{"year": 2024, "tags": ["tea", "茶"]}\'',
    f"link {_NOTES}/tea.md {_LONG} --reason 'both are notes'",
    "remember 'Drinks oolong in the afternoon.' --type preferences --section Drinks "
    "--time 2026-03-01T12:00:00+00:00",
)
"""The commands that fill the tree beside that of the demo."""

QUICK = (
    "find 'extract tables from a pdf' -n 3",
    "find 'status code' -n 2 --trace",
    f"get {_NOTES}/tea.md",
    f"get {_NOTES}",
    "ls viking://resources",
    "tree viking://resources/notes",
    "recall 'oolong' --now 2026-03-02T12:00:00+00:00 --no-touch -n 2",
    "find --help",
    "get viking://resources/none.md",
    "grep 'webhook' viking://resources --limit 3",
)
"""The commands of the quick tier."""

DEEP = (
    "--help",
    "import --help",
    "get --help",
    "keys --help",
    "help options",
    "help files",
    "help",
    "find 'nothing of that kind'",
    f"find '{QUESTIONS[3][0]}' -n 3",
    "find 'status code' -n 1 --trace=full",
    "find 'status code' -n 2 -o uri",
    "find 'status code' -n 1 --timings",
    "find",
    "find x --limit 0",
    "search 'write an rfc' --quick -n 2",
    "search 'write an rfc' --quick -n 2 --trace",
    "retrieve 'status code' --mode keyword -n 2",
    "retrieve 'status code' --mode keyword -n 2 --trace",
    "context 'status code' --max-tokens 200",
    f"get {_NOTES}/tea.md --details",
    f"get {_LONG}",
    f"get {_NOTES} -o uri",
    f"ls {_API}",
    "tree viking://agent --depth 2",
    "glob '**/*.py'",
    f"symbols {_API}/client.py -n 4",
    "grep 'no such word' viking://resources",
    "stats",
    "health",
    "version",
    "verify",
    "optimize",
    "models list",
    "keys list",
    "tenants list",
    f"put {_NOTES}/tea.md --content 'Oolong: 90 degrees, three minutes.' --title Tea "
    '--metadata \'{"year": 2024, "tags": ["tea", "茶"]}\'',
    f"rm -r {_NOTES}",
    "reinforce 999999",
    "forget --below-salience 1 --global --dry-run",
    "extract --session SESSION --dry-run --time 2026-03-01T12:00:00+00:00",
    "import DEMO/resources viking://resources --dry-run",
    f"stats --address {_UNREACHABLE}",
)
"""The further commands of the deep tier. None of them changes what another one shows."""

_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-01-01 00:00:00"),
    (re.compile(r"\d+\.\d+ ms"), "1.0 ms"),
    (re.compile(r"(1\.0 ms,)\s+(revision)\s+(\d)"), r"\1 \2 \3"),
    (re.compile(r"after \d+\.\d s|in \d+\.\d s"), "in 1.0 s"),
    (re.compile(r"\d+\.\d (KiB|MiB|GiB)"), r"1.0 \1"),
    (re.compile(r"(?m)^store(\s+)\S+"), r"store\1DIRECTORY"),
    (re.compile(r"generation \d+"), "generation 1"),
    (re.compile(r"bytes given back to the disk: [\d,]+"), "bytes given back to the disk: 0"),
)
"""One rule for each kind of text that differs from run to run; a mask keeps the form.

The digits of a duration decide where a narrow terminal breaks the line after it.
"""


class Printed(NamedTuple):
    """What a command printed: on a terminal stdout and stderr together."""

    code: int
    out: str
    err: str

    def kept(self, command: str) -> str:
        """Return it as it stands in a file."""
        parts = [f"$ vikingctl {command}", self.out.rstrip("\n")]
        parts += ["--- stderr", self.err.rstrip("\n")] if self.err else []
        parts += [f"--- exit code {self.code}"] if self.code else []
        return "\n".join(filter(None, parts)) + "\n"


def printed(command: str, width: int, address: str, session: Path) -> Printed:
    """Run a command in a pipe or on a terminal of this width."""
    places = {"SESSION": str(session), "DEMO": str(_TREE)}
    arguments = [places.get(one, one) for one in shlex.split(command)]
    arguments = [one.replace("DEMO/", f"{_TREE}/") for one in arguments]
    dropped = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    environment = {name: one for name, one in os.environ.items() if name not in dropped}
    environment |= {"VIKINGCTL_ADDRESS": address, "TERM": "dumb", "TZ": "UTC"}
    if width == PIPE:
        process = started(arguments, environment, subprocess.PIPE, subprocess.PIPE, text=True)
        out, err = process.communicate(timeout=60)
        return Printed(process.returncode, _masked(out), _masked(err))
    code, text = shown(arguments, width, environment)
    return Printed(code, _masked(text.replace("\r\n", "\n")), "")


def _masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


@contextmanager
def filled() -> Iterator[tuple[str, Path]]:
    """Yield the address of a daemon with the tree, and the file of a session."""
    with serving("--provider", "none") as address:
        session = Path(os.environ.get("TMPDIR", "/tmp")) / f"session-{os.getpid()}.json"
        session.write_text(_SESSION)
        try:
            commands = ["import DEMO viking://", *BEFORE, "optimize"]
            for command in commands:
                done = printed(command, PIPE, address, session)
                assert done.code == 0, done
            yield address, session
        finally:
            session.unlink()


def path_of(width: int, directory: Path = KEPT) -> Path:
    """Return the file with the outputs of a width."""
    return directory / ("pipe.txt" if width == PIPE else f"{width}-columns.txt")


def kept(width: int) -> dict[str, str]:
    """Return the kept outputs of a width by their commands."""
    parts = re.split(r"^(?=\$ vikingctl )", path_of(width).read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0][len("$ vikingctl ") :]: part.rstrip("\n") for part in parts[1:]}


def main(directory: Path = KEPT) -> None:
    """Write all files again."""
    directory.mkdir(exist_ok=True)
    with filled() as (address, session):
        for width in WIDTHS:
            shown = [printed(one, width, address, session).kept(one) for one in (*QUICK, *DEEP)]
            path_of(width, directory).write_text("\n".join(shown))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
