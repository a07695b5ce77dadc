"""The requests of the service Admin: one function for each RPC. The daemon checks the values."""

from __future__ import annotations

from vikingd.pb import admin_pb2


def stats() -> admin_pb2.StatsRequest:
    """Return the state of the daemon."""
    return admin_pb2.StatsRequest()


def verify() -> admin_pb2.VerifyRequest:
    """Compare the whole index with the store."""
    return admin_pb2.VerifyRequest()


def optimize(*, remove_empty_directories: bool = False) -> admin_pb2.OptimizeRequest:
    """Compact the index now, and give the room of deleted contexts back to the disk.

    Args:
        remove_empty_directories: remove the directories without content, fields and links, too.
    """
    return admin_pb2.OptimizeRequest(remove_empty_directories=remove_empty_directories)


def reembed(target_uri: str = "") -> admin_pb2.ReembedRequest:
    """Drop the vectors below `target_uri`, or all vectors; the present model makes new ones."""
    return admin_pb2.ReembedRequest(target_uri=target_uri)


def backup() -> admin_pb2.BackupRequest:
    """Copy the store while the daemon serves, and yield the bytes of the file in pieces.

    Each piece has the size of the whole file. With fewer bytes the copy is incomplete.
    """
    return admin_pb2.BackupRequest()
