"""A typed Node client (Connect over gRPC): calls with a key, errors, 64-bit numbers, TLS."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.access.attack_helpers import HIDDEN, SHARED, Fort, fort, outcome
from tests.access.tls_helpers import Authority
from tests.gateway.node_helpers import Node, built, compiled, node
from tests.programs import needed
from tests.project.test_documents import BLOCK, ROOT
from vikingd.pb.contexts_pb2 import GetRequest

pytestmark = pytest.mark.deep

NOTE = "viking://users/ana/memories/notes/tea.md"
NUMBERED = "viking://users/ana/memories/numbers.md"
UNSAFE = 2**53 + 1
"""A number that a double does not hold."""


@dataclass
class World:
    """The built client, and a daemon with keys, on loopback and by TLS."""

    built: Path
    fort: Fort
    tls: str
    authority: Path

    @property
    def address(self) -> str:
        """Return the address without TLS."""
        return self.fort.daemon.address


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield the client and the daemon."""
    client = built(tmp_path_factory.mktemp("node"))
    directory = tmp_path_factory.mktemp("fort")
    authority = Authority(directory, "authority")
    certificate, key = authority.signed("daemon", "IP:127.0.0.1")
    tls = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with fort(directory, "--listen", "vikings://127.0.0.1:0", *tls) as made:
        assert made.daemon.process.stdout
        second = made.daemon.process.stdout.readline().split()[-1]
        yield World(client, made, second, authority.certificate)


@pytest.fixture(scope="module")
def ana(world: World) -> Iterator[Node]:
    """Yield a client with the key of ana."""
    with node(world.built, world.address, key=world.fort.keys["ana"]) as made:
        yield made


def test_a_client_with_a_key_finds_reads_and_writes(world: World, ana: Node) -> None:
    """What Node writes is found and read, by Node and by others, with its revision as a bigint."""
    written = ana.call("write", uri=NOTE, text="Steep the gyokuro at 60 °C. 玉露。")
    assert re.fullmatch(r"\d+n", written["revision"])
    at = written["revision"].removesuffix("n")
    found = ana.call("find", text="gyokuro", minRevision=at)
    assert found["uris"][0] == NOTE
    read = ana.call("read", uri=NOTE, minRevision=at)
    assert read["content"] == "Steep the gyokuro at 60 °C. 玉露。"
    get = world.fort.stubs.contexts.Get
    reply = get(GetRequest(uri=NOTE), metadata=world.fort.metadata("ana"))
    assert reply.context.content == read["content"]
    assert f"{reply.context.revision}n" == read["revision"]


def test_a_client_with_a_key_remembers_and_recalls(ana: Node) -> None:
    """A remembered text is recalled, with its id as a bigint."""
    made = ana.call("remember", text="Prefers the iron kettle.")
    recalled = ana.call("recall", text="kettle", minRevision=made["revision"].removesuffix("n"))
    assert {"id": made["id"], "content": "Prefers the iron kettle."} in recalled["memories"]
    assert re.fullmatch(r"\d+n", made["id"])


def test_64_bit_numbers_are_exact(ana: Node) -> None:
    """A bigint above 2^53 reaches the daemon as it is."""
    ana.call("write", uri=NUMBERED, text="one")
    error = ana.fails("write", uri=NUMBERED, text="two", expectedRevision=str(UNSAFE))
    assert (error["code"], error["reason"]) == ("Aborted", "REVISION_DIFFERS")
    assert error["metadata"]["expected_revision"] == str(UNSAFE)


def test_errors_have_typed_details(ana: Node) -> None:
    """An error has its ErrorInfo; a wrong field has a BadRequest too."""
    missing = ana.fails("read", uri=HIDDEN)
    assert missing == {
        "code": "NotFound",
        "message": f"{HIDDEN} does not exist",
        "reason": "NOT_FOUND",
        "domain": "viking.retrieval.v1",
        "metadata": {"uri": HIDDEN},
    }
    wrong = ana.fails("write", uri="viking://users/ana/../bob", text="x")
    assert (wrong["code"], wrong["reason"]) == ("InvalidArgument", "INVALID_FIELD")
    ((field, description),) = (tuple(fault.values()) for fault in wrong["violations"])
    assert field == "contexts[0].uri"
    assert description in wrong["message"]


