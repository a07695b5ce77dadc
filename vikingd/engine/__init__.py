"""The engine: the store, its index and the embedder, opened together and kept in step."""

from vikingd.engine.engine import Engine
from vikingd.engine.settings import EngineSettings
from vikingd.engine.stats import EmbedderStats, EngineStats
from vikingd.engine.verify import VerifyReport

__all__ = ["EmbedderStats", "Engine", "EngineSettings", "EngineStats", "VerifyReport"]
