"""A harness that takes nodes and databases away, and holds all answers against a model."""

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[1])
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)  # modules import `cluster` as tests import their helpers
