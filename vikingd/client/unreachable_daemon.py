"""The reason in plain words why a daemon cannot be reached, found by connecting to its hosts.

gRPC reports the failure of the last host only. A name such as localhost has two hosts for gRPC: one
may refuse connections, and the other may have a certificate that cannot be accepted.
"""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import suppress

from vikingd.client.credentials import Credentials
from vikingd.domain.daemon_addresses import TLS, USER

_REFUSED = re.compile(r"CERTIFICATE_VERIFY_FAILED: ([^:]+)")
# Parts of the reason for a refused certificate, with a hint.
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

_START = (
    "start one with `vikingd serve`, take your own, which starts by itself, with --address user, "
    "or say where it is with --address HOST:PORT"
)
_STARTS_ITSELF = "any call but health starts your daemon"

_SECONDS = 1.0  # for each host
_HOSTS = 8  # at most
_HOST_FAULTS = ("hostname mismatch", "ip address mismatch")
_ALERT = 0x15  # begins an answer of TLS
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def unreachable(message: str, address: str) -> tuple[str, str]:
    """Return the reason of a failed connection, and a hint for vikingctl, such as an option.

    Args:
        message: gRPC's message.
        address: the address of the daemon.
    """
    if address == USER:
        return message.rsplit(": ", 1)[-1], _STARTS_ITSELF
    if found := _REFUSED.search(message):
        hints = (hint for part, hint in _TIMES if part in found[1])
        return f"its certificate is refused: {found[1]}", next(hints, _AUTHORITIES)
    for part, reason, hint in _faults(address):
        if part in message:
            return reason, hint
    return message.rsplit(": ", 1)[-1], _START


def _has_reason(message: str, address: str) -> bool:
    """Return True if gRPC's message gives another reason than a refused connection."""
    return any(part in message for part, *_ in _faults(address)) or bool(_REFUSED.search(message))


def _faults(address: str) -> tuple[tuple[str, str, str], ...]:
    return _TLS_FAULTS if address.startswith(TLS) else _PLAIN_FAULTS


def error_text(message: str, address: str) -> str:
    """Return the message of the error that a client raises for a failed connection.

    Args:
        message: gRPC's message.
        address: the address of the daemon.
    """
    reason, hint = unreachable(message, address)
    fault = f"no daemon answers at {address}: {reason}"
    if hint is _STARTS_ITSELF:
        return f"{fault}; {hint}"
    if hint is not _START:
        return f"{fault} ({message})"
    return (
        f'{fault}; start one with `vikingd serve`, take your own with Client("user"), name another '
        'with Client("HOST:PORT") or VIKINGD_ADDRESS, or open a directory with its own: '
        'vikingd.open("./data")'
    )


def with_fault_of_host(message: str, address: str, credentials: Credentials) -> str:
    """Add the fault of a host to gRPC's message, unless that names a fault already; return it.

    Each host is tried, and the first fault of TLS or of the protocol is added, in gRPC's words.
    This blocks for a few seconds at most.
    """
    if _has_reason(message, address):
        return message
    for host, port, name in _hosts(address, credentials):
        with suppress(OSError), socket.create_connection((host, port), _SECONDS) as raw:
            fault = _tls_fault(raw, name, credentials) if name else _plain_fault(raw)
            if fault:
                return f"{message}; {host} port {port}: {fault}"
    return message


def _hosts(address: str, credentials: Credentials) -> list[tuple[str, int, str]]:
    """Return (IP address, port, expected name for TLS or "") of each host of an address.

    A single IP address gives none, because gRPC's message already has its fault.
    """
    try:
        several = credentials.addresses(address)
    except ValueError:
        return []
    if len(several) == 1 and several[0].ip is not None:
        return []
    expected = several[0].host if several and several[0].tls else ""
    found: list[tuple[str, int, str]] = []
    for one in several:
        with suppress(OSError):
            infos = socket.getaddrinfo(one.host, one.port, type=socket.SOCK_STREAM)
            found += [(str(place[0]), one.port, expected) for *_, place in infos]
    return found[:_HOSTS]


def _tls_fault(raw: socket.socket, name: str, credentials: Credentials) -> str:
    """Try a TLS handshake; return its fault in gRPC's words, or "" if there is none."""
    context = ssl.create_default_context(cafile=credentials.ca or None)
    context.set_alpn_protocols(["h2"])
    if credentials.certificate:
        context.load_cert_chain(credentials.certificate, credentials.private_key)
    try:
        with context.wrap_socket(raw, server_hostname=name) as its:
            its.recv(1)  # a refused certificate of a client is told after the handshake
    except ssl.SSLCertVerificationError as error:
        if error.verify_message.lower().startswith(_HOST_FAULTS):
            return "Hostname Verification"
        return f"CERTIFICATE_VERIFY_FAILED: {error.verify_message}"
    except ssl.SSLError as error:
        is_plain = error.reason in ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG")
        return "WRONG_VERSION_NUMBER" if is_plain else "Socket closed"
    except TimeoutError:
        return ""
    except OSError:
        return "Socket closed"
    return ""


def _plain_fault(raw: socket.socket) -> str:
    """Try HTTP/2 in plain text; return the fault in gRPC's words, or "" if there is none."""
    try:
        raw.sendall(_HELLO)
        answer = raw.recv(1)
    except TimeoutError:
        return ""
    except OSError:
        answer = b""
    return "" if answer and answer[0] != _ALERT else "Socket closed"
