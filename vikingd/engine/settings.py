"""The settings of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vikingd.index.settings import IndexSettings
from vikingd.models.embed.settings import EmbedSettings


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of an engine.

    Attributes:
        path: the directory of the store.
        embedding: the settings of the embedder.
        index: the settings of the index.
        exhaustive_texts: a scope of at most this many texts is scored whole.
        reembed: if the store has vectors of another model, drop them.
        accept_loss: accept a store that is older than it was.
        reader: another process writes the store, and this one only reads it.
        writer_address: the address of that other process; "" if it is unknown.
    """

    path: Path
    embedding: EmbedSettings = field(default_factory=EmbedSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    exhaustive_texts: int = 150_000
    reembed: bool = False
    accept_loss: bool = False
    reader: bool = False
    writer_address: str = ""
