"""The reads of a store; every answer is from one revision."""

from vikingd.store.reads.backlog import BacklogReads
from vikingd.store.reads.changes import ChangeReads
from vikingd.store.reads.contexts import ContextReads, page_token
from vikingd.store.reads.database import StoreCounts
from vikingd.store.reads.empties import EmptyReads
from vikingd.store.reads.memories import MemoryReads
from vikingd.store.reads.walk import WalkReads

__all__ = ["Reads", "StoreCounts", "page_token"]


class Reads(ContextReads, WalkReads, EmptyReads, MemoryReads, BacklogReads, ChangeReads):
    """The reads of committed data; safe for any number of threads, and none waits for a writer."""
