"""The velocity v(u, t | composition): what carries draws of the base to wholes, in units of the base's spread.

    v(u, t) = s'(t) / s(t) u + network(u, t, condition),   s(t)^2 = t^2 + (1 - t)^2

The first term is the velocity between two independent draws of one and the same Gaussian, whatever its covariance.  In
the coordinates u / s(t) it is 0 (flow.py): with a network that says nothing the map is the identity, exactly, whatever
the number of steps.  So the network learns only what the base has wrong.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

__all__ = ["VelocityField", "path_scale"]

WAVES = 8  # in which time is given


class VelocityField(nn.Module):
    """A residual network of u, time and condition; its last layer starts at 0."""

    waves: Tensor

    def __init__(self, values: int, condition: int, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Linear(values + 2 * WAVES, width)
        self.condition = nn.Sequential(nn.Linear(condition, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(depth)
        )
        self.shifts = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.last = nn.Linear(width, values)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def embed(self, condition: Tensor) -> Tensor:
        """What the network knows beside u and t, found once for all steps.  condition: (B, N) -> (B, H)."""
        embedded: Tensor = self.condition(condition)
        return embedded

    def forward(self, u: Tensor, time: Tensor, embedded: Tensor) -> Tensor:
        """What the network says, (B, T).  u: (B, T).  time: (B, 1) or (1, 1).  embedded: (B, H)."""
        hidden = self._first(u, time, embedded)
        for block, shift in zip(self.blocks, self.shifts, strict=True):
            hidden = hidden + block(silu(hidden) + shift(embedded))
        out: Tensor = self.last(silu(hidden))
        return out

    def with_jacobian(self, u: Tensor, time: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """What the network says, (B, T), and its derivative by u, (B, T, T), arguments as in forward."""
        hidden = self._first(u, time, embedded)
        slope = self.first.weight[:, : u.shape[1]].expand(len(u), -1, -1)  # (B, H, T)
        for block, shift in zip(self.blocks, self.shifts, strict=True):
            into, out = _layers(block)
            inner = into(silu(hidden) + shift(embedded))
            slope = slope + out.weight @ (_silu_slope(inner) * (into.weight @ (_silu_slope(hidden) * slope)))
            hidden = hidden + out(silu(inner))
        return self.last(silu(hidden)), self.last.weight @ (_silu_slope(hidden) * slope)

    def _first(self, u: Tensor, time: Tensor, embedded: Tensor) -> Tensor:
        """The first hidden layer, (B, H)."""
        angle = math.pi * time * torch.arange(1, WAVES + 1, dtype=u.dtype, device=u.device)
        waves = torch.cat([angle.sin(), angle.cos()], 1).expand(len(u), -1)
        hidden: Tensor = self.first(torch.cat([u, waves], 1)) + embedded
        return hidden


def _layers(block: nn.Module) -> tuple[nn.Linear, nn.Linear]:
    """The two linear layers of a block."""
    assert isinstance(block, nn.Sequential)
    into, out = block[0], block[2]
    assert isinstance(into, nn.Linear)
    assert isinstance(out, nn.Linear)
    return into, out


def _silu_slope(x: Tensor) -> Tensor:
    """d silu / dx, (B, H, 1).  x: (B, H)."""
    share = torch.sigmoid(x)
    return (share * (1 + x * (1 - share)))[..., None]


def path_scale(time: Tensor) -> Tensor:
    """s(t), as time is."""
    return (time**2 + (1 - time) ** 2).sqrt()
