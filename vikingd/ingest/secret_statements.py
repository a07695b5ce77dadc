"""Secrets in statements that are no assignments: SQL, options of a command, pairs, and calls.

Examples are `IDENTIFIED BY 'x'`, `curl -u ada:x`, `--password x`, `#define WIFI_PASSWORD "x"`, and
an entry with the name `DB_PASSWORD` and a value. What surrounds a value tells how much it has to
look like a secret.

The time is linear in the length of the text: a regular expression is tried only where a fixed
string stands, and matches a limited number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vikingd.ingest.secret_values import is_fake, is_password, is_random

_LEAST_OF_A_KEY = 16  # characters
_MOST_BEFORE = 80  # characters before a name

# A value: 'x', "x", `x`, or without quotes up to a space.
_QUOTED = r"(?:[NL@bru]?(?P<quote>[\"'`])(?P<quoted>[^\s\"'`]{6,400}+)(?P=quote))"
_BARE = r"(?P<bare>[^\s\"'`,;|&<>(){}\[\]$\\]{6,400}+)(?![(\[{$|&<])"
_VALUE = rf"(?:{_QUOTED}|{_BARE})"


class Value(NamedTuple):
    """The characters [start, end) of a value that is a secret, and its kind."""

    start: int
    end: int
    kind: str


class _Statement(NamedTuple):
    """A statement that names a user and a password: a string of it, its pattern, and its kind.

    `lenient` is True if what stands there is a password by the syntax, so that it need not be
    random.
    """

    sign: str
    pattern: re.Pattern[str]
    kind: str
    lenient: bool


_LINE = r"(?:[^\n\\]|\\\r?\n?){0,300}?"  # the rest of a command, over continued lines
_USER = r"[\"']?[^\s:\"'$<{/]{1,60}:"
_COMMANDS = (
    _Statement(
        "identified",
        re.compile(
            rf"(?i)identified\s{{1,8}}(?:with\s{{1,8}}\S{{1,40}}\s{{1,8}})?by\s{{1,8}}{_QUOTED}"
        ),
        "password",
        True,
    ),
    _Statement(
        "convertto-securestring",
        re.compile(
            r"(?i)convertto-securestring[ \t]+(?:-(?:string|asplaintext|force)[ \t]+){0,3}"
            rf"{_QUOTED}"
        ),
        "password",
        True,
    ),
    _Statement(
        "curl ",
        re.compile(
            rf"curl{_LINE}[ \t](?:-u|--user|--proxy-user)(?:[ \t=]{{1,4}})?{_USER}"
            r"(?P<bare>[^\s\"'`]{6,200}+)"
        ),
        "password",
        True,
    ),
    _Statement(
        "mysql",
        re.compile(
            rf"mysql(?:dump|admin|import|show|check)?[ \t]{_LINE}"
            rf"(?<=[ \t])-p(?!ort\b|ort\d){_VALUE}"
        ),
        "password",
        True,
    ),
    _Statement("sshpass ", re.compile(rf"sshpass[ \t]+-p[ \t]*{_VALUE}"), "password", True),
    _Statement(
        "basicauth(",
        re.compile(rf"(?i)basicauth\(\s{{0,20}}[\"'][^\"'\n]{{0,80}}[\"'],\s{{0,20}}{_QUOTED}"),
        "password",
        False,
    ),
    _Statement(
        "auth=(",
        re.compile(rf"auth=\(\s{{0,20}}[\"'][^\"'\n]{{0,80}}[\"'],\s{{0,20}}{_QUOTED}"),
        "password",
        False,
    ),
    _Statement(
        "authorization",
        re.compile(
            r"(?i)authorization[\"']?\]?[ \t]{0,4}[:=][ \t]{0,4}[\"'`]?"
            r"(?:(?:token|apikey|key|api-key)[ \t=]{1,4})?(?P<bare>[\w+/=.~-]{16,400}+)(?![\w(])"
        ),
        "credential of a request",
        False,
    ),
)

# What stands before a name, up to it: "#define WIFI_", "--admin-", 'name: "DB_'.
_DEFINE = re.compile(r"#[ \t]{0,8}define[ \t]{1,20}\w{0,60}\Z", re.IGNORECASE)
_OPTION = re.compile(r"(?:\A|[\s\"'`])--[\w-]{0,40}\Z")
_NAME = re.compile(
    r"\b(?:name|key)[\"']?[ \t]{0,20}[:=][ \t]{0,20}[\"']?[\w.-]{0,60}\Z", re.IGNORECASE
)
_ROLE = re.compile(
    r"\b(?:with|encrypted|login|(?:user|role)\s{1,8}\S{1,60})\s{1,8}\Z", re.IGNORECASE
)
_SETS_ROLE = re.compile(r"\b(?:create|alter)\s{1,8}(?:user|role|login|group)\b", re.IGNORECASE)
_VARIABLE = re.compile(
    r"(?:\A|\n)[ \t]{0,20}(?:ENV|setenv|setx|set[ \t]+-[gUx]{1,3})[ \t]{1,8}\w{0,60}\Z",
    re.IGNORECASE,
)
_SIGNING = re.compile(r"(?:\A|\s)(?:store|key)\Z", re.IGNORECASE)

_AFTER_NAME = re.compile(rf"[\w.-]{{0,30}}+[ \t]{{1,20}}{_VALUE}")
_PAIR = re.compile(
    r"[\w.-]{0,30}+[\"']?[ \t]{0,20},?\s{0,80}[\"']?value[\"']?[ \t]{0,20}[:=][ \t]{0,20}"
    rf"{_VALUE}",
    re.IGNORECASE,
)
_CALL = re.compile(
    rf"\w{{0,30}}+\([ \t]{{0,8}}(?:[\"'][^\"'\n]{{0,80}}[\"'],[ \t]{{0,8}})?{_QUOTED}"
)
# A value after an expression: `process.env.KEY || "x"`, `os.getenv("KEY") or "x"`.
_OTHERWISE = re.compile(
    r"[\w\"'\])?]{0,30}+[ \t]{0,8}(?::[^=\n]{1,40})?=[^=\n;]{0,100}?"
    rf"(?:\|\||\?\?|\?:|\bor\b)[ \t]{{0,8}}{_QUOTED}"
)
_HEX = re.compile(r"(?:[0-9a-fA-F]+|0x[0-9a-fA-F]{40})\Z")  # also the address of a contract
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_REFERENCE = re.compile(
    r"[A-Za-z_]\w*(?:[.:]{1,2}[A-Za-z_]\w*){1,8}\Z|/|\.{1,2}/|\w{2,12}://|~/|-"
    r"|\d{4}-\d\d-\d\d[T ]|(?:[A-Z0-9]+-)*(?:HMAC|RSA)-SHA\d+\Z"  # a time, a scheme of signatures
)
# A password of an application, in four groups of four letters.
_GROUPS = re.compile(
    r"\w{0,30}+[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"'](?P<value>[a-z]{4}(?: [a-z]{4}){3})[\"']"
)


def secret_commands(text: str, low: str) -> Iterator[Value]:
    """Yield the secrets of commands and calls that have a place for a password.

    Args:
        text: the text.
        low: the text in lower case, of the same length.
    """
    for sign, pattern, kind, lenient in _COMMANDS:
        at = low.find(sign)
        while at >= 0:
            match = pattern.match(text, at)
            if match and (value := _value(match, kind, lenient=lenient)):
                yield value
            at = low.find(sign, match.end() if match else at + len(sign))


def stated_value(text: str, at: int, end: int, kind: str, *, is_config: bool) -> Value | None:
    """Return the secret that a statement gives to a name, without an assignment; None without one.

    Args:
        text: the text.
        at, end: the characters of the word in the name, such as "passw" of `DB_PASSWORD`.
        kind: "password", or "key or token".
        is_config: the text is that of a configuration file.
    """
    before = text[max(0, at - _MOST_BEFORE) : at]
    if match := _GROUPS.match(text, end):
        # At least one of the groups is no word.
        has_no_word = any(map(_has_no_vowel, match["value"].split()))
        return Value(*match.span("value"), kind) if kind == "password" and has_no_word else None
    if _NAME.search(before) and (match := _PAIR.match(text, end)):
        return _value(match, kind, lenient=is_config and kind == "password")
    if match := _AFTER_NAME.match(text, end):
        is_define, is_role = _DEFINE.search(before), _ROLE.search(before)
        is_quoted = match["quote"] is not None
        if is_define or (is_role and is_quoted):
            is_set = is_define or _SETS_ROLE.search(before)
            lenient = kind == "password" and bool(is_set)
            return _value(match, kind, lenient=lenient) if is_quoted else None
        if _OPTION.search(before) or _VARIABLE.search(before):
            return _value(match, kind, lenient=is_config and kind == "password")
        if is_quoted and _SIGNING.search(before):
            return _value(match, kind, lenient=True)
        ends = text[match.end() : match.end() + 1] in ("", "\r", "\n", ";")
        if is_quoted or (is_config and ends):
            return _value(match, kind, lenient=False)
        return None
    if match := _CALL.match(text, end):
        # Numbers in base 16 are those of contents and of revisions more often than secrets.
        return None if _HEX.match(match["quoted"]) else _value(match, kind, lenient=False)
    match = _OTHERWISE.match(text, end)
    return _value(match, kind, lenient=False) if match else None


def _has_no_vowel(word: str) -> bool:
    return not any(letter in "aeiouy" for letter in word)


def _value(match: re.Match[str], kind: str, *, lenient: bool) -> Value | None:
    """Return the value of a match if it looks like a secret.

    A lenient test takes a password with a letter and a digit; else a value is random characters.
    """
    group = "quoted" if match.groupdict().get("quoted") else "bare"
    value = match[group]
    if _REFERENCE.match(value) or _UUID.match(value) or is_fake(value):
        return None
    if value.startswith("eyJ"):  # a JWT, which has a test of its own
        return None
    is_one = is_password(value) if lenient else len(value) >= _LEAST_OF_A_KEY and is_random(value)
    return Value(match.start(group), match.end(group), kind) if is_one else None
