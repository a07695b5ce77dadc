"""Volcengine's signature, compared with the vendor's own package."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest
from volcengine.auth.SignerV4 import SignerV4
from volcengine.base.Request import Request
from volcengine.Credentials import Credentials as VendorsCredentials

from vikingd.models.rerank.volcengine_signing import Signed

WHEN = datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC)
KEYS = ("AKLTexample", "c2VjcmV0/+=", "cn-beijing", "vikingdb")


def ours(request: httpx.Request, when: datetime = WHEN) -> dict[str, str]:
    """Return the headers that our signature adds."""
    Signed(*KEYS).sign(request, when)
    return {n: request.headers[n] for n in ("X-Date", "X-Content-Sha256", "Authorization")}


def vendors(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    query: dict[str, str | list[str]],
    headers: dict[str, str],
    body: bytes,
) -> dict[str, str]:
    """Return the headers that the vendor's package adds."""
    date = WHEN.strftime("%Y%m%dT%H%M%SZ")
    monkeypatch.setattr(SignerV4, "get_current_format_date", staticmethod(lambda: date))
    request = Request()
    request.set_method(method)
    request.set_path(path)
    request.set_query(OrderedDict(query))
    request.set_headers(OrderedDict(headers))
    request.set_body(body)
    access_key, secret_key, region, service = KEYS
    SignerV4.sign(request, VendorsCredentials(access_key, secret_key, service, region))
    return {n: request.headers[n] for n in ("X-Date", "X-Content-Sha256", "Authorization")}


JSON = {"Content-Type": "application/json", "Host": "api.example.com"}


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "body"),
    [
        ("POST", "/api/vikingdb/rerank", {}, JSON, b'{"query": [{"text": "\xe8\x8c\xb6"}]}'),
        ("POST", "/", {}, JSON, b""),
        ("GET", "/", {"Version": "2018-01-01", "Action": "ListUsers"}, JSON, b""),
        ("POST", "/a b/茶/~x_-.+", {"b": "2", "a": "1", "B": "0"}, JSON, b"x"),
        ("GET", "/q", {"odd &=?/+%~ 茶": "v &=?/+%~*'() 茶", "empty": ""}, JSON, b""),
        ("GET", "/q", {"b": ["z", "a"], "a": "1"}, JSON, b""),
        (
            "POST",
            "/h",
            {},
            {
                "X-Zulu": "z",
                "Host": "api.example.com",
                "Accept": "text/plain",
                "X-Alpha": "a",
                "Content-Type": "application/json; charset=utf-8",
                "Content-Md5": "abc",
                "User-Agent": "someone",
            },
            b"{}",
        ),
        ("POST", "/port", {}, JSON | {"Host": "127.0.0.1:8080"}, b"{}"),
        ("POST", "/long", {}, JSON, b"x" * 100_000),
    ],
)
def test_headers_are_those_of_the_vendors_package(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    query: dict[str, str | list[str]],
    headers: dict[str, str],
    body: bytes,
) -> None:
    """The signature equals the vendor's, also for odd characters, headers and empty bodies."""
    url = f"https://{headers['Host']}{path}"
    request = httpx.Request(method, url, params=query, headers=headers, content=body)
    assert ours(request) == vendors(monkeypatch, method, path, query, headers, body)


def test_date_is_in_utc() -> None:
    """The date of a signature is in UTC, also for a time of another zone."""
    request = httpx.Request("POST", "https://api.example.com/", headers=JSON, content=b"")
    there = WHEN.astimezone(timezone(timedelta(hours=8)))
    assert ours(request, there)["X-Date"] == "20260301T235958Z"


def test_keys_are_not_printed() -> None:
    """The repr of a signer has no key."""
    assert "c2Vj" not in repr(Signed(*KEYS))
    assert "AKLT" not in repr(Signed(*KEYS))
