"""Files of a configuration, and the messages that refuse one."""

from __future__ import annotations

from pathlib import Path

import pytest

from vikingd.config import ConfigError, load


def write(path: Path, text: str) -> Path:
    """Write a file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refusal(file: Path | None = None, **flags: object) -> str:
    """Return the message with which a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        load(file, flags)
    return str(caught.value)
