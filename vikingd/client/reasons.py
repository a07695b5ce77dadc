"""The reasons why a daemon is not reached, in plain words."""

from __future__ import annotations

import re

from vikingd.domain.addresses import TLS

_REFUSED = re.compile(r"CERTIFICATE_VERIFY_FAILED: ([^:]+)")
# Parts of the reason for that, with a hint.
_TIMES = (
    ("has expired", "who runs the daemon renews it, or the clock of this machine is ahead"),
    ("not yet valid", "the clock of this machine or of the one that made it is wrong"),
)
_AUTHORITIES = "--ca FILE names the authorities that may have signed it"
# Parts of gRPC's messages, with their reason and a hint.
_TLS_FAULTS = (
    (
        "Hostname Verification",
        "its certificate is for another host",
        "connect to a name or an IP address that the certificate has",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "the port speaks plain text, not TLS",
        f"leave out {TLS}, or connect to the port with TLS",
    ),
    (
        "Socket closed",
        "it ended the handshake of TLS",
        "it may need a certificate of yours: --cert FILE --cert-key FILE",
    ),
)
_PLAIN_FAULTS = (
    (
        "Socket closed",
        "it closed the connection",
        f"the port may speak TLS: --address {TLS}HOST:PORT --ca FILE",
    ),
)

_START = "start one with `vikingd serve`, or say where it is with --address HOST:PORT"


def unreachable(message: str, address: str) -> tuple[str, str]:
    """Return the reason of a failed connection, and a hint with options of vikingctl.

    Args:
        message: gRPC's message.
        address: the address of the daemon.
    """
    if found := _REFUSED.search(message):
        hints = (hint for part, hint in _TIMES if part in found[1])
        return f"its certificate is refused: {found[1]}", next(hints, _AUTHORITIES)
    for part, reason, hint in _faults(address):
        if part in message:
            return reason, hint
    return message.rsplit(": ", 1)[-1], _START


def is_told(message: str, address: str) -> bool:
    """Return whether gRPC's message has more than that nobody takes the connection."""
    return any(part in message for part, *_ in _faults(address)) or bool(_REFUSED.search(message))


def _faults(address: str) -> tuple[tuple[str, str, str], ...]:
    return _TLS_FAULTS if address.startswith(TLS) else _PLAIN_FAULTS


def unreached(message: str, address: str) -> str:
    """Return the error of a failed connection in a program.

    Args:
        message: gRPC's message.
        address: the address of the daemon.
    """
    reason, hint = unreachable(message, address)
    fault = f"no daemon answers at {address}: {reason}"
    if hint is not _START:
        return f"{fault} ({message})"
    return (
        f'{fault}; start one with `vikingd serve`, name another with Client("HOST:PORT") or '
        'VIKINGD_ADDRESS, or open a directory with its own: vikingd.open("./data")'
    )
