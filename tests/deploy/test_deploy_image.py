"""The recipe of the image, its entry point, and the health check in it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from viking_kernels import simd
from viking_kernels._jit import CACHE_DIRECTORY

from tests.daemon.namespace_helpers import NEW
from tests.metrics_helpers import free_address, running
from tests.patience import SECONDS, eventually
from tests.programs import needed, unshared
from vikingd.daemon import probe
from vikingd.daemon.kernel_warm_up import compile_kernels
from vikingd.models.embed import e5_weights
from vikingd.models.embed.e5_file import E5File

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "vikingd" / "deploy"
LINKER = "/lib64/ld-linux-x86-64.so.2"


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    """Hadolint reads the Dockerfile, and the shell commands in it, without a warning."""
    done = subprocess.run(
        [needed("hadolint"), "--failure-threshold", "style", DEPLOY / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_has_a_user_by_number_and_no_secret() -> None:
    """Kubernetes knows a user that is not root by its number; only listed sources get in."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER 7716:7716"]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert {path.split("/")[0] for path in copied if path[0] not in "-/"} == allowed
    assert not re.search(r"https?://", "\n".join(lines))


class Image:
    """The entry point, with the paths of an image in a directory of the test."""

    def __init__(self, root: Path) -> None:
        self._root = root
        (root / "cache").mkdir(parents=True)
        self._start = root / "start"
        text = (DEPLOY / "start.sh").read_text()
        for path, own in (
            ("/opt/vikingd/cache", root / "cache"),
            (LINKER, root / "linker"),
            ("/proc/cpuinfo", root / "cpuinfo"),
        ):
            assert path in text
            text = text.replace(path, str(own))
        self._start.write_text(text)

    def compiled(self, *names: str) -> None:
        """Let the image have kernels for these instructions."""
        for name in names:
            (self._root / "cache" / name).touch()

    def environment(self, levels: str, flags: str, **given: str) -> dict[str, str]:
        """Return the environment of a command on a processor."""
        shown = "\n".join(f"  {level} (supported, searched)" for level in levels.split())
        (self._root / "linker").write_text(f"#!/bin/sh\ncat << END\n  x86-64-v5\n{shown}\nEND\n")
        (self._root / "linker").chmod(0o755)
        (self._root / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
        done = subprocess.run(
            ["sh", self._start, "env", "-0"],
            env={"PATH": os.environ["PATH"], **given},
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


V3, V4 = "x86-64-v3 x86-64-v2", "x86-64-v4 x86-64-v3 x86-64-v2"


@pytest.mark.parametrize(
    ("compiled", "levels", "flags", "simd", "cpu"),
    [
        (("avx2", "vnni"), V4, "avx512_vnni", "vnni", "x86-64-v4"),
        (("avx2", "vnni"), V4, "avx512_vnnix", "avx2", "x86-64-v3"),
        (("avx2", "vnni"), V3, "avx_vnni avx512_vnni", "avx2", "x86-64-v3"),
        (("avx2",), V4, "avx512_vnni", "avx2", "x86-64-v3"),
        (("avx2", "vnni"), "x86-64-v2", "avx512_vnni", None, None),
        ((), V4, "avx512_vnni", None, None),
    ],
)
def test_a_processor_gets_kernels_that_it_can_run(
    tmp_path: Path,
    compiled: tuple[str, ...],
    levels: str,
    flags: str,
    simd: str | None,
    cpu: str | None,
) -> None:
    """The kernels are of the best level that image and processor have; else they are compiled."""
    image = Image(tmp_path)
    image.compiled(*compiled)
    got = image.environment(levels, flags)
    assert got.get("VIKING_KERNELS_SIMD") == simd
    assert got.get("NUMBA_CPU_NAME") == cpu
    assert got["XDG_CACHE_HOME"] == (str(tmp_path / "cache") if simd else "/data/cache")
    features = {"vnni": "+avx512vnni", "avx2": "", None: None}
    assert got.get("NUMBA_CPU_FEATURES") == features[simd]


def test_a_processor_without_these_levels_compiles_at_its_first_start(tmp_path: Path) -> None:
    """The C library of another architecture has no such linker; the command runs all the same."""
    image = Image(tmp_path)
    image.compiled("avx2", "vnni")
    image.environment(V4, "avx512_vnni")
    (tmp_path / "linker").unlink()
    done = subprocess.run(
        ["sh", tmp_path / "start", "env"], capture_output=True, text=True, check=True
    )
    assert "XDG_CACHE_HOME=/data/cache" in done.stdout.splitlines()
    assert done.stderr == ""


def test_a_container_that_still_starts_ends_at_once(tmp_path: Path) -> None:
    """SIGTERM ends a command that does not handle signals yet, also as the container's process."""
    needed("tini")
    own = (*NEW, "--pid", "--fork", "--kill-child")
    unshared(*own)
    image = Image(tmp_path)
    image.environment(V3, "")
    (tmp_path / "start").chmod(0o755)
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    [entry] = [
        json.loads(line.split(" ", 1)[1]) for line in lines if line.startswith("ENTRYPOINT ")
    ]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen([*own, *entry, "sleep", "600"], env=environment) as outside:
        try:
            eventually(lambda: "sleep" in [name_of(process) for process in below(outside.pid)])
            os.kill(below(outside.pid)[0], signal.SIGTERM)
            assert outside.wait(SECONDS) == 128 + signal.SIGTERM
        finally:
            outside.kill()


def below(process: int) -> list[int]:
    """Return the descendants of a process, parents first; none of one that has ended."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [each for child in map(int, children) for each in (child, *below(child))]


def name_of(process: int) -> str:
    """Return the name of the program of a process; "" of one that has ended."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_secrets_come_from_files(tmp_path: Path) -> None:
    """A secret is read from its file; a file that is missing ends the start."""
    image = Image(tmp_path)
    (tmp_path / "token").write_text("0123 456\n")
    got = image.environment(V3, "", METRICS_TOKEN_FILE=str(tmp_path / "token"))
    assert got["METRICS_TOKEN"] == "0123 456"
    with pytest.raises(subprocess.CalledProcessError):
        image.environment(V3, "", METRICS_TOKEN_FILE=str(tmp_path / "missing"))


def test_the_linker_of_this_machine_tells_its_levels() -> None:
    """The C library and LLVM agree on what this processor has."""
    levels = subprocess.run([LINKER, "--help"], capture_output=True, text=True, check=True).stdout
    assert ("x86-64-v3 (supported" in levels) == ("avx2" in simd.paths())
    flags = Path("/proc/cpuinfo").read_text()
    has_vnni = "x86-64-v4 (supported" in levels and re.search(r"\bavx512_vnni\b", flags)
    assert bool(has_vnni) == ("vnni" in simd.paths())


@pytest.mark.deep
def test_the_probe_tells_whether_a_daemon_serves(tmp_path: Path) -> None:
    """The probe ends with 0 while the daemon serves, also with keys, and with 1 when it is gone."""
    address = f"unix:{tmp_path}/socket"
    command = (sys.executable, "-m", "vikingd.daemon.probe")
    environment = {**os.environ, "VIKINGCTL_ADDRESS": address}
    with running(tmp_path / "store", "--listen", address, "--provider", "none") as daemon:
        daemon.client.create_key(operator=True)
        subprocess.run(command, env=environment, check=True, timeout=20)
    gone = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=20
    )
    assert gone.returncode == 1
    assert gone.stderr.startswith(f"{address} does not serve: UNAVAILABLE")


def test_the_probe_reads_the_status_of_daemon_and_gateway(tmp_path: Path) -> None:
    """A URL is read over HTTP, an address by gRPC; only what serves has no fault."""
    with running(tmp_path / "store", "--provider", "none") as daemon:
        metrics = daemon.url.removesuffix("/metrics")
        assert probe.fault(f"{metrics}/healthz") == ""
        assert "404" in probe.fault(f"{metrics}/nothing")
        assert probe.fault(daemon.address) == ""
    assert "UNAVAILABLE" in probe.fault(daemon.address)
    assert "refused" in probe.fault(f"http://{free_address()}/healthz")


def test_the_cache_of_an_image_has_the_weights_for_both_kinds_of_processors(tmp_path: Path) -> None:
    """After `store`, a start finds its weights in the cache, whatever the processor has."""
    source = E5File()
    e5_weights.store(source, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(before) == 2
    e5_weights.load(source, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_the_caches_are_filled_before_the_first_start(tmp_path: Path) -> None:
    """The command of the image's build ends well once kernels and weights are in the cache."""
    compile_kernels(print)
    (tmp_path / "vikingd").mkdir()
    kernels = tmp_path / "vikingd" / CACHE_DIRECTORY.name
    kernels.symlink_to(CACHE_DIRECTORY)  # compiling takes half a minute
    subprocess.run(
        [sys.executable, "-m", "vikingd.daemon.caches"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        check=True,
    )
    names = {path.name.split("-")[0] for path in kernels.parent.iterdir()}
    assert names == {"kernels", "e5"}


def test_image_and_unit_switch_off_the_same_telemetry() -> None:
    """Both have the same variables of onnxruntime."""
    image, unit = (
        dict(re.findall(r"\b(ORT_\w+)=(\w+)", (DEPLOY / name).read_text()))
        for name in ("Dockerfile", "systemd/vikingd.service")
    )
    assert image == unit != {}


@pytest.mark.deep
@pytest.mark.parametrize("file", ["Dockerfile", "systemd/vikingd.service"])
def test_the_telemetry_of_onnxruntime_is_off(file: str, tmp_path: Path) -> None:
    """With the environment of the image and of the unit, the embedder leaves no telemetry."""
    said = re.findall(r"\b(ORT_\w+)=(\w+)", (DEPLOY / file).read_text())
    own = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    subprocess.run(
        [sys.executable, "-c", "from vikingd.models.embed.e5 import E5; E5(1)"],
        env={**own, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path), **dict(said)},
        check=True,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["vikingd"]
