"""Volcengine's request signing: HMAC-SHA256 over a canonical form of the request (Signature V4).

As published in https://www.volcengine.com/docs/6369/67269:

    canonical request = method, path, query, headers, names of the headers, SHA-256 of the body
    text to sign      = "HMAC-SHA256", date, scope, SHA-256 of the canonical request
    key               = HMAC of "request" under that of service, region, day and the secret key
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

import httpx


@dataclass(frozen=True, repr=False)  # a repr would show the keys
class Signed(httpx.Auth):
    """Signs each request to a service in a region when it is sent."""

    access_key: str
    secret_key: str
    region: str
    service: str
    requires_request_body = True

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign a request and yield it; httpx calls this."""
        self.sign(request, datetime.now(UTC))
        yield request

    def sign(self, request: httpx.Request, when: datetime) -> None:
        """Add X-Date, X-Content-Sha256 and Authorization to a request whose body was read."""
        date = when.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(request.content).hexdigest()
        request.headers["X-Date"] = date
        request.headers["X-Content-Sha256"] = digest

        headers = {name.lower(): value for name, value in request.headers.items()}
        signed = sorted(
            name
            for name in headers
            if name in ("content-type", "content-md5", "host") or name.startswith("x-")
        )
        names = ";".join(signed)
        canonical = "\n".join(
            [
                request.method,
                quote(request.url.path),
                _canonical_query(request.url.params.multi_items()),
                *(f"{name}:{headers[name]}" for name in signed),
                "",
                names,
                digest,
            ]
        )
        scope = f"{date[:8]}/{self.region}/{self.service}/request"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        key = self.secret_key.encode()
        for part in scope.split("/"):
            key = _hmac(key, part)
        signature = _hmac(key, f"HMAC-SHA256\n{date}\n{scope}\n{hashed}").hex()
        request.headers["Authorization"] = (
            f"HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={names}, "
            f"Signature={signature}"
        )


def _canonical_query(items: list[tuple[str, str]]) -> str:
    """Return the query string sorted by name; values of one name keep their order."""
    in_order = sorted(items, key=lambda item: item[0])
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in in_order)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
