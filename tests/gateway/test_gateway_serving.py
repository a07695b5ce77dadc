"""The gateway as a process: its connections, TLS, its start and end, alone and with a daemon."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.access.tls_helpers import Authority
from tests.commands import VIKINGD, serve_only
from tests.daemons import start
from tests.gateway.gateway_helpers import Gateway, gateway_of, response
from tests.metrics_helpers import Daemon, running
from tests.patience import eventually
from vikingd import __version__
from vikingd.config import ConfigError, load

SHORT = "from vikingd.gateway import connections\nconnections.SECONDS = 0.5"
FIND = "/v1/find?q=a"


def is_closed(connection: socket.socket) -> bool:
    """Return whether the other end closes a connection within 10 s."""
    connection.settimeout(10)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def get(connection: socket.socket, gateway: Gateway, path: str = FIND) -> int:
    """Send a request on a connection that stays open; return the status."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {gateway.host}\r\n\r\n".encode())
    return response(connection)[0]


@pytest.fixture(scope="module")
def impatient(daemon: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a gateway that waits half a second for its callers."""
    with gateway_of(daemon, tmp_path_factory.mktemp("impatient"), changed=SHORT) as made:
        yield made


@pytest.mark.deep
def test_slow_heads_and_idle_connections_end(impatient: Gateway) -> None:
    """A head that does not arrive in time ends its connection: the first one and a later one."""
    with impatient.connect() as slow:
        assert drips_until_closed(slow, b"GET /v1/find?q=" + b"a" * 100)
    with impatient.connect() as second:
        assert get(second, impatient) == 200
        assert drips_until_closed(second, b"GET /v1/find?q=" + b"a" * 100)
    with impatient.connect() as idle:
        assert get(idle, impatient) == 200
        assert is_closed(idle)


@pytest.mark.deep
def test_only_a_wait_for_a_head_ends_a_connection(impatient: Gateway) -> None:
    """A silent connection ends; each response begins the time again, and a call may be longer."""
    with impatient.connect() as silent:
        assert is_closed(silent)
    with impatient.connect() as busy:
        for _ in range(4):
            time.sleep(0.25)
            assert get(busy, impatient) == 200
    started = time.perf_counter()
    with impatient.connect() as waiting:
        assert get(waiting, impatient, "/v1/tree?minRevision=999999&timeout=1.5") == 504
    assert time.perf_counter() - started > 1.2


def drips_until_closed(connection: socket.socket, data: bytes) -> bool:
    """Send a byte every 50 ms; return whether the other end closes the connection."""
    connection.settimeout(0.05)
    for byte in data:
        try:
            connection.sendall(bytes([byte]))
            if not connection.recv(1):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


@pytest.mark.deep
def test_a_client_that_does_not_read_is_dropped(impatient: Gateway) -> None:
    """A response that nobody takes ends with its connection."""
    eventually(lambda: connections_of(impatient) == 0)  # those of other tests
    with impatient.connect() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = f"GET /v1/openapi.json HTTP/1.1\r\nhost: {impatient.host}\r\n\r\n".encode()
        deaf.sendall(request * 100)  # 12 MB of responses
        eventually(lambda: connections_of(impatient) == 0)


def connections_of(gateway: Gateway) -> int:
    """Return the number of open connections to a gateway, as the kernel knows them."""
    port = f":{int(gateway.host.rpartition(':')[2]):04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)


def test_connections_are_bounded(daemon: str, tmp_path: Path) -> None:
    """A connection too many is refused, and one that ends makes room."""
    changed = "from vikingd.gateway import connections\nconnections.MOST = 3"
    with gateway_of(daemon, tmp_path, changed=changed) as gateway:
        kept = [gateway.connect() for _ in range(3)]
        for connection in kept:
            assert get(connection, gateway) == 200
        with gateway.connect() as more:
            status, body = response(more)
            assert status == 503
            assert json.loads(body)["details"][0]["reason"] == "UNREACHABLE"
            assert is_closed(more)
        assert get(kept[0], gateway) == 200
        for connection in kept:
            connection.close()
        eventually(lambda: gateway.get(FIND).status_code == 200)


def test_what_is_no_http_is_told(gateway: Gateway) -> None:
    """Bytes that are no request, and a head that is too large, are 400 in the form of errors."""
    long = "a" * 20_000
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\x01 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1",
        f"GET / HTTP/1.1\r\nhost: {gateway.host}\r\nx: {long}".encode(),
    ):
        with gateway.connect() as connection:
            connection.sendall(data)
            status, body = response(connection)
            assert status in (400, 421), data[:40]
            assert json.loads(body)["details"][0]["domain"] == "viking.retrieval.v1"
    with gateway.connect() as connection:  # broken after a response has begun
        head = f"POST /v1/find HTTP/1.1\r\nhost: {gateway.host}\r\ncontent-type: text/html\r\n"
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\nxyz\r\n".encode())
        assert response(connection)[0] in (0, 400, 415)
        assert is_closed(connection)
    assert gateway.get(FIND).status_code == 200


def test_requests_of_one_connection_are_not_delayed(gateway: Gateway) -> None:
    """The kernel does not hold back the end of a response until its beginning is acknowledged."""
    with gateway.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = []
        for _ in range(15):
            started = time.perf_counter()
            assert get(connection, gateway, "/session") == 200
            times.append(time.perf_counter() - started)
    assert sorted(times)[7] < 0.03  # a delayed acknowledgement takes 40 ms


@pytest.mark.deep
def test_a_stop_finishes_running_requests(tmp_path: Path) -> None:
    """SIGTERM refuses new connections, lets a request finish, and ends with exit code 0."""
    with running(tmp_path / "store", "--provider", "none") as daemon:
        gateway = Gateway(daemon.address, tmp_path / "log")
        with gateway.connect() as connection:
            path = "/v1/tree?minRevision=99999&timeout=1.5"
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {gateway.host}\r\n\r\n".encode())
            time.sleep(0.5)
            gateway.process.send_signal(signal.SIGTERM)
            assert response(connection)[0] == 504
        assert gateway.process.wait(10) == 0
        assert "Traceback" not in gateway.log
        gateway.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return an authority that signs certificates."""
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


def secure(
    authority: Authority, directory: Path, daemon: str, *options: str
) -> tuple[Gateway, Path, Path]:
    """Return a gateway with TLS, and the files of its certificate."""
    certificate, key = authority.signed("first", "IP:127.0.0.1", days=13)
    own = directory / "cert.pem", directory / "key.pem"
    own[0].write_bytes(certificate.read_bytes())
    own[1].write_bytes(key.read_bytes())
    context = ssl.create_default_context(cafile=authority.certificate)
    files = ("--tls-certificate", str(own[0]), "--tls-key", str(own[1]))
    listen = ("--listen", "https://127.0.0.1:0")
    said = directory / "gateway.log"
    return Gateway(daemon, said, *listen, *files, *options, verify=context), *own


def test_tls_has_its_certificate_and_reloads_it(
    authority: Authority, daemon: str, tmp_path: Path
) -> None:
    """https:// serves the certificate of [tls], and a new one from the next handshake on."""
    gateway, certificate, key = secure(authority, tmp_path, daemon)
    try:
        assert gateway.url.startswith("https://127.0.0.1:")
        assert gateway.get(FIND).status_code == 200
        origin = gateway.url.replace("https", "http")
        assert gateway.get(FIND, origin=origin).status_code == 403  # somebody on the way
        assert gateway.get(FIND, origin=gateway.url).status_code == 200
        assert 'event="certificate expires soon"' in gateway.log
        assert served_name(gateway, authority) == "first"
        second, second_key = authority.signed("second", "IP:127.0.0.1")
        key.write_bytes(second_key.read_bytes())  # for a moment they do not belong together
        assert served_name(gateway, authority) == "first"
        certificate.write_bytes(second.read_bytes())
        assert served_name(gateway, authority) == "second"
        assert gateway.get(FIND).status_code == 200
        assert gateway.log.count('event="the new certificate is refused, the old stays"') == 1
        assert gateway.log.count('event="certificate loaded"') == 1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            served_name(gateway, authority, ssl.TLSVersion.TLSv1_1)
        assert served_name(gateway, authority, ssl.TLSVersion.TLSv1_2) == "second"
        with pytest.raises(httpx.HTTPError):
            httpx.get(gateway.url.replace("https", "http"), trust_env=False)
    finally:
        assert gateway.stop() == 0


def served_name(
    gateway: Gateway, authority: Authority, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> str:
    """Return the common name of the certificate that a handshake shows."""
    context = ssl.create_default_context(cafile=authority.certificate)
    with warnings.catch_warnings(action="ignore"):  # of old versions, which shall fail
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = newest
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        gateway.connect() as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as wrapped,
    ):
        (((_, name),),) = wrapped.getpeercert()["subject"]  # type: ignore[index,misc]
        return str(name)


def test_clients_need_a_certificate_where_an_authority_is_named(
    authority: Authority, daemon: str, tmp_path: Path
) -> None:
    """With tls.client_ca a client without a certificate of that authority has no answer."""
    file = tmp_path / "ca.toml"
    file.write_text(f"[tls]\nclient_ca = '{authority.certificate}'\n")
    gateway, *_ = secure(authority, tmp_path, daemon, "--config", str(file))
    try:
        with pytest.raises(httpx.HTTPError):
            gateway.get(FIND)
        context = ssl.create_default_context(cafile=authority.certificate)
        context.load_cert_chain(*authority.signed("client", "DNS:client"))
        with httpx.Client(base_url=gateway.url, verify=context, trust_env=False) as client:
            assert client.get(FIND).status_code == 200
    finally:
        assert gateway.stop() == 0


def test_a_certificate_of_the_gateway_is_not_that_of_its_callers(
    authority: Authority, tmp_path: Path
) -> None:
    """A gateway that proves itself to the daemon sends no call without a key."""
    files = authority.signed("daemon", "IP:127.0.0.1")
    tls = ("--tls-certificate", str(files[0]), "--tls-key", str(files[1]))
    ca = ("--tls-client-ca", str(authority.certificate))
    own = authority.signed("door", "DNS:door")
    store = tmp_path / "store"
    with running(store, *tls, *ca, "--listen", "vikings://127.0.0.1:0", "--provider", "none") as d:
        assert d.process.stdout is not None
        address = d.process.stdout.readline().split()[-1]
        operator = d.client.create_key(operator=True).secret
        d.client = type(d.client)(d.address, key=operator)
        d.client.create_key(read=("viking://",), certificate_subject="CN=door")
        environment = {
            "VIKINGD_CA": str(authority.certificate),
            "VIKINGD_CERT": str(own[0]),
            "VIKINGD_CERT_KEY": str(own[1]),
        }
        with gateway_of(address, tmp_path, environment=environment) as gateway:
            assert gateway.get(FIND).status_code == 401
            bearer = f"Bearer {operator}"
            assert gateway.get(FIND, authorization=bearer).status_code == 200


def refusal(*options: str) -> str:
    """Return the line with which a command line of the daemon ends."""
    command = [*VIKINGD, *options, "--config", os.devnull]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in said
    assert said.startswith("vikingd: ")
    return str(said)


def test_addresses_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    """One line names the address, the daemon or the file, also where a daemon starts both."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {address}" in refusal("gateway", "--listen", address)
        both = ("--gateway", address, "--path", str(tmp_path / "a"), "--provider", "none")
        assert f"cannot listen on {address}" in refusal("serve", *both, "--listen", "127.0.0.1:0")
    missing = ("--tls-certificate", "/none.pem", "--tls-key", "/none.key")
    serve = ("serve", "--path", str(tmp_path / "a"), "--provider", "none", "--gateway")
    for command in (("gateway", "--listen"), serve):
        assert "/none.pem" in refusal(*command, "https://127.0.0.1:0", *missing)


def test_settings_that_cannot_be_used_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal names the setting, its value and the remedy."""

    def refused(**gateway: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load(Path(os.devnull), {"gateway": gateway})
        return str(caught.value)

    assert "https://0.0.0.0:80" in refused(listen="0.0.0.0:80")
    assert "needs a certificate" in refused(listen="https://127.0.0.1:0")
    for listen in ("unix:/tmp/a", "nothing", "vikings://127.0.0.1:0", "http://a", ""):
        says = f"gateway.listen: {listen!r} is not HOST:PORT or https://HOST:PORT"
        assert refused(listen=listen).startswith(says), listen
    assert "example.org is not an IP address" in refused(listen="https://example.org:80")
    assert "vikings://10.0.0.1:7716" in refused(daemon="10.0.0.1:7716")
    assert refused(daemon="viking://resources").startswith("gateway.daemon: ")
    for host in ("http://b", "b:80", "*", "a b"):
        assert refused(hosts=f"a.example,{host}").startswith("gateway.hosts: "), host
    for origin in ("a.example", "https://a.example/", "*", "null"):
        assert refused(origins=origin).startswith("gateway.origins: "), origin
    monkeypatch.setenv("VIKINGD_GATEWAY__HOSTS", "A.example, [::1]")
    monkeypatch.setenv("VIKINGD_GATEWAY__LISTEN", "https://localhost:1")
    monkeypatch.setenv("VIKINGD_TLS__CERTIFICATE", "/cert.pem")
    monkeypatch.setenv("VIKINGD_TLS__KEY", "/key.pem")
    gateway = load(Path(os.devnull)).settings.gateway
    assert (gateway.hosts, gateway.listen) == (("a.example", "[::1]"), "https://127.0.0.1:1")


class Both:
    """A daemon with its gateway."""

    def __init__(self, daemon: Daemon) -> None:
        assert daemon.process.stdout is not None
        self.daemon = daemon
        line = daemon.process.stdout.readline()
        assert line.startswith(f"vikingd {__version__} gateway on http://127.0.0.1:")
        self.url = line.split()[-1]

    @property
    def pids(self) -> list[int]:
        """The process ids of all gateways that the log tells of."""
        found = re.findall(r'event="gateway started" url=\S+ pid=(\d+)', self.daemon.stderr)
        return [int(pid) for pid in found]

    def status(self) -> int:
        """Return the status of a find."""
        return httpx.get(self.url + FIND, trust_env=False, timeout=20).status_code


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.deep
def test_the_gateway_starts_again_and_ends_with_its_daemon(tmp_path: Path) -> None:
    """A killed gateway starts again at its address, and connections wait meanwhile."""
    options = ("--provider", "none", "--gateway", "127.0.0.1:0")
    both = Both(Daemon(tmp_path / "store", tmp_path / "log", *options))
    assert both.status() == 200
    eventually(lambda: len(both.pids) == 1)
    os.kill(both.pids[0], signal.SIGKILL)
    assert both.status() == 200  # it waited
    assert 'event="gateway ended" how="exit code -9"' in both.daemon.stderr
    eventually(lambda: len(both.pids) == 2)
    assert both.daemon.client.stats().version == __version__
    assert both.daemon.stop() == 0
    assert "event=stopped" in both.daemon.stderr
    assert not any(map(is_alive, both.pids))


@pytest.mark.deep
def test_the_gateway_starts_again_and_ends_with_a_killed_daemon(tmp_path: Path) -> None:
    """A killed gateway starts again at its address; a killed daemon leaves none behind."""
    options = ("--provider", "none", "--gateway", "127.0.0.1:0")
    daemon = Daemon(tmp_path / "store", tmp_path / "log", *options)
    both = Both(daemon)
    eventually(lambda: len(both.pids) == 1)
    os.kill(both.pids[0], signal.SIGKILL)
    assert both.status() == 200  # it waited
    eventually(lambda: len(both.pids) == 2)
    daemon.process.kill()
    daemon.process.communicate(timeout=20)
    eventually(lambda: not any(map(is_alive, both.pids)))


@pytest.mark.deep
def test_a_request_of_the_gateway_is_finished_with_its_daemon(tmp_path: Path) -> None:
    """When both stop, a running request gets its answer."""
    options = ("--provider", "none", "--gateway", "127.0.0.1:0")
    both = Both(Daemon(tmp_path / "store", tmp_path / "log", *options))
    answers: list[int] = []

    def ask() -> None:
        url = f"{both.url}/v1/tree?minRevision=99999&timeout=1.5"
        answers.append(httpx.get(url, trust_env=False, timeout=20).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.7)
    assert both.daemon.stop() == 0
    asking.join(20)
    assert answers == [504]
    assert "event=stopped" in both.daemon.stderr


@pytest.mark.deep
def test_a_gateway_needs_an_address_without_tls(authority: Authority, tmp_path: Path) -> None:
    """A daemon with TLS alone names the remedy, and starts no gateway."""
    certificate, key = authority.signed("tls", "IP:127.0.0.1")
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    command = serve_only(
        tmp_path / "store",
        *("--listen", "vikings://127.0.0.1:0", "--provider", "none", *files),
        *("--gateway", "127.0.0.1:0"),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "gateway.daemon" in done.stderr
