"""Tests of values: whether one looks like a password or a random key, or is a placeholder."""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, urlsafe_b64decode

# Words and rows of characters that people write in the place of a secret.
_FILLER = re.compile(
    r"examples?|samples?|dummy|fake|tests?|testing|change|changed|changeit|your|my|the|foo|bar"
    r"|baz|qux|placeholder|redacted|secret|password|passwd|pass|token|api|key|here|insert|replace"
    r"|todo|lorem|ipsum|admin|root|username|user|default|none|null|true|false|demo|mock|asdf"
    r"|qwerty|letmein|some|value|string|super|very|strong|random|generated|generate|database"
    r"|postgres|mysql|redis|mongo|rabbit|guest|deadbeef|cafebabe|long|valid|invalid|wrong|new"
    r"|old|this|not|public|private|access|client|service|account|app|dev|local|prod"
    r"|live|with|please|set|enter|credentials?|auth|bearer|hidden|masked|removed|hello|world"
    r"|0?123(?:4(?:5(?:6(?:7(?:8(?:90?)?)?)?)?)?)?|abc(?:d(?:e(?:f(?:gh?)?)?)?)?|xyz"
    r"|(.)\1{2,}"
)
# The beginning of a reference instead of a value: "${VAR}", "<key>", "vault:", "env.KEY".
_OPEN = re.compile(
    r"[$<*{\[]|![A-Za-z]|%\w+%|ENC\[|vault:|op://|arn:|env[.:]|process\.env|os\.|secrets\.|data:"
)
_INNER = ("${", "{{", "<", "***", "...", "…", "xxxx", "XXXX", "%s", "%(", "#{", "$(")
_NAMED = (
    *("example", "placeholder", "redacted", "changeme", "change-me", "change_me", "your-", "your_"),
    *("yourapi", "yoursecret", "yourpass", "insert-", "insert_", "replace-", "replace_", "dummy"),
    *("not-a-real", "notreal", "not-real", "fake", "goes-here"),
)
_WORD = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{4,}")
_SIGNS = frozenset("!@#$%^&*+=?~")


def is_fake(value: str, *, least: int = 5) -> bool:
    """Return True for a placeholder such as "your-api-key" or "changeme".

    A value is also a placeholder if it has fewer than `least` letters and digits after words such
    as "test" or "token" are removed, or only a few different ones.
    """
    if _OPEN.match(value) or any(part in value for part in _INNER):
        return True
    low = value.lower()
    if any(word in low for word in _NAMED):
        return True
    rest = [c for c in _FILLER.sub("", low) if c.isalnum()]
    return len(rest) < least or len(set(rest)) < min(least, 4)


def is_password(value: str) -> bool:
    """Return True for 6 to 200 characters with a letter and a digit or a special character."""
    if not 6 <= len(value) <= 200:
        return False
    has_letter = any(map(str.isalpha, value))
    return has_letter and any(c.isdigit() or c in _SIGNS for c in value)


def is_random(value: str) -> bool:
    """Return True for random characters: few words, many different ones, letters and digits."""
    if len(set(value)) < 8 or not any(map(str.isdigit, value)):
        return False
    if not any(map(str.isalpha, value)):
        return False
    rest = sum(c.isalnum() for c in _WORD.sub(_without_word, value))
    return rest >= max(8, 0.4 * len(value))


def _without_word(match: re.Match[str]) -> str:
    """Return "" for letters that may be a word, else the letters.

    They may be a word if 20 to 70 % of them are vowels: "password" gives "", "xkqzw" stays.
    """
    word = match[0].lower()
    vowels = sum(c in "aeiouy" for c in word)
    return "" if 0.2 <= vowels / len(word) <= 0.7 else match[0]


def is_credential(value: str, *, is_basic: bool) -> bool:
    """Return True if the value after "Bearer" or "Basic" is a secret, and no placeholder or JWT."""
    if is_fake(value) or value.startswith("eyJ"):
        return False
    if not is_basic:
        return is_random(value)
    try:
        _, colon, password = b64decode(value + "=" * (-len(value) % 4)).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and is_password(password) and not is_fake(password)


def is_real_jwt(body: str) -> bool:
    """Return True for the body of a JWT that is no well-known example, such as "John Doe"."""
    try:
        data = urlsafe_b64decode(body + "=" * (-len(body) % 4))
        claims = json.loads(data)
    except (ValueError, binascii.Error, RecursionError):
        return False
    if not isinstance(claims, dict) or not claims:
        return False
    text = data.decode(errors="replace").lower()
    subject = str(claims.get("sub", ""))
    return not (
        subject in ("1234567890", "1234", "123", "johndoe", "test", "user")
        or any(word in text for word in ("john doe", "johndoe", "jane doe", "example", "jwt.io"))
    )
