"""The guide of the gateway: its commands run as they stand, and its table is that of the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from tests.access.tls_helpers import Authority
from tests.metrics_helpers import free_address
from tests.programs import needed
from tests.project.test_documents import BLOCK, ROOT
from tests.project.test_guide import WAIT, program
from vikingd.gateway import http_errors

GUIDE = ROOT / "vikingd" / "gateway" / "README.md"
END = "trap 'kill $(jobs -p); wait' EXIT\n"


def script(port: str, tls: str) -> str:
    """Return the commands of the guide for two free ports."""
    commands = []
    for language, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        if language == "toml":
            commands.append(f"cat > gateway.toml << 'END'\n{text}END\n")
        else:
            assert language == "sh"
            text = re.sub(r"^python3 -m pip .*\n", "", text)
            commands.append(re.sub(r" &$", " &\nwait_for_port 7717", text, flags=re.MULTILINE))
    said = "\n".join(commands).replace("toml &\nwait_for_port 7717", "toml &\nwait_for_port 7443")
    return re.sub("7717|7443", lambda found: {"7717": port, "7443": tls}[found[0]], said)


@pytest.mark.deep
def test_the_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    """Each command succeeds, and the answers are those that the guide tells of."""
    needed("curl")
    programs, work = tmp_path / "programs", tmp_path / "work"
    for directory in (programs, work, work / "tls"):
        directory.mkdir()
    for name, module in (("vikingd", "daemon.server"), ("vikingctl", "ctl.main")):
        program(programs / name, f'#!/bin/sh\nexec {sys.executable} -m vikingd.{module} "$@"\n')
    program(programs / "wait_for_port", WAIT)
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.signed("gateway", "DNS:vikingd.example.org")
    for file, to in (
        (certificate, "tls/cert.pem"),
        (key, "tls/key.pem"),
        (authority.certificate, "ca.pem"),
    ):
        shutil.copy(file, work / to)
    daemon, port, tls = (free_address(), *(free_address().rpartition(":")[2] for _ in range(2)))
    (tmp_path / ".curlrc").write_text(f'resolve = "vikingd.example.org:{tls}:127.0.0.1"\n')
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VIKING")} | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CURL_HOME": str(tmp_path),
        "NO_PROXY": "*",
        "PYTHONPATH": str(ROOT),
        "VIKINGCTL_ADDRESS": daemon,
        "VIKINGD_EMBEDDING__PROVIDER": "none",
        "VIKINGD_GATEWAY__DAEMON": daemon,
        "VIKINGD_LISTEN": daemon,
        "VIKINGD_PATH": str(tmp_path / "store"),
    }
    done = subprocess.run(
        [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            f"trap 'kill $(jobs -p); wait' EXIT\n{script(port, tls)}",
        ],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout
    assert printed.count('"viking://resources/tea.md"') >= 3
    assert printed.count("PUT_OUTCOME_") == 3
    assert "412" in printed
    assert "REVISION_DIFFERS" in (work / "refusal").read_text()
    assert "holds revision" in printed
    assert '"tools"' in printed
    assert '{"signedIn": true, "tenant": ""}' in printed
    secret = (work / "ana.key").read_text().strip().rpartition("_")[2]
    assert secret not in printed + done.stderr


def test_the_table_of_codes_is_that_of_the_gateway() -> None:
    """The guide has each code of gRPC with its status."""
    text = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}) \| ([A-Z_, ]+) \|$", text, re.MULTILINE)
    told = {
        grpc.StatusCode[name]: int(status) for status, names in rows for name in names.split(", ")
    }
    assert told == http_errors.HTTP
    own = re.search(r"gateway itself adds (.*?)\n\n", text, re.DOTALL)
    assert own
    assert {int(status) for status in re.findall(r"\b\d{3}\b", own[1])} == (
        {status for status in http_errors.OWN if status not in http_errors.HTTP.values()} | {412}
    )
