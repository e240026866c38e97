"""x = x(u), u = (u_W, u_z, eps_x) ~ N(0, I): the model as a deterministic function of white noise (theory, section 8).

Where the decoder sees only W = sum_i w_i, the size of u does not depend on K.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from compvae.composing.generation import Tile
from compvae.noise import Noise

__all__ = ["Simulator", "Whitened"]


class Simulator(Protocol):
    """A function of D standard normal numbers, run on a fixed number of rows (height) at a time."""

    @property
    def height(self) -> int:
        """Rows of one call."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one x."""

    def white(self, noise: Noise) -> Tensor:
        """u ~ N(0, I) for each row of noise, float32 (R, D)."""

    def __call__(self, u: Tensor) -> Tensor:
        """u: (height, D) -> x, float32 (height, *shape)."""


class _Recorder:
    """Remembers which normal numbers were asked for."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.asked: dict[str, tuple[int, ...]] = {}

    def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> zeros, (rows, *shape)."""
        self.asked[name] = shape
        return torch.zeros(self.rows, *shape, dtype=dtype)


class _Slices:
    """Hands out given numbers by name.  values: name -> (B, *shape)."""

    def __init__(self, values: dict[str, Tensor]) -> None:
        self.values = values

    def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> the numbers of this name, (B, *shape)."""
        return self.values[name].to(dtype).view(-1, *shape)


class Whitened:
    """A model at one composition, as a function of its noise; u ~ N(0, I) by row r equals the noise of sample's row r.

    noise: False leaves out the observation noise, and eps_x with it.
    """

    def __init__(self, tile: Tile, noise: bool = True) -> None:
        self.tile, self.noise = tile, noise
        self.height, self.shape = tile.height, tile.shape
        recorder = _Recorder(tile.height)
        tile.draw(recorder, noise)
        self.layout = recorder.asked

    def white(self, noise: Noise) -> Tensor:
        """-> (R, D): what :class:`Noise` would have given to each name, side by side."""
        return torch.cat([noise.normal(name, *shape).flatten(1) for name, shape in self.layout.items()], 1)

    @torch.no_grad()
    def __call__(self, u: Tensor) -> Tensor:
        """u: (height, D) -> (height, *shape)."""
        pieces = u.split([math.prod(shape) for shape in self.layout.values()], 1)
        return self.tile.draw(_Slices(dict(zip(self.layout, pieces, strict=True))), self.noise)
