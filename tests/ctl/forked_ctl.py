"""vikingctl in a process that the nursery forked: its standard streams are those of the order."""

from __future__ import annotations

import sys

from vikingd.ctl import main as ctl


def main() -> None:
    """Open the standard streams as a new interpreter does, and run the command line."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it is not closed
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=name == "stderr" or stream.isatty())
        setattr(sys, name, stream)
    ctl.main()
