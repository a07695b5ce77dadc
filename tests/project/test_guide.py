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

from tests.daemon.namespace_helpers import NEW
from tests.programs import unshared
from tests.project.test_documents import BLOCK, ROOT
from vikingd.access.keys import KeyStore
from vikingd.domain.errors import Unauthenticated

# Docker as the guide uses it, but on the network of its caller: a command with mounts, with the
# entry point and the environment of the image. A root of its own has the directories of the machine
# beside the mounts. The daemon's part of /tmp is elsewhere, as the machine's /tmp is in use.
DOCKER = r"""#!/bin/bash
set -euo pipefail
clean=(env -i ENVIRONMENT "PATH=$PATH" VIKINGD_EMBEDDING__PROVIDER=none)
clean=("${clean[@]//\/tmp\/vikingd//run/container}")
case $1 in
    build) exec test -f "$3" ;;
    exec) exec nsenter --target "$(cat "$SCRATCH/$2")" --mount --root --wd "${clean[@]}" "${@:3}" ;;
esac
shift
while [[ "$1" = --* ]]; do
    case $1 in
        --detach | --read-only) shift; continue ;;
        --name) name=$2 ;;
        --publish) port=${2%:*} ;;
        --volume) mounts+=("$2") ;;
    esac
    shift 2
done
shift
unshare --mount bash -euo pipefail -c '
    echo $$ > "$1"
    mount -t tmpfs none /mnt
    for path in /*; do
        if [ -L "$path" ]; then
            cp --no-dereference "$path" /mnt
        elif [ -d "$path" ] && [ "$path" != /mnt ]; then
            mkdir "/mnt$path"
            mount --rbind "$path" "/mnt$path"
        fi
    done
    for mount in $2; do
        IFS=: read from to _ <<< "$mount"
        [[ "$from" = /* ]] || from=$SCRATCH/volumes/$from
        mkdir -p "$from" "/mnt$to"
        mount --bind "$from" "/mnt$to"
    done
    exec chroot /mnt "${@:3}"
' container "$SCRATCH/$name" "${mounts[*]}" "${clean[@]}" START \
    "${@//\/tmp\/vikingd//run/container}" > "$SCRATCH/container.log" 2>&1 &
wait_for_port "$port"
"""
ENVIRONMENT = re.compile(r"^ENV PATH=\S+ \\\n((?: .*\n)+)USER", re.MULTILINE)

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


SECTIONS = (
    ("README.md", "For others"),
    ("deploy/README.md", "The image"),
    ("deploy/README.md", "A container"),
)
"""The sections whose commands follow one another."""


def guide() -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each block of the guide."""
    for file, heading in SECTIONS:
        text = (ROOT / "vikingd" / file).read_text(encoding="utf-8")
        section = text[text.index(f"\n## {heading}\n") :]
        section = section[: section.index("\n## ", 1)]
        yield from ((found[1], found[2]) for found in BLOCK.finditer(section))


def docker() -> str:
    """Return the program that stands for Docker."""
    deploy = ROOT / "vikingd" / "deploy"
    found = ENVIRONMENT.search((deploy / "Dockerfile").read_text())
    assert found
    environment = found[1].replace("\\\n", " ").strip()
    return DOCKER.replace("ENVIRONMENT", environment).replace("START", f"sh {deploy}/start.sh")


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
    unshared(*own)
    programs, work = scratch / "programs", scratch / "work"
    vikingd_programs(programs)
    program(programs / "docker", docker())
    program(programs / "sudo", "#!/bin/sh\n")  # there are no other users here
    (work / "docs").mkdir(parents=True)
    (work / "docs" / "status.md").write_text("# Status\n\nReturn 418 with `abort(418)`.\n")
    (work / "vikingd").symlink_to(ROOT / "vikingd")
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
    return work, printed_by(script(), own, work, environment)


def vikingd_programs(directory: Path) -> None:
    """Write the programs of vikingd, and the wait for a port, into a new directory."""
    directory.mkdir()
    for name, module in (("vikingd", "daemon.server"), ("vikingctl", "ctl.main")):
        program(directory / name, f'#!/bin/sh\nexec {sys.executable} -m vikingd.{module} "$@"\n')
    program(directory / "wait_for_port", WAIT)


def printed_by(commands: str, own: tuple[str, ...], work: Path, environment: dict[str, str]) -> str:
    """Run commands in namespaces of their own; return what they printed. All succeed."""
    done = subprocess.run(
        [*own, "bash", "-euo", "pipefail", "-c", commands],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.deep
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
