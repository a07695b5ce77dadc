"""A daemon with keys for the tests of memories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.nodes.reader_helpers import serving
from vikingd.client import Client


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Client]]:
    """Yield the address of a daemon with keys, and its operator."""
    with serving(tmp_path_factory.mktemp("rights"), "--provider", "none") as daemon:
        with Client(daemon.address) as client:
            secret = client.create_key(operator=True).secret
        with Client(daemon.address, key=secret) as operator:
            yield daemon.address, operator
