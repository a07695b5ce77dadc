"""The check that each public kernel is compared with its own plain twin."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from functools import cache
from pathlib import Path

import pytest
import viking_kernels
from numba.core.dispatcher import Dispatcher

from tests.kernels import naive


def kernels() -> list[str]:
    """Return the names of all public kernels."""
    names = set()
    for module in pkgutil.iter_modules(viking_kernels.__path__):
        for name, value in vars(importlib.import_module(f"viking_kernels.{module.name}")).items():
            if isinstance(value, Dispatcher) and not name.startswith("_"):
                names.add(name)
    return sorted(names)


def asserts(node: ast.AST) -> bool:
    """Return whether a node is an assertion, or the name of a function that asserts."""
    return isinstance(node, ast.Assert) or "assert_" in getattr(node, "attr", "") + getattr(
        node, "id", ""
    )


def compared_in(path: Path) -> set[str]:
    """Return the twins that the functions of a test module call together with an assertion."""
    found: set[str] = set()
    source = path.read_text()
    if "naive." not in source:
        return found
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            nodes = list(ast.walk(function))
            if any(map(asserts, nodes)):
                found |= {
                    node.attr
                    for node in nodes
                    if isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "naive"
                }
    return found


@cache
def compared() -> set[str]:
    """Return the twins that tests compare kernels with."""
    return set().union(*map(compared_in, Path(__file__).parents[1].rglob("test_*.py")))


@pytest.mark.parametrize("name", kernels())
def test_every_kernel_is_compared_with_a_twin_of_its_own(name):
    """Each kernel has a twin of the same name, and a test with an assertion calls it."""
    twin = getattr(naive, name, None)
    assert twin is not None, f"naive has no twin of {name}"
    assert twin.__name__ == name
    assert name in compared(), f"no test compares {name} with its twin"
