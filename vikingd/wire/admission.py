"""The admission of calls: the caller, its quotas, the tenant, and the audit of the call."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import structlog

from vikingd.access.audit import Audit
from vikingd.access.authentication import Authenticator, Metadata
from vikingd.access.keys import KeyStore
from vikingd.access.peers import subjects_of
from vikingd.access.quotas import Limits, Quotas, check_stored
from vikingd.access.wrong_keys import Failures
from vikingd.domain.errors import NotReadable, Overloaded, PermissionDenied, Unauthenticated
from vikingd.domain.rights import CALLER, Caller
from vikingd.engine import Engine
from vikingd.wire.rights_table import Rule, rules
from vikingd.wire.status_errors import code_of

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_NONE = Limits()
_RETRY_AFTER = 5.0  # seconds, for a wrong key while too many of them wait

_log = structlog.stdlib.get_logger("vikingd.wire")


class OpenTenant(Protocol):
    """A tenant with an open store."""

    @property
    def engine(self) -> Engine:
        """The engine of the tenant: its store and its index."""

    @property
    def handlers(self) -> dict[str, Any]:
        """The handlers of the tenant by method, such as /viking.retrieval.v1.Retrieval/Find."""


class OpenTenants(Protocol):
    """Opens the stores of tenants; see `vikingd.daemon.open_tenants`."""

    def use(self, name: str) -> AbstractAsyncContextManager[OpenTenant]:
        """Return a context manager in which a tenant is open."""


class Admitted:
    """An admitted call, as a context manager.

    The end of its block gives back the call's share of the quotas and writes the audit log.

    Attributes:
        caller: the caller with its rights.
        request: the parsed request, set by the handler, for the audit log.
    """

    __slots__ = (
        "_admission",
        "_has_quota",
        "_peer",
        "_reply",
        "_rule",
        "_sent",
        "caller",
        "request",
    )

    def __init__(
        self, admission: Admission, rule: Rule, caller: Caller, peer: str, *, has_quota: bool
    ) -> None:
        self._admission = admission
        self._rule = rule
        self._peer = peer
        self._has_quota = has_quota
        self.caller = caller
        self.request: Any = None
        self._reply: Any = None
        self._sent = 0  # bytes of replies

    def replied(self, reply: Any) -> None:
        """Record a reply for the audit log and the quotas; a stream calls this for each message."""
        self._reply = reply
        if self._has_quota:
            self._sent += len(reply) if isinstance(reply, bytes) else reply.ByteSize()

    def __enter__(self) -> Admitted:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        admission, caller, reply = self._admission, self.caller, self._reply
        if self._has_quota:
            admission.quotas.leave(caller.key, caller.tenant, self._sent)
        denied = isinstance(error, PermissionDenied | NotReadable)
        if not denied and not (self._rule.audited and (caller.key or self._rule.is_of_access)):
            return
        code = grpc.StatusCode.OK
        if error is not None:
            gone = isinstance(error, asyncio.CancelledError | GeneratorExit)
            code = grpc.StatusCode.CANCELLED if gone else code_of(error)
        admission.audit.write(
            who=caller.key or "local",
            user=caller.user,
            tenant=caller.tenant,
            peer=self._peer,
            method=self._rule.name,
            objects=() if self.request is None else self._rule.objects(self.request, reply),
            code=code.name,
            revision=None if error else self._rule.revision(reply),
        )


class Admission:
    """Admits calls: identifies the caller by its key, and applies the limits of key and tenant.

    Its methods are called on the event loop alone.

    Args:
        keys: the keys, and the limits of tenants.
        authenticator: finds the caller by the metadata of a call.
        tenants: opens the tenant of a call, which has the handlers of its RPCs.
    """

    def __init__(self, keys: KeyStore, authenticator: Authenticator, tenants: OpenTenants) -> None:
        self.tenants = tenants
        self.rules = rules()
        self.quotas = Quotas()
        self.audit = Audit()
        self._keys = keys
        self._authenticator = authenticator
        self._failures = Failures(_tell)

    async def refuses(self, metadata: Metadata) -> bool:
        """Return True if `admit` refuses every call with these metadata, because of the key.

        If the key is unknown, it may be new at another node: then this reads the shared keys first.
        """
        if not self._authenticator.refuses(metadata):
            return False
        await self._keys.catch_up()
        return self._authenticator.refuses(metadata)

    def caller(self, context: Any) -> tuple[Caller, bool]:
        """Return the caller of a call, and True if its key or its tenant has limits.

        Raises:
            Unauthenticated: the call has no valid key.
            StoreDamaged: the file of the keys cannot be read.
        """
        caller, of_key = self._identified(context, context.peer())
        return caller, of_key != _NONE or self._keys.tenant_limits(caller.tenant) != _NONE

    def _identified(self, context: Any, peer: str) -> tuple[Caller, Limits]:
        return self._authenticator.caller(
            context.invocation_metadata() or (),
            peer,
            lambda: subjects_of(context.auth_context() or {}),
        )

    async def admit(self, rule: Rule, context: Any, request_bytes: int) -> Admitted:
        """Admit a call and return it; the task's context variables get its caller.

        Raises:
            Unauthenticated: the call has no valid key. After many wrong keys from the same address
                this is raised after a delay.
            QuotaExceeded: a limit of the key or of the tenant is reached.
            Overloaded: too many senders of wrong keys wait.
        """
        peer = context.peer()  # read now: gRPC crashes if it is asked after the call
        try:
            caller, of_key = self._identified(context, peer)
        except Unauthenticated as error:
            self.audit.write(
                who=error.metadata.get("key", ""),  # only of a key whose secret was right
                user="",
                tenant="",
                peer=peer,
                method=rule.name,
                objects=(),
                code=grpc.StatusCode.UNAUTHENTICATED.name,
            )
            await self._slow(peer)
            raise
        of_tenant = self._keys.tenant_limits(caller.tenant)
        has_quota = of_key != _NONE or of_tenant != _NONE
        if has_quota:
            self.quotas.enter(caller.key, of_key, caller.tenant, of_tenant, request_bytes)
        CALLER.set(caller)
        return Admitted(self, rule, caller, peer, has_quota=has_quota)

    async def check_stored(self, rule: Rule, request: Any, tenant: OpenTenant, name: str) -> None:
        """Check that a tenant may store what a request adds.

        Calls that run at the same time are not counted, so together they may exceed a limit.

        Raises:
            QuotaExceeded: the tenant stores as much as it may.
        """
        limits = self._keys.tenant_limits(name)
        if not (limits.contexts or limits.stored_bytes):
            return
        uris = rule.adds(request)
        if uris is not None:
            stored = await asyncio.to_thread(tenant.engine.store.stored, uris)
            check_stored(limits, *stored)

    async def _slow(self, peer: str) -> None:
        delay = self._failures.delay(peer)
        if not delay:
            return
        if self._failures.is_crowded:
            raise Overloaded("too many calls with a wrong key wait", _RETRY_AFTER) from None
        with self._failures.waiting():
            await asyncio.sleep(delay)


def _tell(address: str, failures: int) -> None:
    _log.warning("wrong keys", address=address, failures=failures)
