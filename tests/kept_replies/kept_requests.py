"""The requests of a kept set, from `requests.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Fields = dict[str, Any]
Metadata = tuple[tuple[str, str], ...]

_FILE = Path(__file__).with_name("requests.yaml")
_OPTIONS = ("who", "metadata", "timeout", "pages", "raw")


class Asked(NamedTuple):
    """A request.

    Attributes:
        section: section of the file.
        rpc: name of the RPC.
        fields: fields of the message, in the form of JSON.
        who: name of the caller. Empty: none.
        metadata: more metadata of the call.
        timeout: seconds.
        pages: the most pages to ask for.
        raw: hexadecimal bytes in place of the message.
    """

    section: str
    rpc: str
    fields: Fields
    who: str = ""
    metadata: Metadata = ()
    timeout: float = 120.0
    pages: int = 1
    raw: str | None = None


class _Loader(yaml.SafeLoader):
    pass


def _times(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> Any:
    value, number = loader.construct_sequence(node, deep=True)
    return value * number


_Loader.add_constructor("!times", _times)


def keys() -> dict[str, Fields]:
    """Return the fields of CreateKey by the name of the caller."""
    found: dict[str, Fields] = _read()["keys"]
    return found


def requests() -> Iterator[Asked]:
    """Yield all requests, each section for each of its callers."""
    for section, told in _read()["sections"].items():
        for caller in told.get("callers", [""]):
            for row in told["requests"]:
                options = {name: row[name] for name in _OPTIONS if name in row}
                options["metadata"] = tuple(map(tuple, row.get("metadata", ())))
                [rpc] = set(row) - set(_OPTIONS)
                yield Asked(section, rpc, row[rpc], **{"who": caller, **options})


def _read() -> Any:
    return yaml.load(_FILE.read_text(encoding="utf-8"), _Loader)
