"""The systemd units, checked by systemd itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.programs import needed
from vikingd.config import load

SYSTEMD = Path(__file__).parents[2] / "vikingd" / "deploy" / "systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
MOST_EXPOSED = 1.5
"""By `systemd-analyze security`: 0 is closed, 10 is open. A service without hardening has 9.6."""


def analyze(*arguments: object) -> str:
    """Return what systemd-analyze prints; a failure fails the test."""
    done = subprocess.run(
        [needed("systemd-analyze"), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_systemd_knows_each_line(tmp_path: Path) -> None:
    """The units have no unknown setting, and no wrong value."""
    assert [unit.name for unit in UNITS] == ["vikingd-gateway.service", "vikingd.service"]
    copies = [tmp_path / unit.name for unit in UNITS]
    for unit, copy in zip(UNITS, copies, strict=True):
        text, count = re.subn(
            r"^ExecStart=\S+/vikingd ", "ExecStart=/bin/true ", unit.read_text(), flags=re.M
        )
        assert count == 1
        copy.write_text(text)
    assert analyze("verify", "--man=no", "--recursive-errors=no", *copies) == ""


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_units_are_hardened(unit: Path) -> None:
    """A service can do little beside its work."""
    found = re.search(
        r"exposure level for \S+: ([0-9.]+)", analyze("security", "--offline=true", unit)
    )
    assert found
    assert float(found[1]) <= MOST_EXPOSED
    # The machine code of the kernels needs memory that is written and then run.
    denied = "yes" if unit.stem == "vikingd-gateway" else "no"
    assert f"\nMemoryDenyWriteExecute={denied}\n" in unit.read_text()


def test_the_configuration_is_one_of_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon knows each setting, and the paths are those that the unit makes."""
    for name in ("VIKINGD_PATH", "VIKINGD_LISTEN"):
        monkeypatch.delenv(name, raising=False)
    loaded = load(SYSTEMD / "vikingd.toml").settings
    daemon = (SYSTEMD / "vikingd.service").read_text()
    assert f"StateDirectory={loaded.path.relative_to('/var/lib')}\n" in daemon
    assert loaded.gateway.daemon in loaded.listen
    socket = Path(loaded.gateway.daemon.removeprefix("unix:"))
    assert f"RuntimeDirectory={socket.parent.relative_to('/run')}\n" in daemon
