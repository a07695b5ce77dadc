"""Imports of what Chroma wrote, from its directory and from its server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import serving
from tests.models.embed_helpers import Endpoint
from tests.patience import eventually
from tests.programs import needed, package
from vikingd.client.messages import MessageClient
from vikingd.ctl.migrations.given_vectors import Choice, Vectors
from vikingd.ctl.migrations.notes import Notes
from vikingd.domain.errors import InvalidField
from vikingd.system.install_command import install_command

pytestmark = pytest.mark.deep

Ctl = Callable[..., tuple[int, str, str]]

TOP = "viking://resources/chroma"
MODEL = "text-embedding-3-small"
LONG = "A lighthouse with a lamp. " * 100
"""A document that vikingd cuts into several passages by itself."""

_WRITE = """
import os, sys
import chromadb
from chromadb.utils.embedding_functions import OpenAIEmbeddingFunction

os.environ["OPENAI_API_KEY"] = "unused"
path, many = sys.argv[1], int(sys.argv[2])
client = chromadb.PersistentClient(path, chromadb.Settings(anonymized_telemetry=False))
plain = client.create_collection("plain", embedding_function=None, metadata={"about": "notes"})
plain.add(
    ids=["a", "b/c", "100%", "d.md"],
    documents=["The harbour opens at nine.", None, "Two\\n\\nparts", "# Boats\\n\\nThey float."],
    metadatas=[{"year": 2024, "ok": True, "rate": 1.5, "tags": ["x", "y"]}, None,
               {"big": 1 << 60, "chroma_id": "mine"}, {"year": 2025}],
    embeddings=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 2]],
)
function = OpenAIEmbeddingFunction(api_key_env_var="OPENAI_API_KEY", model_name="MODEL")
named = client.create_collection("named", embedding_function=function)
named.add(ids=["n"], documents=["LONG"], embeddings=[[0.6, 0.8, 0]])
if many:
    ids = [f"r{i}" for i in range(many)]
    more = client.create_collection("many", embedding_function=None)
    for at in range(0, many, 5000):
        part = ids[at:at + 5000]
        more.add(ids=part, documents=[f"Text {i}" for i in part], embeddings=[[1.0]] * len(part))
""".replace("MODEL", MODEL).replace("LONG", LONG)


def _python(code: str, *arguments: str) -> None:
    """Run code in a process of its own, since Chroma keeps its clients."""
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a persistent directory that Chroma wrote."""
    package("chromadb", "chromadb")
    path = tmp_path_factory.mktemp("chroma")
    _python(_WRITE, str(path), "0")
    return path


def _import(ctl: Ctl, *arguments: str, code: int = 0) -> dict[str, Any]:
    ended, out, err = ctl("import", "--from", *arguments, "--json")
    assert (ended, err) == (code, "")
    summary = json.loads(out)
    assert isinstance(summary, dict)
    return summary


def _refused(ctl: Ctl, *arguments: str) -> str:
    """Return the message of an import that begins nothing."""
    ended, out, err = ctl("import", "--from", *arguments, "--json")
    assert (ended, out) == (2, "")
    return str(json.loads(err)["message"])


def _metadata(client: MessageClient, uri: str) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(client.get(uri).context.metadata)


