"""p(z | context), z above the parts: N(0, I) while a model is trained, then a mixture fitted to what days show.

Without that unit z has no scale of its own: its prior, were it learned, and the prior of the parts given z could grow
together without end.  A prior that is told the context in training puts known days and unknown ones into different
corners of z, and the two no longer mean the same (docs/experiments.md, 11): so context comes in afterwards.  What
q(z | x) is on average misses N(0, I), and samples are wrong where bound and edits are excellent (theory, section 5).
So the prior follows q in the end:

    p(z | context) = sum_m pi_m(context) N(mu_m(context), L_m L_m^T(context))

Inference takes the Gaussian with the same mean and variances; fitting/shaping.py turns z so that, without context, its
coordinates are uncorrelated.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compvae.config import ZNetworkConfig
from compvae.distributions import LOG_2PI, Normal, variance_of
from compvae.nn.descent import Tick, descend
from compvae.nn.residual import residual_stack
from compvae.noise import NormalSource, Still

__all__ = ["STEPS", "ContextPrior"]

REACH, NARROWEST = 4.0, 0.05  # what context says of z ~ N(0, I): how far out, and how exactly
STEPS, BATCH, RATE = 1500, 512, 5e-3  # of the fit of the mixture


class ContextPrior(nn.Module):
    """inputs: E, length of the encoded context.  z: Z.  components: M of the mixture."""

    fitted: Tensor

    def __init__(self, inputs: int, z: int, network: ZNetworkConfig, components: int = 8) -> None:
        super().__init__()
        self.z, self.components = z, components
        self.below = z * (z - 1) // 2  # numbers below the diagonal of a root
        self.mixture = residual_stack(inputs + 1, network.width, network.blocks, components * (1 + 2 * z + self.below))
        self.mixture.requires_grad_(False)  # no step of training moves it
        self.register_buffer("fitted", torch.zeros(()))  # 1 when it is; weights are floating-point numbers

    def forward(self, context: Tensor) -> Normal:
        """context: (B, E), a row of zeros where nothing is known -> normal over (B, Z)."""
        if self.fitted:
            log_weights, mean, root = self._components(context)
            weights = log_weights.exp()[..., None]
            centre = (weights * mean).sum(1)
            return Normal(centre, (weights * ((root**2).sum(-1) + mean**2)).sum(1) - centre**2)
        zeros = context.new_zeros(len(context), self.z)
        return Normal(zeros, torch.ones_like(zeros))

    def draw(self, context: Tensor, noise: NormalSource, name: str) -> Tensor:
        """z ~ p(z | context), (B, Z); its mean where the noise is still."""
        if not self.fitted or isinstance(noise, Still):
            given: Normal = self(context)
            return given.rsample(noise, name)
        log_weights, mean, root = self._components(context)
        quantile = 0.5 * torch.erfc(-noise.normal(f"{name}/component", 1) / math.sqrt(2))
        chosen = torch.searchsorted(log_weights.exp().cumsum(1), quantile).clamp_(max=self.components - 1)
        rows, unit = torch.arange(len(mean), device=mean.device), noise.normal(name, self.z, dtype=mean.dtype)
        chosen = chosen[:, 0]
        return mean[rows, chosen] + (root[rows, chosen] @ unit[..., None])[..., 0]

    def fit(self, z: Tensor, context: Tensor, steps: int = STEPS, tick: Tick | None = None) -> None:
        """Climb the mean of ln p(z | context).  z: (N, Z), of N days.  context: (N, E)."""

        def surprise() -> Tensor:
            rows = torch.randint(len(z), (BATCH,))
            return -self.log_prob(z[rows], context[rows]).mean()

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self._spread(z)
            descend(self.mixture.parameters(), surprise, steps, RATE, tick)
        self.fitted.fill_(1.0)

    def log_prob(self, z: Tensor, context: Tensor) -> Tensor:
        """ln of the mixture, (B,).  z: (B, Z).  context: (B, E)."""
        log_weights, mean, root = self._components(context)
        white = torch.linalg.solve_triangular(root, (z[:, None] - mean)[..., None], upper=False)[..., 0]
        log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        density = -0.5 * ((white**2).sum(-1) + self.z * LOG_2PI) - log_det
        return torch.logsumexp(log_weights + density, 1)

    def _components(self, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logarithms of weights (B, M), means (B, M, Z) and lower triangular roots of covariances (B, M, Z, Z)."""
        one = context.new_ones(len(context), 1)
        out = self.mixture(torch.cat([one, context], 1)).view(len(context), self.components, -1)
        weight, mean, log_variance, below = out.split([1, self.z, self.z, self.below], -1)
        # bounded: a component far out or wide would be an extrapolation of everything that hangs on z
        deviation = variance_of(-F.softplus(-log_variance), NARROWEST).sqrt()
        root = torch.eye(self.z, dtype=out.dtype, device=out.device).repeat(*out.shape[:2], 1, 1)
        row, column = torch.tril_indices(self.z, self.z, -1, device=out.device)
        root[..., row, column] = below
        root = root * (deviation / root.norm(dim=-1))[..., None]
        return weight[..., 0].log_softmax(-1), REACH * torch.tanh(mean / REACH), root

    @torch.no_grad()
    def _spread(self, z: Tensor) -> None:
        """Components start at some of these days, wide.  z: (N, Z)."""
        last = self.mixture[-1]
        assert isinstance(last, nn.Linear)
        last.weight.mul_(0.1)
        bias = last.bias.view(self.components, -1)
        bias[:, 0] = 0.0
        bias[:, 1 : 1 + self.z] = z[torch.randint(len(z), (self.components,))]
        bias[:, 1 + self.z :] = 0.0  # uncorrelated
