"""The velocity as a convolution along x: what happens at a value depends on those near it, and on the parts there.

    v(u, t)_s = network of u around s, t and the condition around s

Dilated convolutions along a line; over an image, on blocks of 2 x 2 pixels.  The same interface as the plain field.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.func import jvp
from torch.nn.functional import pixel_shuffle, pixel_unshuffle, silu

from compvae.transport.field import WAVES
from compvae.transport.part_network import space_of

__all__ = ["ConvolutionField"]

DILATIONS = {1: (1, 2, 4, 8, 16), 2: (1, 2, 4)}  # by axes, in turn
REACH = {1: 5, 2: 3}  # values along an axis that a convolution sees
BLOCK = 2  # pixels along each side that are seen as one


class ConvolutionField(nn.Module):
    """A residual convolutional network of u, time and condition; its last layer starts at 0."""

    def __init__(self, shape: tuple[int, ...], condition: int, width: int, depth: int) -> None:
        """condition: features at each place."""
        super().__init__()
        self.shape, self.width, self.depth = shape, width, depth
        channels, self.space = space_of(shape)
        axes = len(self.space)
        layer = nn.Conv1d if axes == 1 else nn.Conv2d
        self.block = BLOCK if axes == 2 and all(size % BLOCK == 0 for size in self.space) else 1
        self.channels, each = channels, self.block**axes
        reach = REACH[axes]
        self.first = layer(channels * each, width, reach, padding=reach // 2)
        self.condition = nn.Sequential(
            layer(condition * each, width, 1), nn.SiLU(), layer(width, width, reach, padding=reach // 2)
        )
        self.times = nn.Sequential(nn.Linear(2 * WAVES, width), nn.SiLU(), nn.Linear(width, (depth + 1) * width))
        turns = [DILATIONS[axes][k % len(DILATIONS[axes])] for k in range(depth)]
        self.near = nn.ModuleList(layer(width, width, reach, padding=reach // 2 * d, dilation=d) for d in turns)
        self.mixed = nn.ModuleList(layer(width, width, 1) for _ in turns)
        self.last = layer(width, channels * each, 1)
        nn.init.zeros_(self.last.weight)
        assert self.last.bias is not None
        nn.init.zeros_(self.last.bias)

    def embed(self, condition: Tensor) -> Tensor:
        """What the network knows beside u and t, found once for all steps.  condition: (B, N, S) -> (B, .., *space)."""
        embedded: Tensor = self.condition(self._folded(condition))
        return embedded

    def forward(self, u: Tensor, time: Tensor, embedded: Tensor) -> Tensor:
        """What the network says, (B, T).  u: (B, T).  time: (B, 1) or (1, 1).  embedded: as embed gives it."""
        angle = math.pi * time * torch.arange(1, WAVES + 1, dtype=u.dtype)
        times = self.times(torch.cat([angle.sin(), angle.cos()], 1))
        times = times.view(*times.shape, *(1 for _ in self.space))
        start, *shifts = times.chunk(self.depth + 1, 1)
        hidden = self.first(self._folded(u.reshape(len(u), self.channels, -1))) + embedded + start
        for near, mixed, shift in zip(self.near, self.mixed, shifts, strict=True):
            hidden = hidden + mixed(silu(near(silu(hidden)) + shift))
        out: Tensor = self.last(silu(hidden))
        return (pixel_shuffle(out, self.block) if self.block > 1 else out).reshape(u.shape)

    def with_jacobian(self, u: Tensor, time: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """What the network says, (B, T), and its derivative by u, (B, T, T), arguments as in forward."""
        values, columns = u.shape[1], []
        with torch.no_grad():
            said: Tensor = self(u, time, embedded)
        for direction in torch.eye(values, dtype=u.dtype):
            columns.append(jvp(lambda v: self(v, time, embedded), (u,), (direction.expand_as(u),))[1])
        return said, torch.stack(columns, -1)

    def _folded(self, value: Tensor) -> Tensor:
        """(B, N, S) -> (B, N', *space'): pixels of a block become features."""
        value = value.unflatten(2, self.space)
        return pixel_unshuffle(value, self.block) if self.block > 1 else value
