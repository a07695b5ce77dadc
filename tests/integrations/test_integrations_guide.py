"""The guide of the adapters: each example runs as it stands, and each extra exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from tests.project.test_documents import BLOCK, ROOT
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.client import Client
from vikingd.client.messages import MessageClient
from vikingd.system.install_command import install_command

GUIDE = (ROOT / "vikingd" / "integrations" / "README.md").read_text(encoding="utf-8")
EXTRAS = {
    "langchain": ("langchain", "langchain_core"),
    "langgraph": ("langgraph", "langgraph"),
    "llamaindex": ("llamaindex", "llama_index"),
    "openai-agents": ("openai_agents", "agents"),
}
"""The module of each extra, and a package that it needs."""
PACKAGES = {package for _, package in EXTRAS.values()}


def example(module: str) -> str:
    """Return the one example with a module of vikingd.integrations."""
    blocks = [text for language, text in BLOCK.findall(GUIDE) if language == "python"]
    [code] = [text for text in blocks if f"vikingd.integrations.{module} " in text]
    return str(code)


def texts(value: Any) -> str:
    """Return all texts of a request to a model."""
    if isinstance(value, dict):
        return "\n".join(texts(part) for part in value.values())
    return "\n".join(map(texts, value)) if isinstance(value, list) else str(value)


def answered(request: Request) -> Reply:
    """Answer a call of OpenAI's Responses API by what the model is told."""
    assert request.path.endswith("/responses")
    asked = request.json
    told = texts({name: asked.get(name) for name in ("instructions", "input")})
    knows = "Which tea" in told and re.search("drinks? oolong", told)
    text = "You drink oolong." if knows else "I see."
    content = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "type": "message",
        "id": "m1",
        "status": "completed",
        "role": "assistant",
        "content": [content],
    }
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return Reply(
        {
            "type": "response",
            "id": "r1",
            "object": "response",
            "created_at": 0,
            "model": asked["model"],
            "output": [message],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage,
        }
    )


@pytest.fixture
def run(daemon: str, client: MessageClient) -> Callable[[str], list[str]]:
    """Return a function that runs an example in a process of its own and returns its lines."""
    del client  # the fixture has emptied the tree

    def lines(module: str) -> list[str]:
        code = example(module).replace("Client()", f'Client("{daemon}")')
        with ScriptedServer(answered) as model:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("VIKING")} | {
                "NO_PROXY": "127.0.0.1",
                "OPENAI_API_KEY": "secret",
                "OPENAI_BASE_URL": model.url,
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
                "LANGSMITH_TRACING": "false",
            }
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        assert done.returncode == 0, done.stderr
        assert bool(model.requests) == (module != "langchain")
        return done.stdout.splitlines()

    return lines


def test_the_example_of_langchain(run: Callable[[str], list[str]]) -> None:
    """The store finds within its filter, and the retriever with scores."""
    best, first, *_ = run("langchain")
    assert best == "Oolong: 90 degrees."
    assert re.fullmatch(r"0\.\d{3} Green tea: 70 degrees\.", first)


@pytest.mark.deep
def test_the_example_of_langgraph(run: Callable[[str], list[str]], typed: Client) -> None:
    """The agent remembers in some twenty lines; what it remembers is a file."""
    assert run("langgraph") == ["I see.", "You drink oolong."]
    kept = [c.uri for c in typed.tree("viking://resources/agents/users/ana") if not c.is_directory]
    assert len(kept) == 2
    assert len([line for line in example("langgraph").splitlines() if line]) <= 24


@pytest.mark.deep
def test_the_example_of_llamaindex(run: Callable[[str], list[str]]) -> None:
    """Reader, retriever and block find what was written."""
    assert run("llamaindex") == [
        "1 document",
        "viking://resources/tea/oolong.md Oolong: 90 degrees.",
        "You drink oolong.",
    ]


@pytest.mark.deep
def test_the_example_of_the_agents_sdk(run: Callable[[str], list[str]], typed: Client) -> None:
    """The second run has the items of the first one."""
    assert run("openai_agents") == ["I see.", "You drink oolong."]
    kept = [c for c in typed.tree("viking://resources/sessions/ana.session") if not c.is_directory]
    assert len(kept) == 4


def test_the_guide_names_all_extras() -> None:
    """Each install line names an extra of the package, and `dev` has it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(re.findall(r"pip install '\.\[(.*?)\]'", GUIDE)) == set(EXTRAS)
    own = re.search(r"vikingd\[(.*?)\]", extras["dev"][0])
    assert own is not None
    assert set(EXTRAS) <= set(own[1].split(",")) & set(extras)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(("extra", "names"), EXTRAS.items())
def test_without_its_extra_a_module_says_what_to_install(
    extra: str, names: tuple[str, str]
) -> None:
    """The import fails with the name of the extra; the client needs none of the packages."""
    module, package = names
    code = (
        f"import sys; sys.modules[{package!r}] = None; import vikingd.client, vikingd.integrations;"
        f"assert not {PACKAGES - {package}} & {{*sys.modules}};"
        f"import vikingd.integrations.{module}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {package}")
    assert last.endswith(f" is not installed; install it with: {install_command(extra)}")
