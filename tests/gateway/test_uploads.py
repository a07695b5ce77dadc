"""Files that a browser uploads: they are read as an import reads them, or refused with a reason."""

from __future__ import annotations

import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

import vikingd
from tests.daemons import serving
from tests.gateway.gateway_helpers import Gateway, fields, gateway_of, reason
from tests.ingest.formats_helpers import FILES
from tests.patience import eventually
from vikingd.client import Client
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.gateway.file_uploads import MOST_BYTES
from vikingd.ingest.files import read_tree

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEA = "viking://resources/up/tea.md"
DOCUMENTS = ("report-zh.docx", "report-en.pdf", "ledger-en.xlsx")
_OF_A_WRITE = ("uri", "revision", "content_hash", "create_time", "update_time")
"""The fields in which two contexts of the same file differ."""

SLOW = b"<html><body>" + b"<p>one <b>word</b> and another</p>\n" * 30_000
"""A page that takes seconds to read."""


def upload(gateway: Gateway, path: str, body: bytes, **headers: str) -> httpx.Response:
    """Send a file."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply: httpx.Response = gateway.http.put(f"/v1/files/{path}", content=body, headers=named)
    return reply


def head(gateway: Gateway, name: str, length: int, *lines: str) -> str:
    """Return the head of an upload to viking://resources/up."""
    first = f"PUT /v1/files/resources/up/{name} HTTP/1.1"
    return "\n".join((first, f"host: {gateway.host}", f"content-length: {length}", *lines))


def begin(connection: socket.socket, head: str, body: bytes) -> None:
    """Send the head of an upload and what has come of its body."""
    connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)


def scratches(directory: Path) -> list[Path]:
    """Return the temporary directories of a gateway."""
    return list(directory.glob("vikingd-scratch-*"))


@pytest.fixture(scope="module")
def own(daemon: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Path]]:
    """Yield a gateway with the directory of its temporary files, which is empty in the end."""
    directory = tmp_path_factory.mktemp("temporary")
    work = tmp_path_factory.mktemp("own")
    with gateway_of(daemon, work, environment={"TMPDIR": str(directory)}) as made:
        yield made, directory
    assert scratches(directory) == []


@pytest.mark.parametrize(
    "documents", [DOCUMENTS[:1], pytest.param(DOCUMENTS, marks=pytest.mark.deep)]
)
def test_an_upload_is_what_an_import_of_the_file_makes(
    gateway: Gateway,
    daemon: str,
    client: MessageClient,
    tmp_path: Path,
    documents: tuple[str, ...],
) -> None:
    """Text, metadata, title, kind, passages and abstract are those of `vikingctl import`."""
    notes = b"---\ntitle: Tea\ndate: 2026-05-01\n---\n# Oolong\n\n- 90 degrees\n- 3 minutes\n"
    latin = "怎么从文件里提取表格？这是一个很长的中文句子。".encode("gb18030") * 5
    made = {"notes.md": notes, "gb.txt": latin, "tool.py": b'"""A tool."""\n\ndef f(): pass\n'}
    for name in documents:
        made[name] = (FILES / name).read_bytes()
    with Client(daemon) as importing:
        for name, body in made.items():
            (tmp_path / name).write_bytes(body)
            importing.import_path(tmp_path / name, f"viking://resources/in/up/{name}")
            reply = upload(gateway, f"resources/up/{name}", body)
            assert reply.status_code == 200, reply.text
            assert reply.json()["uri"] == f"viking://resources/up/{name}"
            assert reply.json()["status"] == "created"
            assert (reply.json()["remarks"] == ["read as GB18030 (detected)"]) == (name == "gb.txt")
            one, other = (
                client.get(f"viking://resources/{at}/{name}").context for at in ("in/up", "up")
            )
            for context in (one, other):
                for field in (*_OF_A_WRITE, *(() if name == "notes.md" else ("time",))):
                    context.ClearField(field)
            assert one == other


def test_an_upload_tells_very_many_passages(gateway: Gateway) -> None:
    """A text of more than 1,000 passages is stored, with a remark."""
    reply = upload(gateway, "resources/up/a.txt", b"harbour lamps tide " * 100_000).json()
    assert reply["status"] == "created"
    assert re.fullmatch(r"is cut into [1-9],\d{3} passages", reply["remarks"][0])


