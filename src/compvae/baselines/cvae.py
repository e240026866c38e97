"""A conditional VAE on the counts: p(z | c) p(y | z, c), q(z | y, c)  (Sohn, Lee & Yan 2015)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from compvae.baselines.learned import Learned
from compvae.distributions import MOST, WIDEST, Normal, bounded
from compvae.nn.residual import residual_stack
from compvae.noise import Noise
from compvae.scale import beside

__all__ = ["ConditionalVAE"]

LATENT = 32
FLOOR = 0.02  # smallest standard deviation of p(y | z, c), as ours
FLOOR_Z = 1e-3
KL_FROM, KL_UNTIL = 0.02, 0.5  # weight of the KL at first, and the share of the budget at which it is 1


class ConditionalVAE(Learned):
    """One latent vector for the whole, beside the counts."""

    name: ClassVar[str] = "cvae"

    def build(self, values: int, given: int) -> nn.Module:
        """Prior, encoder, decoder."""
        return nn.ModuleDict(
            {
                "prior": residual_stack(given, self.width, 1, 2 * LATENT),
                "encoder": residual_stack(values + given, self.width, 2, 2 * LATENT),
                "decoder": residual_stack(LATENT + given, self.width, 3, 2 * values),
            }
        )

    def loss(self, y: Tensor, given: Tensor, noise: Noise, progress: float) -> Tensor:
        """- E ln p(y | z, c) + KL(q(z | y, c) || p(z | c)), mean over rows."""
        q = self._normal("encoder", beside(y / self.coordinates.spread, given), FLOOR_Z)
        likelihood = self._of_y(beside(q.rsample(noise, "z"), given)).log_prob(y)
        weight = min(1.0, KL_FROM + (1 - KL_FROM) * progress / KL_UNTIL)
        return (weight * q.kl(self._normal("prior", given, FLOOR_Z)) - likelihood).mean()

    def draw_coordinates(self, given: Tensor, noise: Noise) -> Tensor:
        """z ~ p(z | c), y ~ p(y | z, c)."""
        z = self._normal("prior", given, FLOOR_Z).rsample(noise, "z")
        return self._of_y(beside(z, given)).rsample(noise, "y")

    def _of_y(self, seen: Tensor) -> Normal:
        """p(y | z, c); the network speaks in units of the spread of each coordinate.  seen: (B, LATENT + N)."""
        assert isinstance(self.network, nn.ModuleDict)
        mean, log_variance = self.network["decoder"](seen).chunk(2, 1)
        spread = self.coordinates.spread
        log_variance = bounded(log_variance, widest=WIDEST) + 2 * spread.log()
        return Normal.floored(mean * spread, log_variance, FLOOR, MOST)

    def _normal(self, network: str, seen: Tensor, floor: float) -> Normal:
        assert isinstance(self.network, nn.ModuleDict)
        mean, log_variance = self.network[network](seen).chunk(2, 1)
        return Normal.floored(mean, log_variance, floor)
