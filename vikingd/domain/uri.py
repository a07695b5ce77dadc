"""viking:// URIs: the external names of contexts.

A URI is `viking://` followed by segments joined by `/`. `viking://` itself is the root. Segments
have any characters but control characters. `.` and `..` are not allowed. URIs sort by their code
points, which is the order of their UTF-8 bytes.

A URI has one form: NFC, without hidden characters, see `canonical`. So names that look the same are
the same name. A new URI with a hidden character is refused.

In a request, the first segment `~` stands for the caller's directory `users/USER`; see `expand`.
"""

from __future__ import annotations

import re
import unicodedata

from vikingd.domain import hidden_characters
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField

ROOT = "viking://"
MAX_BYTES = 1024
MAX_LEVELS = 64

TYPED_ROOTS: dict[ContextType, tuple[str, ...]] = {
    ContextType.MEMORY: ("viking://user/memories", "viking://agent/memories"),
    ContextType.RESOURCE: ("viking://resources",),
    ContextType.SKILL: ("viking://agent/skills",),
}
"""The fixed roots by type. Each user and each project has more, see `NAMED_ROOTS`."""

NAMED_ROOTS: dict[ContextType, tuple[str, ...]] = {
    ContextType.MEMORY: ("viking://users/NAME/memories", "viking://projects/NAME/memories"),
    ContextType.RESOURCE: ("viking://users/NAME/resources",),
    ContextType.SKILL: ("viking://users/NAME/skills",),
}
"""The roots below the name of a user or a project by type; NAME is any one segment."""

_TYPES = (ContextType.UNSPECIFIED, *TYPED_ROOTS)
# Group i matches the roots of type i, such as viking://users/ana/memories at the beginning of
# viking://users/ana/memories/tea.md. One match takes less time than a comparison with each root.
_TYPED = re.compile(
    "|".join(
        f"((?:{'|'.join((*roots, *NAMED_ROOTS[kind]))}))".replace("NAME", "[^/]+") + r"(?:/|\Z)"
        for kind, roots in TYPED_ROOTS.items()
    )
)
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_OWN = f"{ROOT}~"
_USERS = f"{ROOT}users/"


def canonical(text: str) -> str:
    """Return a URI, a name or a glob in NFC, without hidden characters.

    Control characters stay, so that `parse` can refuse them.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", hidden_characters.removed(text))


def parse(uri: str, field: str = "uri") -> str:
    """Return a URI in its canonical form, without a slash at its end.

    Raises:
        InvalidField: the text is no valid URI; names `field`.
    """
    if not uri.startswith(ROOT):
        such = f"such as {ROOT}resources/notes/tea.md"
        raise InvalidField(field, f"must begin with {ROOT}, not {uri[:32]!r}; {such}")
    given, uri = uri, canonical(uri)
    if uri.endswith("/") and not given.endswith("/"):
        raise InvalidField(field, "has a name of hidden characters alone")
    try:
        size = len(uri.encode())
    except UnicodeEncodeError:
        raise InvalidField(field, "is not valid Unicode") from None
    if size > MAX_BYTES:
        raise InvalidField(field, f"has {size} bytes, at most {MAX_BYTES} are allowed")
    if uri == ROOT:
        return uri
    if uri.endswith("/"):
        uri = uri[:-1]
    segments = uri[len(ROOT) :].split("/")
    if len(segments) > MAX_LEVELS:
        raise InvalidField(field, f"has {len(segments)} levels, at most {MAX_LEVELS} are allowed")
    for segment in segments:
        if segment in ("", ".", ".."):
            raise InvalidField(field, f"has the segment {segment!r}, which is not allowed")
        if not segment.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in segment):
            raise InvalidField(field, "has a control character")
    return uri


def parse_new(uri: str, field: str = "uri") -> str:
    """Return the URI of a context to write in its canonical form.

    Raises:
        InvalidField: the text is no valid URI, or has a hidden character; names `field`.
    """
    parsed = parse(uri, field)
    if found := hidden_characters.first(uri):
        raise InvalidField(field, f"has {found}, which does not show: leave it out")
    return parsed


def parent(uri: str) -> str:
    """Return the URI of the parent directory; the root is its own parent."""
    cut = uri.rfind("/")
    return uri[:cut] if cut >= len(ROOT) else ROOT


def name(uri: str) -> str:
    """Return the last segment; "" for the root."""
    return uri[max(uri.rfind("/") + 1, len(ROOT)) :]


def join(directory: str, child: str) -> str:
    """Return the URI of `child` (a name or a relative path) below `directory`."""
    return directory + child if directory == ROOT else f"{directory}/{child}"


def ancestors(uri: str) -> list[str]:
    """Return the directories above `uri`, from the root down; none for the root."""
    out: list[str] = []
    while uri != ROOT:
        uri = parent(uri)
        out.append(uri)
    out.reverse()
    return out


def is_within(uri: str, directory: str) -> bool:
    """Return True if `uri` is `directory` or below it: /a/b is within /a, /ab is not."""
    if directory == ROOT or uri == directory:
        return True
    return uri.startswith(directory + "/")


def subtree_bounds(directory: str) -> tuple[str, str]:
    """Return (low, high) with low <= u < high for exactly the URIs u strictly below `directory`."""
    low = directory if directory == ROOT else directory + "/"
    return low, low[:-1] + "0"  # "0" is the code point after "/"


def context_type(uri: str) -> ContextType:
    """Return the type by the root of `uri`; UNSPECIFIED above the typed roots."""
    found = _TYPED.match(uri)
    return _TYPES[found.lastindex or 0] if found else ContextType.UNSPECIFIED


def may_exist(uri: str) -> bool:
    """Return True if a context with this URI may exist.

    It must be one of the roots whose contexts have a type, such as viking://resources, or be below
    or above one of them.
    """
    if context_type(uri) is not ContextType.UNSPECIFIED or uri == ROOT:
        return True
    segments = uri[len(ROOT) :].split("/")
    if segments[0] in ("users", "projects"):
        return len(segments) <= 2
    return segments in (["user"], ["agent"])


def check_user(name: str, field: str) -> str:
    """Return the name of a user if it is valid.

    Raises:
        InvalidField: the name is not valid; names `field`.
    """
    if not _USER.fullmatch(name):
        raise InvalidField(
            field,
            f"is {name[:80]!r}; up to 63 characters of A-Z, a-z, 0-9, '.', '_', '@' and '-' are "
            "allowed, the first one a letter or digit",
        )
    return name


def user_root(user: str) -> str:
    """Return the directory of a user's memories, resources and skills."""
    return _USERS + user


def user_of(uri: str) -> str:
    """Return the user whose directory contains a URI; "" if none does."""
    return uri[len(_USERS) :].partition("/")[0] if uri.startswith(_USERS) else ""


def expand(uri: str, user: str, field: str = "uri") -> str:
    """Return a URI whose first segment `~` is replaced by the user's directory.

    Raises:
        InvalidField: the URI begins with `~` and `user` is ""; names `field`.
    """
    if uri != _OWN and not uri.startswith(f"{_OWN}/"):
        return uri
    if not user:
        raise InvalidField(
            field,
            f"begins with {_OWN}, but the call has no user: use a key of a user "
            "(vikingctl keys create --user NAME), or name the directory in full",
        )
    return user_root(user) + uri[len(_OWN) :]
