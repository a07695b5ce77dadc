"""`vikingctl mcp` as a process: its start, its options and its end."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.access.tls_helpers import Authority
from tests.conftest import Ctl
from tests.mcp.mcp_helpers import TEA, failed, keyed, over_stdio, served, told
from vikingd.system.install_command import install_command

HELLO = b"""\
{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", \
"capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}
{"jsonrpc": "2.0", "method": "notifications/initialized"}
"""


@dataclass
class Guarded:
    """A daemon with keys, on loopback and by TLS, and a tenant beside the first."""

    plain: str
    tls: str
    authority: Path
    operator: Path  # the files of keys
    reader: Path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Yield the daemon."""
    directory = tmp_path_factory.mktemp("guarded")
    authority = Authority(directory, "authority")
    certificate, key = authority.signed("daemon", "IP:127.0.0.1")
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        tls = f"vikings://127.0.0.1:{made.getsockname()[1]}"
    options = ("--listen", tls, "--tls-certificate", str(certificate), "--tls-key", str(key))
    with keyed(*options) as daemon:
        files = []
        for name, secret in (("operator", daemon.operator), ("reader", daemon.reader)):
            files.append(directory / f"{name}.secret")
            files[-1].write_text(f"{secret}\n")
        yield Guarded(daemon.address, tls, authority.certificate, *files)


async def content(client: Client) -> str:
    """Return the content of the file that each tenant has."""
    return str((await told(client, "read", uri=TEA))["content"])


@pytest.mark.parametrize("by", ["options", pytest.param("variables", marks=pytest.mark.deep)])
def test_the_start_chooses_daemon_key_and_tenant(guarded: Guarded, by: str) -> None:
    """Address, key and tenant are options of vikingctl, or its variables."""
    key, tenant = str(guarded.operator), "acme"
    options = ("--address", guarded.plain, "--key-file", key, "--tenant", tenant)
    variables = {
        "VIKINGCTL_ADDRESS": guarded.plain,
        "VIKINGD_KEY_FILE": key,
        "VIKINGD_TENANT": tenant,
    }

    async def main() -> None:
        client = over_stdio(*options) if by == "options" else over_stdio(**variables)
        async with client:
            assert await content(client) == "Acme's tea."

    asyncio.run(main())


@pytest.mark.deep
def test_options_and_variables_choose_daemon_key_and_tenant(guarded: Guarded) -> None:
    """Address, key, tenant and TLS come from the options of vikingctl, or from its variables."""
    address = ("--address", guarded.plain)
    key = ("--key-file", str(guarded.operator))

    async def main() -> None:
        async with over_stdio(*address) as client:
            assert "VIKINGD_KEY_FILE" in await failed(client, "read", uri=TEA)
        async with over_stdio(*address, *key) as client:
            assert await content(client) == "Oolong."
        async with over_stdio(*address, *key, "--tenant", "acme") as client:
            assert await content(client) == "Acme's tea."
        variables = {
            "VIKINGCTL_ADDRESS": guarded.tls,
            "VIKINGD_CA": str(guarded.authority),
            "VIKINGD_KEY_FILE": str(guarded.operator),
            "VIKINGD_TENANT": "acme",
        }
        async with over_stdio(**variables) as client:
            assert await content(client) == "Acme's tea."
        async with over_stdio("--address", guarded.tls, *key) as client:
            text = await failed(client, "read", uri=TEA)
            assert "its certificate is refused" in text
            assert "--ca FILE" in text
        reader = guarded.reader.read_text().strip()
        async with over_stdio(*address, "--read-only", VIKINGD_KEY=reader) as client:
            assert await content(client) == "Oolong."
            text = await failed(client, "write", uri=TEA, content="x")
            assert text == "This server only reads: write is switched off."

    asyncio.run(main())


@pytest.mark.deep
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--key-file", "/nowhere/key"), "cannot read the key in /nowhere/key"),
        (("--address", "192.0.2.1:7716", "--key", "vk_secret"), "not sent to 192.0.2.1:7716"),
        (("--address", "viking://resources"), "is a URI of the tree"),
        (("--write",), "--write needs --install"),
        (("--install", "emacs"), "'emacs' is not one of"),
    ],
)
def test_wrong_options_end_the_start(options: tuple[str, ...], expected: str) -> None:
    """A wrong option is told on stderr with exit code 2, without the key; stdout stays empty."""
    with served(*options) as process:
        out, err = process.communicate(HELLO, timeout=20)
        assert process.returncode == 2
        assert out == b""
        assert expected in " ".join(err.decode().replace("│", " ").split())
        assert b"vk_secret" not in err
        assert b"Traceback" not in err


def test_the_end_of_stdin_ends_the_server(guarded: Guarded) -> None:
    """The server ends with stdin, quietly, and stdout has messages of MCP alone."""
    listed = b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n'
    with served("--address", guarded.plain) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(HELLO + listed)
        process.stdin.flush()
        replies = [json.loads(process.stdout.readline()) for _ in range(2)]
        rest, err = process.communicate(timeout=10)
        assert process.returncode == 0
        assert (rest, err) == (b"", b"")
        assert {reply["id"] for reply in replies} == {1, 2}


@pytest.mark.deep
def test_a_server_whose_stdout_nobody_reads_ends_quietly(guarded: Guarded) -> None:
    """After stdout is closed, the end of stdin ends the server without a traceback."""
    with served("--address", guarded.plain) as process:
        begin(process)
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n')
        process.stdin.close()
        assert process.wait(10) == 0
        assert process.stderr.read() == b""


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server(guarded: Guarded, number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and SIGHUP end the server at once and quietly, with exit code 130."""
    with served("--address", guarded.plain) as process:
        begin(process)
        process.send_signal(number)
        _, err = process.communicate(timeout=2)
        assert process.returncode == 130
        assert err == b""


def begin(process: subprocess.Popen[bytes]) -> None:
    """Say hello, and wait for the reply."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1


def test_without_the_sdk_the_command_says_what_to_install(
    ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the package of MCP is not installed, the error names the extra that has it."""
    find = importlib.util.find_spec

    def without_mcp(name: str, *more: Any) -> Any:
        return None if name == "mcp" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without_mcp)
    code, out, err = ctl("mcp")
    assert (code, out) == (1, "")
    assert install_command("mcp") in err
