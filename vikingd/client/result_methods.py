"""The methods of the clients that return results: one for each RPC, and those of several calls."""

from __future__ import annotations

from vikingd.client import composed_calls
from vikingd.client.method_declarations import AwaitedResults, BlockingResults
from vikingd.client.rpc_methods import Methods


class _ResultMethods(Methods):
    add = composed_calls.add
    put_many = composed_calls.put_many
    update = composed_calls.update
    exists = composed_calls.exists
    symbols = composed_calls.symbols


class BlockingMethods(_ResultMethods, BlockingResults):
    """The methods of Client."""


class AwaitedMethods(_ResultMethods, AwaitedResults):
    """The methods of AsyncClient."""
