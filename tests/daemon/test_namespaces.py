"""A daemon asked from another machine, which is a network namespace as a container has one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.access.tls_helpers import Authority
from tests.commands import serve
from tests.daemon.namespace_helpers import DAEMON, OTHER, UNNAMED, Network, network, python
from tests.metrics_helpers import Daemon
from tests.patience import eventually
from vikingd.client import Client, ClientError, Draft

pytestmark = pytest.mark.deep

NOTE = "viking://resources/note.md"


@dataclass(frozen=True, slots=True)
class House:
    """A daemon that listens on all addresses of its machine, and commands on the other machine.

    The certificate is for the address DAEMON, and lacks the address UNNAMED.
    """

    network: Network
    daemon: Daemon
    port: int
    socket: str
    authority: Authority
    certificate: Path
    private_key: Path

    @property
    def tls(self) -> str:
        """The address of the daemon for the other machine."""
        return f"vikings://{DAEMON}:{self.port}"

    def ctl(self, *arguments: str, key: str = "", **options: str) -> tuple[int, str, str]:
        """Run vikingctl on the other machine; return exit code, stdout and stderr."""
        options = {"address": self.tls, "ca": str(self.authority.certificate)} | options
        given = [f"--{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            [*self.network.other, sys.executable, "-m", "vikingd.ctl.main", *arguments, *given],
            # So wide that no line of an error wraps.
            env=_without_settings() | {"VIKINGD_KEY": key, "COLUMNS": "500"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    @contextmanager
    def asking(self, call: str, key: str) -> Iterator[subprocess.Popen[str]]:
        """Run a function of this module on the other machine."""
        with subprocess.Popen(
            [*self.network.other, *python(__name__, call)],
            env=_without_settings()
            | {"VIKINGD_KEY": key, "VIKINGD_CA": str(self.authority.certificate)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            yield process

    def operator(self, key: str) -> Client:
        """Return a client on the unix socket, which is open on the daemon's machine alone."""
        return Client(self.socket, key=key)

    def audited(self) -> list[str]:
        """Return the lines of the audit log."""
        return [line for line in self.daemon.stderr.splitlines() if "logger=vikingd.audit" in line]


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("VIKINGD_")}


@contextmanager
def opened(directory: Path, where: Network, *options: str) -> Iterator[House]:
    """Run a daemon with TLS in its network namespace."""
    authority = Authority(directory, "authority")
    certificate, private_key = authority.signed("daemon", f"IP:{DAEMON}")
    daemon = Daemon(
        directory / "store",
        directory / "log",
        *("--listen", "vikings://0.0.0.0:0", "--listen", f"unix:{directory}/run/socket"),
        *("--tls-certificate", str(certificate), "--tls-key", str(private_key)),
        *("--provider", "none", *options),
        before=where.daemon,
    )
    assert daemon.process.stdout is not None
    tls, socket = (daemon.process.stdout.readline().split()[-1] for _ in range(2))
    port = int(tls.rpartition(":")[2])
    yield House(where, daemon, port, socket, authority, certificate, private_key)
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.stderr


@pytest.fixture(scope="module")
def joined() -> Iterator[Network]:
    """Yield two machines."""
    with network() as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, joined: Network) -> Iterator[House]:
    """Yield a daemon without keys."""
    with opened(tmp_path_factory.mktemp("house"), joined) as made:
        yield made


@pytest.fixture(scope="module")
def operator(house: House) -> str:
    """Return the key of an operator; from then on each call needs a key."""
    with house.operator("") as client:
        key = client.create_key(operator=True).secret
    with house.operator(key) as client:
        client.put([Draft(NOTE, content="Oolong: 90 degrees.")])
    return key


def reader(house: House, operator: str, **options: timedelta) -> tuple[str, str]:
    """Return the id and the text of a new key that may read."""
    with house.operator(operator) as client:
        made = client.create_key(read=("viking://resources",), **options)
        return made.key.id, made.secret


