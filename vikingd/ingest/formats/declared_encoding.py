"""The encoding that a page declares in its first bytes, as browsers look for it."""

from __future__ import annotations

import re

from vikingd.ingest.formats.encoding_labels import encoding_of

_LOOKED_AT = 1 << 14  # bytes; browsers read 1,024 first, and start again for a label after them
_XML = re.compile(rb"\s*<\?xml[^>]*?encoding\s*=\s*[\"']([^\"'>]+)[\"']", re.I)
_TAG = re.compile(
    rb"<!--.*?(?:-->|\Z)|<[!/?][^>]*+>|<([a-z][^\s/>]*+)((?>(?:[^>\"']|\"[^\"]*+\"|'[^']*+')*))>",
    re.I | re.S,
)
_ATTRIBUTE = re.compile(rb"([^\s/>=\"']+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"']+))")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';]+)", re.I)


def stated_label(data: bytes) -> str | None:
    """Return the first known label of an encoding that a page states; None without one.

    A page that states UTF-16 in bytes of ASCII is UTF-8.
    """
    start = data[:_LOOKED_AT]
    if (xml := _XML.match(start)) and (label := _known(xml[1].decode("latin-1"))):
        return label
    for tag in _TAG.finditer(start):
        if tag[1] and tag[1].lower() == b"meta" and (label := _of_meta(tag[2])):
            return label
    return None


def _of_meta(attributes: bytes) -> str | None:
    values: dict[str, str] = {}
    for name, *quoted in _ATTRIBUTE.findall(attributes):
        values.setdefault(name.decode("latin-1").lower(), b"".join(quoted).decode("latin-1"))
    if "charset" in values and (label := _known(values["charset"])):
        return label
    if values.get("http-equiv", "").strip().lower() == "content-type":
        found = _CHARSET.search(values.get("content", ""))
        return _known(found[1]) if found else None
    return None


def _known(label: str) -> str | None:
    encoding = encoding_of(label)
    if encoding is None:
        return None
    return "utf-8" if encoding.name.startswith("UTF-16") else label
