"""Notifications of commits: PostgreSQL tells this node about the commits of all nodes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg.rows import TupleRow

from vikingd.domain.errors import StoreAway
from vikingd.store.postgres.postgres_connection import connect
from vikingd.store.postgres.postgres_faults import without_password

CHANNEL = "vikingd"
"""The NOTIFY channel. Payloads are "TENANT REVISION"; for keys and limits, TENANT is ""."""

_POLL = 1.0  # seconds; a lost notification is made up for after so long
_PAUSE = 0.5  # seconds between two attempts to connect
_THREADS = 4  # that follow; one may build an index again, which takes long
_STATES = """
SELECT tenant, store || ' ' || epoch || ' ' || revision FROM vikingd.tenants
WHERE tenant = ANY($1)
UNION ALL SELECT '', value::text FROM vikingd_access.state WHERE name = 'changes'
UNION ALL SELECT $2, extract(epoch FROM clock_timestamp())::text
"""
_CLOCK = " clock"  # no name of a tenant
_CLOCKS_DIFFER = 5.0  # seconds

_log = logging.getLogger(__name__)


class Subscription:
    """A callback `on_change` that runs after the commits of one tenant.

    Its calls do not overlap. One call may stand for several commits.
    """

    def __init__(self, listener: Listener, tenant: str, on_change: Callable[[], object]) -> None:
        self.tenant = tenant
        self.state = ""  # at the last poll
        self.has_failed = False
        self._listener = listener
        self._on_change = on_change
        self._condition = threading.Condition()
        self._is_due = self._runs = self._is_stopped = False

    def wake(self) -> None:
        """Schedule a call of `on_change` on a thread of the listener."""
        with self._condition:
            if self._is_stopped:
                return
            self._is_due = True
            if self._runs:
                return
            self._runs = True
        self._listener.submit(self._run)

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._is_stopped or not self._is_due:
                    self._runs = False
                    self._condition.notify_all()
                    return
                self._is_due = False
            try:
                self._on_change()
                self.has_failed = False
            except StoreAway:  # the listener has told, and the next poll repeats it
                self.has_failed = True
            except Exception as error:
                self.has_failed = True
                _log.warning("a commit could not be followed, it is tried again: %s", error)

    def stop(self) -> None:
        """Make no more calls of `on_change`, and wait until a running call has ended."""
        self._listener.forget(self)
        with self._condition:
            self._is_stopped = True
            self._condition.wait_for(lambda: not self._runs)


class Listener:
    """A connection that listens to the commits of all nodes, for all tenants of this node.

    It also polls the database once a second. The poll makes up for lost notifications, and shows
    whether the database still answers.

    Args:
        url: the URL of the database.

    Attributes:
        fault: the reason why the database cannot be reached; "" while it can be.
        answered: the time of the last answer, by the monotonic clock.
        connection: the present connection; None while there is none.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopped = threading.Event()
        self.fault = ""
        self.answered = time.monotonic()
        self.connection: psycopg.Connection[TupleRow] | None = None
        self._clock_is_off = False
        self._lock = threading.Lock()
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._pool = ThreadPoolExecutor(_THREADS, "store-follower")
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def subscribe(self, tenant: str, on_change: Callable[[], object]) -> Subscription:
        """Call `on_change` now and after each commit of a tenant.

        If a call raises, it is repeated at each poll until one succeeds.
        """
        made = Subscription(self, tenant, on_change)
        with self._lock:
            self._subscriptions.setdefault(tenant, []).append(made)
        made.wake()  # commits of others may have come before this
        return made

    def submit(self, work: Callable[[], None]) -> None:
        """Run a function on a thread of the listener."""
        self._pool.submit(work)

    def forget(self, subscription: Subscription) -> None:
        """Remove a subscription, so that commits no longer wake it."""
        with self._lock:
            of_tenant = self._subscriptions.get(subscription.tenant, [])
            if subscription in of_tenant:
                of_tenant.remove(subscription)
            if not of_tenant:
                self._subscriptions.pop(subscription.tenant, None)

    def stop(self) -> None:
        """End the connection and the threads; no call is made afterwards."""
        self._stopped.set()
        self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with connect(self._url) as db:
                    self.answered = time.monotonic()
                    self.connection = db
                    db.execute(f"LISTEN {CHANNEL}")
                    self.tell("")
                    self._follow(db)
            except psycopg.Error as error:
                self.connection = None
                self.tell(without_password(" ".join(str(error).split())))
                self._stopped.wait(_PAUSE)

    def tell(self, fault: str) -> None:
        """Record whether the database answers: `fault` is "", or the reason why it does not.

        When the database stops answering, all subscriptions are woken, so that waiting calls fail.
        """
        before, self.fault = self.fault, fault
        if fault and not before:
            _log.warning("the database cannot be reached: %s", fault)
            with self._lock:
                for of_tenant in self._subscriptions.values():
                    for one in of_tenant:
                        one.wake()  # calls that wait for a commit fail now
        elif before and not fault:
            _log.warning("the database can be reached again")
        if not fault:
            self.answered = time.monotonic()

    def _follow(self, db: psycopg.Connection[TupleRow]) -> None:
        asked = -_POLL
        while not self._stopped.is_set():
            if time.monotonic() - asked >= _POLL:
                self._poll(db)
                asked = time.monotonic()
            for note in db.notifies(timeout=0.2, stop_after=1):
                self._wake(note.payload.split(" ")[0])

    def _poll(self, db: psycopg.Connection[TupleRow]) -> None:
        """Read the state of each tenant, and wake the subscriptions of those that changed.

        A broken connection raises an error here.
        """
        with self._lock:
            all_of_them = [one for each in self._subscriptions.values() for one in each]
        tenants = sorted({one.tenant for one in all_of_them})
        before = time.time()
        states = dict(db.execute(_STATES, (tenants, _CLOCK)))
        self._compare_clocks(before, float(states[_CLOCK]), time.time())
        self.tell("")
        for one in all_of_them:
            state = states.get(one.tenant, "")
            if state != one.state or one.has_failed:
                one.state = state
                one.wake()

    def _compare_clocks(self, before: float, of_database: float, after: float) -> None:
        """Warn if this node's clock differs by more than 5 s from the database's.

        Args:
            before: this node's time before it read the database's time.
            of_database: the database's time.
            after: this node's time after it read the database's time.
        """
        ahead = max(before - of_database, 0.0) + min(after - of_database, 0.0)
        is_off = abs(ahead) > _CLOCKS_DIFFER
        if is_off and not self._clock_is_off:
            _log.warning(
                "the clock of this node is %.0f s %s that of the database: the end of keys, days "
                "with a limit and the times of memories go by it; set it, for example by NTP",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
            )
        elif self._clock_is_off and not is_off:
            _log.warning("the clock of this node is that of the database again")
        self._clock_is_off = is_off

    def _wake(self, tenant: str) -> None:
        with self._lock:
            woken = list(self._subscriptions.get(tenant, ()))
        for one in woken:
            one.wake()
