"""The engine: opens a store, its index and the embedder, and keeps index and vectors up to date."""

from vikingd.engine.background_descriptions import DescriberState
from vikingd.engine.engine import Engine, EngineStats, VerifyReport
from vikingd.engine.shared_engine_parts import Shared
from vikingd.engine.store_opening import EngineSettings

__all__ = ["DescriberState", "Engine", "EngineSettings", "EngineStats", "Shared", "VerifyReport"]
