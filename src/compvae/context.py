"""Observed covariates of a whole (temperature, day type) as a vector c of fixed length E.

Each attribute takes its encoded value and a flag "known"; an unknown value is all zeros, so that None and a value
dropped during training look the same to the networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from compvae.errors import PartsError
from compvae.parts import Attribute, Categorical

__all__ = ["context_size", "describe_values", "encode_context", "encode_values", "flag_columns", "read_context"]


def context_size(attributes: Sequence[Attribute]) -> int:
    """E: one flag for each attribute, one value for a continuous one, one for each category of a categorical one."""
    return sum(1 + (len(a.categories) if isinstance(a, Categorical) else 1) for a in attributes)


def flag_columns(attributes: Sequence[Attribute]) -> tuple[int, ...]:
    """For each of the E columns, the column that says whether its attribute is known."""
    found: list[int] = []
    for attribute in attributes:
        found += [len(found)] * context_size([attribute])
    return tuple(found)


def read_context(attributes: Sequence[Attribute], context: Mapping[str, object] | None) -> list[float | None]:
    """The value of each attribute, None where it is absent or None: unknown.  A category is its index."""
    if context is not None and not isinstance(context, Mapping):
        raise PartsError(f"context must be a mapping covariate -> value or None, got {type(context).__name__}")
    given = dict(context or {})
    names = [a.name for a in attributes]
    for name in given:
        if name not in names:
            allowed = f"the covariates are {', '.join(names)}" if names else "this model takes none"
            raise PartsError(f"context: unknown covariate {name!r}, {allowed}")
    return [_read(attribute, given.get(attribute.name)) for attribute in attributes]


def _read(attribute: Attribute, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(attribute, Categorical):
        return float(attribute.index(value, "context"))
    return attribute.value(value, "context")


def encode_context(attributes: Sequence[Attribute], context: Mapping[str, object] | None) -> Tensor:
    """-> (E,) float32.  Attributes that are absent or None are unknown."""
    values = read_context(attributes, context)
    known = torch.tensor([[value is not None for value in values]], dtype=torch.bool)
    numbers = torch.tensor([[value or 0.0 for value in values]], dtype=torch.float64)
    return encode_values(attributes, numbers, known)[0]


def encode_values(attributes: Sequence[Attribute], values: Tensor, known: Tensor) -> Tensor:
    """[known, encoded value...] of every attribute -> (B, E) float32.

    values: (B, A), a category as its index.  known: (B, A) bool.
    """
    columns = [torch.zeros(len(values), 0)]
    for value, flag, attribute in zip(values.double().unbind(1), known.unbind(1), attributes, strict=True):
        if isinstance(attribute, Categorical):
            encoded = one_hot(value.long(), len(attribute.categories))
        else:
            encoded = attribute.scaled(value)[:, None]
        columns += [flag[:, None], encoded * flag[:, None]]
    return torch.cat([column.float() for column in columns], 1)


def describe_values(attributes: Sequence[Attribute], values: Tensor, known: Tensor) -> dict[str, object] | None:
    """What is known, as a caller would give it; None where nothing is.  values, known: (A,), see encode_values."""
    found: dict[str, object] = {}
    for attribute, value, flag in zip(attributes, values.tolist(), known.tolist(), strict=True):
        if flag:
            found[attribute.name] = attribute.categories[int(value)] if isinstance(attribute, Categorical) else value
    return found or None
