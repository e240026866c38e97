"""A conditional normalising flow: ln p(y | c) = ln N(f(y; c)) + ln |df/dy|, splines in couplings (zuko's NSF).

x lies on a thin manifold, where a density is not defined: y is trained with noise of 2% of x, the floor of our models.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from compvae.baselines.learned import Learned
from compvae.extras import need
from compvae.noise import Noise
from compvae.problems import Problem

__all__ = ["Flow"]

NOISE = 0.02
PASSES = 2  # couplings, as fast to sample as to train


class Flow(Learned):
    """Rational-quadratic splines in couplings, on whitened coordinates."""

    name: ClassVar[str] = "flow"
    width: ClassVar[int] = 128
    transforms: ClassVar[int] = 6

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.flows = need("zuko.flows", "baselines")
        super().__init__(problem, seed)
        self.whiten = (self.coordinates.spread**2 + NOISE**2).sqrt()  # (D,)

    def build(self, values: int, given: int) -> nn.Module:
        """The flow."""
        hidden = (self.width, self.width)
        flow: nn.Module = self.flows.NSF(
            values, given, transforms=self.transforms, hidden_features=hidden, passes=PASSES
        )
        return flow

    def loss(self, y: Tensor, given: Tensor, noise: Noise, progress: float) -> Tensor:
        """- ln p(y + noise | c), mean over rows and coordinates."""
        noisy = y + NOISE * noise.normal("flow", y.shape[1])
        return -self.log_density(noisy, given).mean() / y.shape[1]

    def log_density(self, y: Tensor, given: Tensor) -> Tensor:
        """ln p(y | c), (B,).  y: (B, D).  given: (B, N)."""
        density: Tensor = self._distribution(given).log_prob(y / self.whiten) - self.whiten.log().sum()
        return density

    def draw_coordinates(self, given: Tensor, noise: Noise) -> Tensor:
        """The flow turned around."""
        unit = noise.normal("flow", len(self.whiten), dtype=torch.float32)
        y: Tensor = self._distribution(given).transform.inv(unit) * self.whiten
        return y

    def _distribution(self, given: Tensor) -> Any:
        return self.network(given)
