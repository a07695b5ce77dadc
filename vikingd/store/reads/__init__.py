"""The reads of a store; every answer is from one revision."""

from vikingd.store.reads.backlog import BacklogReads
from vikingd.store.reads.change_reads import ChangeReads
from vikingd.store.reads.context_reads import ContextReads, page_token
from vikingd.store.reads.database_reads import StoreCounts
from vikingd.store.reads.description_reads import DescriptionReads
from vikingd.store.reads.empty_directories import EmptyDirectoryReads
from vikingd.store.reads.memory_reads import MemoryReads
from vikingd.store.reads.tree_walk import WalkReads

__all__ = ["Reads", "StoreCounts", "page_token"]


class Reads(
    ContextReads,
    WalkReads,
    EmptyDirectoryReads,
    MemoryReads,
    BacklogReads,
    ChangeReads,
    DescriptionReads,
):
    """The reads of committed data; safe for any number of threads, and none waits for a writer."""