def test_a_second_upload_tells_what_has_changed(gateway: Gateway, client: MessageClient) -> None:
    """The same file again is unchanged, and another text updates the context."""
    bodies = (b"# Tea\n\nOolong.\n", b"# Tea\n\nOolong.\n", b"# Tea\n\nSencha.\n")
    said = [upload(gateway, "resources/up/tea.md", body).json()["status"] for body in bodies]
    assert said == ["created", "unchanged", "updated"]
    assert client.get(TEA).context.content == "# Tea\n\nSencha.\n"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "names a directory"),
        ("resources/up/", "names a directory"),
        ("resources", "can only be a directory"),
        ("other/tea.md", "must lie below one of"),
        ("resources/%2e%2e/tea.md", "has the segment '..'"),
        ("resources/up/%00.md", "has a control character"),
        ("resources/up/%ff.md", "is not valid UTF-8"),
        ("resources/up/a%E2%80%8B.md", "does not show"),
        (f"resources/up/{'a' * 256}", "a name of more than 255 bytes"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused(
    gateway: Gateway, client: MessageClient, path: str, said: str
) -> None:
    """The error names the path and says what is wrong with it."""
    reply = upload(gateway, path, b"# Tea")
    assert (reply.status_code, reason(reply), fields(reply)) == (400, "INVALID_FIELD", ["path"])
    assert said in reply.json()["message"]
    assert list(client.list()) == []


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("logo.png", b"\x89PNG\0\0", "is binary"),
        ("broken.pdf", b"%PDF-1.4 nothing", "is damaged, or no PDF"),
        ("large.md", b"a b\n" * (1 << 19) + b"a", "has more than 2,097,152 bytes"),
        (".env", b"A=1", "such a file holds secrets (environment file)"),
        ("credentials.json", f'{{"token": "{TOKEN}"}}'.encode(), "holds secrets (GitHub token)"),
    ],
)
def test_what_an_import_does_not_take_is_refused_with_the_reason(
    gateway: Gateway, client: MessageClient, name: str, body: bytes, said: str
) -> None:
    """The error begins with the name of the file, and has no path of the machine."""
    reply = upload(gateway, f"resources/up/{name}", body)
    assert (reply.status_code, reason(reply)) == (422, "FILE_NOT_TAKEN")
    assert reply.json()["message"].startswith(f"{name}: ")
    assert said in reply.json()["message"]
    assert "scratch" not in reply.text
    assert list(client.list()) == []


def test_a_secret_within_a_text_is_left_out(gateway: Gateway, client: MessageClient) -> None:
    """A marker stands for the secret, and the reply names its line."""
    reply = upload(gateway, "resources/up/tea.md", f"# Tea\n\ntoken: {TOKEN}\n".encode())
    assert reply.json()["remarks"] == ["line 3: a secret is left out (GitHub token)"]
    assert TOKEN not in client.get(TEA).context.content


def test_lines_with_uris_stay_one_text(gateway: Gateway, client: MessageClient) -> None:
    """JSON lines write nothing at their own URIs."""
    line = b'{"uri": "viking://user/memories/a.md", "text": "a"}\n'
    assert upload(gateway, "resources/up/lines.jsonl", line).json()["status"] == "created"
    assert client.get("viking://resources/up/lines.jsonl").context.content == line.decode()
    assert [one.uri for one in client.list()] == ["viking://resources"]


def test_a_file_above_the_limit_is_refused_before_it_is_sent(
    own: tuple[Gateway, Path], client: MessageClient
) -> None:
    """The length in the head is enough."""
    gateway, _ = own
    status, body = gateway.raw(head(gateway, "tea.md", MOST_BYTES + 1))
    assert (status, b"BODY_TOO_LARGE" in body, b"vikingctl import" in body) == (413, True, True)
    assert list(client.list()) == []


def test_an_upload_that_breaks_off_leaves_nothing(
    own: tuple[Gateway, Path], client: MessageClient
) -> None:
    """The file is one that nobody else can read while it arrives, and is gone with the client."""
    gateway, directory = own
    with gateway.connect() as connection:
        begin(connection, head(gateway, "tea.md", 99), b"# Tea")
        eventually(lambda: _kept(directory))
        (made,) = scratches(directory)
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    eventually(lambda: scratches(directory) == [])
    assert list(client.list()) == []


def test_an_upload_that_is_read_ends_with_its_client(
    own: tuple[Gateway, Path], client: MessageClient
) -> None:
    """The reader of a page ends long before it has read all; calls are answered meanwhile."""
    gateway, directory = own
    with gateway.connect() as connection:
        begin(connection, head(gateway, "slow.html", len(SLOW)), SLOW)
        eventually(lambda: [one.stat().st_size for one in _kept(directory)] == [len(SLOW)])
        assert gateway.get("/v1/formats").status_code == 200
    eventually(lambda: scratches(directory) == [])
    assert list(client.list()) == []


def _kept(directory: Path) -> list[Path]:
    """Return the files of the uploads in work."""
    return list(directory.glob("vikingd-scratch-*/upload/*"))


class Keys(NamedTuple):
    """A gateway of a daemon with keys."""

    gateway: Gateway
    operator: str
    reader: str  # of all
    writer: str  # of viking://resources/up


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    """Yield a gateway whose daemon has keys."""
    with serving("--provider", "none") as where:
        with Client(where) as first:
            operator = first.create_key(operator=True).secret
        with Client(where, key=operator) as client:
            reader = client.create_key(read=("viking://",)).secret
            writer = client.create_key(write=("viking://resources/up",)).secret
            client.put_tenant("acme", create=True)
        environment = {"VIKINGD_KEY": operator, "VIKINGD_TENANT": "acme"}
        work = tmp_path_factory.mktemp("guarded")
        with gateway_of(where, work, environment=environment) as made:
            yield Keys(made, operator, reader, writer)


