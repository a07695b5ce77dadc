"""The command that installs an extra in the same way as vikingd itself was installed."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

_NAME = "vikingd"


def install_command(extras: str) -> str:
    """Return the command that installs extras, such as "gateway" or "server,onnx".

    If vikingd runs from a checkout, the command names its directory, because the name alone would
    be looked up on the package index.
    """
    directory = _checkout()
    if directory is None:
        return f"pip install '{_NAME}[{extras}]'"
    return f"pip install '.[{extras}]' in {directory}"


def _checkout() -> Path | None:
    """Return the directory of the checkout that vikingd runs from; None for an installed wheel."""
    beside = Path(__file__).parents[2]
    if _is_ours(beside):
        return beside
    try:
        text = distribution(_NAME).read_text("direct_url.json") or "{}"
    except PackageNotFoundError:
        return None
    source = json.loads(text)
    if "dir_info" not in source:
        return None
    directory = Path(unquote(urlparse(source["url"]).path))
    return directory if _is_ours(directory) else None


def _is_ours(directory: Path) -> bool:
    try:
        project = tomllib.loads((directory / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(project.get("project", {}).get("name") == _NAME)
