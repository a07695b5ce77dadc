"""Addresses of a daemon: TLS, unix sockets, and what is refused."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.access.tls_helpers import Authority
from tests.commands import serve
from tests.conftest import Ctl
from tests.daemons import start
from tests.metrics_helpers import Daemon, running
from tests.patience import eventually
from vikingd import __version__
from vikingd.client import AsyncClient, Client, Unreachable
from vikingd.system import pem


class Listening(NamedTuple):
    """A daemon with its addresses and the files of its certificate, which lacks `unnamed`."""

    daemon: Daemon
    plain: str
    tls: str
    unnamed: str
    unix: str
    authority: Authority
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return the authority that signs the certificates of daemons."""
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return another authority."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask, which new processes inherit."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def addresses(daemon: Daemon, count: int) -> list[str]:
    """Return all addresses that a daemon has said, of which there are so many."""
    assert daemon.process.stdout is not None
    more = [daemon.process.stdout.readline().split()[-1] for _ in range(count - 1)]
    return [daemon.address, *more]


@pytest.fixture(scope="module")
def listening(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[Listening]:
    """Yield a daemon that listens on loopback, with TLS and on a unix socket.

    It starts under umask 0. Its certificate ends soon, until a test replaces it.
    """
    tmp_path = tmp_path_factory.mktemp("listening")
    certificate, key = authority.signed("daemon", "IP:127.0.0.1", days=13)
    with ExitStack() as stack:
        with umask(0):
            daemon = stack.enter_context(
                running(
                    tmp_path / "store",
                    *("--listen", "vikings://127.0.0.1:0,vikings://127.0.0.2:0"),
                    *("--listen", f"unix:{tmp_path}/run/vikingd/50%41.sock"),
                    *("--tls-certificate", str(certificate), "--tls-key", str(key)),
                    *("--provider", "none"),
                )
            )
        plain, tls, unnamed, unix = addresses(daemon, 4)
        yield Listening(daemon, plain, tls, unnamed, unix, authority, certificate, key)


def test_each_address_answers(listening: Listening) -> None:
    """The daemon answers on loopback, with TLS and on its unix socket."""
    assert listening.plain.startswith("127.0.0.1:")
    assert listening.tls.startswith("vikings://127.0.0.1:")
    assert listening.unix.endswith("/run/vikingd/50%41.sock")
    for address in (listening.plain, listening.tls, listening.unix):
        with Client(address, ca=listening.authority.certificate) as client:
            assert client.stats().version == __version__


def test_a_unix_socket_is_for_its_owner_alone(listening: Listening) -> None:
    """Directory and socket have the modes 0700 and 0600, whatever the umask is."""
    path = Path(listening.unix.removeprefix("unix:"))
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


def test_a_certificate_that_ends_soon_is_told(listening: Listening) -> None:
    """A certificate that ends within 14 days is in the log at the start."""
    eventually(lambda: 'event="certificate expires soon"' in listening.daemon.stderr)
    assert "the key of the certificate is open" not in listening.daemon.stderr
    assert "not valid yet" not in listening.daemon.stderr


@pytest.mark.deep
def test_what_keeps_a_connection_from_its_daemon_is_told(
    listening: Listening, stranger: Authority, ctl: Ctl
) -> None:
    """A wrong authority, a wrong host, and TLS at one end alone have each their message."""
    right, wrong = listening.authority.certificate, stranger.certificate
    for address, ca, reason in (
        (listening.tls, right, ""),
        (listening.tls, wrong, "its certificate is refused: unable to get local issuer"),
        (listening.unnamed, right, "is for another host"),
        (listening.tls.removeprefix("vikings://"), right, "may speak TLS: --address vikings://"),
        (f"vikings://{listening.plain}", right, "the port speaks plain text, not TLS"),
    ):
        code, _, err = ctl("stats", "--address", address, "--ca", str(ca))
        assert code == (3 if reason else 0), (address, err)
        assert reason in err.replace("\n", " ")


def both(text: str) -> str:
    """Return an address with a name instead of 127.0.0.1; gRPC takes ::1, too."""
    return text.replace("127.0.0.1", "localhost")


@pytest.mark.deep
@pytest.mark.parametrize("times", [1, pytest.param(6, marks=pytest.mark.deep)])
def test_a_name_with_several_addresses_hides_no_reason(
    listening: Listening,
    stranger: Authority,
    ctl: Ctl,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
) -> None:
    """A host that refuses connections does not hide why another one cannot be used."""
    monkeypatch.delenv("VIKINGD_CA", raising=False)
    right, wrong = str(listening.authority.certificate), str(stranger.certificate)
    plain = both(listening.tls.removeprefix("vikings://"))
    for address, ca, reason in (
        (both(listening.tls), ("--ca", right), "is for another host"),
        (both(listening.tls), ("--ca", wrong), "its certificate is refused: "),
        (both(listening.tls), (), "its certificate is refused: "),
        (plain, (), "may speak TLS: --address vikings://"),
        (both(f"vikings://{listening.plain}"), (), "the port speaks plain text, not TLS"),
        (both(listening.plain), (), ""),
    ):
        for _ in range(times):  # gRPC takes the hosts in any order
            code, _, err = ctl("stats", "--address", address, *ca)
            assert code == (3 if reason else 0), (address, err)
            assert reason in err.replace("\n", " "), (address, ca)
            assert "start one" not in err

    async def ask() -> str:
        async with AsyncClient(both(listening.tls), ca=wrong) as asynchronous:
            with pytest.raises(Unreachable) as refused:
                await asynchronous.stats()
            with pytest.raises(Unreachable) as of_stream:
                async for _ in asynchronous.backup():
                    pass
            assert "its certificate is refused" in str(of_stream.value)
        return str(refused.value)

    assert "its certificate is refused" in asyncio.run(ask())


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    ("begins", "ends", "event", "reason", "hint"),
    [
        (-3, -1, "certificate expired", "certificate has expired", "renews it"),
        (1, 3, "certificate is not valid yet", "certificate is not yet valid", "the clock"),
    ],
)
def test_a_certificate_of_another_time_is_told_at_both_ends(
    tmp_path: Path,
    authority: Authority,
    ctl: Ctl,
    begins: int,
    ends: int,
    event: str,
    reason: str,
    hint: str,
) -> None:
    """The daemon warns, a client gives the reason, and a key that all may read is told."""
    now, day = datetime.now(UTC), timedelta(days=1)
    names = "DNS:localhost,IP:127.0.0.1"
    certificate, key = authority.dated("dated", names, now + begins * day, now + ends * day)
    key.chmod(0o644)
    with running(
        tmp_path / "store",
        *("--listen", "vikings://127.0.0.1:0", "--provider", "none"),
        *("--tls-certificate", str(certificate), "--tls-key", str(key)),
    ) as daemon:
        _, tls = addresses(daemon, 2)
        eventually(lambda: f'event="{event}' in daemon.stderr)
        assert f"file={key} mode=0644" in daemon.stderr
        for address in (tls, both(tls)):
            code, _, err = ctl("stats", "--address", address, "--ca", str(authority.certificate))
            assert code == 3
            assert f"its certificate is refused: {reason}" in err.replace("\n", " ")
            assert hint in err.replace("\n", " ")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_no_tls_before_1_2_is_spoken(listening: Listening) -> None:
    """A handshake of TLS 1.1 is refused, and one of TLS 1.2 is taken."""
    host, _, port = listening.tls.removeprefix("vikings://").rpartition(":")

    def spoken(version: ssl.TLSVersion) -> str | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = version
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((host, int(port)), 10) as raw, context.wrap_socket(raw) as it:
            return it.version()

    assert spoken(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        spoken(ssl.TLSVersion.TLSv1_1)


def test_certificates_are_replaced_without_a_failed_call(
    listening: Listening, tmp_path: Path
) -> None:
    """New files count from the next handshake on, broken ones never, and no call fails."""
    host, _, port = listening.tls.removeprefix("vikings://").rpartition(":")
    ended, failed, calls = threading.Event(), [], [0, 0]

    def shown() -> str:
        return ssl.get_server_certificate((host, int(port)), timeout=10)

    def ask(worker: int) -> None:
        with Client(listening.tls, ca=listening.authority.certificate, retries=False) as kept:
            while not ended.is_set():
                try:
                    kept.stats()
                    # Different options keep gRPC from sharing the connection.
                    with Client(listening.tls, ca=listening.authority.certificate) as new:
                        new.stats()
                except Exception as error:
                    failed.append(error)
                calls[worker] += 1

    def replace(content: bytes, file: Path) -> None:
        new = tmp_path / "new"
        new.touch(0o600)
        new.write_bytes(content)
        new.rename(file)

    workers = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    try:
        before = shown()
        for number in range(5):
            pair = listening.authority.signed(f"new{number}", "IP:127.0.0.1")
            expected = ssl.PEM_cert_to_DER_cert(pair[0].read_text())
            replace(pair[0].read_bytes(), listening.certificate)
            replace(pair[1].read_bytes(), listening.key)
            eventually(lambda new=expected: ssl.PEM_cert_to_DER_cert(shown()) == new)
        assert shown() != before
        now = shown()
        replace(b"no key", listening.key)
        assert [shown() for _ in range(3)] == [now] * 3
        done = list(calls)
        eventually(lambda: all(new > old for new, old in zip(calls, done, strict=True)))
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    assert failed == []
    log = listening.daemon.stderr
    broken = f"{listening.certificate} and {listening.key} are not a certificate and its"
    assert log.count(broken) == 1
    assert log.count('event="certificate loaded"') == 5


def test_clients_need_a_certificate_where_an_authority_for_them_is_named(
    tmp_path: Path, authority: Authority, stranger: Authority, ctl: Ctl
) -> None:
    """With tls.client_ca a client without a certificate of that authority is refused."""
    certificate, key = authority.signed("strict", "IP:127.0.0.1")
    with running(
        tmp_path / "store",
        *("--listen", "vikings://127.0.0.1:0", "--tls-client-ca", str(authority.certificate)),
        *("--tls-certificate", str(certificate), "--tls-key", str(key), "--provider", "none"),
    ) as daemon:
        _, tls = addresses(daemon, 2)
        options = ("stats", "--address", tls, "--ca", str(authority.certificate))
        code, _, err = ctl(*options)
        assert code == 3
        assert "--cert FILE --cert-key FILE" in err
        for signer, code in ((authority, 0), (stranger, 3)):
            own, secret = signer.signed("ana", "DNS:ana")
            given = ctl(*options, "--cert", str(own), "--cert-key", str(secret))
            assert given[0] == code, given
        assert "certificate expires soon" not in daemon.stderr
        with pytest.raises(ValueError, match="a client certificate needs its key"):
            Client(tls, certificate=own)
        with pytest.raises(ValueError, match="is not the key of the certificate"):
            Client(tls, certificate=own, private_key=key)
        with pytest.raises(ValueError, match="holds no certificate of an authority"):
            Client(tls, ca=key)
        with pytest.raises(ValueError, match=r"cannot read .*none\.pem: No such file"):
            Client(tls, ca=tmp_path / "none.pem")


def refusal(store: Path, *options: str) -> str:
    """Return the last line of a daemon that does not start."""
    command = serve(store, "--provider", "none", *options)
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _, said = process.communicate(timeout=120)
    assert process.returncode in (1, 2), said
    return str(said.splitlines()[-1])


def test_the_socket_of_a_killed_daemon_is_replaced_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    """A stale socket does not keep a daemon from its address; a living daemon does."""
    path = tmp_path / "run" / "socket"
    options = ("--listen", f"unix:{path}", "--provider", "none")
    first = Daemon(tmp_path / "store", tmp_path / "log", *options)
    assert addresses(first, 2)[1] == f"unix:{path}"
    taken = f"vikingd: cannot listen on unix:{path}: another daemon listens there"
    assert refusal(tmp_path / "other", "--listen", f"unix:{path}") == taken
    assert refusal(tmp_path / "store", "--reader", "--listen", f"unix:{path}") == taken
    first.process.send_signal(signal.SIGKILL)
    first.stop()
    assert path.is_socket()
    with running(tmp_path / "store", *options) as second:
        addresses(second, 2)
        with Client(f"unix:{path}") as client:
            assert client.stats().version == __version__
    assert not path.exists()


def test_a_socket_that_others_could_replace_is_refused(tmp_path: Path) -> None:
    """A directory that others can write to, and a path that is taken, are refused."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    message = refusal(tmp_path / "store", "--listen", f"unix:{shared}/socket")
    assert message.endswith(f"can write to {shared}; choose a directory with mode 0700")
    shared.chmod(0o755)
    (shared / "file").write_text("mine")
    message = refusal(tmp_path / "store", "--listen", f"unix:{shared}/file")
    assert message.endswith("it exists, and is not a socket")
    assert (shared / "file").read_text() == "mine"
    message = refusal(tmp_path / "store", "--listen", f"unix:{shared}/file/socket")
    assert f"cannot listen on unix:{shared}/file/socket: " in message


def test_files_of_tls_that_cannot_work_end_the_start(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    """A missing file, a key of another certificate and a file that is no PEM are told by name."""
    certificate, key = authority.signed("start", "DNS:localhost")
    _, other = stranger.signed("start", "DNS:localhost")
    for own, secret, reason in (
        (tmp_path / "none.pem", key, f"tls: cannot read {tmp_path}/none.pem: No such file"),
        (certificate, other, f"tls: {other} is not the key of the certificate {certificate}"),
        (key, key, f"tls: {key} and {key} are not a certificate and its unencrypted key"),
    ):
        files = ("--tls-certificate", str(own), "--tls-key", str(secret))
        assert reason in refusal(tmp_path / "s", "--listen", "vikings://127.0.0.1:0", *files)


def test_metrics_and_health_are_told_elsewhere_by_a_token(tmp_path: Path) -> None:
    """With a token the endpoint listens on any address; health is 200 while the daemon serves."""
    token = "0123456789abcdef"
    with running(
        tmp_path / "store",
        *("--metrics-listen", "0.0.0.0:0", "--provider", "none"),
        VIKINGD_METRICS_TOKEN_ENV="VIKINGD_SCRAPE",
        VIKINGD_SCRAPE=token,
    ) as daemon:
        port = daemon.url.rpartition(":")[2].removesuffix("/metrics")
        for path, header, status in (
            ("/metrics", "", b"401"),
            ("/healthz", f"Authorization: Bearer {token[:-1]}\r\n", b"401"),
            ("/metrics", f"Authorization: Bearer {token}\r\n", b"200"),
            ("/healthz", f"authorization: bearer {token}\r\n", b"200"),
        ):
            with socket.create_connection(("127.0.0.1", int(port)), 10) as raw:
                raw.sendall(f"GET {path} HTTP/1.1\r\nHost: vikingd\r\n{header}\r\n".encode())
                assert raw.makefile("rb").readline().split()[1] == status
        assert token not in daemon.stderr


def test_readers_share_a_port_with_tls(tmp_path: Path, authority: Authority) -> None:
    """A reader answers on the port of its writer, with TLS, after the writer is gone."""
    certificate, key = authority.signed("shared", "IP:127.0.0.1")
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key), "--provider", "none")
    store, ca = tmp_path / "store", authority.certificate
    writer = Daemon(store, tmp_path / "log", "--listen", "vikings://127.0.0.1:0", *files)
    _, tls = addresses(writer, 2)
    with running(store, "--reader", "--listen", tls, *files) as reader:
        assert addresses(reader, 2)[1] == tls
        assert writer.stop() == 0
        with Client(tls, ca=ca) as client:
            assert client.stats().version == __version__


def test_plain_tcp_in_a_trusted_network_is_logged(tmp_path: Path) -> None:
    """--trust-network opens plain TCP for other machines, and the log says what that means."""
    with running(
        tmp_path / "store", "--listen", "0.0.0.0:0", "--trust-network", "--provider", "none"
    ) as daemon:
        _, where = addresses(daemon, 2)
        with Client(where.replace("0.0.0.0", "127.0.0.1")) as client:
            assert client.stats().version == __version__
        assert 'event="plain TCP: the network sees keys and contexts" address=0.0.0.0:0' in (
            daemon.stderr
        )


@pytest.mark.parametrize("days", [1, 365, 20_000])
def test_the_times_of_a_certificate_are_those_of_openssl(tmp_path: Path, days: int) -> None:
    """Begin and end are read from certificates with either form of times, until and after 2050."""
    certificate, _ = Authority(tmp_path, "a").signed("b", "DNS:b", days=days)
    command = ["openssl", "x509", "-dates", "-noout", "-dateopt", "iso_8601", "-in", certificate]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    begin, end = (
        datetime.strptime(line.partition("=")[2], "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=UTC)
        for line in said.splitlines()
    )
    assert pem.validity(certificate.read_bytes()) == (begin, end)
