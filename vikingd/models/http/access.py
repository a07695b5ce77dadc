"""Keys from the environment, and endpoints on this machine."""

from __future__ import annotations

import ipaddress
import os


def key_in(variable: str) -> str:
    """Return the key in an environment variable, stripped; "" if the variable is not set."""
    return os.environ.get(variable, "").strip() if variable else ""


def is_loopback(host: str) -> bool:
    """Return whether a host name or address, IPv6 with or without brackets, is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
