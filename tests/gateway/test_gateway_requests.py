"""The ends of HTTP requests: ambiguous ones are refused, and half-closed clients are answered."""

from __future__ import annotations

import re
import socket

import pytest

from tests.gateway.gateway_helpers import Gateway

FIND = "/v1/find?q=a"


def statuses(connection: socket.socket) -> list[int]:
    """Return the statuses of all responses until the other end closes."""
    connection.settimeout(30)
    data = b""
    while part := connection.recv(65536):
        data += part
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", data)]


AMBIGUOUS = {
    "two lengths": b"POST /v1/Stats HTTP/1.1\r\nhost: HOST\r\ncontent-type: application/json\r\n"
    b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a bare LF": b"GET /healthz HTTP/1.1\r\nhost: HOST\nx-hidden: 1\r\n\r\n",
    "an empty line of LF": b"GET /healthz HTTP/1.1\r\nhost: HOST\r\n\n",
    "only LF": b"GET /healthz HTTP/1.1\nhost: HOST\n\n",
    "a leading LF": b"\nGET /healthz HTTP/1.1\r\nhost: HOST\r\n\r\n",
    "a bare LF in a trailer": b"POST /v1/Stats HTTP/1.1\r\nhost: HOST\r\n"
    b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n0\r\na: b\n\r\n",
    "chunks in HTTP/1.0": b"POST /v1/Stats HTTP/1.0\r\nhost: HOST\r\n"
    b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_a_request_that_proxies_may_read_otherwise_is_refused(gateway: Gateway, kind: str) -> None:
    """A request with an ambiguous end gets 400, and nothing behind it is read."""
    sent = AMBIGUOUS[kind].replace(b"HOST", gateway.host.encode())
    hidden = f"GET /healthz HTTP/1.1\r\nhost: {gateway.host}\r\n\r\n".encode()
    with gateway.connect() as connection:
        connection.sendall(sent + hidden)
        assert statuses(connection) == [400]


def test_a_pipelined_request_is_checked_as_the_first_one(gateway: Gateway) -> None:
    """The second request of a connection is refused for the same reasons."""
    good = f"GET /healthz HTTP/1.1\r\nhost: {gateway.host}\r\n\r\n".encode()
    with gateway.connect() as connection:
        connection.sendall(good + good.replace(b"\r\nhost", b"\nhost"))
        assert statuses(connection) == [200, 400]


@pytest.mark.parametrize("requests", [1, 3])
def test_a_client_that_has_sent_all_is_answered(gateway: Gateway, requests: int) -> None:
    """A half-closed connection gets the replies to its whole requests, then it ends."""
    with gateway.connect() as connection:
        one = f"GET {FIND} HTTP/1.1\r\nhost: {gateway.host}\r\n\r\n".encode()
        connection.sendall(one * requests)
        connection.shutdown(socket.SHUT_WR)
        assert statuses(connection) == [200] * requests


def test_a_client_that_ends_within_a_request_is_closed(gateway: Gateway) -> None:
    """A request that has arrived in part is not served."""
    with gateway.connect() as connection:
        head = f"POST /v1/Stats HTTP/1.1\r\nhost: {gateway.host}\r\ncontent-length: 9\r\n\r\n"
        connection.sendall(head.encode() + b"{}")
        connection.shutdown(socket.SHUT_WR)
        assert 200 not in statuses(connection)
