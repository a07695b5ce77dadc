"""The description of a context by a model: an abstract and an overview, and their material."""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple


class Slot(IntFlag):
    """The texts of a context that a model may write. A store keeps which of them a model wrote."""

    ABSTRACT = 1
    OVERVIEW = 2


class Description(NamedTuple):
    """The texts that a model wrote for a context; "" for a text that it did not write.

    Attributes:
        maker: the name of the model.
        basis: the digest of what the model read: the prompt and the material. Stored texts with the
            same basis are reused, so equal material of different users needs different digests.
        content_hash: the content hash of the context when the material was read.
    """

    uri: str
    abstract: str
    overview: str
    maker: str
    basis: bytes
    content_hash: bytes


class Described(NamedTuple):
    """The origin of a description in a store. The texts themselves are fields of the context.

    Attributes:
        maker: the name of the model.
        basis: the digest of what the model read, see Description.
        slots: the texts of the context that the model wrote.
    """

    maker: str
    basis: bytes
    slots: Slot
