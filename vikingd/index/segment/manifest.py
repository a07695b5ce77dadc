"""The manifest of a base, the large immutable segment of the index: its origin and its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from vikingd.domain.errors import Corrupt
from vikingd.index.lexicon import tokens
from vikingd.index.segment.segment_files import ArrayRecord, FileRecord
from vikingd.system.sealed_files import seal, unseal

FILE = "manifest.json"
FORMAT = 8

_CONDEMNED = "damaged: "


@dataclass(frozen=True, slots=True)
class Manifest:
    """The origin of a base, and the versions of its formats.

    A base has all texts of one store up to one revision (the number of a commit), with vectors of
    one embedding model. It is loaded only if both versions are those of this program.
    """

    generation: int  # each compaction makes the next one
    revision: int  # the store's newest revision that it holds
    dimension: int  # numbers in a vector
    model: str  # the embedding model
    store: str = ""  # id of the store
    epoch: str = ""  # epoch of the store at `revision`
    format: int = FORMAT  # version of the format of its files
    tokens: int = tokens.VERSION  # version of the rules by which words become terms


class Listing(NamedTuple):
    """A manifest with the records of the base's arrays and of its other files, by name."""

    manifest: Manifest
    arrays: Mapping[str, ArrayRecord]
    files: Mapping[str, FileRecord]


def condemned(reason: str) -> str:
    """Return the text to write in place of the manifest of a damaged base."""
    return _CONDEMNED + reason


def written(listing: Listing) -> str:
    """Return a manifest as text, with its checksum."""
    record = {
        **asdict(listing.manifest),
        "arrays": {name: array._asdict() for name, array in listing.arrays.items()},
        "files": {name: other._asdict() for name, other in listing.files.items()},
    }
    return seal(json.dumps(record, indent=1))


def read(base: str, text: str) -> Listing:
    """Decode the text of a manifest and check its checksum.

    Args:
        base: the name of the base, for errors.
        text: the text.

    Raises:
        Corrupt: the base has another format, or was found damaged earlier.
        ValueError, TypeError: the text is damaged, or is no manifest.
    """
    if text.startswith(_CONDEMNED):
        raise Corrupt(text.removeprefix(_CONDEMNED).strip())
    try:
        record = json.loads(unseal(text))
    except ValueError as error:
        with suppress(ValueError, AttributeError):
            if json.loads(text).get("format", FORMAT) != FORMAT:  # old formats had no checksum
                raise Corrupt(f"{base} was made by another version") from None
        raise ValueError(f"{FILE}: {error}") from None
    match record:
        case {
            "generation": int(),
            "revision": int(),
            "dimension": int(),
            "model": str(),
            "store": str(),
            "epoch": str(),
            "format": int(version),
            "tokens": int(known),
            "arrays": dict(arrays),
            "files": dict(others),
        }:
            if version != FORMAT:
                raise Corrupt(f"{base} was made by another version")
            if known != tokens.VERSION:
                raise Corrupt(
                    f"{base} was made by another version, with other terms of words: "
                    f"version {known} of the terms, now it is {tokens.VERSION}"
                )
            del record["arrays"], record["files"]
            return Listing(
                Manifest(**record),
                {name: _array_record(**array) for name, array in arrays.items()},
                {name: FileRecord(**other) for name, other in others.items()},
            )
    raise ValueError(f"{FILE} has an unknown shape")


def _array_record(dtype: str, shape: list[int], room: int, crc32: int) -> ArrayRecord:
    sizes: list[Any] = [*shape, room, crc32]
    if not shape or not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError(f"{FILE} has an array of shape {shape}")
    return ArrayRecord(np.dtype(dtype).str, tuple(shape), room, crc32)
