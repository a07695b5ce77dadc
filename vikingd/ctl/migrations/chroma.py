"""Collections of Chroma: each is a directory, and each of its records is a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from vikingd.client.file_import import Item
from vikingd.ctl.migrations import source
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft, Passage
from vikingd.domain.errors import InvalidField
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.jsonl import Tree

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

DEFAULT = "viking://resources/chroma"
_FILE = "chroma.sqlite3"
_PAGE = 500  # records in one request
_COLUMNS = ("documents", "metadatas", "uris", "embeddings")
_ID = "chroma_id"
_ADDRESS = "chroma_uri"


def opened(asked: source.Asked) -> source.Source:
    """Open a persistent directory or a server of Chroma.

    Raises:
        InvalidField: the package, the directory, the server or a collection is missing, or the
            vectors do not fit; the error names the argument.
    """
    top = uris.parse(asked.uri or DEFAULT)
    client = _client(asked)
    try:
        found = {collection.name: collection for collection in _all(client)}
        unknown = [name for name in asked.collections if name not in found]
        if unknown:
            names = ", ".join(sorted(found)) or "none"
            raise InvalidField(
                "collection", f"{unknown[0]!r} does not exist; the collections are: {names}"
            )
        chosen = [found[name] for name in sorted({*asked.collections} or found)]
        counts = [collection.count() for collection in chosen]
        used = [_use_vectors(asked, one, count) for one, count in zip(chosen, counts, strict=True)]
    except InvalidField:
        raise
    except Exception as error:  # chromadb documents no errors
        raise InvalidField("path", f"Chroma cannot read {asked.place}: {error}") from None
    if asked.delete and len(asked.collections) > 1:
        raise InvalidField("delete", "takes one --collection, or all collections without it")
    below = uris.join(top, chosen[0].name) if len(asked.collections) == 1 else top
    return source.Source(below, _read(asked, top, chosen, used), sum(counts) + len(chosen))


def _client(asked: source.Asked) -> ClientAPI:
    try:
        import chromadb
    except ImportError:
        raise source.missing("chromadb", "chroma") from None
    settings = chromadb.Settings(anonymized_telemetry=False)
    if not source.is_url(asked.place):
        if not (Path(asked.place) / _FILE).is_file():
            raise InvalidField(
                "path",
                f"{asked.place} is no directory of a PersistentClient of Chroma: it has no {_FILE}",
            )
        # Chroma must not change the directory of another version.
        settings.migrations = "validate"
        try:
            return chromadb.PersistentClient(asked.place, settings)
        except Exception as error:
            raise InvalidField(
                "path",
                f"Chroma {chromadb.__version__} cannot open {asked.place}: {error}. If another "
                "version wrote it, install that one, or start its server and give the URL",
            ) from None
    url = urlsplit(asked.place)
    query = parse_qs(url.query)
    headers = {"Authorization": f"Bearer {asked.key}", "X-Chroma-Token": asked.key}
    try:
        return chromadb.HttpClient(
            host=url.hostname or "",
            port=url.port or (443 if url.scheme == "https" else 8000),
            ssl=url.scheme == "https",
            headers=headers if asked.key else None,
            settings=settings,
            **{key: query[key][0] for key in ("tenant", "database") if key in query},
        )
    except Exception as error:
        reason = str(error).rstrip(".?")
        raise InvalidField(
            "path",
            f"no Chroma server answers at {asked.place}: {reason}. `chroma run --path DIR` starts "
            "one; the key of a server is read from VIKINGCTL_SOURCE_KEY",
        ) from None


def _all(client: ClientAPI) -> Iterator[Collection]:
    """Yield all collections, opened without their embedding functions."""
    names: list[str] = []
    while page := client.list_collections(limit=_PAGE, offset=len(names)):
        names += [collection.name for collection in page]
        if len(page) < _PAGE:
            break
    for name in names:
        yield client.get_collection(name, embedding_function=None)


def _use_vectors(asked: source.Asked, collection: Collection, count: int) -> bool:
    if not count:
        return False
    first = collection.get(limit=1, include=["embeddings"])["embeddings"]
    dimension = len(first[0]) if first is not None and len(first) else 0
    name = f"collection {collection.name}"
    return asked.vectors.are_used(name, _model(collection), dimension, asked.notes)


def _model(collection: Collection) -> str:
    """Return the model that the configuration of a collection names; "" if it names none."""
    function = (collection.configuration_json or {}).get("embedding_function") or {}
    config = function.get("config") or {}
    if model := config.get("model_name") or config.get("model") or config.get("model_id"):
        return str(model)
    return "all-MiniLM-L6-v2" if function.get("name") == "default" else ""


def _read(
    asked: source.Asked, top: str, collections: list[Collection], used: list[bool]
) -> Iterator[Item]:
    tree = Tree()
    for collection, with_vectors in zip(collections, used, strict=True):
        directory = uris.join(top, collection.name)
        where = f"{asked.place}: {collection.name}"
        metadata = source.fitted(collection.metadata or {}, asked.notes)
        yield source.checked(
            where,
            Draft(directory, is_directory=True, title=collection.name, metadata=metadata),
            tree,
        )
        offset = 0
        while True:
            try:
                page = collection.get(
                    limit=_PAGE,
                    offset=offset,
                    include=["documents", "metadatas", "uris"]
                    + (["embeddings"] if with_vectors else []),
                )
            except Exception as error:
                reason = f"{where} cannot be read from record {offset:,} on: {error}"
                raise source.stopped(reason) from None
            identifiers = page["ids"]
            columns = [name for name in _COLUMNS if page.get(name) is not None]
            for i, identifier in enumerate(identifiers):
                record = {key: page[key][i] for key in columns}
                name = f"{where}: {identifier}"
                uri = uris.join(directory, source.name_of(identifier))
                try:
                    draft = _draft(asked, uri, identifier, record)
                except InvalidField as error:
                    yield Unreadable(name, str(error), source.valid(uri))
                else:
                    yield source.checked(name, draft, tree)
            offset += len(identifiers)
            if len(identifiers) < _PAGE:
                break


def _draft(asked: source.Asked, uri: str, identifier: str, record: Mapping[str, Any]) -> Draft:
    content = record.get("documents") or ""
    metadata = source.fitted(record.get("metadatas") or {}, asked.notes)
    own = {_ADDRESS: record.get("uris"), _ID: identifier if uris.name(uri) != identifier else None}
    for key, value in own.items():
        if value is not None and metadata.setdefault(key, value) != value:
            asked.notes.add(f"records with {key!r} in their own metadata, which is kept")
    if not content:
        asked.notes.add("records without a document, of which the metadata alone is imported")
    given = record.get("embeddings")
    vector = b"" if given is None else asked.vectors.packed(given.tolist(), asked.notes)
    # The vector is of the whole document, so the document is one passage.
    whole = (Passage("", 0, len(content), vector),) if content and vector else None
    return Draft(
        uri,
        content=content,
        metadata=metadata,
        passages=whole,
        vector=b"" if content else vector,
    )
