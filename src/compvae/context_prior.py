"""p(z | context), z above the parts: N(0, I) times a Gaussian message of what is known while the model is trained, then
a mixture fitted to what the wholes of many days show.

Without that unit z has no scale of its own: its prior, which is learned, and the prior of the parts given z can grow
together without end.  With it, what q(z | x) is on average still misses N(0, I), and samples are wrong where bound and
edits are excellent (theory, section 5; docs/experiments.md, 10).  So the prior follows q in the end:

    p(z | context) = sum_m pi_m(context) N(mu_m(context), diag sigma_m^2(context))

Inference takes the Gaussian with the same mean and variances.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compvae.config import ZNetworkConfig
from compvae.distributions import Normal, soft_floor
from compvae.nn.residual import residual_stack
from compvae.noise import NormalSource, Still

__all__ = ["ContextPrior"]

REACH, NARROWEST = 4.0, 0.05  # what context says of z ~ N(0, I): how far out, and how exactly
STEPS, BATCH, RATE = 1500, 512, 5e-3  # of the fit of the mixture


class ContextPrior(nn.Module):
    """inputs: E, length of the encoded context.  z: Z.  components: M of the mixture."""

    fitted: Tensor

    def __init__(self, inputs: int, z: int, network: ZNetworkConfig, components: int = 8) -> None:
        super().__init__()
        self.z, self.components = z, components
        self.network = residual_stack(inputs, network.width, network.blocks, 2 * z, network.stem) if inputs else None
        self.mixture = residual_stack(inputs + 1, network.width, network.blocks, components * (1 + 2 * z))
        self.mixture.requires_grad_(False)  # no step of training moves it
        self.register_buffer("fitted", torch.zeros(()))  # 1 when it is; weights are floating-point numbers

    def forward(self, context: Tensor) -> Normal:
        """context: (B, E), a row of zeros where nothing is known -> normal over (B, Z)."""
        if self.fitted:
            weights, mean, variance = self._components(context)
            centre = (weights[..., None] * mean).sum(1)
            return Normal(centre, (weights[..., None] * (variance + mean**2)).sum(1) - centre**2)
        zeros = context.new_zeros(len(context), self.z)
        unit = Normal(zeros, torch.ones_like(zeros))
        if self.network is None:
            return unit
        mean, log_variance = self.network(context).chunk(2, -1)
        told = unit.times(REACH * torch.tanh(mean / REACH), soft_floor(log_variance, NARROWEST))
        unknown = (context == 0).all(1, keepdim=True)
        return Normal(told.mean.masked_fill(unknown, 0.0), told.variance.masked_fill(unknown, 1.0))

    def draw(self, context: Tensor, noise: NormalSource, name: str) -> Tensor:
        """z ~ p(z | context), (B, Z); its mean where the noise is still."""
        if not self.fitted or isinstance(noise, Still):
            given: Normal = self(context)
            return given.rsample(noise, name)
        weights, mean, variance = self._components(context)
        quantile = 0.5 * torch.erfc(-noise.normal(f"{name}/component", 1) / math.sqrt(2))
        chosen = torch.searchsorted(weights.cumsum(1), quantile).clamp_(max=self.components - 1)
        index = chosen[..., None].expand(-1, -1, self.z)
        unit = noise.normal(name, self.z, dtype=mean.dtype)
        return mean.gather(1, index)[:, 0] + variance.gather(1, index)[:, 0].sqrt() * unit

    def fit(self, z: Tensor, context: Tensor) -> float:
        """Climb the mean of ln p(z | context); the last value.  z: (N, Z), of N days.  context: (N, E)."""
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            self._spread(z)
            self.mixture.requires_grad_(True)
            optimiser = torch.optim.Adam(self.mixture.parameters(), lr=RATE)
            for step in range(STEPS):
                optimiser.param_groups[0]["lr"] = RATE * (0.5 * (1 + math.cos(math.pi * step / STEPS)) + 0.01)
                rows = torch.randint(len(z), (BATCH,))
                loss = -self.log_prob(z[rows], context[rows]).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        self.mixture.requires_grad_(False)
        self.fitted.fill_(1.0)
        return -float(loss.detach())

    def log_prob(self, z: Tensor, context: Tensor) -> Tensor:
        """ln of the mixture, (B,).  z: (B, Z).  context: (B, E)."""
        weights, mean, variance = self._components(context)
        density = Normal(mean, variance).log_density(z[:, None].expand_as(mean)).sum(-1)
        return torch.logsumexp(weights.log() + density, 1)

    def _components(self, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights (B, M), means (B, M, Z) and variances (B, M, Z)."""
        one = context.new_ones(len(context), 1)
        out = self.mixture(torch.cat([one, context], 1)).view(len(context), self.components, -1)
        mean, log_variance = out[..., 1:].chunk(2, -1)
        # bounded: a component far out or wide would be an extrapolation of everything that hangs on z
        return (
            out[..., 0].softmax(-1),
            REACH * torch.tanh(mean / REACH),
            soft_floor(-F.softplus(-log_variance), NARROWEST).exp(),
        )

    @torch.no_grad()
    def _spread(self, z: Tensor) -> None:
        """Components start at some of these days, wide.  z: (N, Z)."""
        last = self.mixture[-1]
        assert isinstance(last, nn.Linear)
        last.weight.mul_(0.1)
        bias = last.bias.view(self.components, -1)
        bias[:, 0] = 0.0
        bias[:, 1 : 1 + self.z] = z[torch.randint(len(z), (self.components,))]
        bias[:, 1 + self.z :] = 0.0
