"""Arrays in an answer: nested lists, base64 of float32, or a whole answer as an npz or CSV file."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from compvae.results import Result, write_to

__all__ = ["MEDIA", "as_file", "encode"]

MEDIA = {"npz": "application/octet-stream", "csv": "text/csv; charset=utf-8"}


def encode(array: np.ndarray, encoding: str) -> Any:
    """array: any shape, finite float32."""
    if encoding == "list":
        return array.tolist()
    packed = base64.b64encode(array.astype("<f4").tobytes()).decode()
    return {"shape": list(array.shape), "base64": packed}


def as_file(ending: str, x: np.ndarray, beside: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """The bytes ``compvae --out`` writes.  x: (n, *shape)."""
    stream = io.BytesIO()
    write_to(stream, f".{ending}", Result.of(x, beside, facts))
    return stream.getvalue()
