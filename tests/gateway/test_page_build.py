"""The page as one script: made from its modules as they are, and small."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import httpx
import pytest

from tests.gateway.page_helpers import site
from tests.programs import needed

PAGE = Path(str(resources.files("vikingd.gateway"))) / "page"
SCRIPT = PAGE / "page.js"
MOST = 60_000  # bytes, as they are sent


def test_the_script_is_made_from_the_modules() -> None:
    """page.js names the digest of the modules that it is made from."""
    names = sorted(path.name for path in PAGE.glob("*.js") if path != SCRIPT)
    digest = hashlib.sha256()
    for path in [*(PAGE / name for name in names), PAGE / "vendor" / "vendor.js"]:
        digest.update(path.read_bytes())
    named = re.search("SHA-256 ([0-9a-f]{64})", SCRIPT.read_text(encoding="utf-8"))
    assert named is not None
    assert named[1] == digest.hexdigest(), "run `npm ci && npm run build` in page/vendor"


@pytest.mark.deep
def test_a_build_makes_the_same_script(tmp_path: Path) -> None:
    """The locked packages make page.js byte for byte."""
    shutil.copytree(PAGE, tmp_path / "page", ignore=shutil.ignore_patterns("node_modules"))
    vendor = tmp_path / "page" / "vendor"
    for command in ("ci --prefer-offline --no-audit --no-fund", "run build"):
        subprocess.run(
            [needed("npm"), *command.split()], cwd=vendor, check=True, capture_output=True
        )
    assert (tmp_path / "page" / "page.js").read_bytes() == SCRIPT.read_bytes()


@pytest.mark.deep
def test_the_page_is_small(tmp_path: Path) -> None:
    """A browser gets one script, compressed, of less than 60 KB."""
    with site(tmp_path / "store") as own, httpx.Client(base_url=own.url) as http:
        (script,) = re.findall(r'<script[^>]* src="([^"]+)"', http.get("/").text)
        with http.stream("GET", f"/{script}", headers={"accept-encoding": "gzip"}) as reply:
            sent = sum(map(len, reply.iter_raw()))
            assert reply.headers["content-encoding"] == "gzip"
        assert sent < MOST
