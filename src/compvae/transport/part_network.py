"""What a part does to each value of a whole: a network of its kind, its attributes, and where the value is.

    h_it = network( gain_i * (U features(p_t - (alpha a_i + beta)) + P_t) + bias_i ),   gain, bias of (kind, a, context)

p_t: where value t is, [-1, 1] along each axis of x.  An attribute a that is a place along an axis enters by its offset
from each value, so that a part acts where it is; alpha and beta are learned.  With offsets alone, a part does the same
thing wherever it is (``absolute`` adds P_t and the attributes themselves).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, silu

from compvae.transport.config import PlacesConfig

__all__ = ["PartNetwork", "grid_of", "space_of"]

WAVES = (0.5, 1.0, 2.0, 4.0, 8.0)  # of an offset, in half turns
REACHES = (0.03, 0.1, 0.3, 1.0)  # over which a part's influence may fade
MOST_LISTED = 256  # values along a line that have a number each of their own


def space_of(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Channels, and the axes along which values have a place.  shape: of x; the first of three axes is channels."""
    return (shape[0], shape[1:]) if len(shape) == 3 else (1, shape)


def grid_of(space: tuple[int, ...]) -> Tensor:
    """Where values are, (S, axes), [-1, 1] along each axis."""
    lines = [torch.linspace(-1.0, 1.0, size) if size > 1 else torch.zeros(1) for size in space]
    return torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).flatten(0, -2)


class PartNetwork(nn.Module):
    """h of each part at each place, (M, S, H)."""

    grid: Tensor

    def __init__(self, places: PlacesConfig, space: tuple[int, ...], kinds: int, told: int) -> None:
        """told: covariates of a whole."""
        super().__init__()
        self.axes, self.absolute, self.kinds, width = places.axes, places.absolute, kinds, places.hidden
        self.register_buffer("grid", grid_of(space), persistent=False)
        placed = [k for k, axis in enumerate(self.axes) if axis is not None]
        self.alpha = nn.Parameter(torch.tensor([places.stretch[k] for k in placed]))
        self.beta = nn.Parameter(torch.tensor([places.shift[k] for k in placed]))
        number = len(placed) * (1 + 2 * len(WAVES)) + (2 * len(REACHES) if placed else 0)
        self.offsets = nn.Linear(number, width)
        self.positions = nn.Linear(2 * len(space) * len(WAVES), width) if self.absolute else None
        listed = self.absolute and len(space) == 1 and len(self.grid) <= MOST_LISTED
        self.listed = nn.Parameter(torch.zeros(len(self.grid), width)) if listed else None
        self.own = nn.Linear(kinds + len(self._own(torch.zeros(1, len(self.axes)))[0]) + told, 2 * width)
        self.inner = nn.Linear(width, width)

    def forward(self, kind: Tensor, features: Tensor, context: Tensor) -> Tensor:
        """kind: (M,).  features: (M, F).  context: (M, E) -> (M, S, H)."""
        dtype = self.inner.weight.dtype
        own = self.own(torch.cat([one_hot(kind, self.kinds).to(dtype), self._own(features), context], 1))
        gain, bias = own[:, None].chunk(2, -1)
        seen = self.offsets(self._offsets(features)) if len(self.alpha) else self.offsets.bias
        if self.positions is not None:
            seen = seen + self.positions(self._waves(self.grid.to(dtype)).flatten(1))
        if self.listed is not None:
            seen = seen + self.listed
        hidden: Tensor = silu(self.inner(silu((1 + gain) * seen + bias)))
        return hidden

    def _own(self, features: Tensor) -> Tensor:
        """The attributes that enter as they are, (M, F')."""
        if self.absolute:
            return features
        return features[:, [k for k, axis in enumerate(self.axes) if axis is None]]

    def _offsets(self, features: Tensor) -> Tensor:
        """Of each value from each part, with what fades along them, (M, S, N)."""
        columns = [k for k, axis in enumerate(self.axes) if axis is not None]
        along = self.grid.to(features.dtype)[:, [axis for axis in self.axes if axis is not None]]
        away = along - (self.alpha * features[:, columns] + self.beta)[:, None]  # (M, S, places)
        distance = (away.square().sum(-1, keepdim=True) + 1e-8).sqrt()
        reach = distance / torch.tensor(REACHES, dtype=distance.dtype)
        return torch.cat([away, self._waves(away).flatten(2), (-reach).exp(), reach.asinh() / 4], -1)

    @staticmethod
    def _waves(value: Tensor) -> Tensor:
        """value: (.., N) -> (.., N, waves)."""
        angle = math.pi * value[..., None] * torch.tensor(WAVES, dtype=value.dtype)
        return torch.cat([angle.sin(), angle.cos()], -1)
