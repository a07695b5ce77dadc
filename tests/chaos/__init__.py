"""A harness that damages a real daemon and compares it with a model of acknowledged writes."""

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[1])
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)  # modules import `chaos` as tests import their helpers
