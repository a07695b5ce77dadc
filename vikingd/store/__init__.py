"""The durable store: contexts, texts, vectors and links, in SQLite or PostgreSQL."""

from vikingd.store.reads import StoreCounts, page_token
from vikingd.store.sqlite.sqlite_reader import StoreReader
from vikingd.store.sqlite.sqlite_store import Store

__all__ = ["Store", "StoreCounts", "StoreReader", "page_token"]
