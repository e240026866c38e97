"""Checks of what callers give, each in one place: a number of samples, an array of numbers, a pydantic complaint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from compvae.errors import ConfigError, DataError

__all__ = ["allocate", "at_least_one", "describe_invalid", "from_plain_data", "number_array"]

Schema = TypeVar("Schema", bound=BaseModel)


def at_least_one(value: Any, name: str) -> int:
    """The value as an int >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise DataError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def number_array(value: Any, name: str, dtype: type[np.floating[Any]] = np.float32) -> np.ndarray:
    """The value as an array of finite numbers, any shape; what is too large for the type counts as infinite."""
    try:
        with np.errstate(over="ignore"):  # refused below, in one sentence and not with a warning before it
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


def from_plain_data(schema: type[Schema], data: object, where: str, stored: bool = False) -> Schema:
    """A pydantic model from plain data (JSON, TOML, dicts); a ConfigError names the field at fault.

    stored: the data is a file of ours, not what a caller sets; validators see it as ``info.context["stored"]``.

    By way of JSON: strict about types ("3" is not 3), yet a list may stand for a tuple.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected a mapping of settings, got {type(data).__name__}")
    try:
        return schema.model_validate_json(json.dumps(dict(data)), context={"stored": stored})
    except ValidationError as error:
        raise ConfigError(f"{where}: {describe_invalid(error)}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not plain data (text, numbers, lists, mappings): {error}") from None


def describe_invalid(error: ValidationError) -> str:
    """The first complaint of pydantic as "field: what is wrong"."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(step) for step in first["loc"] if step not in ("structured", "transport"))  # kinds of models
    text = first["msg"].removeprefix("Value error, ")
    more = "" if error.error_count() == 1 else f" (and {error.error_count() - 1} more)"
    return (f"{where}: " if where else "") + text + more