def test_an_upload_has_the_rights_of_its_key(guarded: Keys) -> None:
    """No key and a wrong one are 401, one without the right is 403; nothing is written."""
    gateway = guarded.gateway
    for body in (b"# Tea", b"# Tea\n" * 20_000):
        for none in ({}, {"authorization": "Bearer vk_none"}):
            reply = upload(gateway, "resources/up/tea.md", body, **none)
            assert (reply.status_code, reason(reply)) == (401, "UNAUTHENTICATED")
    # A large body is not even read.
    wrong = head(gateway, "tea.md", 1_000_000, "authorization: Bearer vk_none")
    assert gateway.raw(wrong)[0] == 401
    operator = {"authorization": f"Bearer {guarded.operator}"}
    for path, key in (("up", guarded.reader), ("other", guarded.writer)):
        reply = upload(gateway, f"resources/{path}/tea.md", b"# Tea", authorization=f"Bearer {key}")
        assert (reply.status_code, reason(reply)) == (403, "PERMISSION_DENIED"), reply.text
        assert gateway.get(f"/v1/contexts/resources/{path}/tea.md", **operator).status_code == 404
    writer = {"authorization": f"Bearer {guarded.writer}"}
    for status in ("created", "unchanged"):
        assert upload(gateway, "resources/up/tea.md", b"# Tea", **writer).json()["status"] == status
    # The key and the tenant in the gateway's own environment are nobody's.
    tenant = {"vikingd-tenant": "acme"}
    assert gateway.get("/v1/contexts/resources/up/tea.md", **operator, **tenant).status_code == 404
    reply = upload(gateway, "resources/a.md", b"a", **operator, vikingd_tenant="acme")
    assert reply.json()["status"] == "created"
    assert gateway.get("/v1/contexts/resources/a.md", **operator).status_code == 404


def test_a_session_uploads_and_a_foreign_page_does_not(guarded: Keys) -> None:
    """The cookie of a session counts as its key, and a foreign origin is refused."""
    gateway = guarded.gateway
    signed_in = gateway.http.post("/session", json={"key": guarded.writer})
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    gateway.http.cookies.clear()
    reply = upload(gateway, "resources/up/two.md", b"# Two", cookie=cookie)
    assert reply.json()["status"] == "created"
    foreign = {"cookie": cookie, "origin": "https://example.org"}
    assert upload(gateway, "resources/up/two.md", b"# Three", **foreign).status_code == 403


def test_the_demo_is_loaded_once_and_replaces_nothing(
    gateway: Gateway, client: MessageClient, guarded: Keys
) -> None:
    """What exists stays; a key without the right is refused, and so is another type of body."""
    mine = "viking://user/memories/preferences/coffee.md"
    client.put([Draft(mine, content="- Drinks tea.\n")])
    reply = gateway.post("demo", {})
    assert reply.json()["uri"] == "viking://"
    tree = read_tree(Path(vikingd.__file__).parent / "demo_tree", "viking://")
    assert reply.json()["created"] == sum(isinstance(one, Draft) for one in tree) - 1
    assert client.get(mine).context.content == "- Drinks tea.\n"
    assert client.get("viking://resources/lantern-api").context.abstract
    assert gateway.post("demo", {}).json()["created"] == 0
    reply = guarded.gateway.post("demo", {}, authorization=f"Bearer {guarded.reader}")
    assert (reply.status_code, reason(reply)) == (403, "PERMISSION_DENIED")
    assert gateway.http.post("/v1/demo", content="{}").status_code == 415
    assert gateway.post("demo", {"uri": "viking://"}).status_code == 400


def test_the_formats_are_those_of_the_readers(gateway: Gateway) -> None:
    """Documents, markup, code and data are named, and the largest size of a file."""
    said = gateway.get("/v1/formats").json()
    assert {".md", ".pdf", ".docx", ".html", ".epub", ".py", ".csv", ".txt"} <= set(
        said["extensions"]
    )
    assert said["maxBytes"] == MOST_BYTES


def test_a_file_has_no_precondition(gateway: Gateway, client: MessageClient) -> None:
    """A header that would be ignored is refused, and so is a compressed body."""
    for name in ("if-match", "if-none-match"):
        reply = gateway.http.put("/v1/files/resources/a.md", content=b"a", headers={name: "*"})
        assert (reply.status_code, fields(reply)) == (400, [name])
    assert upload(gateway, "resources/a.md", b"a", content_encoding="gzip").status_code == 415
    assert list(client.list()) == []
