"""The service Access: keys and tenants."""

from __future__ import annotations

import asyncio
from typing import Protocol

from vikingd.access.keys import KeyStore
from vikingd.domain.rights import Right
from vikingd.domain.tenants import missing
from vikingd.domain.uri import ROOT
from vikingd.lanes.call_pools import CallContext, CallDeadline, Threads
from vikingd.pb import access_pb2
from vikingd.wire.messages import access_messages as messages
from vikingd.wire.messages import common_messages
from vikingd.wire.rights_table import check_operator


class ManagedTenants(Protocol):
    """The stores of the tenants; see `vikingd.daemon.open_tenants`."""

    def names(self) -> list[str]:
        """Return the names of all tenants."""

    def exists(self, name: str) -> bool:
        """Return True if there is a tenant with this name."""

    def is_open(self, name: str) -> bool:
        """Return True if the store of the tenant is open."""

    async def create(self, name: str) -> None:
        """Create an empty tenant."""

    async def delete(self, name: str) -> tuple[int, int]:
        """Delete the store of a tenant; return the numbers of its contexts and bytes."""


class AccessService:
    """The handlers of the service Access, shared by all tenants."""

    def __init__(self, keys: KeyStore, tenants: ManagedTenants, threads: Threads) -> None:
        self._keys = keys
        self._tenants = tenants
        self._threads = threads

    async def CreateKey(
        self, request: access_pb2.CreateKeyRequest, context: CallContext
    ) -> access_pb2.CreateKeyResponse:
        """Create a key."""
        call = CallDeadline(context)
        tenant = await self._managed(call)
        # A subject names one caller among those of all tenants.
        if request.operator or request.certificate_subject:
            check_operator(call.caller)
        new = messages.new_key(request, tenant)
        key, secret = await self._threads.admin.run(call, self._keys.create, new)
        return access_pb2.CreateKeyResponse(key=messages.key(key), secret=secret)

    async def ListKeys(
        self, _: access_pb2.ListKeysRequest, context: CallContext
    ) -> access_pb2.ListKeysResponse:
        """Return the keys of the tenant."""
        call = CallDeadline(context)
        tenant = await self._managed(call)
        keys = await self._threads.admin.run(
            call, self._keys.keys, tenant, by_operator=call.caller.is_operator
        )
        return access_pb2.ListKeysResponse(keys=map(messages.key, keys))

    async def RevokeKey(
        self, request: access_pb2.RevokeKeyRequest, context: CallContext
    ) -> access_pb2.RevokeKeyResponse:
        """Revoke a key."""
        call = CallDeadline(context)
        of = await self._managed(call)
        key = await self._threads.admin.run(
            call, self._keys.revoke, request.id, of, by_operator=call.caller.is_operator
        )
        return access_pb2.RevokeKeyResponse(key=messages.key(key))

    async def RotateKey(
        self, request: access_pb2.RotateKeyRequest, context: CallContext
    ) -> access_pb2.RotateKeyResponse:
        """Give a key a new secret."""
        call = CallDeadline(context)
        of, grace = await self._managed(call), messages.grace(request)
        key, secret, until = await self._threads.admin.run(
            call, self._keys.rotate, request.id, of, grace, by_operator=call.caller.is_operator
        )
        return access_pb2.RotateKeyResponse(
            key=messages.key(key), secret=secret, old_expire_time=common_messages.timestamp(until)
        )

    async def PutTenant(
        self, request: access_pb2.PutTenantRequest, context: CallContext
    ) -> access_pb2.PutTenantResponse:
        """Create a tenant, or change its limits."""
        call = CallDeadline(context)
        check_operator(call.caller)
        limits = messages.limits(request.limits) if request.HasField("limits") else None
        if request.create:
            await self._tenants.create(request.name)
            # Keys of a tenant whose directory was removed by hand must not open the new one.
            await self._threads.admin.run(call, self._keys.forget_tenant, request.name)
        else:
            await self._check_exists(call, request.name)
        record = await self._threads.admin.run(call, self._keys.put_tenant, request.name, limits)
        return access_pb2.PutTenantResponse(tenant=self._shown(record.name))

    async def ListTenants(
        self, _: access_pb2.ListTenantsRequest, context: CallContext
    ) -> access_pb2.ListTenantsResponse:
        """Return the tenants."""
        call = CallDeadline(context)
        check_operator(call.caller)

        def listed() -> access_pb2.ListTenantsResponse:
            return access_pb2.ListTenantsResponse(tenants=map(self._shown, self._tenants.names()))

        return await self._threads.admin.run(call, listed)

    async def DeleteTenant(
        self, request: access_pb2.DeleteTenantRequest, context: CallContext
    ) -> access_pb2.DeleteTenantResponse:
        """Delete a tenant with its store and its keys."""
        call = CallDeadline(context)
        check_operator(call.caller)
        await self._check_exists(call, request.name)
        contexts, size = await self._tenants.delete(request.name)
        # The store is gone. If the daemon is killed here, its next start forgets the keys.
        keys = await asyncio.to_thread(self._keys.forget_tenant, request.name)
        return access_pb2.DeleteTenantResponse(contexts=contexts, bytes=size, keys=keys)

    async def _managed(self, call: CallDeadline) -> str:
        """Return the caller's tenant, if the caller may manage its keys.

        Raises:
            PermissionDenied: the caller has no right to administer the tenant.
            NotFound: the tenant does not exist.
        """
        call.caller.check(Right.ADMIN, ROOT)
        await self._check_exists(call, call.caller.tenant)
        return call.caller.tenant

    async def _check_exists(self, call: CallDeadline, tenant: str) -> None:
        if not await self._threads.admin.run(call, self._tenants.exists, tenant):
            raise missing(tenant)

    def _shown(self, name: str) -> access_pb2.Tenant:
        return messages.tenant(self._keys.tenant(name), is_open=self._tenants.is_open(name))
