"""The methods of all clients. Their modules declare arguments, requests and results."""

from __future__ import annotations

from vikingd.client import admin_calls, context_calls, memory_calls, retrieval_calls


class Methods:
    """The methods of all clients, one for each RPC."""

    find = retrieval_calls.find
    batch_find = retrieval_calls.batch_find
    search = retrieval_calls.search
    retrieve = retrieval_calls.retrieve
    build_context = retrieval_calls.build_context

    recall = memory_calls.recall
    remember = memory_calls.remember
    extract = memory_calls.extract
    reinforce = memory_calls.reinforce
    forget = memory_calls.forget

    put = context_calls.put
    delete = context_calls.delete
    move = context_calls.move
    get = context_calls.get
    list = context_calls.list_
    tree = context_calls.tree
    glob = context_calls.glob
    grep = context_calls.grep
    link = context_calls.link
    unlink = context_calls.unlink

    stats = admin_calls.stats
    verify = admin_calls.verify
    optimize = admin_calls.optimize
    reembed = admin_calls.reembed
    describe = admin_calls.describe
    backup = admin_calls.backup

    create_key = admin_calls.create_key
    list_keys = admin_calls.list_keys
    revoke_key = admin_calls.revoke_key
    rotate_key = admin_calls.rotate_key
    put_tenant = admin_calls.put_tenant
    list_tenants = admin_calls.list_tenants
    delete_tenant = admin_calls.delete_tenant


RETRIED = tuple(
    {"service": one.rpc.containing_service.full_name, "method": one.rpc.name}
    for one in vars(Methods).values()
    if getattr(one, "retried", False)
)
"""The RPCs with requests that may be sent again, as names of a gRPC service config."""
