"""The browser of the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.gateway.page_helpers import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser."""
    with chromium() as made:
        yield made
