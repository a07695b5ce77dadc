"""Keys and tenants of the clients: sent with each call, and never in plain text to others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.access.tls_helpers import Authority
from tests.conftest import Ctl
from vikingd.client import AsyncClient, Client, ClientError, Draft
from vikingd.client.credentials import Credentials
from vikingd.client.messages import MessageClient

KEY = "vk_ana_0123456789"
VARIABLES = ("KEY", "KEY_FILE", "TENANT", "CA", "CERT", "CERT_KEY")


class Listener(grpc.GenericRpcHandler):
    """A server that refuses all calls with `code`, and keeps what each has sent."""

    def __init__(self) -> None:
        self.code = grpc.StatusCode.UNIMPLEMENTED
        self.calls: list[tuple[str, Any, Any]] = []
        self.server = grpc.server(ThreadPoolExecutor(4), handlers=(self,))

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Keep method, key and tenant of a call."""
        sent = dict(details.invocation_metadata)
        method = details.method.rpartition("/")[2]
        self.calls.append((method, sent.get("authorization"), sent.get("vikingd-tenant")))

        def refuse(_: bytes, context: grpc.ServicerContext) -> None:
            context.abort(self.code, "refused")

        return grpc.unary_unary_rpc_method_handler(refuse)


@pytest.fixture(autouse=True)
def _no_credentials_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"VIKINGD_{name}", raising=False)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Yield a server that refuses all calls."""
    made = Listener()
    yield made
    made.server.stop(None).wait()


def plain(listener: Listener) -> str:
    """Let the server listen on loopback, and return its address."""
    port = listener.server.add_insecure_port("127.0.0.1:0")
    listener.server.start()
    return f"127.0.0.1:{port}"


def test_each_call_of_each_client_carries_key_and_tenant(
    listener: Listener, tmp_path: Path
) -> None:
    """Calls, pages, streams and imports, with and without async, send the key and the tenant."""
    address = plain(listener)
    note = tmp_path / "note.md"
    note.write_text("Oolong: 90 degrees.")

    async def asynchronous() -> None:
        async with AsyncClient(address, key=KEY, tenant="acme") as client:
            with suppress(ClientError):
                await client.get("viking://resources")
            with suppress(ClientError):
                await client.put([Draft("viking://resources/a.md", content="a")])
            with suppress(ClientError):
                _ = [context async for context in client.list()]
            with suppress(ClientError):
                _ = [piece async for piece in client.backup()]
            with suppress(ClientError):
                await client.import_path(note, "viking://resources/note.md")

    def blocking(client: Client | MessageClient) -> None:
        with client:
            with suppress(ClientError):
                client.get("viking://resources")
            with suppress(ClientError):
                client.with_timeout(5).stats()
            # An update with an expected revision is not repeated, and takes the second channel.
            with suppress(ClientError):
                client.delete("viking://resources/a", expected_revision=1)
            with suppress(ClientError):
                list(client.list())
            with suppress(ClientError):
                list(client.backup())

    asyncio.run(asynchronous())
    sent = {method for method, *_ in listener.calls}
    assert {"Get", "Put", "List", "Backup"} <= sent
    blocking(Client(address, key=KEY, tenant="acme"))
    with Client(address, key=KEY, tenant="acme") as client, suppress(ClientError):
        client.import_path(note, "viking://resources/note.md")
    blocking(MessageClient(address, key=KEY, tenant="acme"))
    sent = {method for method, *_ in listener.calls}
    assert {"Stats", "Delete"} <= sent
    assert {call[1:] for call in listener.calls} == {(f"Bearer {KEY}", "acme")}


def test_one_connection_serves_several_keys(listener: Listener) -> None:
    """with_key changes the key and the tenant of one client, on the channels of the other."""
    address = plain(listener)
    with Client(address, key=KEY, tenant="acme") as first:
        second = first.with_key("vk_bob", "other")
        third = second.with_key("")
        assert second._channel is first._channel
        for client in (first, second, third, first):
            with suppress(ClientError):
                client.stats()
        for key, tenant in (("a b", ""), ("é", ""), ("", "a b")):
            with pytest.raises(ValueError, match="printable ASCII") as caught:
                first.with_key(key, tenant)
            assert repr(key) not in str(caught.value)
    sent = [("Stats", f"Bearer {KEY}", "acme"), ("Stats", "Bearer vk_bob", "other")]
    assert listener.calls == [*sent, ("Stats", None, None), sent[0]]

    async def awaited() -> None:
        async with AsyncClient(address, key=KEY, timeout=7) as client:
            other = client.with_key("vk_bob")
            assert other.timeout == 7
            with suppress(ClientError):
                await other.stats()

    listener.calls.clear()
    asyncio.run(awaited())
    assert listener.calls == [("Stats", "Bearer vk_bob", None)]


def test_another_key_is_not_sent_in_plain_text_either() -> None:
    """with_key refuses a key for another machine without TLS, unless the network is trusted."""
    with Client("10.0.0.1:7716", key="", tenant="") as client:
        with pytest.raises(ValueError, match="is not sent"):
            client.with_key(KEY)
        assert client.with_key("", "acme")._metadata == (("vikingd-tenant", "acme"),)
    with Client("10.0.0.1:7716", key="", trust_network=True) as trusting:
        trusting.with_key(KEY)


def test_nothing_is_sent_that_was_not_given(listener: Listener) -> None:
    """A client without a key sends none."""
    with Client(plain(listener)) as client, pytest.raises(ClientError):
        client.stats()
    assert listener.calls == [("Stats", None, None)]


def test_credentials_come_from_the_environment(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """VIKINGD_KEY wins over VIKINGD_KEY_FILE, and an argument over both, also an empty one."""
    address = plain(listener)
    (tmp_path / "key").write_text("vk_file_1\n")
    monkeypatch.setenv("VIKINGD_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("VIKINGD_TENANT", "acme")
    for variable, argument, sent in (
        ("", None, "Bearer vk_file_1"),
        ("vk_env_1", None, "Bearer vk_env_1"),
        ("vk_env_1", KEY, f"Bearer {KEY}"),
        ("vk_env_1", "", None),
    ):
        monkeypatch.setenv("VIKINGD_KEY", variable)
        with Client(address, key=argument) as client, pytest.raises(ClientError):
            client.stats()
        assert listener.calls.pop() == ("Stats", sent, "acme")


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1:7716",
        "example.org:7716",
        "127.0.0.1.example.org:7716",
        "0.0.0.0:7716",
        "[::]:7716",
        "dns:///localhost:7716",
        "ipv4:127.0.0.1:7716,10.0.0.1:7716",
    ],
)
def test_a_key_is_not_sent_to_another_machine_in_plain_text(address: str) -> None:
    """A client with a key refuses a plain address that may be elsewhere, unless by name."""
    with pytest.raises(ValueError, match=r"is not sent to .* in plain text") as caught:
        Client(address, key=KEY)
    assert KEY not in str(caught.value)
    Client(address, key=KEY, trust_network=True).close()
    Client(address).close()


@pytest.mark.parametrize(
    "address",
    ["localhost:7716", "127.8.8.8:7716", "[::1]:7716", "unix:/run/v.sock", "vikings://10.0.0.1:1"],
)
def test_a_key_is_sent_on_this_machine_and_through_tls(address: str) -> None:
    """A key may go to loopback and to a unix socket in plain text, and anywhere through TLS."""
    with Client(address, key=KEY) as client:
        assert client._credentials.metadata() == (("authorization", f"Bearer {KEY}"),)


@pytest.mark.parametrize("key", ["vk_a b", "vk_\u00e4", "vk_a\r\nvikingd-tenant: x", "vk\x00"])
def test_a_key_that_metadata_cannot_hold_is_refused_unseen(key: str) -> None:
    """A key with other characters is refused before a call, and the error does not show it."""
    with pytest.raises(ValueError, match="the key may hold printable ASCII") as caught:
        Client(key=key)
    assert key not in str(caught.value)


def test_no_client_shows_its_key() -> None:
    """Neither the client nor its credentials show the key."""
    with Client(key=KEY) as client:
        shown = repr(client) + str(client) + repr(Credentials.found(key=KEY))
    assert KEY not in shown


def test_addresses_that_are_none_are_refused() -> None:
    """A URI of the tree and a wrong address with TLS are told apart from HOST:PORT."""
    with pytest.raises(ValueError, match="is a URI of the tree; an address is HOST:PORT"):
        Client("viking://resources")
    with pytest.raises(ValueError, match="is not HOST:PORT, vikings://HOST:PORT or unix:PATH"):
        Client("vikings://example.org")


def test_a_key_goes_through_tls_and_a_unix_socket(listener: Listener, tmp_path: Path) -> None:
    """The key arrives over TLS and over a unix socket."""
    authority = Authority(tmp_path, "authority")
    certificate, key = (file.read_bytes() for file in authority.signed("d", "IP:127.0.0.1"))
    port = listener.server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)])
    )
    listener.server.add_insecure_port(f"unix:{tmp_path}/socket")
    listener.server.start()
    for address in (f"vikings://127.0.0.1:{port}", f"unix:{tmp_path}/socket"):
        with (
            Client(address, key=KEY, ca=authority.certificate) as client,
            pytest.raises(ClientError, match="refused"),
        ):
            client.stats()
        assert listener.calls.pop() == ("Stats", f"Bearer {KEY}", None)


def test_vikingctl_takes_the_key_before_and_after_the_command(
    listener: Listener, ctl: Ctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """--key and --key-file win over the environment; the later of two wins over the earlier."""
    address = plain(listener)
    monkeypatch.setenv("VIKINGCTL_ADDRESS", address)
    monkeypatch.setenv("VIKINGD_KEY", "vk_env_1")
    (tmp_path / "key").write_text("vk_file_1\n")
    file = ("--key-file", str(tmp_path / "key"))
    for before, after, sent in (
        ((), (), "vk_env_1"),
        (("--key", KEY), (), KEY),
        ((), ("--key", KEY), KEY),
        (file, (), "vk_file_1"),
        ((), file, "vk_file_1"),
        (file, ("--key", KEY), KEY),
        (("--key", KEY), file, "vk_file_1"),
    ):
        _, out, err = ctl(*before, "stats", *after, "--tenant", "acme")
        assert listener.calls.pop() == ("Stats", f"Bearer {sent}", "acme")
        assert sent not in out + err


def test_vikingctl_tells_a_refused_key_by_its_exit_code(listener: Listener, ctl: Ctl) -> None:
    """UNAUTHENTICATED and PERMISSION_DENIED end with 5, a key in plain text with 2."""
    address = plain(listener)
    for code, exit_code in (
        (grpc.StatusCode.UNAUTHENTICATED, 5),
        (grpc.StatusCode.PERMISSION_DENIED, 5),
        (grpc.StatusCode.INTERNAL, 1),
    ):
        listener.code = code
        assert ctl("stats", "--address", address)[0] == exit_code
    code, _, err = ctl("stats", "--address", "10.0.0.1:1", "--key", KEY)
    assert code == 2
    assert "--trust-network" in err
    assert KEY not in err
    code, _, err = ctl("stats", "--key-file", "/nowhere/key")
    assert code == 2
    assert "cannot read the key in /nowhere/key" in err.replace("\n", " ")
