"""What a part does to each value of a whole: a network of its kind, its attributes, and where the value is.

    h_it = network( gain_i * (sum_k U_k waves(o_itk) + V fading(|o_it|) + P_t) + bias_i )
    o_itk = p_t - (alpha_k a_ik + beta_k),   gain, bias: linear in kind, attributes that are no place, and context

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

SLOWEST, WAVES = 0.5, 5  # half turns of the slowest wave of an offset; each has twice the frequency of the one before
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
    """h of each part at each place, (M, S, H), or at some of them."""

    grid: Tensor
    indices: Tensor

    def __init__(self, places: PlacesConfig, space: tuple[int, ...], kinds: int, told: int) -> None:
        """told: covariates of a whole."""
        super().__init__()
        self.axes, self.absolute, self.kinds, width = places.axes, places.absolute, kinds, places.hidden
        self.register_buffer("grid", grid_of(space), persistent=False)
        along = torch.meshgrid(*(torch.arange(size) for size in space), indexing="ij")
        self.register_buffer("indices", torch.stack(along).flatten(1), persistent=False)  # of places along each axis
        self.space = space
        placed = [k for k, axis in enumerate(self.axes) if axis is not None]
        self.alpha = nn.Parameter(torch.tensor([places.stretch[k] for k in placed]))
        self.beta = nn.Parameter(torch.tensor([places.shift[k] for k in placed]))
        self.along = nn.ModuleList(nn.Linear(1 + 2 * WAVES, width) for _ in placed)
        self.away = nn.Linear(2 * len(REACHES), width)
        self.positions = nn.Linear(2 * len(space) * WAVES, width) if self.absolute else None
        listed = self.absolute and len(space) == 1 and len(self.grid) <= MOST_LISTED
        self.listed = nn.Parameter(torch.zeros(len(self.grid), width)) if listed else None
        self.own = nn.Linear(kinds + len(self._own(torch.zeros(1, len(self.axes)))[0]) + told, 2 * width)
        self.inner = nn.Linear(width, width)

    def forward(self, kind: Tensor, features: Tensor, context: Tensor, at: Tensor | slice) -> Tensor:
        """kind: (M,).  features: (M, F).  context: (M, E).  at: which places, (S',) int64 -> (M, S', H)."""
        dtype = self.inner.weight.dtype
        own = self.own(torch.cat([one_hot(kind, self.kinds).to(dtype), self._own(features), context], 1))
        gain, bias = own[:, None].chunk(2, -1)
        seen = self._seen(features, at) if len(self.alpha) else self.away.bias
        if self.positions is not None:
            seen = seen + self.positions(self._waves(self.grid[at].to(dtype)).flatten(1))
        if self.listed is not None:
            seen = seen + self.listed[at]
        hidden: Tensor = silu(self.inner(silu((1 + gain) * seen + bias)))
        return hidden

    def _own(self, features: Tensor) -> Tensor:
        """The attributes that enter as they are, (M, F')."""
        if self.absolute:
            return features
        return features[:, [k for k, axis in enumerate(self.axes) if axis is None]]

    def _seen(self, features: Tensor, at: Tensor | slice) -> Tensor:
        """What a part shows at each value: of its offsets along each axis, and of its distance, (M, S', H)."""
        total, square = features.new_zeros(()), features.new_zeros(())
        columns = [k for k, axis in enumerate(self.axes) if axis is not None]
        for layer, column, alpha, beta in zip(self.along, columns, self.alpha, self.beta, strict=True):
            axis = self.axes[column]
            assert axis is not None
            line, index = grid_of((self.space[axis],))[:, 0].to(features), self.indices[axis][at]
            away = line - (alpha * features[:, column] + beta)[:, None]  # (M, places along the axis)
            told: Tensor = layer(torch.cat([away[..., None], self._waves(away)], -1))
            total, square = total + told[:, index], square + away.square()[:, index]
        reach = (square + 1e-8).sqrt()[..., None] / torch.tensor(REACHES, dtype=features.dtype)
        seen: Tensor = total + self.away(torch.cat([(-reach).exp(), reach.log1p() / 4], -1))
        return seen

    @staticmethod
    def _waves(value: Tensor) -> Tensor:
        """value: (.., ) -> (.., 2 waves), by doubling angles."""
        angle = SLOWEST * math.pi * value
        sine, cosine, found = angle.sin(), angle.cos(), []
        for _ in range(WAVES):
            found += [sine, cosine]
            sine, cosine = 2 * sine * cosine, 2 * cosine.square() - 1
        return torch.stack(found, -1)
