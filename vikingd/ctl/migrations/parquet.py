"""Parquet: each row is a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vikingd.client.file_import import Item
from vikingd.ctl.migrations import source
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft, Passage
from vikingd.domain.errors import InvalidField
from vikingd.domain.uri import MAX_LEVELS
from vikingd.ingest.file_tree import printable
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.jsonl import Tree
from vikingd.system.directory_walk import walk
from vikingd.system.regular_files import check_regular

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

FIELDS: dict[str, tuple[str, ...]] = {
    "uri": ("uri",),
    "id": ("id",),
    "text": ("text", "content", "document"),
    "title": ("title",),
    "abstract": ("abstract",),
    "time": ("time",),
    "vector": ("vector", "embedding"),
}
"""The names of columns for each field, the preferred one first."""

_MODEL = b"embedding_model"  # the key in the metadata of a file
_PAGE = 500  # rows that are in memory at once


@dataclass(slots=True)
class _Table:
    path: Path
    file: ParquetFile
    columns: dict[str, str]  # by field
    with_vectors: bool


def opened(asked: source.Asked) -> source.Source:
    """Open a Parquet file, or all of a directory.

    Raises:
        InvalidField: the package, a file or a column is missing, a file is not Parquet, or the
            vectors do not fit; the error names the argument.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise source.missing("pyarrow", "parquet") from None
    place = Path(asked.place)
    paths = _paths(asked, place) if place.is_dir() else [place]
    if not paths:
        raise InvalidField("path", f"{place} has no .parquet file")
    tables = [_table(asked, path) for path in paths]
    is_relative = any("uri" not in table.columns for table in tables)
    if not asked.uri and is_relative:
        raise InvalidField("uri", "is required, since the rows have ids in place of URIs")
    if asked.delete and not asked.uri:
        raise InvalidField("delete", "needs a URI")
    top = uris.parse(asked.uri or uris.ROOT)
    rows = sum(table.file.metadata.num_rows for table in tables)
    return source.Source(top, _read(asked, top, tables), rows)


def _paths(asked: source.Asked, place: Path) -> list[Path]:
    """Return the files below a directory, sorted."""
    paths = []
    for folder, folders, names in walk(place, MAX_LEVELS):
        paths += [folder / name for name in names if name.endswith(".parquet")]
        if folders and len(folder.parts) - len(place.parts) >= MAX_LEVELS:
            asked.notes.add(f"directories deeper than {MAX_LEVELS} levels are left out")
    return sorted(paths)


def _table(asked: source.Asked, path: Path) -> _Table:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        check_regular(path)
        file = ParquetFile(path)
        schema = file.schema_arrow
    except (ArrowException, OSError) as error:
        raise InvalidField("path", f"{path} is not readable as Parquet: {error}") from None
    columns = {}
    free = {*schema.names}.difference(asked.columns.values())
    for field, names in FIELDS.items():
        if chosen := asked.columns.get(field):
            if chosen not in schema.names:
                raise InvalidField(
                    "map",
                    f"{path} has no column {chosen!r} for {field}; "
                    f"its columns are: {', '.join(schema.names)}",
                )
            columns[field] = chosen
        elif found := free.intersection(names):
            columns[field] = min(found, key=names.index)
    for wanted in (("text",), ("uri", "id")):
        if not any(field in columns for field in wanted):
            names_of = " or ".join(wanted)
            raise InvalidField(
                "map",
                f"{path} has no column for {names_of}; --map {wanted[-1]}=COLUMN names one of: "
                f"{', '.join(schema.names)}",
            )
    model = (schema.metadata or {}).get(_MODEL, b"").decode(errors="replace")
    dimension = _dimension(file, columns.get("vector", ""))
    used = asked.vectors.are_used(printable(path), model, dimension, asked.notes)
    return _Table(path, file, columns, used)


def _dimension(file: ParquetFile, column: str) -> int:
    """Return the dimension of the first vector; 0 without vectors."""
    if column:
        for batch in file.iter_batches(_PAGE, columns=[column]):
            for vector in batch.column(0):
                if vector.is_valid:
                    value = vector.as_py()
                    return len(value) if isinstance(value, list) else 0
    return 0


def _read(asked: source.Asked, top: str, tables: Sequence[_Table]) -> Iterator[Item]:
    from pyarrow import ArrowException

    tree = Tree()
    for table in tables:
        where, number = printable(table.path), 0
        unused = {table.columns["vector"]} if "vector" in table.columns else set()
        names = [
            name
            for name in table.file.schema_arrow.names
            if table.with_vectors or name not in unused
        ]
        try:
            for batch in table.file.iter_batches(_PAGE, columns=names):
                for row in batch.to_pylist():
                    number += 1
                    yield _item(asked, top, table, row, f"{where}, row {number}", tree)
        except (ArrowException, OSError) as error:
            reason = f"cannot be read after row {number:,}: {error}"
            yield Unreadable(where, reason, top)


def _item(
    asked: source.Asked, top: str, table: _Table, row: dict[str, Any], where: str, tree: Tree
) -> Item:
    uri = ""
    try:
        given = {field: row.pop(name, None) for field, name in table.columns.items()}
        uri, changed = _uri(top, given)
        text = _string(given, "text")
        metadata = source.fitted(row, asked.notes)
        if changed and metadata.setdefault("id", changed) != changed:
            asked.notes.add("rows with 'id' in their own metadata, which is kept")
        vector = given.get("vector")
        packed = b"" if vector is None else asked.vectors.packed(vector, asked.notes)
        draft = Draft(
            uri,
            abstract=_string(given, "abstract"),
            content=text,
            title=_string(given, "title"),
            metadata=metadata,
            # The vector is of the whole text, so the text is one passage.
            passages=(Passage("", 0, len(text), packed),) if text and packed else None,
            vector=b"" if text else packed,
            time=_time(given.get("time")),
        )
    except (InvalidField, TypeError) as error:
        return Unreadable(where, str(error), source.valid(uri))
    return source.checked(where, draft, tree)


def _uri(top: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the URI of a row, and its id if the URI has another form of it, else ""."""
    if uri := given.get("uri"):
        return uris.parse(str(uri)), ""
    identifier = given.get("id")
    if identifier is None or identifier == "":
        raise InvalidField("uri" if "uri" in given else "id", "is missing")
    name = source.name_of(str(identifier))
    return uris.join(top, name), str(identifier) if name != str(identifier) else ""


def _string(given: Mapping[str, Any], field: str) -> str:
    value = given.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidField(field, f"is a {type(value).__name__}, not a string")
    return value


def _time(value: Any) -> int | None:
    """Return a time in microseconds since the epoch; without a zone it is in UTC."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    if value is None or isinstance(value, datetime | str):
        return source.time_of(value, "time")
    raise InvalidField("time", f"is a {type(value).__name__}; a timestamp or ISO 8601 is needed")
