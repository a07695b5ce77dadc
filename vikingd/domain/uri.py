"""viking:// URIs: the external names of contexts.

A URI is `viking://` followed by segments joined by `/`. `viking://` itself is the root. Segments
have any characters but control characters. `.` and `..` are no segments. URIs sort by their code
points, which is the order of their UTF-8 bytes.
"""

from __future__ import annotations

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
_TYPED = [(kind, root, f"{root}/") for kind, roots in TYPED_ROOTS.items() for root in roots]


def parse(uri: str, field: str = "uri") -> str:
    """Return the checked URI in canonical form, without a trailing slash.

    Raises:
        InvalidField: naming `field`, if this is no valid URI.
    """
    if not uri.startswith(ROOT):
        raise InvalidField(field, f"must begin with {ROOT}, not {uri[:32]!r}")
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
    for kind, root, below in _TYPED:
        if uri == root or uri.startswith(below):
            return kind
    segments = uri[len(ROOT) :].split("/")
    if segments[0] == "projects" and len(segments) > 2 and segments[2] == "memories":
        return ContextType.MEMORY
    return ContextType.UNSPECIFIED


def may_exist(uri: str) -> bool:
    """Return True if `uri` has a type or is a directory above a typed root."""
    if context_type(uri) is not ContextType.UNSPECIFIED or uri == ROOT:
        return True
    segments = uri[len(ROOT) :].split("/")
    return segments in (["user"], ["agent"]) or (segments[0] == "projects" and len(segments) <= 2)
