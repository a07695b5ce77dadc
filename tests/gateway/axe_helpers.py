"""The check of a page for people with disabilities, by axe-core in the browser."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.gateway.node_helpers import packages

_SERIOUS = ("serious", "critical")


def serious_faults(page: Page) -> list[str]:
    """Return what axe-core finds serious or critical in a page as it is now, one line each."""
    page.evaluate(_source())  # unlike an added script, it is not refused by the security policy
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert found["passes"], "axe-core has checked nothing"
    return [
        f"{fault['impact']}: {fault['id']}: {fault['help']}: {node['target']}: {node['html'][:200]}"
        for fault in found["violations"]
        if fault["impact"] in _SERIOUS
        for node in fault["nodes"]
    ]


@cache
def _source() -> str:
    """Return the code of axe-core."""
    directory = packages(Path(__file__).parent / "axe")
    return (directory / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
