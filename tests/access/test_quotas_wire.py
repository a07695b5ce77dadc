"""The quotas of keys and tenants, and the audit, over gRPC with a real daemon."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.commands import serve
from tests.daemons import start
from tests.models.embed_helpers import Endpoint
from tests.patience import eventually
from vikingd.client import Client, Draft
from vikingd.client.client_errors import ClientError, NotFound, QuotaExceeded
from vikingd.client.method_declarations import Stubs
from vikingd.pb import admin_pb2, contexts_pb2

NOTE = "viking://resources/note.md"
ALL = ("viking://",)
_PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')
_NUMBERS = count(1)


@dataclass
class House:
    """A daemon with an operator's key.

    Attributes:
        address: of the daemon.
        log: the file of its log.
        operator: the client with the operator's key.
    """

    address: str
    log: Path
    operator: Client
    clients: list[Client] = field(default_factory=list)

    def client(self, key: str, tenant: str = "", *, retries: bool = False) -> Client:
        """Return a client with a key."""
        made = Client(self.address, key=key, tenant=tenant, retries=retries)
        self.clients.append(made)
        return made

    def tenant(self, **limits: int) -> str:
        """Create a tenant."""
        name = f"tenant{next(_NUMBERS)}"
        self.operator.put_tenant(name, limits=limits, create=True)
        return name

    def key(self, tenant: str, **limits: int) -> str:
        """Create a key with all rights in a tenant."""
        made = self.client(self.operator_key, tenant).create_key(admin=ALL, limits=limits)
        return made.secret

    def caller(self, of: str, *, retries: bool = False, **limits: int) -> Client:
        """Return a client with a new key of a new tenant; one of both has limits."""
        tenant = self.tenant()
        key = self.key(tenant, **(limits if of == "key" else {}))  # a call to the tenant, too
        if of == "tenant":
            self.operator.put_tenant(tenant, limits=limits)
        return self.client(key, tenant, retries=retries)

    @property
    def operator_key(self) -> str:
        """The operator's key."""
        return self.operator._credentials.key

    def lines(self) -> list[dict[str, str]]:
        """Return the audit lines."""
        lines = self.log.read_text().splitlines()
        pairs = [_PAIR.findall(line) for line in lines if " logger=vikingd.audit " in line]
        return [{name: value.strip('"') for name, value in line} for line in pairs]


