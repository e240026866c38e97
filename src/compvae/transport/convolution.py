"""The velocity as a convolution along x: what happens at a value depends on those near it, and on the parts there.

    v(u, t)_s = network of u around s, t and the condition around s

Neighbouring values are taken together in blocks, 4 along a line and 2 x 2 in an image: their values are features of one
place.  The same interface as the plain field.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from compvae.transport.field import WAVES
from compvae.transport.part_network import space_of

__all__ = ["ConvolutionField"]

DILATIONS = (1, 2, 4)  # in turn
BLOCKS = {1: 4, 2: 2}  # values of a block along each axis, by axes
FEWEST = 4  # blocks along an axis; with fewer, values stay on their own


class ConvolutionField(nn.Module):
    """A residual convolutional network of u, time and condition; its last layer starts at 0.  A line is one row."""

    def __init__(self, shape: tuple[int, ...], condition: int, width: int, depth: int) -> None:
        """condition: features at each place."""
        super().__init__()
        self.channels, space = space_of(shape)
        self.depth, size = depth, BLOCKS[len(space)]
        whole = all(length % size == 0 and length >= FEWEST * size for length in space)
        self.block = size if whole else 1
        self.space = (1, *space) if len(space) == 1 else space
        self.blocks = (1, self.block) if len(space) == 1 else (self.block, self.block)
        each = math.prod(self.blocks)
        reach = (1, 3) if len(space) == 1 else (3, 3)

        def near(inputs: int, dilation: int = 1) -> nn.Conv2d:
            padding = (dilation * (reach[0] // 2), dilation * (reach[1] // 2))
            return nn.Conv2d(inputs, width, reach, padding=padding, dilation=dilation)

        self.first = near(self.channels * each)
        self.condition = nn.Sequential(nn.Conv2d(condition * each, width, 1), nn.SiLU(), near(width))
        self.times = nn.Sequential(nn.Linear(2 * WAVES, width), nn.SiLU(), nn.Linear(width, (depth + 1) * width))
        self.near = nn.ModuleList(near(width, DILATIONS[k % len(DILATIONS)]) for k in range(depth))
        self.mixed = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(depth))
        self.last = nn.Conv2d(width, self.channels * each, 1)
        nn.init.zeros_(self.last.weight)
        assert self.last.bias is not None
        nn.init.zeros_(self.last.bias)

    def embed(self, condition: Tensor) -> Tensor:
        """What the network knows beside u and t, found once for all steps.  condition: (B, N, S) -> (B, H, *blocks)."""
        embedded: Tensor = self.condition(self._folded(condition))
        return embedded

    def forward(self, u: Tensor, time: Tensor, embedded: Tensor) -> Tensor:
        """What the network says, (B, T).  u: (B, T).  time: (B, 1) or (1, 1).  embedded: as embed gives it."""
        angle = math.pi * time * torch.arange(1, WAVES + 1, dtype=u.dtype)
        start, *shifts = self.times(torch.cat([angle.sin(), angle.cos()], 1))[..., None, None].chunk(self.depth + 1, 1)
        hidden = self.first(self._folded(u.view(len(u), self.channels, -1))) + embedded + start
        for near, mixed, shift in zip(self.near, self.mixed, shifts, strict=True):
            hidden = hidden + mixed(silu(near(silu(hidden)) + shift))
        return self._unfolded(self.last(silu(hidden)))

    def with_jacobian(self, u: Tensor, time: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """What the network says, (B, T), and its derivative by u, (B, T, T), arguments as in forward."""
        with torch.enable_grad():
            point = u.detach().requires_grad_()
            said: Tensor = self(point, time, embedded.detach())
            rows = [
                torch.autograd.grad(said, point, value.expand_as(said), retain_graph=True)[0]
                for value in torch.eye(u.shape[1], dtype=u.dtype)
            ]
        return said.detach(), torch.stack(rows, 1)

    def _folded(self, value: Tensor) -> Tensor:
        """(B, N, S) -> (B, N', *blocks): values of a block become features."""
        (rows, columns), (height, width) = self.space, self.blocks
        value = value.view(*value.shape[:2], rows // height, height, columns // width, width)
        folded = value.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)
        return folded.contiguous(memory_format=torch.channels_last)

    def _unfolded(self, value: Tensor) -> Tensor:
        """(B, N', *blocks) -> (B, T), the inverse of the other."""
        height, width = self.blocks
        value = value.unflatten(1, (self.channels, height, width))
        return value.permute(0, 1, 4, 2, 5, 3).flatten(1)
