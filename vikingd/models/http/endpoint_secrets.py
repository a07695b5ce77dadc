"""Keys and other secrets, their removal from messages, and endpoints on this machine."""

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
    """Return whether a host name or address, IPv6 with or without brackets, is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def url_secrets(url: str) -> list[str]:
    """Return the password of a URL, or its only user name, and their form in Basic authentication.

    Raises:
        ValueError: the text is not a URL.
    """
    userinfo = urlsplit(url).netloc.rpartition("@")[0]
    user, _, password = userinfo.partition(":")
    written = password or user
    basic = f"{unquote(user)}:{unquote(password)}".encode()
    return [written, unquote(written), base64.b64encode(basic).decode()] if userinfo else []


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return a text with *** for each secret, also where JSON or repr has escaped it."""
    forms = set()
    for secret in filter(None, secrets):
        quoted = json.dumps(secret)[1:-1]
        forms |= {secret, repr(secret)[1:-1], quoted, quoted.replace("/", "\\/")}
    for form in sorted(forms, key=len, reverse=True):  # one may be a part of another
        text = text.replace(form, "***")
    return text
