"""The machines: two databases with replication, nodes, and a proxy on each way between them."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.cluster.proxy import Proxies, Proxy, State
from tests.commands import serve_only
from tests.postgres_servers import Server, free_port
from vikingd.client import Client, ClientError

_SECONDS = 280.0  # for a node to serve; the first start of a machine compiles kernels
ENDS = ("pg_cancel_backend", "pg_terminate_backend", "restart")
"""Ways to end the wait of a commit for the standby, which then may lack it."""

_WAITS = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
_IN_SYNC = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Node:
    """A vikingd over the databases.

    Attributes:
        address: of gRPC.
        proxies: to each database.
        process: None while it is dead.
    """

    def __init__(self, path: Path, proxies: tuple[Proxy, Proxy]) -> None:
        self.path = path
        self.proxies = proxies
        self.address = f"127.0.0.1:{free_port()}"
        self.process: subprocess.Popen[str] | None = None
        self.log = path.with_suffix(".log")

    def start(self) -> None:
        """Start, without waiting until it serves."""
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies)
        url = f"postgresql://postgres@{hosts}/postgres"
        options = ("--provider", "none", "--listen", self.address, "--store", url)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                serve_only(self.path, "--log-level", "warning", *options),
                stdout=log,
                stderr=log,
                text=True,
            )

    def wait(self) -> None:
        """Wait until it serves."""
        ends = time.monotonic() + _SECONDS
        with Client(self.address, timeout=5, retries=False) as client:
            while True:
                with suppress(ClientError):
                    client.stats()
                    return
                assert self.process is not None
                if self.process.poll() is not None or time.monotonic() > ends:
                    raise RuntimeError(f"a node does not start: {self.log.read_text()[-2000:]}")
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def cut(self, state: State) -> None:
        """Change its ways to the databases."""
        for proxy in self.proxies:
            proxy.set(state)


class Machines:
    """The databases and the nodes.

    Args:
        directory: of nodes.
        room: of databases, which their user can enter.
        nodes: how many there are.
        is_sync: an acknowledged commit is on both databases.
    """

    def __init__(self, directory: Path, room: Path, nodes: int, *, is_sync: bool = True) -> None:
        self._room = room
        self._is_sync = is_sync
        self._made = 0
        self._proxies = Proxies()
        self.primary, self.standby = self._server(), self._server()
        self._slots = [self.primary, self.standby]
        self.primary.make()
        self.primary.start()
        self.standby.copy(self.primary)
        self.standby.start()
        self.synchronize()
        self.nodes = [self._node(directory / f"node{number}") for number in range(nodes)]
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait()

    def _server(self) -> Server:
        self._made += 1
        return Server(self._room / f"data{self._made}", "wal_receiver_status_interval=1")

    def _node(self, path: Path) -> Node:
        first = self._proxies.make(lambda: self._slots[0].port)
        second = self._proxies.make(lambda: self._slots[1].port)
        return Node(path, (first, second))

    @property
    def addresses(self) -> str:
        """The addresses of all nodes, for a client."""
        return ",".join(node.address for node in self.nodes)

    def synchronize(self) -> None:
        """Let commits wait for the standby, once it is there."""
        if self._is_sync:
            self._set("synchronous_standby_names", "standby")
            self.primary.wait(_IN_SYNC)

    def _set(self, name: str, value: str) -> None:
        self.primary.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.primary.execute("SELECT pg_reload_conf()")

    def fall_behind(self) -> int:
        """Stop the replication; return the revision of the standby, which gets no other one."""
        self.standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.execute("SELECT pg_reload_conf()")
        self.standby.wait("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)")
        with psycopg.connect(self.standby.url) as db:
            row = db.execute("SELECT revision FROM vikingd.tenants").fetchone()
        assert row is not None
        return int(row[0])

    def fail_over(self, seconds: float) -> None:
        """Kill the primary, promote the standby after some seconds, and begin a new standby."""
        dead, self.primary = self.primary, self.standby
        dead.kill()
        time.sleep(seconds)
        if not self.primary.runs:
            self.primary.start()
        self.primary.promote()
        if self._is_sync:
            self._set("synchronous_standby_names", "")  # until there is a standby again
        self.standby = self._server()
        self.standby.copy(self.primary)
        self.standby.start()
        dead.remove()
        self._slots[self._slots.index(dead)] = self.standby
        self.synchronize()

    def end_waits(self, how: str) -> None:
        """Take the standby away, and end the waits of the commits that then wait for it.

        Args:
            how: one of ENDS.
        """
        self.standby.kill()
        self.primary.wait(_WAITS)
        if how == "restart":
            self.primary.stop()
            self.primary.start()
            return
        for _ in range(3):  # the waits after it, too
            self.primary.execute(f"SELECT {how}(pid) FROM ({_WAITS}) AS waiting")
            time.sleep(0.2)

    def bring_back(self) -> None:
        """Start the standby again."""
        self.standby.start()
        self.primary.wait(_IN_SYNC)

    def stop(self) -> None:
        """End all processes."""
        for node in self.nodes:
            node.kill()
        self._proxies.stop()
        self.standby.stop()
        self.primary.stop()
