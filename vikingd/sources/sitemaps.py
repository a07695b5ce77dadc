"""Sitemaps: files in which a site lists its pages, or further sitemaps."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass, field

from lxml import etree

from vikingd.sources.page_addresses import canonical

MAX_SITEMAPS = 50
"""The most sitemaps of a site that are read."""

_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class Sitemap:
    """The content of a sitemap.

    Attributes:
        pages: canonical addresses of pages.
        sitemaps: canonical addresses of further sitemaps.
    """

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)


def read_sitemap(data: bytes, address: str, limit: int) -> Sitemap:
    """Read a sitemap in XML or in plain text, which may be compressed with gzip.

    Args:
        data: the file.
        address: its address.
        limit: the bytes of the content; what is behind them is not read.

    Raises:
        ValueError: it is no sitemap; the message is a reason.
    """
    if data.startswith(_GZIP):
        try:
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(limit + 1)
        except (OSError, EOFError, zlib.error):
            raise ValueError("is no sitemap: its gzip is damaged") from None
        if len(data) > limit:
            raise ValueError(f"is a sitemap of more than {limit:,} bytes")
    if not data.lstrip().startswith(b"<"):
        lines = data.decode("utf-8", "replace").split()
        found = [page for line in lines if (page := canonical(line))]
        if not found:
            raise ValueError("is no sitemap")
        return Sitemap(found)
    return _read_xml(data, address)


def _read_xml(data: bytes, address: str) -> Sitemap:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        root = None
    kind = etree.QName(root).localname if root is not None else ""
    if kind not in ("urlset", "sitemapindex"):
        raise ValueError("is no sitemap")
    found = Sitemap()
    places = found.pages if kind == "urlset" else found.sitemaps
    for entry in root:
        for child in entry.iterchildren("{*}loc"):
            if place := canonical(child.text or "", address):
                places.append(place)
    return found
