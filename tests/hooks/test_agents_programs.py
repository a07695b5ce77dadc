"""The coding agents themselves, where they are installed, with a scripted model behind them.

Their packages of npm are @anthropic-ai/claude-code, @openai/codex, @google/gemini-cli, opencode-ai.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ctl, ctl_runner
from tests.daemons import serving
from tests.hooks.hook_helpers import Machine, texts_below, until
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.client import Client

SAID = "Noted."
COMMANDS = {
    "claude-code": ("claude", "-p"),
    "codex": ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
    "gemini": ("gemini", "-m", "gemini-2.5-flash", "-p"),
    "opencode": ("opencode", "run"),
}


def stream(*events: dict[str, Any], named: bool = True) -> Reply:
    """Return a stream of server-sent events, with their names or without."""
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n"
        for event in events
    ]
    headers = {"Content-Type": "text/event-stream"}
    return Reply("".join(lines).encode(), headers=headers)


def of_claude() -> Reply:
    """Answer a call of Anthropic's Messages API."""
    usage = {"input_tokens": 5, "output_tokens": 4}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    return stream(
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": SAID},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    )


def of_codex() -> Reply:
    """Answer a call of OpenAI's Responses API."""
    content = [{"type": "output_text", "text": SAID, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "content": content}
    usage = {"input_tokens": 5, "output_tokens": 4, "total_tokens": 9}
    return stream(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
    )


def of_gemini() -> Reply:
    """Answer a call of Google's generateContent."""
    content = {"role": "model", "parts": [{"text": SAID}]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return stream({"candidates": [candidate]}, named=False)


def of_opencode() -> Reply:
    """Answer a call of OpenAI's chat completions."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    first = {"index": 0, "delta": {"role": "assistant", "content": SAID}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return stream({**base, "choices": [first]}, {**base, "choices": [last]}, named=False)


def answered(request: Request) -> Reply:
    """Answer as the provider of the path does."""
    for part, reply in (
        ("/v1/messages", of_claude),
        ("/responses", of_codex),
        ("enerateContent", of_gemini),
        ("/chat/completions", of_opencode),
    ):
        if part in request.path:
            return reply()
    return Reply({}, 404)


def configure(home: Path, url: str) -> dict[str, str]:
    """Set the agents up for a model at a URL; return their variables."""
    codex = home / ".codex" / "config.toml"
    codex.parent.mkdir(exist_ok=True)
    codex.write_text(
        'model = "m"\nmodel_provider = "own"\n[model_providers.own]\nname = "own"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\n'
    )
    gemini = home / ".gemini" / "settings.json"
    gemini.parent.mkdir(exist_ok=True)
    gemini.write_text(
        '{"security": {"auth": {"selectedType": "gemini-api-key"}},'
        ' "privacy": {"usageStatisticsEnabled": false}}'
    )
    opencode = home / ".config" / "opencode" / "opencode.json"
    opencode.parent.mkdir(parents=True, exist_ok=True)
    own = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
        "models": {"m": {}},
    }
    opencode.write_text(json.dumps({"provider": {"own": own}, "model": "own/m"}))
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "GEMINI_API_KEY": "x",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a daemon."""
    with serving("--provider", "none") as where:
        yield where


@pytest.mark.deep
@pytest.mark.parametrize("agent", COMMANDS)
def test_an_agent_remembers(
    agent: str,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What an agent is told in one session is in the first request of its next one."""
    program, *arguments = COMMANDS[agent]
    if shutil.which(program) is None:
        pytest.skip(f"{program}, the program of the agent itself, is not installed")
    machine = Machine(tmp_path, address)
    checkout = machine.checkout("lantern")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VIKINGCTL_ADDRESS", address)
    with Client(address) as client:
        for top in client.list():
            client.delete(top.uri)
    ctl: Ctl = ctl_runner(monkeypatch, capsys)
    with ScriptedServer(answered) as model:
        environment = machine.environment | configure(tmp_path, model.url)
        assert ctl("agents", "install", agent, "--write", "--hooks-only")[0] == 0

        def session(prompt: str) -> str:
            model.requests.clear()
            done = subprocess.run(
                [program, *arguments, prompt],
                cwd=checkout,
                env={**environment, "PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert SAID in done.stdout, done
            return b"".join(request.body for request in model.requests).decode()

        assert "vikingd-memory" not in session("My cat is called Moritz.")
        machine.wait()
        until(lambda: "Moritz" in str(texts_below(address, "viking://")), lambda: machine.log)
        told = session("Good morning.")
        assert "Moritz" in told
        assert "vikingd-memory" in told
