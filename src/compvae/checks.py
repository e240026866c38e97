"""Checks of what callers give, each in one place: a number of samples, an array of numbers, a pydantic complaint."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import ValidationError

from compvae.errors import DataError

__all__ = ["allocate", "at_least_one", "describe_invalid", "number_array"]


def at_least_one(value: Any, name: str) -> int:
    """The value as an int >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise DataError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def number_array(value: Any, name: str, dtype: type[np.floating[Any]] = np.float32) -> np.ndarray:
    """The value as an array of finite numbers, any shape."""
    try:
        array = np.asarray(value, dtype=dtype)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be an array of numbers, got {type(value).__name__}") from None
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise DataError(f"{name} holds NaN or infinite values, first at index {where}")
    return array


def allocate(*shape: int) -> np.ndarray:
    """An empty float32 array, (*shape)."""
    try:
        return np.empty(shape, dtype=np.float32)
    except (MemoryError, ValueError):
        raise DataError(
            f"an array of shape {shape} does not fit into memory; ask for fewer samples at a time"
        ) from None


def describe_invalid(error: ValidationError) -> str:
    """The first complaint of pydantic as "field: what is wrong"."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    text = first["msg"].removeprefix("Value error, ")
    more = "" if error.error_count() == 1 else f" (and {error.error_count() - 1} more)"
    return (f"{where}: " if where else "") + text + more
