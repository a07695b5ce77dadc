"""A plain model of the tree and of rights: sets of URIs, split into segments.

It shares no code with the product. Each call returns an `Answer` with the name of the status, and
the URIs that the caller may see. A write that is accepted changes the world.

    world = World({"viking://": True, "viking://resources": True})
    caller = Caller(world, [("write", "viking://resources")], user="ana")
    assert caller.put([("viking://resources/a.md", False)]).code == OK
    assert caller.list("viking://").uris == ["viking://resources"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.answer.grep_helpers import plain_glob

ROOT = "viking://"
OK, NOT_FOUND, DENIED = "OK", "NOT_FOUND", "PERMISSION_DENIED"
INVALID, EXISTS = "INVALID_ARGUMENT", "ALREADY_EXISTS"
LEVELS = {"read": 1, "write": 2, "admin": 3}

Segments = tuple[str, ...]
Grants = Iterable[tuple[str, str]]
"""Pairs of the right ("read", "write", "admin") and the prefix."""


def split(uri: str) -> Segments:
    """Return the segments of a URI; none for the root."""
    return tuple(segment for segment in uri[len(ROOT) :].split("/") if segment)


def join(segments: Sequence[str]) -> str:
    """Return the URI of segments."""
    return ROOT + "/".join(segments)


def within(segments: Segments, top: Segments) -> bool:
    """Return whether a URI is another one or below it."""
    return segments[: len(top)] == top


def root_of(segments: Segments) -> Segments | None:
    """Return the typed root of a URI; None above the roots and outside of them."""
    if segments[:1] == ("resources",):
        return segments[:1]
    if segments[:2] in (("user", "memories"), ("agent", "memories"), ("agent", "skills")):
        return segments[:2]
    if segments[:1] == ("projects",) and segments[2:3] == ("memories",):
        return segments[:3]
    own = ("memories",), ("resources",), ("skills",)
    if segments[:1] == ("users",) and segments[2:3] in own:
        return segments[:3]
    return None


def is_above_roots(segments: Segments) -> bool:
    """Return whether a URI is a directory above typed roots."""
    if segments in ((), ("user",), ("agent",)):
        return True
    return segments[:1] in (("projects",), ("users",)) and len(segments) <= 2


@dataclass
class World:
    """The tree of one tenant.

    Attributes:
        contexts: each URI, and whether it is a directory.
        links: pairs of linked URIs.
        contents: the contents of files, as far as `put` was told.
    """

    contexts: dict[str, bool]
    links: set[frozenset[str]] = field(default_factory=set)
    contents: dict[str, str] = field(default_factory=dict)

    def below(self, uri: str) -> list[str]:
        """Return a context and all below it."""
        top = split(uri)
        return [other for other in self.contexts if within(split(other), top)]

    def file_above(self, segments: Segments) -> bool:
        """Return whether a file stands where a directory above the URI must be."""
        above = [join(segments[:n]) for n in range(len(segments))]
        return any(self.contexts.get(uri) is False for uri in above)

    def make(self, segments: Segments, *, is_directory: bool) -> None:
        """Add a context and the directories above it."""
        for n in range(len(segments)):
            self.contexts[join(segments[:n])] = True
        self.contexts[join(segments)] = is_directory


@dataclass
class Answer:
    """The status of a call, and the URIs of its reply.

    Attributes:
        uris: in the order of the reply; of Get, the context alone.
        related: other ends of the links of the context; from Get only.
    """

    code: str
    uris: list[str] = field(default_factory=list)
    related: set[str] = field(default_factory=set)

    def pages(self, size: int) -> list[list[str]]:
        """Return the URIs in pages; there is always one page, and none is empty after it."""
        starts = range(0, max(1, len(self.uris)), size)
        return [self.uris[start : start + size] for start in starts]


class Caller:
    """A caller with grants in a world."""

    def __init__(self, world: World, grants: Grants, user: str = "") -> None:
        self.world = world
        self.user = user
        self._grants = [(LEVELS[right], split(prefix)) for right, prefix in grants]

    def may(self, right: str, uri: str) -> bool:
        """Return whether one of the grants covers the URI with this right or a higher one."""
        segments = split(uri)
        return any(
            level >= LEVELS[right] and within(segments, prefix) for level, prefix in self._grants
        )

    def visible(self) -> set[str]:
        """Return all contexts that the caller may learn of by any call."""
        return {uri for uri in self.world.contexts if self.may("read", uri)}

    def full(self, uri: str) -> str | None:
        """Return a URI without a slash at its end and with the caller's own root for `~`.

        None: the caller has no user.
        """
        segments = split(uri)
        if segments[:1] == ("~",):
            if not self.user:
                return None
            segments = ("users", self.user, *segments[1:])
        return join(segments)

    def get(self, uri: str) -> Answer:
        """Read a context; the other ends of its links are shown if they are readable."""
        full = self.full(uri)
        if full is None:
            return Answer(INVALID)
        if full not in self.visible():
            return Answer(NOT_FOUND)
        others = {other for link in self.world.links if full in link for other in link - {full}}
        return Answer(OK, [full], others & self.visible())

    def list(self, uri: str) -> Answer:
        """List the children of a directory, or the readable parts of a partly readable one."""
        full = self.full(uri)
        if full is None:
            return Answer(INVALID)
        top = split(full)
        if self.may("read", full):
            if full not in self.world.contexts:
                return Answer(NOT_FOUND)
            if not self.world.contexts[full]:
                return Answer(INVALID)
            children = [u for u in self.world.below(full) if len(split(u)) == len(top) + 1]
            return Answer(OK, sorted(children, key=lambda u: (self.world.contexts[u], u)))
        parts = self._parts(full)
        if not parts and top:
            return Answer(NOT_FOUND)
        return Answer(OK, sorted(parts, key=lambda u: (self.world.contexts[u], u)))

    def tree(self, uri: str, depth: int = 0) -> Answer:
        """List a subtree down to a depth below the target; 0: all of it."""
        full = self.full(uri)
        if full is None:
            return Answer(INVALID)
        top = split(full)
        if self.may("read", full):
            if full not in self.world.contexts:
                return Answer(NOT_FOUND)
        elif top and not self._parts(full):
            return Answer(NOT_FOUND)
        below = [
            other
            for other in self.world.below(full)
            if self.may("read", other) and (not depth or len(split(other)) <= len(top) + depth)
        ]
        # The target stands first; its URI is the smallest of all below it.
        return Answer(OK, sorted(below))

    def glob(self, uri: str, pattern: str) -> Answer:
        """Find what matches a pattern below a directory, or in its readable parts."""
        found = self.list(uri)
        top = split(self.full(uri) or "")
        return self._below(uri, found.code, lambda other: bool(
            len(split(other)) > len(top)
            and (self.world.contexts[other] or not pattern.endswith("/"))
            and plain_glob("/".join(split(other)[len(top) :]), pattern)
        ))  # fmt: skip

    def grep(self, uri: str, word: str, glob: str = "**") -> Answer:
        """Find the files with a word in their content, below a directory, or one file."""
        found = self.tree(uri)
        top = split(self.full(uri) or "")

        def matches(other: str) -> bool:
            path, content = split(other)[len(top) :], self.world.contents.get(other)
            return content is not None and word in content and (
                not path or plain_glob("/".join(path), glob)
            )  # fmt: skip

        return self._below(uri, found.code, matches)

    def _below(self, uri: str, code: str, matches: Callable[[str], bool]) -> Answer:
        """Return the visible contexts below a URI that match, if the call is accepted."""
        if code != OK:
            return Answer(code)
        below = set(self.world.below(self.full(uri) or "")) & self.visible()
        return Answer(OK, sorted(filter(matches, below)))

    def put(self, contexts: Sequence[tuple[str, bool]], contents: Sequence[str] = ()) -> Answer:
        """Write contexts, given as URI and whether it is a directory; all or none."""
        fulls, code = self._writable([uri for uri, _ in contexts])
        if code != OK:
            return Answer(code)
        kinds = [is_directory for _, is_directory in contexts]
        if len(set(fulls)) < len(fulls):
            return Answer(INVALID)
        after = World(dict(self.world.contexts))
        # By URI, a directory comes before what is below it.
        for full, is_directory in sorted(zip(fulls, kinds, strict=True)):
            segments = split(full)
            is_root = root_of(segments) == segments
            if root_of(segments) is None and not is_above_roots(segments):
                return Answer(INVALID)
            if (is_root or is_above_roots(segments)) and not is_directory:
                return Answer(INVALID)
            if after.contexts.get(full, is_directory) != is_directory:
                return Answer(INVALID)
            if after.file_above(segments):
                return Answer(INVALID)
            after.make(segments, is_directory=is_directory)
        self.world.contexts = after.contexts
        texts = zip(fulls, kinds, contents, strict=False)
        self.world.contents |= {
            full: text for full, is_directory, text in texts if not is_directory
        }
        return Answer(OK)

    def delete(self, uris: Sequence[str], *, allow_missing: bool = False) -> Answer:
        """Remove contexts with all below them; all or none."""
        fulls, code = self._writable(uris)
        if code != OK:
            return Answer(code)
        for full in fulls:
            if full == ROOT:
                return Answer(INVALID)
            if full not in self.world.contexts and not allow_missing:
                return Answer(NOT_FOUND)
        gone = {other for full in fulls for other in self.world.below(full)}
        for uri in gone:
            del self.world.contexts[uri]
            self.world.contents.pop(uri, None)
        self.world.links = {link for link in self.world.links if not link & gone}
        return Answer(OK)

    def move(self, source: str, destination: str) -> Answer:
        """Move a subtree with its links."""
        fulls, code = self._writable([source, destination])
        if code != OK:
            return Answer(code)
        old, new = (split(full) for full in fulls)
        if root_of(old) in (None, old) or root_of(new) is None:
            return Answer(INVALID)
        if new != old and within(new, old):
            return Answer(INVALID)
        if join(old) not in self.world.contexts:
            return Answer(NOT_FOUND)
        if root_of(new) == new and not self.world.contexts[join(old)]:
            return Answer(INVALID)
        if join(new) in self.world.contexts:
            return Answer(EXISTS)
        if self.world.file_above(new):
            return Answer(INVALID)
        moved = {uri: join(new + split(uri)[len(old) :]) for uri in self.world.below(join(old))}
        kinds = {moved[uri]: self.world.contexts.pop(uri) for uri in moved}
        for uri, is_directory in kinds.items():
            self.world.make(split(uri), is_directory=is_directory)
        self.world.contexts.update(kinds)
        self.world.contents = {
            moved.get(uri, uri): content for uri, content in self.world.contents.items()
        }
        self.world.links = {
            frozenset(moved.get(uri, uri) for uri in link) for link in self.world.links
        }
        return Answer(OK)

    def link(self, uri: str, other: str) -> Answer:
        """Link two contexts."""
        fulls, code = self._writable([uri, other])
        if code == OK and fulls[0] == fulls[1]:
            code = INVALID
        if code == OK:
            code = OK if all(full in self.world.contexts for full in fulls) else NOT_FOUND
        if code == OK:
            self.world.links.add(frozenset(fulls))
        return Answer(code)

    def unlink(self, uri: str, other: str) -> Answer:
        """Remove a link."""
        fulls, code = self._writable([uri, other])
        if code != OK:
            return Answer(code)
        if frozenset(fulls) not in self.world.links:
            return Answer(NOT_FOUND)
        self.world.links.discard(frozenset(fulls))
        return Answer(OK)

    def _writable(self, uris: Iterable[str]) -> tuple[list[str], str]:
        """Return the full URIs, and whether the caller may write all of them.

        It depends on the URIs alone, so a denial tells nothing of what exists.
        """
        fulls: list[str] = []
        for uri in uris:
            full = self.full(uri)
            if full is None:
                return [], INVALID
            fulls.append(full)
        return fulls, OK if all(self.may("write", full) for full in fulls) else DENIED

    def _parts(self, full: str) -> set[str]:
        """Return the outermost readable contexts below a directory that is not readable."""
        below = [uri for uri in self.world.below(full) if self.may("read", uri)]
        return {
            uri
            for uri in below
            if not any(self.may("read", join(split(uri)[:n])) for n in range(len(split(uri))))
        }
