"""Keys and other secrets of endpoints, and their removal from messages."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit


def key_in(variable: str) -> str:
    """Return the key in an environment variable, stripped; "" if the variable is not set."""
    return os.environ.get(variable, "").strip() if variable else ""


def is_loopback(host: str) -> bool:
    """Return True if a host name or address is this machine; IPv6 may have brackets."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def url_secrets(url: str) -> list[str]:
    """Return the secrets in a URL: its password or user name, also as in Basic authentication.

    Raises:
        ValueError: the text is not a URL.
    """
    userinfo = urlsplit(url).netloc.rpartition("@")[0]
    user, _, password = userinfo.partition(":")
    written = password or user
    basic = f"{unquote(user)}:{unquote(password)}".encode()
    return [written, unquote(written), base64.b64encode(basic).decode()] if userinfo else []


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return a text with each secret replaced by ***, also in forms escaped by JSON or repr."""
    forms = set()
    for secret in filter(None, secrets):
        quoted = json.dumps(secret)[1:-1]
        forms |= {secret, repr(secret)[1:-1], quoted, quoted.replace("/", "\\/")}
    for form in sorted(forms, key=len, reverse=True):  # one may be a part of another
        text = text.replace(form, "***")
    return text
