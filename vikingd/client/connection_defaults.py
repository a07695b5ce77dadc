"""The defaults of a connection, which vikingctl names in its help."""

from __future__ import annotations

ADDRESS_VARIABLE = "VIKINGD_ADDRESS"
DEFAULT_ADDRESS = "127.0.0.1:7716"

DEFAULT_TIMEOUT = 30.0
"""The default deadline of each call, in seconds."""
