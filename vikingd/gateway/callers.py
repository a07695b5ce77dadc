"""The callers of HTTP requests: a key in the header `authorization`, or a session by cookie."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.cookies import CookieError, SimpleCookie

from vikingd.gateway.http_errors import Fault
from vikingd.gateway.upstream import Metadata

AUTHORIZATION = "authorization"
TENANT = "vikingd-tenant"

MOST_SESSIONS = 10_000
MOST_OF_KEY = 20
"""The most sessions of one key."""

IDLE = 12 * 3600.0
"""The seconds without a request after which a session ends."""

_ATTRIBUTES = "Path=/; HttpOnly; SameSite=Strict"

_PROXIED = frozenset(("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"))
"""The headers that proxies add; a request with one may come from another machine."""

_SCHEME = "bearer "
_LONGEST = 256 - len(_SCHEME)  # characters; the daemon takes 256 with the scheme
_UNSENDABLE = f"must be printable ASCII text without spaces, of at most {_LONGEST} characters"


@dataclass(frozen=True, slots=True)
class Caller:
    """The key and the tenant of a request; "" if the request has none."""

    key: str = field(default="", repr=False)
    tenant: str = ""
    session: str = field(default="", repr=False)
    """The id of the session with the key; "": the request has the key itself, or none."""

    @property
    def metadata(self) -> Metadata:
        """The metadata for calls of the daemon."""
        pairs = [(AUTHORIZATION, f"Bearer {self.key}")] if self.key else []
        return [*pairs, (TENANT, self.tenant)] if self.tenant else pairs


@dataclass(slots=True)
class _Session:
    key: str
    tenant: str
    used: float


class Sessions:
    """The keys of signed-in browsers, kept in memory only, by the hash of the session's random id.

    Args:
        clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()  # by their last use

    def begin(self, key: str, tenant: str) -> str:
        """Begin a session and return its id. If there are too many, the longest idle one ends."""
        own = [digest for digest, session in self._sessions.items() if session.key == key]
        if len(own) >= MOST_OF_KEY:
            del self._sessions[own[0]]
        elif len(self._sessions) >= MOST_SESSIONS:
            self._sessions.popitem(last=False)
        name = secrets.token_urlsafe(32)
        self._sessions[_hash(name)] = _Session(key, tenant, self._clock())
        return name

    def caller(self, name: str) -> Caller | None:
        """Return the caller of a session; None if it does not exist, or has expired."""
        digest = _hash(name)
        session = self._sessions.get(digest)
        if session is None:
            return None
        now = self._clock()
        if now - session.used > IDLE:
            del self._sessions[digest]
            return None
        session.used = now
        self._sessions.move_to_end(digest)
        return Caller(session.key, session.tenant, name)

    def end(self, name: str) -> None:
        """Forget a session."""
        self._sessions.pop(_hash(name), None)


class Callers:
    """Finds the key of a request, in its header or by the session in its cookie.

    Args:
        needs_key: refuse requests without a key. Needed if other machines reach the gateway,
            because the daemon takes the gateway's calls for calls of its own machine, which need no
            key.
        cookie: the name of the cookie with the id of the session.
    """

    def __init__(self, *, needs_key: bool, cookie: str) -> None:
        self.needs_key = needs_key
        self.sessions = Sessions()
        self._cookie = cookie

    def of(self, headers: Mapping[str, str]) -> Caller:
        """Return the caller of a request.

        Raises:
            Fault: the request has no key although one is needed, an unreadable key, or a session
                that has ended.
        """
        tenant = _checked(TENANT, headers.get(TENANT, ""))
        given = headers.get(AUTHORIZATION)
        if given is not None:
            return Caller(_key_of(given), tenant)
        if name := self.session(headers):
            caller = self.sessions.caller(name)
            if caller is None:
                raise Fault(
                    401, "the session has ended: sign in again", headers=self.remove_cookie()
                )
            return replace(caller, tenant=tenant or caller.tenant)
        if self.needs_key or not _PROXIED.isdisjoint(headers):
            raise Fault(401, "a key is needed: send it as `authorization: Bearer KEY`, or sign in")
        return Caller(tenant=tenant)

    def session(self, headers: Mapping[str, str]) -> str:
        """Return the session id in the cookies of a request; "" without one."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    def set_cookie(self, name: str, *, secure: bool) -> dict[str, str]:
        """Return the response header that sets the cookie of a session."""
        attributes = f"{_ATTRIBUTES}; Secure" if secure else _ATTRIBUTES
        return {"set-cookie": f"{self._cookie}={name}; {attributes}"}

    def remove_cookie(self) -> dict[str, str]:
        """Return the response header that removes the cookie."""
        return {"set-cookie": f"{self._cookie}=; Max-Age=0; {_ATTRIBUTES}"}


def _key_of(authorization: str) -> str:
    """Return the key in the value of the header `authorization`.

    Raises:
        Fault: the value has no key.
    """
    if authorization[: len(_SCHEME)].lower() != _SCHEME:
        raise Fault(401, "`authorization` must be `Bearer KEY`")
    return _checked(AUTHORIZATION, authorization[len(_SCHEME) :].strip())


def value_of(name: str, value: object) -> str:
    """Return a key or a tenant that was given in a body, without white space around it.

    Raises:
        Fault: gRPC metadata cannot hold it; the error does not show the value.
    """
    if not isinstance(value, str) or not _is_sendable(value):
        raise Fault(400, _UNSENDABLE, field=name)
    return value.strip()


def _checked(name: str, value: str) -> str:
    if not _is_sendable(value):
        raise Fault(401, f"the value of `{name}` {_UNSENDABLE}")
    return value


def _is_sendable(value: str) -> bool:
    return len(value) <= _LONGEST and re.fullmatch(r"[!-~]*", value.strip()) is not None


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
