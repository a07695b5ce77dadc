"""The durable truth: contexts, texts, vectors and links in SQLite, one writer, group commit."""

from vikingd.store.reads import FoundRow, MatchedText, StoreCounts, page_token
from vikingd.store.store import Store

__all__ = ["FoundRow", "MatchedText", "Store", "StoreCounts", "page_token"]