@contextmanager
def house(store: Path, log: Path, *options: str, key: str = "") -> Iterator[House]:
    """Run a daemon; its first key is made, unless `key` is given."""
    with log.open("ab") as err:
        daemon = start(serve(store, *options), stdout=subprocess.PIPE, stderr=err)
    try:
        assert daemon.stdout is not None
        address = daemon.stdout.readline().decode().split()[-1]
        if not key:
            with Client(address) as first:
                key = first.create_key(operator=True).secret
        made = House(address, log, Client(address, key=key))
        yield made
        for client in (made.operator, *made.clients):
            client.close()
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Yield a daemon without an embedder."""
    directory = tmp_path_factory.mktemp("quotas")
    with house(directory / "data", directory / "log", "--provider", "none") as made:
        yield made


def refusal(call: Callable[[], Any]) -> QuotaExceeded | None:
    """Return the refusal of a call; None if the daemon takes it."""
    try:
        call()
    except QuotaExceeded as error:
        return error if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED else None
    except NotFound:
        return None
    return None


def get(client: Client) -> QuotaExceeded | None:
    """Return the refusal of a small call."""
    return refusal(lambda: client.get(NOTE))


def put(client: Client, uri: str = NOTE, content: str = "a note") -> QuotaExceeded | None:
    """Return the refusal of a write."""
    return refusal(lambda: client.put([Draft(uri, content=content)]))


def raw(home: House, client: Client) -> tuple[Stubs, Any]:
    """Return stubs that repeat nothing, with the metadata of a client."""
    return Stubs(grpc.insecure_channel(home.address)), client._credentials.metadata()


def waiting(home: House, client: Client) -> Any:
    """Return a call that stays in flight until it is cancelled."""
    stubs, metadata = raw(home, client)
    request = contexts_pb2.GetRequest(uri=NOTE, min_revision=1 << 40)
    call: Any = stubs.contexts.Get.future(request, metadata=metadata, timeout=60)
    return call


# Limits that time mends


@pytest.mark.parametrize("of", ["key", "tenant"])
def test_calls_per_second(home: House, of: str) -> None:
    """The call beyond the burst is refused, refused calls cost nothing, and waiting helps."""
    client = home.caller(of, calls_per_second=2)
    while (error := get(client)) is None:
        pass
    assert error.metadata == {"limit": "calls_per_second", "of": of}
    assert "calls_per_second of 2" in error.message
    waits = [error.retry_after or 0.0]
    assert 0 < waits[0] <= 0.5
    while len(waits) < 6 and (later := get(client)) is not None:
        waits.append(later.retry_after or 0.0)
    assert waits == sorted(waits, reverse=True)
    if len(waits) == 6:  # else the machine was slow, and the last call has entered
        time.sleep(waits[-1])
        assert get(client) is None


@pytest.mark.deep
@pytest.mark.parametrize("of", ["key", "tenant"])
def test_bytes_per_second(home: House, of: str) -> None:
    """A large request passes and leaves a debt; so does a large reply."""
    client = home.caller(of, bytes_per_second=20_000)
    assert put(client, content="word " * 7000) is None
    for _ in range(2):
        error = get(client)
        assert error is not None
        assert error.metadata == {"limit": "bytes_per_second", "of": of}
        assert error.retry_after is not None
        assert 0.3 < error.retry_after < 2.5
        time.sleep(error.retry_after)
        assert get(client) is None  # its reply has 35 kB


@pytest.mark.parametrize("of", ["key", "tenant"])
def test_calls_in_flight(home: House, of: str) -> None:
    """A call beyond the limit is refused, and a cancelled one gives back its place."""
    client = home.caller(of, calls_in_flight=2)
    calls = []

    def is_full() -> bool:
        calls.append(waiting(home, client))  # the small call may have taken the place of one
        return get(client) is not None

    eventually(is_full)
    error = get(client)
    assert error is not None
    assert error.metadata == {"limit": "calls_in_flight", "of": of}
    assert error.retry_after == 0.1
    for call in calls:
        call.cancel()
    eventually(lambda: get(client) is None)
    for _ in range(20):  # no place is lost
        call = waiting(home, client)
        call.cancel()
    calls = [waiting(home, client)]
    eventually(lambda: get(client) is None)
    calls[0].cancel()


def test_a_call_in_flight_ends_at_its_deadline(home: House) -> None:
    """A call whose deadline passes gives back its place."""
    client = home.caller("key", calls_in_flight=1)
    stubs, metadata = raw(home, client)
    with pytest.raises(grpc.RpcError):
        stubs.contexts.Get(
            contexts_pb2.GetRequest(uri=NOTE, min_revision=1 << 40), metadata=metadata, timeout=0.2
        )
    eventually(lambda: get(client) is None)


@pytest.mark.parametrize("word", ["word", pytest.param("word ", marks=pytest.mark.deep)])
def test_a_stream_counts(home: House, word: str) -> None:
    """A backup takes a place until its end, and all its bytes count."""
    # A text of one long word is soon taken in.
    client = home.caller("tenant")
    for i in range(60):  # more than the buffers of a connection hold
        assert put(client, f"viking://resources/{i}.md", f"{i} " + word * 80_000) is None
    home.operator.put_tenant(client._credentials.tenant, limits={"calls_in_flight": 1})
    stubs, metadata = raw(home, client)
    stream: Any = stubs.admin.Backup(admin_pb2.BackupRequest(), metadata=metadata)
    size = next(stream).size
    assert size > 1 << 23
    error = get(client)
    assert error is not None
    assert error.metadata["limit"] == "calls_in_flight"
    stream.cancel()
    eventually(lambda: get(client) is None)
    limits = {"bytes_per_second": 100_000}
    home.operator.put_tenant(client._credentials.tenant, limits=limits)

    def backed_up() -> int:
        return sum(len(part.data) for part in client.backup())

    sent = 0
    for _ in range(100):  # the cancelled one may still run
        with suppress(ClientError):
            sent = backed_up()
            break
        time.sleep(0.1)
    assert sent > 1 << 21
    error = get(client)
    assert error is not None
    assert error.retry_after is not None
    assert error.retry_after > sent / 100_000 - 5


# Limits that time does not mend


def test_contexts(home: House) -> None:
    """Neither files nor directories pass the limit; replacing, deleting and reading go on."""
    client = home.caller("tenant", contexts=4)  # the root, resources, two files
    assert put(client) is None
    assert put(client, "viking://resources/b.md") is None
    for uri in ("viking://resources/c.md", "viking://resources/d/e/f.md", "viking://user/x.md"):
        error = put(client, uri)
        assert error is not None
        assert error.metadata == {"limit": "contexts", "of": "tenant"}
        assert error.retry_after is None
    assert put(client, content="another text") is None
    drafts = [Draft(NOTE, content="1"), Draft("viking://resources/c.md", content="2")]
    assert refusal(lambda: client.put(drafts)) is not None
    assert client.get(NOTE).content == "another text"
    assert refusal(lambda: client.remember("likes tea", memory_type="preferences")) is not None
    client.delete("viking://resources/b.md")
    assert put(client, "viking://resources/d/e.md") is not None
    assert put(client, "viking://resources/c.md") is None


def test_a_memory_in_an_existing_file_is_no_new_context(home: House) -> None:
    """At the limit a Remember that names a file may add to it."""
    client = home.caller("tenant")
    file = "viking://user/memories/notes.md"
    client.remember("likes tea", uri=file)
    home.operator.put_tenant(client._credentials.tenant, limits={"contexts": 1})
    client.remember("owns a boat", uri=file)
    other = "viking://user/memories/other.md"
    assert refusal(lambda: client.remember("owns a boat", uri=other)) is not None


@pytest.mark.deep
def test_stored_bytes(home: House) -> None:
    """At the limit writes are refused until contexts are deleted."""
    client = home.caller("tenant", stored_bytes=1_000_000)
    for i in range(100):
        error = put(client, f"viking://resources/{i}.md", f"{i} " + "word " * 10_000)
        if error is not None:
            break
    assert error is not None
    assert error.metadata == {"limit": "stored_bytes", "of": "tenant"}
    assert error.retry_after is None
    assert 5 < i < 30
    client.delete("viking://resources")
    for _ in range(50):  # small writes fill the log of the database, which does not count
        assert put(client, content="word " * 5000) is None


# All limits


def test_new_limits_hold_at_the_next_call(home: House) -> None:
    """Limits that come, change and go hold at once."""
    client = home.caller("tenant")
    tenant = client._credentials.tenant
    for _ in range(20):
        assert get(client) is None
    for limits in ({"calls_per_second": 1}, {"calls_per_second": 3}):
        home.operator.put_tenant(tenant, limits=limits)
        taken, started, rate = 0, time.monotonic(), limits["calls_per_second"]
        while get(client) is None:
            taken += 1
        assert rate <= taken <= rate * (1 + time.monotonic() - started) + 1
    home.operator.put_tenant(tenant, limits={"contexts": 1})
    assert put(client) is not None
    home.operator.put_tenant(tenant, limits={})
    for _ in range(20):
        assert put(client) is None


def test_tenants_and_keys_do_not_touch_each_other(home: House) -> None:
    """A tenant and a key that are over their limits cost others nothing."""
    limited, other = home.caller("tenant"), home.caller("key")
    second = home.client(home.key(limited._credentials.tenant))
    home.operator.put_tenant(limited._credentials.tenant, limits={"calls_per_second": 1})
    while get(limited) is None:
        pass
    error = get(second)  # of the same tenant
    assert error is not None
    assert error.metadata["of"] == "tenant"
    for _ in range(20):
        assert get(other) is None
    tenant = other._credentials.tenant
    slow = home.client(home.key(tenant, calls_per_second=1), tenant)
    while get(slow) is None:
        pass
    for _ in range(20):
        assert get(other) is None


@pytest.mark.deep
def test_grpc_repeats_a_call_when_the_daemon_says(home: House) -> None:
    """A client that repeats calls gets all answers, as slowly as the limit allows."""
    client = home.caller("key", retries=True, calls_per_second=5)
    started = time.monotonic()
    for _ in range(15):
        assert get(client) is None
    assert time.monotonic() - started >= (15 - 5 - 1) / 5


@pytest.mark.parametrize("limits", [{"bytes_per_second": 1000}, {"contexts": 1}])
def test_a_long_wait_is_told_at_once(home: House, limits: dict[str, int]) -> None:
    """A client that repeats calls learns the reason, instead of passing its deadline."""
    client = home.caller("tenant", retries=True, **limits)
    put(client, content="word " * 10_000)
    started = time.monotonic()
    assert put(client) is not None
    assert time.monotonic() - started < 5


@pytest.mark.deep
def test_a_day_of_embedding(tmp_path: Path, endpoint: Endpoint) -> None:
    """A tenant's texts wait for the next day, others' do not; a new limit holds; Stats tells."""
    config = tmp_path / "config.toml"
    config.write_text(
        f'[embedding]\nprovider = "openai"\nopenai_base_url = "{endpoint.url}"\n'
        'openai_model = "test"\n'
    )
    log, data = tmp_path / "log", tmp_path / "data"

    def filled(client: Client, files: int) -> None:
        drafts = [Draft(f"viking://resources/{i}.md", content=f"note {i}") for i in range(files)]
        client.put(drafts)

    def vectors(client: Client) -> int:
        eventually(lambda: client.stats().embedder.stalled)
        stats = client.stats()
        assert "embedded_texts_per_day" in stats.embedder.stalled
        assert stats.embedder.last_error == ""
        assert stats.embedder.retry_time is not None
        assert stats.embedder.backlog == stats.texts - stats.vectors
        return int(stats.vectors)

    with house(data, log, "--config", str(config)) as home:
        key = home.operator_key
        limited, free = home.tenant(embedded_texts_per_day=5), home.tenant()
        home.operator.put_tenant("default", limits={"embedded_texts_per_day": 3})
        one, other = home.client(key, limited), home.client(key, free)
        for client in (one, other, home.operator):
            filled(client, 12)
        assert vectors(one) == 5
        assert vectors(home.operator) == 3
        eventually(lambda: not other.stats().embedder.backlog)
        assert not other.stats().embedder.stalled
        home.operator.put_tenant(limited, limits={"embedded_texts_per_day": 8})
        eventually(lambda: one.stats().vectors == 8)
        assert one.find("note").resources  # a query is no text of the backlog
    with house(data, log, "--config", str(config), key=key) as home:
        assert vectors(home.client(key, limited)) == 8
        assert vectors(home.operator) == 3
        home.operator.put_tenant("default", limits={})
        eventually(lambda: not home.operator.stats().embedder.backlog)


# The audit


def test_the_audit_has_one_line_for_each_write_denial_and_act(home: House) -> None:
    """Reads have none; a line has who, where, what, the status and the revision of a write."""
    tenant = home.tenant()
    operator = home.client(home.operator_key, tenant)
    ana = operator.create_key(
        user="ana", read=("viking://resources",), write=("viking://users/ana",)
    )
    writer = operator.create_key(admin=ALL)
    client, mine = home.client(writer.secret, tenant), home.client(ana.secret, tenant)
    begun = len(home.lines())
    who, file = {"who": writer.key.id, "user": ""}, {"objects": NOTE}
    expected: list[dict[str, Any]] = []

    def done(method: str, code: str = "OK", **fields: Any) -> None:
        expected.append({**who, "method": method, "code": code, **fields})

    revision = client.put([Draft(NOTE, content="a secret text")]).revision
    done("Put", **file, revision=revision)
    client.get(NOTE)
    client.find("secret")
    list(client.tree())
    client.stats()
    uris = [f"viking://resources/{i}.md" for i in range(7)]
    revision = client.put([Draft(uri, content="x") for uri in uris]).revision
    done("Put", objects=" ".join(uris[:5]), more_objects="2", revision=revision)
    revision = client.move(uris[0], "viking://resources/moved.md").revision
    done("Move", objects=f"{uris[0]} viking://resources/moved.md", revision=revision)
    revision = client.delete(uris[1]).revision
    done("Delete", objects=uris[1], revision=revision)
    with suppress(ClientError):
        client.delete("viking://resources/none.md")
    done("Delete", "NOT_FOUND", objects="viking://resources/none.md")
    revision = client.remember("a secret memory", memory_type="preferences").revision
    done("Remember", revision=revision)

    who = {"who": ana.key.id, "user": "ana"}
    for uri in (NOTE, "viking://users/bob/memories/a.md"):
        with suppress(ClientError):
            mine.put([Draft(uri, content="no")])
        done("Put", "PERMISSION_DENIED", objects=uri)
    with suppress(ClientError):
        mine.get("viking://users/bob/memories/a.md")
    done("Get", "NOT_FOUND", objects="viking://users/bob/memories/a.md")
    with suppress(ClientError):
        mine.get("viking://resources/none.md")  # missing, not denied
    with suppress(ClientError):
        mine.stats()
    done("Stats", "PERMISSION_DENIED")
    with suppress(ClientError):
        mine.list_tenants()
    done("ListTenants", "PERMISSION_DENIED")
    revision = mine.put([Draft("viking://~/memories/a.md", content="x")]).revision
    done("Put", objects="viking://users/ana/memories/a.md", revision=revision)

    who = {"who": home.operator_key.split("_")[1], "user": ""}
    created = operator.create_key(read=ALL)
    done("CreateKey", objects=f"viking:// {created.key.id}")
    operator.revoke_key(created.key.id)
    done("RevokeKey", objects=created.key.id)
    operator.put_tenant(tenant, limits={"calls_in_flight": 100})
    done("PutTenant", objects=tenant)
    who = {"who": created.key.id, "user": ""}
    with suppress(ClientError):
        home.client(created.secret, tenant).get(NOTE)
    done("Get", "UNAUTHENTICATED", tenant="")

    eventually(lambda: len(home.lines()) >= begun + len(expected))
    lines = home.lines()[begun:]
    assert len(lines) == len(expected), lines
    for line, wanted in zip(lines, expected, strict=True):
        fields = {"tenant": tenant, "peer": "127.0.0.1", "event": "call", **wanted}
        for name, value in fields.items():
            assert line[name] == str(value), (line, wanted)
        assert ("revision" in line) == ("revision" in wanted), (line, wanted)
    text = home.log.read_text()
    for secret in (writer.secret, ana.secret, created.secret, home.operator_key):
        assert secret.split("_")[2] not in text
    assert "a secret" not in text