def test_calls_without_a_right_key_are_refused(world: World, ana: Node) -> None:
    """No key, a wrong key and a missing right are errors, with the message of the daemon."""
    del ana
    for key in ("", "vk_wrong", world.fort.keys["ana"][:-1]):
        with node(world.built, world.address, key=key) as stranger:
            error = stranger.fails("read", uri=SHARED)
            metadata = (("authorization", f"Bearer {key}"),) if key else ()
            get = world.fort.stubs.contexts.Get
            told = outcome(get, GetRequest(uri=SHARED), metadata)
            assert (error["code"].upper(), error["message"]) == told
            assert error["reason"] == "UNAUTHENTICATED"


def test_a_key_lacks_a_right(ana: Node) -> None:
    """A write outside of the key's rights is PERMISSION_DENIED, with reason and metadata."""
    error = ana.fails("write", uri=SHARED, text="x")
    assert (error["code"], error["reason"]) == ("PermissionDenied", "PERMISSION_DENIED")
    assert ana.call("read", uri=SHARED)["content"].startswith("the handbook")


def test_an_operator_names_a_tenant(world: World) -> None:
    """The header vikingd-tenant chooses the tenant of an operator's key."""
    operator = world.fort.keys["operator"]
    for tenant in ("acme", "globex"):
        with node(world.built, world.address, key=operator, tenant=tenant) as made:
            assert made.call("read", uri=SHARED)["content"].endswith(f"({tenant})")


def test_tls(world: World) -> None:
    """Over TLS a call succeeds with the authority of the daemon, and is never sent without it."""
    key = world.fort.keys["ana"]
    with node(world.built, world.tls, key=key, ca=str(world.authority)) as made:
        assert made.call("read", uri=SHARED)["content"].endswith("(acme)")
    with node(world.built, world.tls, key=key) as made:
        error = made.fails("read", uri=SHARED)
        assert error["code"] in ("Unavailable", "Internal")
        assert "certificate" in error["message"]


def test_requests_are_typed(world: World, tmp_path: Path) -> None:
    """A wrong field of a request, and a number in place of a bigint, do not compile."""
    shutil.copytree(world.built, tmp_path / "wrong", symlinks=True)
    for wrong, expected in (
        ("to.retrieval.find({ querry: 'tea' })", "'querry' does not exist in type"),
        ("to.contexts.get({ minRevision: 1 })", "'number' is not assignable to type 'bigint'"),
    ):
        code = "import type { Vikingd } from './vikingd.js';\nexport default (to: Vikingd) => "
        (tmp_path / "wrong" / "wrong.ts").write_text(f"{code}{wrong};\n")
        with pytest.raises(AssertionError, match=re.escape(expected)):
            compiled(tmp_path / "wrong")


def test_the_example_of_the_guide_runs(world: World, tmp_path: Path) -> None:
    """The guide's generation is that of the tests, and its example runs as it stands."""
    guide = (ROOT / "proto" / "README.md").read_text(encoding="utf-8")
    found = dict(BLOCK.findall(guide))
    assert found["yaml"] == (world.built / "buf.gen.yaml").read_text()
    copied = shutil.copytree(world.built, tmp_path / "guide", symlinks=True)
    example = found["ts"].replace("http://127.0.0.1:7716", f"http://{world.address}")
    (copied / "example.ts").write_text(example)
    compiled(copied)
    done = subprocess.run(
        [needed("node"), "built/example.js"],
        cwd=copied,
        env={"VIKINGD_KEY": world.fort.keys["ana"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert re.fullmatch(r"0\.\d{3} Prefers oolong to coffee\.", first)
    assert last == "INVALID_FIELD [ 'query' ]"