def test_each_record_of_chroma_is_a_file(ctl: Ctl, client: MessageClient, chroma: Path) -> None:
    """Documents, metadata and ids arrive, and a second import writes nothing."""
    summary = _import(ctl, "chroma", str(chroma))
    assert (summary["created"], summary["unreadable"], summary["failed"]) == (7, [], [])
    files = {c.uri: client.get(c.uri).context for c in client.tree(TOP) if not c.is_directory}
    assert {uri: context.content for uri, context in files.items()} == {
        f"{TOP}/named/n": LONG,
        f"{TOP}/plain/100%25": "Two\n\nparts",
        f"{TOP}/plain/a": "The harbour opens at nine.",
        f"{TOP}/plain/b%2Fc": "",
        f"{TOP}/plain/d.md": "# Boats\n\nThey float.",
    }
    assert _metadata(client, f"{TOP}/plain/a") == {
        "year": 2024,
        "ok": True,
        "rate": 1.5,
        "tags": ["x", "y"],
    }
    assert _metadata(client, f"{TOP}/plain/b%2Fc") == {"chroma_id": "b/c"}
    assert _metadata(client, f"{TOP}/plain/100%25") == {"big": str(1 << 60), "chroma_id": "mine"}
    assert _metadata(client, f"{TOP}/plain/d.md") == {"year": 2025}
    assert _metadata(client, f"{TOP}/plain") == {"about": "notes"}
    notes = "\n".join(summary["notes"])
    assert "records with 'chroma_id' in their own metadata, which is kept: 1" in notes
    assert "metadata 'big': numbers that metadata cannot have are now strings: 1" in notes
    assert "records without a document, of which the metadata alone is imported: 1" in notes
    assert "collection plain: the vectors are not used: they are of a model that" in notes
    revision = client.stats().revision
    again = _import(ctl, "chroma", str(chroma))
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 7)
    assert client.stats().revision == revision


