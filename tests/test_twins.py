"""The check that each public kernel is compared with its own plain twin."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import naive
import pytest
import viking_kernels
from numba.core.dispatcher import Dispatcher


def kernels() -> list[str]:
    """Return the names of all public kernels."""
    names = set()
    for module in pkgutil.iter_modules(viking_kernels.__path__):
        for name, value in vars(importlib.import_module(f"viking_kernels.{module.name}")).items():
            if isinstance(value, Dispatcher) and not name.startswith("_"):
                names.add(name)
    return sorted(names)


def compared_in(path: Path) -> set[str]:
    """Return the twins that the functions of a test module call together with an assertion."""
    found = set()
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            nodes = list(ast.walk(function))
            if any(isinstance(node, ast.Assert) or "assert_" in ast.dump(node) for node in nodes):
                found |= {
                    node.attr
                    for node in nodes
                    if isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "naive"
                }
    return found


COMPARED = set().union(*(compared_in(path) for path in Path(__file__).parent.glob("test_*.py")))


@pytest.mark.parametrize("name", kernels())
def test_every_kernel_is_compared_with_a_twin_of_its_own(name):
    """Each kernel has a twin of the same name, and a test with an assertion calls it."""
    twin = getattr(naive, name, None)
    assert twin is not None, f"naive has no twin of {name}"
    assert twin.__name__ == name
    assert name in COMPARED, f"no test compares {name} with its twin"
