"""The package under `python -O`, which skips asserts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import vikingd
from tests.index.integrity_helpers import made


def test_no_assert_does_work() -> None:
    """No assert calls more than `isinstance` and `len`, because `python -O` skips asserts."""
    found = []
    package = Path(vikingd.__file__).parent
    for path in [*package.rglob("*.py"), *(package.parent / "kernels").rglob("*.py")]:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "assert" in text else ():
            if isinstance(node, ast.Assert):
                calls = [
                    call
                    for call in ast.walk(node.test)
                    if isinstance(call, ast.Await | ast.NamedExpr | ast.Yield)
                    or (isinstance(call, ast.Call) and ast.unparse(call.func) not in PURE)
                    or (isinstance(call, ast.Attribute) and call.attr.startswith("_writable"))
                ]
                if calls:
                    found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert found == []


PURE = ("isinstance", "len")


@pytest.mark.deep
def test_a_reader_compacts_nothing_without_asserts(tmp_path: Path) -> None:
    """Under `python -O`, a reader refuses to compact and leaves its writer's index unchanged."""
    made(tmp_path, 1, 2)
    code = (
        "import sys; from pathlib import Path\n"
        "from vikingd.engine import Engine, EngineSettings\n"
        "from vikingd.models.embed.embed_settings import EmbedSettings\n"
        "from vikingd.domain.errors import ReadOnly\n"
        "engine = Engine(EngineSettings(Path(sys.argv[1]), EmbedSettings(provider='none'),"
        " reader=True))\n"
        "for act in (engine.optimize, engine.check_writable):\n"
        "    try: act()\n"
        "    except ReadOnly: print('refused')\n"
        "engine.close()\n"
    )
    before = (tmp_path / "index" / "CURRENT").read_text()
    done = subprocess.run(
        [sys.executable, "-O", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["refused", "refused"], done.stderr
    assert (tmp_path / "index" / "CURRENT").read_text() == before
