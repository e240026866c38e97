"""Rows that share something: in blocks of four rows, one to four neighbours belong together.

All of it is computed from the noise of a block's first row, so that rows can be drawn without the other blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from compvae.context import encode_values
from compvae.noise import Noise
from compvae.parts import Attribute

__all__ = ["BLOCK", "Neighbours", "log_uniform", "neighbours", "partly_told"]

BLOCK = 4  # rows among which days are shared
KNOWN = 0.5  # probability that a covariate is given in training, once for all that belong together


class Neighbours(NamedTuple):
    """Of each row, (B,) int64: first, the row with which those that belong together begin; position, its own among
    them, from 0; members, how many they are.
    """

    first: Tensor
    position: Tensor
    members: Tensor

    def noise(self, of: Noise) -> Noise:
        """Noise that those that belong together have in common.  of: the noise of these rows."""
        return of.of_rows(self.first)


def neighbours(noise: Noise) -> Neighbours:
    """Which rows belong together: in a block of four, each but the first may start anew."""
    within = noise.rows % BLOCK
    block = noise.of_rows(noise.rows - within)
    new = block.integers("new day", 0, 1, BLOCK)
    new[:, 0] = 1
    group = new.cumsum(1)
    same = group == group.gather(1, within[:, None])
    first = block.rows + same.int().argmax(1)
    return Neighbours(first, noise.rows - first, same.sum(1))


def log_uniform(noise: Noise, low: int, high: int | Tensor) -> Tensor:
    """K with P(K) proportional to ln((K + 1) / K) on low..high, (B,) int64.  high: a number, or (B,) int64."""
    top = torch.as_tensor(high)
    spread = ((top + 1) / low).double().log() if isinstance(high, Tensor) else math.log((high + 1) / low)
    drawn = (low * (noise.uniform("sizes", dtype=torch.float64) * spread).exp()).long()
    return torch.minimum(drawn.clamp_(min=low), top)


def partly_told(
    attributes: Sequence[Attribute], values: Tensor, known: Tensor, noise: Noise
) -> tuple[Tensor | None, Tensor | None]:
    """Encoded context with each covariate hidden half of the time, and with all that is known, (B, E) each.

    None where there are no covariates.  values, known: (B, A).  noise: that rows which belong together have in common.
    """
    if not attributes:
        return None, None
    shown = known & (noise.uniform("known", len(attributes)) < KNOWN)
    return encode_values(attributes, values, shown), encode_values(attributes, values, known)
