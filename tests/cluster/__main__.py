"""`python -m tests.cluster`: take nodes and databases away; hold all answers against a model."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster.rounds import KINDS, Outcome, run


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="each has one fault")
    parser.add_argument("--seed", type=int, default=1, help="of all dice")
    parser.add_argument("--only", choices=[*KINDS, "async"], help="one kind of fault")
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--readers", type=int, default=16)
    return parser.parse_args()


def main() -> int:
    """Run the rounds; return 1 after a fault, 130 after Ctrl-C."""
    given = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcome = Outcome()
    code = 0
    with tempfile.TemporaryDirectory(prefix="vikingd-cluster-") as directory:
        try:
            run(
                Path(directory),
                outcome,
                rounds=given.rounds,
                seed=given.seed,
                only=given.only,
                writers=given.writers,
                readers=given.readers,
                say=lambda line: print(line, flush=True),
            )
        except KeyboardInterrupt:
            code = 130
    print(outcome.text())
    for fault in outcome.faults[:20]:
        print(f"WRONG {fault}")
    print(f"seed {given.seed}: {'WRONG' if outcome.faults else 'nothing wrong'}")
    return code or int(bool(outcome.faults))


if __name__ == "__main__":
    sys.exit(main())
