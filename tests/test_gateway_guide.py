"""The guide of the gateway: its commands are run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from metrics_helpers import free_address
from programs import needed

GUIDE = Path(__file__).parents[1] / "vikingd" / "gateway" / "README.md"
ADDRESS = "127.0.0.1:7717"


def test_the_commands_of_the_guide_work(tmp_path: Path) -> None:
    """Each command succeeds, from the start of the gateway to the last request."""
    needed("curl")
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert ADDRESS in blocks[0]
    script = "\n".join(blocks).replace(ADDRESS, free_address())
    own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
    done = subprocess.run(
        ["bash", "-euc", f"trap 'kill %1; wait' EXIT\n{script}"],
        cwd=tmp_path,
        env=own
        | {
            "PATH": f"{Path(sys.executable).parent}:{own['PATH']}",
            "VIKINGD_LISTEN": free_address(),
            "VIKINGD_PATH": str(tmp_path / "store"),
            "VIKINGD_EMBEDDING__PROVIDER": "none",
            "no_proxy": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("oolong at 90", "Green tea", "REMEMBER_OUTCOME_", "Prefers oolong"):
        assert text in done.stdout
