"""The exit codes of vikingctl."""

from __future__ import annotations

OTHER, USAGE, UNREACHABLE, NOT_FOUND, REFUSED, INTERRUPTED = 1, 2, 3, 4, 5, 130
"""The exit codes other than 0; 130 is a shell's 128 + SIGINT."""

OTHER_OF_SEARCH = 6
"""The code in place of OTHER for commands in which 1 means that nothing matches."""
