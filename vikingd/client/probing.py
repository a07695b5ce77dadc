"""A look at the hosts of an address that does not answer.

gRPC tells why one of them failed, the last one. A name such as localhost has two hosts for gRPC, of
which one refuses connections and the other has a certificate that cannot be accepted.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from vikingd.client.credentials import Credentials
from vikingd.client.reasons import is_told

_SECONDS = 1.0  # for each host
_HOSTS = 8  # at most
_HOST_FAULTS = ("hostname mismatch", "ip address mismatch")
_ALERT = 0x15  # begins an answer of TLS
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def looked_at(message: str, address: str, credentials: Credentials) -> str:
    """Return gRPC's message about an address, or the fault of a host that takes connections.

    The fault is in gRPC's words. It blocks for seconds at most.
    """
    if is_told(message, address):
        return message
    for host, port, name in _hosts(address, credentials):
        with suppress(OSError), socket.create_connection((host, port), _SECONDS) as raw:
            fault = _of_tls(raw, name, credentials) if name else _of_plain(raw)
            if fault:
                return f"{message}; {host} port {port}: {fault}"
    return message


def _hosts(address: str, credentials: Credentials) -> list[tuple[str, int, str]]:
    """Return IP address, port and, for TLS, the expected name of each host.

    For one IP address there is none: gRPC has told all.
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


def _of_tls(raw: socket.socket, name: str, credentials: Credentials) -> str:
    """Return the fault of a handshake; "" if there is none."""
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


def _of_plain(raw: socket.socket) -> str:
    """Return the fault of a connection in plain text; "" if there is none."""
    try:
        raw.sendall(_HELLO)
        answer = raw.recv(1)
    except TimeoutError:
        return ""
    except OSError:
        answer = b""
    return "" if answer and answer[0] != _ALERT else "Socket closed"