@pytest.fixture
def server(chroma: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of a server of Chroma on the directory."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [needed("chroma"), "run", "--path", str(chroma), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(answers)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.usefixtures("client")
def test_a_server_of_chroma_gives_the_same(ctl: Ctl, chroma: Path, server: str) -> None:
    """A collection of a server has the same records as that of its directory."""
    summary = _import(ctl, "chroma", server, "--collection", "plain")
    assert summary["created"] == 5
    same = _import(ctl, "chroma", str(chroma))
    assert (same["created"], same["updated"], same["unchanged"]) == (2, 0, 5)
    message = _refused(ctl, "chroma", server, "--collection", "none")
    assert "'none' does not exist; the collections are: named, plain" in message


@pytest.mark.deep
def test_delete_follows_a_collection(ctl: Ctl, client: MessageClient, tmp_path: Path) -> None:
    """--delete removes the records that are gone; of one collection it keeps the others."""
    package("chromadb", "chromadb")
    _python(_WRITE, str(tmp_path), "0")
    _import(ctl, "chroma", str(tmp_path))
    _python(
        "import chromadb, sys\n"
        "client = chromadb.PersistentClient(sys.argv[1])\n"
        "client.get_collection('plain', embedding_function=None).delete(ids=['a'])\n",
        str(tmp_path),
    )
    one = ("chroma", str(tmp_path), "--collection", "plain", "--delete")
    assert _import(ctl, *one, "--dry-run")["planned"] == [["delete", f"{TOP}/plain/a"]]
    assert _import(ctl, *one)["deleted"] == 1
    names = [context.uri for context in client.tree(TOP)]
    assert f"{TOP}/plain/a" not in names
    assert f"{TOP}/named/n" in names
    assert "takes one --collection" in _refused(ctl, *one, "--collection", "named")


@pytest.fixture
def of_model(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a daemon whose model makes vectors of three numbers."""
    monkeypatch.setenv("VIKINGD_EMBEDDING__OPENAI_MODEL", MODEL)
    monkeypatch.setenv("VIKINGD_EMBEDDING__OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("VIKINGD_EMBEDDING__DIMENSION", "3")
    with serving("--provider", "openai") as address:
        yield address


def test_vectors_of_the_daemons_model_alone_are_used(
    ctl: Ctl,
    chroma: Path,
    endpoint: Endpoint,
    of_model: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A vector of the named model serves the whole document; any other text is embedded."""
    monkeypatch.setenv("VIKINGCTL_ADDRESS", of_model)
    summary = _import(ctl, "chroma", str(chroma))
    embedded = [text for request in endpoint.requests for text in request["input"]]
    assert any("harbour opens" in text for text in embedded)
    assert not any("with a lamp" in text for text in embedded)
    assert not any("collection named" in note for note in summary["notes"])
    with MessageClient(of_model) as client:
        passages = client.get(f"{TOP}/named/n").context.passages
        assert [(p.start, p.end) for p in passages] == [(0, len(LONG))]
        found = client.find(vector=[0.6, 0.8, 0]).resources
        assert found[0].uri == f"{TOP}/named/n"
        assert found[0].score > 0.99


def test_given_vectors_are_kept_on_request(ctl: Ctl, client: MessageClient, chroma: Path) -> None:
    """--vectors keep takes vectors of an unknown model, says so, and scales them."""
    summary = _import(ctl, "chroma", str(chroma), "--vectors", "keep")
    notes = "\n".join(summary["notes"])
    assert "collection plain: the vectors are kept, of a model that the source does not" in notes
    assert "vectors that were not of unit length, which the daemon scales to it: 1" in notes
    found = client.find(vector=[0, 0, 1]).resources
    assert {r.uri for r in found[:2]} == {f"{TOP}/plain/100%25", f"{TOP}/plain/d.md"}


def test_a_model_and_a_dimension_decide() -> None:
    """Names are compared without the provider; keeping needs the dimension of the daemon."""
    for choice, model, dimension, used, reason in (
        (Choice.AUTO, MODEL, 3, True, ""),
        (Choice.AUTO, f"openai/{MODEL}", 3, True, ""),
        (Choice.AUTO, "another", 3, False, "--vectors keep takes them"),
        (Choice.AUTO, "", 3, False, "of a model that the source does not name"),
        (Choice.AUTO, MODEL, 4, False, "have 4 numbers in place of 3"),
        (Choice.AUTO, MODEL, 0, False, ""),
        (Choice.DROP, MODEL, 3, False, ""),
        (Choice.KEEP, MODEL, 3, True, ""),
        (Choice.KEEP, "another", 3, True, "finds garbage"),
    ):
        notes = Notes()
        vectors = Vectors(choice, f"openai/{MODEL}", 3)
        assert vectors.are_used("x", model, dimension, notes) is used
        assert reason in "".join(notes.lines())
        assert bool(notes.lines()) is bool(reason)
    with pytest.raises(InvalidField, match="have 4 numbers, the daemon's have 3"):
        Vectors(Choice.KEEP, "m", 3).are_used("x", "", 4, Notes())
    assert not Vectors(Choice.AUTO, "none", 0).are_used("x", "none", 3, Notes())


def test_what_chroma_cannot_open_is_refused(
    ctl: Ctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong directory, no server and a missing package have clear errors; nothing is made."""
    package("chromadb", "chromadb")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert "has no chroma.sqlite3" in _refused(ctl, "chroma", str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "chroma.sqlite3").write_bytes(b"x" * 4096)
    assert "cannot open" in _refused(ctl, "chroma", str(tmp_path))
    assert "no Chroma server answers" in _refused(ctl, "chroma", "http://127.0.0.1:9")


def test_a_missing_package_is_named(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package, a source is refused with the line that installs it."""
    for module, extra in (("chromadb", "chroma"), ("pyarrow", "parquet")):
        monkeypatch.setitem(sys.modules, module, None)
        message = _refused(ctl, extra, ".", "viking://resources/x")
        assert install_command(extra) in message


@pytest.mark.deep
def test_ctrl_c_leaves_what_is_in_and_the_same_command_goes_on(
    ctl: Ctl, client: MessageClient, daemon: str, tmp_path: Path
) -> None:
    """An interrupted import of a collection exits with 130, and a second one completes it."""
    package("chromadb", "chromadb")
    many = 20_000
    _python(_WRITE, str(tmp_path), str(many))
    arguments = ["import", "--from", "chroma", str(tmp_path), "--collection", "many"]
    first = subprocess.Popen(
        [sys.executable, "-m", "vikingd.ctl.main", *arguments, "--json"],
        env=os.environ | {"VIKINGCTL_ADDRESS": daemon},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: client.stats().files > 500)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert (first.returncode, err) == (130, "")
    created = json.loads(out)["created"]
    assert 500 < created < many
    summary = _import(ctl, *arguments[2:])
    assert summary["created"] + created == many + 1
    assert summary["unchanged"] == created
