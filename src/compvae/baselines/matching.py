"""Flow matching on the counts: dy/dt = v(y, t, c), v fitted to y_1 - y_0 at y_t = (1 - t) y_0 + t y_1.

y_0 ~ N(0, I), y_1 an example (Lipman et al. 2023, straight paths); sampled by 32 steps of Heun.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from compvae.baselines.learned import Learned
from compvae.nn.residual import residual_stack
from compvae.noise import Noise

__all__ = ["FlowMatching", "heun"]

STEPS = 32
OCTAVES = 4  # of the waves in which time is given


def heun(velocity: Callable[[Tensor, float], Tensor], start: Tensor, steps: int = STEPS) -> Tensor:
    """y(1) of dy/dt = velocity(y, t), y(0) = start, error of order 1 / steps^2.  start: (B, D)."""
    y = start
    for step in range(steps):
        slope = velocity(y, step / steps)
        ahead = velocity(y + slope / steps, (step + 1) / steps)
        y = y + (slope + ahead) / (2 * steps)
    return y


class FlowMatching(Learned):
    """A velocity field that carries noise to wholes."""

    name: ClassVar[str] = "matching"

    def build(self, values: int, given: int) -> nn.Module:
        """The velocity."""
        return residual_stack(values + given + 1 + 2 * OCTAVES, self.width, 3, values)

    def loss(self, y: Tensor, given: Tensor, noise: Noise, progress: float) -> Tensor:
        """E |v(y_t, t, c) - (y_1 - y_0)|^2, mean over coordinates."""
        first, time = noise.normal("matching", y.shape[1]), noise.uniform("time", 1)
        return (self._velocity(torch.lerp(first, y, time), time, given) - (y - first)).square().mean()

    def draw_coordinates(self, given: Tensor, noise: Noise) -> Tensor:
        """Noise carried along."""
        start = noise.normal("matching", len(self.coordinates.spread))
        return heun(lambda y, t: self._velocity(y, torch.full((len(y), 1), t), given), start)

    def _velocity(self, y: Tensor, time: Tensor, given: Tensor) -> Tensor:
        """y: (B, D).  time: (B, 1).  given: (B, N) -> (B, D)."""
        angle = time * math.pi * 2 ** torch.arange(OCTAVES)
        unit = (self.coordinates.spread**2 + 1).sqrt()  # the network sees and says numbers of about 1
        out: Tensor = self.network(torch.cat([y / unit, given, time, angle.sin(), angle.cos()], 1))
        return out * unit
