"""Embedders of small ONNX models for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.onnx import OnnxModel
from vikingd.models.embed.provider_choice import open_provider

CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
LAST = {"pooling_mode_cls_token": False, "pooling_mode_lasttoken": True}
IDS = {"input_ids": TensorProto.INT64}


def opened(path: Path, **changes: Any) -> OnnxModel:
    """Return the embedder of a directory."""
    given = {"provider": "onnx", "onnx_model": str(path), **changes}
    made = open_provider(EmbedSettings(**given))
    assert isinstance(made, OnnxModel)
    return made


def refusal(path: Path, **changes: Any) -> str:
    """Return the error of a directory that can't be used."""
    with pytest.raises(EmbedderFailed) as caught:
        opened(path, **changes)
    return str(caught.value)


def assert_same(made: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Check that vectors are float32 and equal up to rounding."""
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, atol=1e-5)
