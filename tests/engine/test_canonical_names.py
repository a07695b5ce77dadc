"""The names of older stores: they are renamed to the one form of URIs, and nothing is lost."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.store.store_helpers import file, opened, put
from vikingd.engine import Engine, EngineSettings
from vikingd.models.embed.embed_settings import EmbedSettings

TOP = "viking://resources"
OLD = {
    f"{TOP}/cafe\u0301.md": "decomposed",
    f"{TOP}/caf\xe9.md": "composed",
    f"{TOP}/u\u0308/o\u0308.md": "both names",
    f"{TOP}/u\u0308/plain.md": "one name",
    f"{TOP}/in\xadvoice.md": "hidden",
    f"{TOP}/tea.md": "plain",
    "viking://projects/e\u0301te\u0301/memories/tea.md": "project",
}
NEW = {
    f"{TOP}/caf\xe9 (2).md": "decomposed",
    f"{TOP}/caf\xe9.md": "composed",
    f"{TOP}/\xfc/\xf6.md": "both names",
    f"{TOP}/\xfc/plain.md": "one name",
    f"{TOP}/invoice.md": "hidden",
    f"{TOP}/tea.md": "plain",
    "viking://projects/\xe9t\xe9/memories/tea.md": "project",
}


def test_old_names_get_the_one_form(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All contents are under canonical names, a taken name gets a number, and the log tells it."""
    with opened(tmp_path, model="none", dimension=None) as store:
        put(store, *(file(uri, text) for uri, text in OLD.items()))
    settings = EngineSettings(tmp_path, EmbedSettings(provider="none"))
    for renamed in (5, 0):
        with caplog.at_level(logging.WARNING):
            engine = Engine(settings)
        found = {
            uri: engine.store.get(uri).content for uri, _ in engine.store.files_between("v", "w")
        }
        report = engine.verify()
        engine.close()
        assert found == NEW
        assert report.ok, report.problems
        assert caplog.text.count("is now") == renamed
        caplog.clear()
