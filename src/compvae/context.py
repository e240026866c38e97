"""Observed covariates of a whole (temperature, day type) as a vector c of fixed length E.

Each attribute takes its encoded value and a flag "known"; an unknown value is all zeros, so that None and a value
dropped during training look the same to the networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from compvae.errors import PartsError
from compvae.parts import Attribute, Categorical

__all__ = ["context_size", "encode_context"]


def context_size(attributes: Sequence[Attribute]) -> int:
    """E: one flag for each attribute, one value for a continuous one, one for each category of a categorical one."""
    return sum(1 + (len(a.categories) if isinstance(a, Categorical) else 1) for a in attributes)


def encode_context(attributes: Sequence[Attribute], context: Mapping[str, object] | None) -> Tensor:
    """-> (E,) float32.  Attributes that are absent or None are unknown."""
    if context is not None and not isinstance(context, Mapping):
        raise PartsError(f"context must be a mapping covariate -> value or None, got {type(context).__name__}")
    given = dict(context or {})
    names = [a.name for a in attributes]
    for name in given:
        if name not in names:
            allowed = f"the covariates are {', '.join(names)}" if names else "this model takes none"
            raise PartsError(f"context: unknown covariate {name!r}, {allowed}")
    values: list[float] = []
    for attribute in attributes:
        values += _encode(attribute, given.get(attribute.name))
    return torch.tensor(values, dtype=torch.float32)


def _encode(attribute: Attribute, value: object) -> list[float]:
    """[known, encoded value...] of one covariate."""
    if isinstance(attribute, Categorical):
        hot = [0.0] * len(attribute.categories)
        if value is not None:
            hot[attribute.index(value, "context")] = 1.0
        return [float(value is not None), *hot]
    return [0.0, 0.0] if value is None else [1.0, attribute.scaled(attribute.value(value, "context"))]
