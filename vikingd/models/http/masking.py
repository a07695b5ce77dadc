"""Keeps secrets out of what is told of a server, whatever it sends back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit


def url_secrets(url: str) -> list[str]:
    """What must not be told of a URL: its password, or its user if alone, and their Basic form.

    Raises:
        ValueError: it is no URL.
    """
    userinfo = urlsplit(url).netloc.rpartition("@")[0]
    user, _, password = userinfo.partition(":")
    written = password or user
    basic = f"{unquote(user)}:{unquote(password)}".encode()
    return [written, unquote(written), base64.b64encode(basic).decode()] if userinfo else []


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with *** for each secret, also for one that JSON or repr has escaped."""
    forms = set()
    for secret in filter(None, secrets):
        quoted = json.dumps(secret)[1:-1]
        forms |= {secret, repr(secret)[1:-1], quoted, quoted.replace("/", "\\/")}
    for form in sorted(forms, key=len, reverse=True):  # one may be a part of another
        text = text.replace(form, "***")
    return text
