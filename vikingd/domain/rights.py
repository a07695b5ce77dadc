"""Callers and their rights: what a key may read, write and administer, by URI prefix."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum

from vikingd.domain import uri as uris
from vikingd.domain.errors import NotReadable, PermissionDenied

DEFAULT_TENANT = "default"


class Right(IntEnum):
    """The rights of a key, as in the proto. Each right includes those before it."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Grant:
    """A right on a URI and on all below it."""

    right: Right
    prefix: str


class Caller:
    """The sender of a call, with its rights within one tenant.

    Attributes:
        key: id of the key; "" if the call needs none.
        tenant: the tenant whose data the call sees.
        user: the user whose own directory is `viking://users/USER`; "" for no user.
        is_operator: True if the caller manages tenants and keys, and has every right in each
            tenant.
    """

    __slots__ = ("_prefixes", "is_operator", "key", "tenant", "user")

    def __init__(
        self,
        key: str,
        tenant: str,
        user: str,
        grants: Iterable[Grant],
        *,
        is_operator: bool = False,
    ) -> None:
        self.key = key
        self.tenant = tenant
        self.user = user
        self.is_operator = is_operator
        given = [Grant(Right.ADMIN, uris.ROOT)] if is_operator else list(grants)
        # The outermost prefixes of each right, in the order of URIs.
        self._prefixes = {
            right: _outermost(grant.prefix for grant in given if grant.right >= right)
            for right in Right
        }

    @property
    def name(self) -> str:
        """A name for keys of caches; callers with equal names share cached results."""
        return f"user {self.user}" if self.user else self.key

    def may(self, right: Right, uri: str) -> bool:
        """Return True if the caller has the right on a URI."""
        return any(uris.is_within(uri, prefix) for prefix in self._prefixes[right])

    def parts(self, directory: str) -> tuple[str, ...]:
        """Return the URIs of the readable subtrees in a directory, sorted; none contains another.

        If all of the directory is readable, the result is the directory itself.
        """
        if self.may(Right.READ, directory):
            return (directory,)
        readable = self._prefixes[Right.READ]
        return tuple(prefix for prefix in readable if uris.is_within(prefix, directory))

    def readable_above(self, uri: str) -> str | None:
        """Return the outermost readable directory that contains a URI.

        It is the URI itself if no directory above it is readable, and None if the URI is
        unreadable.
        """
        readable = self._prefixes[Right.READ]
        return next((prefix for prefix in readable if uris.is_within(uri, prefix)), None)

    def check_read(self, uri: str) -> None:
        """Raise NotReadable, which looks like NotFound, unless the caller may read the URI."""
        if not self.may(Right.READ, uri):
            raise NotReadable(uri)

    def check(self, right: Right, uri: str) -> None:
        """Raise PermissionDenied unless the caller has the right on the URI.

        The URI need not exist, so the error does not tell whether it does.
        """
        if not self.may(right, uri):
            raise PermissionDenied(
                f"the key {self.key} has no right to {right.name.lower()} {uri}",
                key=self.key,
                right=right.name,
                uri=uri,
            )


def _outermost(prefixes: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not any(uris.is_within(prefix, outer) for outer in kept):
            kept.append(prefix)
    return tuple(kept)


LOCAL = Caller("", DEFAULT_TENANT, "", (), is_operator=True)
"""The caller of a call that needs no key."""

CALLER: ContextVar[Caller] = ContextVar("caller", default=LOCAL)
"""The caller of the call that the present asyncio task answers."""
