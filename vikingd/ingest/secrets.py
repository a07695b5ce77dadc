"""Secrets in a text: private keys, tokens, and values that are assigned to names of secrets.

A token is known by its form, such as `ghp_` and 36 characters. Any other value is a secret only if
its name says so (`password`, `api_key`) and it looks like one: a mix of letters and digits for a
password, random characters for a key. Placeholders are none: `your-api-key`, `changeme`, `${VAR}`.

The time is linear in the length of the text. A regular expression is tried only where a fixed
string such as "ghp_" stands, and matches a limited number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vikingd.ingest.secret_statements import secret_commands, stated_value
from vikingd.ingest.secret_values import is_credential, is_fake, is_password, is_random, is_real_jwt
from vikingd.ingest.token_forms import FAMILIES, OTHERS, Form


class Secret(NamedTuple):
    """The place of a secret in a text.

    Attributes:
        start, end: its characters.
        kind: its kind, such as "GitHub token".
    """

    start: int
    end: int
    kind: str


_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")
_MOST_OF_A_KEY = 20_000  # characters
_KEY_LINES = re.compile(
    r"(?:[ \t\"'+\\n]{0,40}[A-Za-z0-9+/=:, -]{16,200}[\"'+\\n ]{0,10}\r?\n?){1,400}"
)
_OF_A_KEY = re.compile(r"[A-Za-z0-9+/]{40}")
_PUTTY = re.compile(r"Private-Lines: \d{1,4}\r?\n(?:[A-Za-z0-9+/=]{1,80}\r?\n?){1,400}")

# "://ada:geheim1@example.org" of a URL.
_WITH_PASSWORD = re.compile(
    r"://(?P<user>[^\s/:@\"'`<>{}$()\[\],]{0,100}+):(?P<value>[^\s/@\"'`<>(),]{1,200}+)"
    r"@(?P<host>[\w.\-\[]{1,200}+)"
)
_NO_HOST = re.compile(r"(?i)(?:.*\.)?example(?:\.\w+)?$|host$|hostname$|server$")
# A JWT: three parts of base64 with "." between them, the first two with the beginning "eyJ".
_SIGNED = re.compile(r"eyJ[\w-]{10,2000}+\.(?P<body>eyJ[\w-]{8,8000}+)\.[\w-]{20,1000}+")
_BEARER = re.compile(r"(?i)(?:bearer|basic) {1,4}(?P<value>[A-Za-z0-9+/=_.~-]{16,2000}+)")

_CHINESE = ("密码", "口令", "密钥", "令牌")
_WORDS = (
    *("passw", "passphrase", "_pass", "pass", "pwd", "secret", "token", "credential", "key"),
    *_CHINESE,
)
_PASSWORDS = frozenset({"passw", "passphrase", "_pass", "pass", "pwd", "密码", "口令"})
# The word "pass" alone, as in `pass:` and `dbPass =`; "compass" and "passed" are other words.
_PASS = re.compile(
    r"(?:(?:(?<![A-Za-z0-9])|(?<=\brequire))[Pp]|(?<=[a-z0-9])P)ass(?![A-Za-z0-9_-])"
    r"|(?<![A-Za-z0-9_])PASS(?!\w)"
)
# Keys with another word before them are keys of tables, of keyboards and the like.
_KEYS = (
    *("access", "account", "admin", "api", "app", "auth", "client", "deploy", "encrypt"),
    *("encryption", "host", "license", "master", "private", "secret", "service", "session"),
    *("shared", "signing", "sign", "storage"),
)
# The rest of a name, and its value: '_key = "..."', "_prod: ...", '", "..."' after "password".
_ASSIGNED = re.compile(
    r"(?P<rest>[\w.\-]{0,30}+)"
    r"(?:"
    r"(?:\[[0-9A-Z_]{0,20}\]|(?:\\?[\"'`\])]){0,3})[ \t]{0,20}+"
    r"(?:\?|!)?(?::[ \t]{0,8}(?:&(?:'\w{1,20} )?)?(?:[A-Za-z][\w.\[\] |]{0,40}?)[ \t]{0,8}(?==)|)"
    r"(?P<by>:=|=>|={1,2}|[:：>]|\|(?![|=]))(?:\*\*)?"
    r"(?:(?<==)[ \t]{0,4}\(?[ \t]{0,4}\r?\n[ \t]{0,40}(?=[\"'`])|[ \t]{0,20}+)"
    r"|(?P<far>\\?[\"'][ \t]{0,4}(?:,|[ \t]value[ \t]{0,4}=|>)[ \t]{0,20}+)"
    r")"
    r"(?:[bBrRuUNL@#]{0,2}(?P<quote>\\?(?:\"\"\"|[\"'`]))"
    r"(?P<quoted>(?:(?!(?P=quote))[^\r\n]){1,400})(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;<>(){}\[\]$|&\\]{1,400}+)(?P<more>[(\[{$\"'`|&]?))"
)
_REST = re.compile(r"[\w.\-]{0,30}+")
_DEFINED = re.compile(r"\bdefine\([ \t]{0,8}[\"']\w{0,30}\Z")  # of a constant of PHP
_PLAIN = re.compile(r"[A-Za-z0-9!@#$%^&*+=?~_]+\Z")
# The rest of a name that holds no secret: "_id", "_file", "_hash".
_NO_SECRET = re.compile(
    r"^i[sz]|public|hash|digest|checksum|finger|encrypted|(?:_|-|\b)(?:id|ids|url|uri|path|file|dir"
    r"|name|type|kind|len|length|size|ttl|count|arn|ref|version|expir\w*|field|format|header"
    r"|algo(?:rithm)?|alg|age|policy|regex|pattern|prefix|suffix|label|title|text|hint|env|var"
    r"|endpoint|host|port|location|scope|scopes|lifetime|timeout|limit|limits|budget|pos"
    r"|index|store|provider)(?:_|-|$)"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
# A value that is a reference: "settings.KEY", "/run/key", "./key", "https://".
_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,8}$|/|\.{1,2}/|\w{2,12}://|@|~/")


def secrets_in(text: str, *, is_config: bool = False, is_store: bool = False) -> list[Secret]:
    """Return the secrets of a text, in order, without overlaps.

    Args:
        text: the text of a file.
        is_config: an unquoted value after "=" or ":" is a string, as in a configuration file, and
            not an expression of a programming language.
        is_store: the file exists to hold secrets: each value of a name such as `password` counts,
            unless it is a placeholder.
    """
    found = [*_private_keys(text), *_tokens(text), *_in_urls(text)]
    found += _assigned(text, is_config=is_config, is_store=is_store)
    if len(found) > 1:
        found.sort(key=lambda one: (one.start, -one.end))
    kept: list[Secret] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
        elif one.end > kept[-1].end:
            kept[-1] = kept[-1]._replace(end=one.end)
    return kept


def masked(text: str, found: Sequence[Secret]) -> str:
    """Return the text with a marker in place of each secret. All lines keep their numbers."""
    parts: list[str] = []
    at = 0
    for one in found:
        parts += text[at : one.start], f"[secret left out: {one.kind}]"
        parts += re.findall(r"\r?\n", text[one.start : one.end])
        at = one.end
    return "".join([*parts, text[at:]])


def lines_of(text: str, found: Sequence[Secret]) -> list[int]:
    """Return the number of the line, from 1, on which each secret begins."""
    lines, line, at = [], 1, 0
    for one in found:
        line += text.count("\n", at, one.start)
        at = one.start
        lines.append(line)
    return lines


def _private_keys(text: str) -> Iterator[Secret]:
    at = text.find("-----BEGIN ")
    while at >= 0:
        end = at + 1
        if begin := _BEGIN.match(text, at):
            end = begin.end()
            close = text.find("-----END ", end, end + _MOST_OF_A_KEY)
            if close >= 0 and text.find("-----BEGIN ", end, close) < 0:
                closing = _END.match(text, close)
                body, end = text[end:close], closing.end() if closing else close
            else:
                lines = _KEY_LINES.match(text, end + len(_line_end(text, end)))
                end = lines.end() if lines else end
                body = text[begin.end() : end]
            if any(is_random(run[0]) for run in _OF_A_KEY.finditer(body)):
                yield Secret(at, end, "private key")
        at = text.find("-----BEGIN ", end)
    if "Private-Lines: " in text:
        for match in _PUTTY.finditer(text):
            yield Secret(match.start(), match.end(), "private key")


def _line_end(text: str, at: int) -> str:
    return next((end for end in ("\r\n", "\n", "\\n") if text.startswith(end, at)), "")


def _tokens(text: str) -> Iterator[Secret]:
    for sign, starts, family in FAMILIES:
        done = 0
        for found in sign.finditer(text):
            end = found.end()
            if not text.endswith(starts, done, end):
                continue
            for form in family:
                if end > done and text.endswith(form[0], done, end):
                    secret, done = _token(text, end - len(form[0]), form, done)
                    if secret:
                        yield secret
    for form in OTHERS:
        at = text.find(form[0])
        while at >= 0:
            secret, at = _token(text, at, form, at + len(form[0]))
            if secret:
                yield secret
            at = text.find(form[0], at)
    at = text.find("eyJ")
    while at >= 0:
        match = _SIGNED.match(text, at)
        if match and is_real_jwt(match["body"]):
            yield Secret(at, match.end(), "signed JWT")
        at = text.find("eyJ", match.end() if match else at + 3)
    for word in ("earer ", "asic "):
        at = text.find(word)
        while at >= 0:
            match = _BEARER.match(text, at - 1) if at else None
            if match and is_credential(match["value"], is_basic=word == "asic "):
                yield Secret(*match.span("value"), "credential of a request")
            at = text.find(word, match.end() if match else at + 5)


def _token(text: str, at: int, form: Form, end: int) -> tuple[Secret | None, int]:
    """Return (secret, next): the token that begins at `at`, and where the search continues.

    `secret` is None if there is no token, or if it is a placeholder. `next` is the end of the
    match, or `end` if the form does not match at `at`.
    """
    start, kind, expression = form
    match = expression.match(text, at)
    if match is None:
        return None, end
    value = match["value"]
    is_name = start == "sk-" and not is_random(value)  # a CSS class, for example
    secret = None if is_name or is_fake(value) else Secret(*match.span("value"), kind)
    return secret, match.end()


def _in_urls(text: str) -> Iterator[Secret]:
    at = text.find("://")
    while at >= 0:
        match = _WITH_PASSWORD.match(text, at)
        if match:
            value, is_near = match["value"], match["host"].startswith(("localhost", "127.0.0"))
            if (
                value != match["user"]
                and (is_random(value) if is_near else is_password(value) or _is_long(value))
                and not is_fake(value)
                and not _NO_HOST.match(match["host"])
            ):
                yield Secret(*match.span("value"), "password of a URL")
        at = text.find("://", match.end() if match else at + 3)


def _is_long(value: str) -> bool:
    return len(value) >= 10 and value.isalpha()


def _assigned(text: str, *, is_config: bool, is_store: bool) -> Iterator[Secret]:
    low = text.lower()
    if len(low) != len(text):  # one letter has a longer form
        low = text.replace("\u0130", "I").lower()
    for value in secret_commands(text, low):
        yield Secret(*value)
    for word in _WORDS:
        at = low.find(word)
        while at >= 0:
            end = at + len(word)
            if _is_name(word, text, low, at):
                match = _ASSIGNED.match(text, end)
                if match and (secret := _of_assignment(match, word, low, is_config, is_store)):
                    yield secret
                if word not in _CHINESE and not _NO_SECRET.search(_rest(low, end)):
                    stated = stated_value(text, at, end, _kind(word), is_config=is_config)
                    if stated:
                        yield Secret(*stated)
                if match:
                    end = match.end()
            at = low.find(word, end)


def _is_name(word: str, text: str, low: str, at: int) -> bool:
    """Return True if a word of `_WORDS` is a part of the name of a secret, and of no other word."""
    if word == "key":
        return low[max(0, at - 12) : at].rstrip("_-. ").endswith(_KEYS)
    return word != "pass" or _PASS.match(text, at) is not None


def _rest(low: str, end: int) -> str:
    """Return the rest of a name: "ord_hash" of "password_hash", whose word ends at `end`."""
    match = _REST.match(low, end)
    return match[0] if match else ""


def _is_table_row(low: str, at: int) -> bool:
    """Return True if the line of a character begins with a bar; else a bar is a pipe of a shell."""
    return low[max(0, at - 400) : at].rpartition("\n")[2].lstrip().startswith("|")


def _kind(word: str) -> str:
    return "password" if word in _PASSWORDS else "key or token"


def _of_assignment(
    match: re.Match[str], word: str, low: str, is_config: bool, is_store: bool
) -> Secret | None:
    group = "quoted" if match["quote"] else "bare"
    value = match[group]
    if len(value) < (1 if is_store else 6) or any(map(str.isspace, value)):
        return None
    rest = match["rest"].lower()
    if rest and _NO_SECRET.search(rest):
        return None
    if _REFERENCE.match(value) or is_fake(value, least=3 if is_store else 5):
        return None
    if word in _CHINESE and (rest or not value.isascii()):
        return None
    if group == "bare":
        if match["more"] or match["far"] or (match["by"] == ">" and low[match.end("bare")] != "<"):
            return None
        value = value.rstrip(".") or value
    kind = _kind(word)
    start = match.start()
    if match["by"] == "|" and not _is_table_row(low, start):
        return None
    if is_store:
        is_one = True
    elif word == "pass":
        # In a table "pass" is the end of any cell.
        is_one = match["by"] != "|" and is_random(value) and _PLAIN.match(value) is not None
    elif match["far"] and rest == "ord" and _DEFINED.search(low, max(0, start - 50), start - 5):
        is_one = is_password(value)
    elif match["far"] or (group == "bare" and not is_config and match["by"] != ">"):
        is_one = len(value) >= 16 and is_random(value) and not (match["far"] and _UUID.match(value))
    elif kind == "password":
        is_one = is_password(value)
    else:
        is_one = len(value) >= 16 and is_random(value)
    return Secret(match.start(group), match.start(group) + len(value), kind) if is_one else None