def test_before_the_first_key_others_are_told_who_creates_it(
    tmp_path: Path, joined: Network
) -> None:
    """Without any key the other machine is refused, and learns where the first one is made."""
    with opened(tmp_path, joined) as empty:
        code, _, err = empty.ctl("ls", "viking://")
        assert code == 5
        assert "create the first one on the daemon's machine" in err
        assert "`vikingctl keys create --operator`" in err
        code, _, err = empty.ctl("keys", "create", "--operator")
        assert code == 5
        with empty.operator("") as client:
            assert client.list_keys().keys == ()


def test_the_right_key_and_authority_work(house: House, operator: str) -> None:
    """A key gives what it may give to the other machine, and no more."""
    key_id, key = reader(house, operator)
    code, out, err = house.ctl("get", NOTE, "--content", key=key)
    assert (code, out.strip()) == (0, "Oolong: 90 degrees."), err
    code, _, err = house.ctl("rm", NOTE, key=key)
    assert code == 5
    assert f"the key {key_id}" in err
    assert any(
        f"who={key_id}" in line and f"peer={OTHER}" in line and "code=PERMISSION_DENIED" in line
        for line in house.audited()
    )


@pytest.mark.deep
def test_keys_that_are_not_valid_are_refused(house: House, operator: str) -> None:
    """Each kind of refusal tells the caller its reason, and the operator the key and the peer."""
    expired_id, expired = reader(house, operator, expires_in=timedelta(seconds=2))
    expires_at = time.monotonic() + 2
    revoked_id, revoked = reader(house, operator)
    with house.operator(operator) as client:
        client.revoke_key(revoked_id)
    wrong = revoked[:-1] + ("0" if revoked[-1] != "0" else "1")
    time.sleep(max(0, expires_at - time.monotonic()))
    for key, who, reason in (
        ("", "", "a key is needed: send it as `authorization: Bearer KEY` (vikingctl: VIKINGD_K"),
        ("vk_short", "", "the key is malformed: it must be vk_ID_SECRET"),
        (wrong, "", "the key is not valid"),
        (expired, expired_id, f"the key {expired_id} has expired"),
        (revoked, revoked_id, f"the key {revoked_id} is revoked"),
    ):
        before = len(house.audited())
        code, out, err = house.ctl("get", NOTE, key=key)
        assert (code, out) == (5, ""), err
        assert reason in err
        (line,) = house.audited()[before:]
        for part in (f"who={who} ", f"peer={OTHER} ", "method=Get ", "code=UNAUTHENTICATED"):
            assert part in line
        assert not key or key.rpartition("_")[2] not in err + house.daemon.stderr


@pytest.mark.deep
def test_connections_that_are_not_safe_are_refused(
    house: House, operator: str, tmp_path: Path
) -> None:
    """A wrong authority, another host's name and plain text end before a key is sent."""
    stranger = Authority(tmp_path, "stranger")
    plain = f"{DAEMON}:{house.port}"
    before = house.audited()
    for options, arguments, exit_code, reason, hint in (
        (
            {"ca": str(stranger.certificate)},
            (),
            3,
            "its certificate is refused: unable to get local issuer certificate",
            "--ca FILE names the authorities that may have signed it",
        ),
        (
            {"address": f"vikings://{UNNAMED}:{house.port}"},
            (),
            3,
            "its certificate is for another host",
            "connect to a name or an IP address that the certificate has",
        ),
        (
            {"address": plain},
            (),
            2,
            f"a key is not sent to {plain} in plain text: connect to vikings://{plain}",
            "--trust-network",
        ),
        (
            {"address": plain},
            ("--trust-network",),
            3,
            "it closed the connection",
            "the port may speak TLS: --address vikings://HOST:PORT --ca FILE",
        ),
    ):
        code, out, err = house.ctl("get", NOTE, *arguments, key=operator, **options)
        assert (code, out) == (exit_code, ""), err
        assert reason in err.replace("\n", " ")
        assert hint in err.replace("\n", " ")
        assert operator not in err
    assert house.audited() == before


def test_loopback_of_the_daemons_machine_is_not_reached(house: House, operator: str) -> None:
    """The other machine reaches neither the plain port of the daemon nor one on its own side."""
    code, _, err = house.ctl("get", NOTE, key=operator, address=house.daemon.address)
    assert code == 3
    assert f"no daemon answers at {house.daemon.address}" in err


