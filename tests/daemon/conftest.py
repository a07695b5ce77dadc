"""The environment of the tests of the configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the settings of this machine: variables, keys and the home directory."""
    for variable in list(os.environ):
        if variable.upper().startswith("VIKINGD_"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
