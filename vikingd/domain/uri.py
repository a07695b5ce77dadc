"""viking:// URIs: the external names of contexts.

A URI is `viking://` followed by segments joined by `/`. `viking://` itself is the root. Segments
are any Unicode but control characters; `.` and `..` are not segments. Order is that of the UTF-8
bytes, which is that of the code points.
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
    """Returns the URI in its one form (no trailing slash), checked.

    Raises:
        InvalidField: naming `field`, when it is not a URI of ours.
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
    """The URI of the directory that holds `uri`; the root is its own parent."""
    cut = uri.rfind("/")
    return uri[:cut] if cut >= len(ROOT) else ROOT


def name(uri: str) -> str:
    """The last segment; "" for the root."""
    return uri[max(uri.rfind("/") + 1, len(ROOT)) :]


def join(directory: str, child: str) -> str:
    """The URI of `child` (a name or a relative path) below `directory`."""
    return directory + child if directory == ROOT else f"{directory}/{child}"


def ancestors(uri: str) -> list[str]:
    """The directories above `uri`, from the root down; empty for the root."""
    out: list[str] = []
    while uri != ROOT:
        uri = parent(uri)
        out.append(uri)
    out.reverse()
    return out


def is_within(uri: str, directory: str) -> bool:
    """Whether `uri` is `directory` or lies below it: /a has /a/b within, never /ab."""
    if directory == ROOT or uri == directory:
        return True
    return uri.startswith(directory + "/")


def subtree_bounds(directory: str) -> tuple[str, str]:
    """(low, high) so that low <= u < high holds for just the URIs strictly below `directory`."""
    low = directory if directory == ROOT else directory + "/"
    return low, low[:-1] + "0"  # "0" is the code point after "/"


def context_type(uri: str) -> ContextType:
    """The type by the root that `uri` stands under; UNSPECIFIED above the typed roots."""
    for kind, root, below in _TYPED:
        if uri == root or uri.startswith(below):
            return kind
    segments = uri[len(ROOT) :].split("/")
    if segments[0] == "projects" and len(segments) > 2 and segments[2] == "memories":
        return ContextType.MEMORY
    return ContextType.UNSPECIFIED


def may_exist(uri: str) -> bool:
    """Whether `uri` is typed, or a directory on the way to a typed root."""
    if context_type(uri) is not ContextType.UNSPECIFIED or uri == ROOT:
        return True
    segments = uri[len(ROOT) :].split("/")
    return segments in (["user"], ["agent"]) or (segments[0] == "projects" and len(segments) <= 2)
