"""The guide of nodes, run block by block as it stands, on a machine of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_servers import NEEDS_POSTGRES, PROGRAMS, command, room
from tests.programs import needed, unshared
from tests.project.test_documents import BLOCK, ROOT
from tests.project.test_guide import printed_by, program, vikingd_programs

pytestmark = NEEDS_POSTGRES

SECTIONS = ("A cluster in ten commands", "A load balancer")
# PostgreSQL refuses root, and another user must not be root in a namespace of its own either.
NEW = ("unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
OF_USER = ("--user", "--map-current-user", "--keep-caps")


def script() -> str:
    """Return the commands of the guide as one script, which ends with the first failure."""
    text = (ROOT / "vikingd" / "store" / "README.md").read_text(encoding="utf-8")
    commands = ["ip link set lo up", "PS4='+ $SECONDS '", "set -x"]
    for heading in SECTIONS:
        section = re.split(rf"^##+ {heading}$", text, flags=re.MULTILINE)[1]
        section = re.split(r"^##+ ", section, flags=re.MULTILINE)[0]
        commands += [found[2] for found in BLOCK.finditer(section) if found[1] == "sh"]
    # A reader sees the nodes start; a script must wait.
    waits = re.sub(r"^(vikingd serve.*:(\d+)) &$", r"\1 &\nwait_for_port \2", "\n".join(commands),
                   flags=re.MULTILINE)  # fmt: skip
    return re.sub(r"^(envoy .*) &$", r"\1 &\nwait_for_port 7700", waits, flags=re.MULTILINE)


@pytest.fixture
def work() -> Iterator[Path]:
    """Yield a directory that PostgreSQL's user can write, with the documents of the guide."""
    with room() as path:
        path.chmod(0o777)
        (path / "docs").mkdir()
        (path / "docs" / "status.md").write_text("# Status\n\nReturn 418 with `abort(418)`.\n")
        (path / "vikingd").symlink_to(ROOT / "vikingd")
        yield path


@pytest.mark.deep
def test_the_commands_of_the_guide_do_what_it_says(work: Path, tmp_path: Path) -> None:
    """A cluster starts, loses a node and a database, goes on, and answers behind a balancer."""
    own = (*NEW[:1], *(() if os.geteuid() == 0 else OF_USER), *NEW[1:])
    unshared(*own)
    programs = tmp_path / "programs"
    vikingd_programs(programs)
    for name in PROGRAMS:
        program(programs / name, f'#!/bin/sh\nexec {" ".join(command(name))} "$@"\n')
    program(programs / "envoy", f'#!/bin/sh\nexec {needed("envoy")} "$@"\n')
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VIKING")}
    environment |= {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "VIKINGD_EMBEDDING__PROVIDER": "none",
    }
    printed = printed_by(script(), own, work, environment)
    assert printed.count("Return 418") == 2, printed
    assert "created viking://resources/note.md" in printed, printed
