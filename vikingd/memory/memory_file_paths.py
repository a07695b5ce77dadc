"""The memory files to which memories are written, by kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.rights import Right
from vikingd.memory.known_file_routes import Routes, candidates, own_files
from vikingd.memory.memory_types import SHARED_ROOTS, MemoryScope, own_root, project_root

JOURNAL = "journal"

# A time zone may shift a day beyond the calendar's ends.
MIN_NOW, MAX_NOW = (int(datetime(y, 1, 1, tzinfo=UTC).timestamp()) * 10**6 for y in (2, 9999))


def day_of(micros: int, zone: str) -> str:
    """Return the day of a time in a zone, as in 2026-03-01.

    Raises:
        InvalidField: the time is not in the years 2 to 9998.
    """
    if not MIN_NOW <= micros < MAX_NOW:
        raise InvalidField("time", "must lie in the years 2 to 9998")
    said = datetime.fromtimestamp(micros // 1_000_000, UTC)
    return said.astimezone(ZoneInfo(zone)).date().isoformat()


def file_for(
    kind: str,
    scope: MemoryScope,
    routes: Routes,
    exists: Callable[[str], bool],
    day: Callable[[], str],
    *,
    of_agent: bool = False,
) -> str:
    """Return the URI of the file to which memories of a kind are written.

    Of the candidates, those are preferred that the caller may write. Among these, files of the
    caller's own user go before shared ones, and then existing files before others. If the caller
    may write none, the first candidate is returned, and the write is refused later.

    Args:
        kind: the name of a row of the table of routes, "journal", or any other name of a file.
        scope: the caller and the project.
        routes: the table of routes, which gives the files of a kind by preference.
        exists: returns whether a file exists.
        day: returns the date of a journal, as YYYY-MM-DD.
        of_agent: a kind that is not in `routes` is the agent's, not the user's.
    """
    route, caller = routes.by_name.get(kind), scope.caller
    places = candidates(route, scope) if route is not None else []
    if not places:
        name = f"{JOURNAL}/{day()}" if kind == JOURNAL else kind
        root = SHARED_ROOTS[of_agent]
        if scope.project:
            root = project_root(scope.project) + ("/agent" if of_agent else "")
        shared = f"{root}/{name}.md"
        places = [*own_files([shared], caller.user), shared]
    writable = [uri for uri in places if caller.may(Right.WRITE, uri)]
    if caller.user:
        own = own_root(caller.user)
        writable = [uri for uri in writable if uris.is_within(uri, own)] or writable
    there = (uri for uri in writable if exists(uri))
    return next(there, (writable or places)[0])


def title_of(uri: str) -> str:
    """Return the title of a new file."""
    name = uris.name(uri).rpartition(".")[0]
    if uris.name(uris.parent(uri)) == JOURNAL:
        return name
    return name.replace("_", " ").replace("-", " ").capitalize()
