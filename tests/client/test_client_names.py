"""The names of `vikingd.client`, which are loaded one by one."""

from __future__ import annotations

import subprocess
import sys
from operator import attrgetter
from typing import get_type_hints

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
    assert not {"vikingd.client.method_declarations", "vikingd.ingest.files"} & set(loaded)
    with pytest.raises(AttributeError, match="no attribute 'Typo'"):
        vikingd.client.Typo  # noqa: B018 - an access is all


def test_the_table_and_the_list_have_the_same_names() -> None:
    """Each public name can be loaded, and modules are attributes of the package."""
    assert set(vikingd.client._MODULES) == set(vikingd.client.__all__)
    assert vikingd.client.messages.MessageClient


@pytest.mark.parametrize(
    "annotated", ["PutSummary", "ImportSummary", "Client.import_path", "AsyncClient.import_path"]
)
def test_annotations_can_be_read(annotated: str) -> None:
    """Programs that make tools of methods, and pydantic, read the hints."""
    assert get_type_hints(attrgetter(annotated)(vikingd.client))