def ask(address: str) -> None:
    """Get a context over one connection for each line of stdin, and print what came of it."""
    with Client(address, retries=False) as client:
        for _ in sys.stdin:
            try:
                print(client.get(NOTE).content, flush=True)
            except ClientError as error:
                print(error.code.name, error.message, flush=True)


def test_a_revoked_key_fails_at_its_next_call(house: House, operator: str) -> None:
    """An open connection from the other machine is of no use after the revocation."""
    key_id, key = reader(house, operator)
    with house.asking(f"ask({house.tls!r})", key) as process:

        def told() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline()

        assert [told() for _ in range(3)] == ["Oolong: 90 degrees.\n"] * 3
        with house.operator(operator) as client:
            client.revoke_key(key_id)
        assert told() == f"UNAUTHENTICATED the key {key_id} is revoked\n"
        assert process.stdin is not None
        process.stdin.close()


def load(address: str, workers: int) -> None:
    """Call over kept and new connections until stdin ends; print calls and failures as JSON."""
    ended, failed, calls = threading.Event(), [], [0] * workers

    def work(worker: int) -> None:
        with Client(address, retries=False) as kept:
            while not ended.is_set():
                try:
                    assert kept.get(NOTE).content
                    # Another key file keeps gRPC from sharing the connection.
                    with Client(address, retries=False) as new:
                        assert new.get(NOTE).content
                except Exception as error:
                    failed.append(str(error))
                calls[worker] += 2

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"calls": calls, "failed": failed}))


def test_certificates_are_replaced_under_load(house: House, operator: str) -> None:
    """Calls with keys from the other machine go on while ten new certificates come."""
    _, key = reader(house, operator)
    loaded = 'event="certificate loaded"'
    with house.asking(f"load({house.tls!r}, 3)", key) as process:
        for number in range(1, 11):
            pair = house.authority.signed(f"new{number}", f"IP:{DAEMON}")
            for new, file in zip(pair, (house.certificate, house.private_key), strict=True):
                new.rename(file)
            # Only a handshake loads the files, so the load has made a new connection.
            eventually(lambda so_far=number: house.daemon.stderr.count(loaded) == so_far)
        assert process.poll() is None
        out, _ = process.communicate(timeout=60)
    report = json.loads(out)
    assert report["failed"] == []
    assert min(report["calls"]) >= 2


@pytest.mark.deep
def test_a_client_certificate_counts_as_its_key(tmp_path: Path, joined: Network) -> None:
    """Where an authority for clients is named, the subject of a certificate has a key's rights."""
    clients = Authority(tmp_path, "clients")
    robot, other = clients.signed("robot", "DNS:robot"), clients.signed("other", "DNS:other")
    asked = ("--tls-client-ca", str(clients.certificate))
    with opened(tmp_path, joined, *asked) as strict:
        with strict.operator("") as client:
            key = client.create_key(operator=True).secret
        with strict.operator(key) as client:
            client.put([Draft(NOTE, content="Oolong: 90 degrees.")])
            client.create_key(read=("viking://resources",), certificate_subject="CN=robot")
        for (certificate, secret), exit_code, said in (
            (robot, 0, "Oolong"),
            (other, 5, "a key is needed"),
        ):
            code, out, err = strict.ctl(
                "get", NOTE, "--cert", str(certificate), "--cert-key", str(secret)
            )
            assert code == exit_code, err
            assert said in out + err
        code, _, err = strict.ctl("get", NOTE, key=key)
        assert code == 3
        assert "it may need a certificate of yours: --cert FILE --cert-key FILE" in err


def test_plain_tcp_for_others_needs_a_word(tmp_path: Path, joined: Network) -> None:
    """Plain TCP on the second address is refused by the configuration, unless by name."""
    command = serve(tmp_path / "store", "--provider", "none", "--listen", f"{DAEMON}:0")
    done = subprocess.run(
        [*joined.daemon, *command],
        env=_without_settings(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert f"other machines reach {DAEMON}:0" in done.stderr
    assert "--trust-network" in done.stderr
    assert not (tmp_path / "store").exists()
