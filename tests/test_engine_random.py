"""Random sequences of all writes, compared with a plain dict and float64 scores."""

from __future__ import annotations

from engine_model import EngineMachine
from hypothesis import HealthCheck, Phase, settings

TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
