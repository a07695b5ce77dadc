"""The guide for others, run block by block as it stands, on a machine of its own."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from namespace_helpers import NEW
from test_documents import BLOCK, ROOT

from vikingd.access.keys import KeyStore
from vikingd.domain.errors import Unauthenticated

# Docker as the guide uses it, but on the network of its caller: a command with mounts and an
# environment of its own.
DOCKER = r"""#!/bin/bash
set -euo pipefail
clean=(env -i "PATH=$PATH" "HOME=$HOME" VIKINGD_EMBEDDING__PROVIDER=none)
if [ "$1" = exec ]; then
    exec nsenter --target "$(cat "$SCRATCH/$2")" --mount "${clean[@]}" "${@:3}"
fi
shift
while [[ "$1" = --* ]]; do
    case $1 in
        --detach) shift; continue ;;
        --name) name=$2 ;;
        --publish) port=${2%:*} ;;
        --env) clean+=("$2") ;;
        --volume) mounts+=("$2") ;;
    esac
    shift 2
done
unshare --mount bash -euo pipefail -c '
    echo $$ > "$1"
    mount -t tmpfs none /srv
    for mount in $2; do
        IFS=: read from to _ <<< "$mount"
        [[ "$from" = /* ]] || from=$SCRATCH/volumes/$from
        mkdir -p "$from" "$to"
        mount --bind "$from" "$to"
    done
    exec "${@:3}"
' container "$SCRATCH/$name" "${mounts[*]}" "${clean[@]}" "${@:2}" > "$SCRATCH/container.log" 2>&1 &
wait_for_port "$port"
"""

# The guide has `&` where a reader has time; a script must wait for the daemon.
WAIT = r"""#!/bin/bash
for _ in {1..1200}; do
    if (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; then exit; fi
    sleep 0.05
done
exit 1
"""

MACHINE = r"""
ip link set lo up
mount -t tmpfs none /run
mount --bind hosts /etc/hosts
PS4='+ $SECONDS '
set -x
"""


def guide() -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each block of the guide."""
    text = (ROOT / "vikingd" / "README.md").read_text(encoding="utf-8")
    section = text[text.index("\n## For others\n") :]
    section = section[: section.index("\n## ", 1)]
    yield from ((found[1], found[2]) for found in BLOCK.finditer(section))


def program(path: Path, text: str) -> None:
    """Write an executable file."""
    path.write_text(text)
    path.chmod(0o755)


def script() -> str:
    """Return the commands of the guide as one script, which ends with the first failure."""
    commands = [MACHINE]
    for language, text in guide():
        if language == "toml":
            name = re.match(r"# (\S+)\n", text)
            assert name, text
            commands.append(f"cat > {name[1]} << 'END'\n{text}END\n")
        elif language == "sh":
            commands.append(re.sub(r" &$", " &\nwait_for_port 7717", text, flags=re.MULTILINE))
    return "\n".join(commands)


def run(scratch: Path) -> tuple[Path, str]:
    """Run the guide; return its directory and what it printed."""
    own = (*NEW, "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces of one's own can be had here")
    programs, work = scratch / "programs", scratch / "work"
    programs.mkdir()
    for name, module in (("vikingd", "daemon.server"), ("vikingctl", "ctl.main")):
        program(programs / name, f'#!/bin/sh\nexec {sys.executable} -m vikingd.{module} "$@"\n')
    program(programs / "docker", DOCKER)
    program(programs / "wait_for_port", WAIT)
    (work / "docs").mkdir(parents=True)
    (work / "docs" / "status.md").write_text("# Status\n\nReturn 418 with `abort(418)`.\n")
    (work / "hosts").write_text("127.0.0.1 localhost vikingd.example.org\n")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    volume = scratch / "volumes" / "viking"
    volume.mkdir(parents=True)
    (volume / "cache").symlink_to(cache)  # so that the container does not compile the kernels
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VIKING")}
    environment |= {
        "HOME": str(scratch),
        "XDG_CACHE_HOME": str(cache),
        "SCRATCH": str(scratch),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "VIKINGD_EMBEDDING__PROVIDER": "none",
    }
    done = subprocess.run(
        [*own, "bash", "-euo", "pipefail", "-c", script()],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    return work, done.stdout


def test_the_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    """Each command succeeds, and leaves the keys, answers and lines of the log that it tells of."""
    work, printed = run(tmp_path)
    assert "Prefers oolong to coffee." in printed
    assert "Return 418" in printed
    texts = {path.stem: path.read_text().strip() for path in work.glob("*.key")}
    assert set(texts) == {"ana", "ana2", "operator", "operator2", "container"}
    log = (work / "vikingd.log").read_text()
    for name, text in texts.items():
        assert stat.S_IMODE((work / f"{name}.key").stat().st_mode) == 0o600
        assert text.rpartition("_")[2] not in log + printed
    ana = texts["ana"].split("_")[1]
    remembered = [line for line in log.splitlines() if "method=Remember" in line]
    assert len(remembered) == 1
    for part in (
        f"who={ana} user=ana tenant=acme peer=127.0.0.1 ",
        "objects=viking://users/ana/memories/preferences.md code=OK revision=",
    ):
        assert part in remembered[0]
    keys = KeyStore(work / "data")
    assert keys.caller(texts["operator2"])[0].is_operator
    for name in ("ana", "ana2", "operator"):
        with pytest.raises(Unauthenticated, match="is revoked"):
            keys.caller(texts[name])
    assert "vikingd_calls_total" in (work / "metrics").read_text()
