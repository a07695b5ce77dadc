"""The names of `vikingd.client`, which are loaded one by one."""

from __future__ import annotations

import subprocess
import sys

import pytest

import vikingd.client


def test_a_name_of_the_client_loads_its_own_module_alone() -> None:
    """The package loads nothing by itself, and an error without the calls and the imports."""
    code = """
import sys
import vikingd.client
assert "grpc" not in sys.modules
from vikingd.client import ContextType
assert "grpc" not in sys.modules
from vikingd.client import NotFound
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "vikingd.client.client_errors" in loaded
    assert not {"vikingd.client.methods", "vikingd.ingest.files"} & set(loaded)
    with pytest.raises(AttributeError, match="no attribute 'Typo'"):
        vikingd.client.Typo  # noqa: B018 - an access is all
