"""x = K g( A W / K ): a link g on a linear function of the sum (theory, section 5).

Everything before the link is linear in W and no feature of n or K stands beside it, so nothing is left that could drift
with the number of parts, and size generality is built in.  Standard deviations scale like K^noise_power.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from compvae.aggregation import Aggregation, PlainSum
from compvae.batch import Parts
from compvae.config import LinkedConfig, ModelConfig
from compvae.context import context_size
from compvae.decoder.base import Decoder
from compvae.dense import Linearised
from compvae.distributions import Normal
from compvae.nn.residual import Skipped, residual_stack
from compvae.scale import beside, size_scale

__all__ = ["LinkedDecoder"]


class LinkedDecoder(Decoder):
    """Link on A W / K, with z (where it stands below W) and context beside it."""

    aggregation: ClassVar[Aggregation] = PlainSum()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.decoder
        assert isinstance(own, LinkedConfig)
        self.config, self.own = config, own
        values = math.prod(config.shape)
        self.points = values if own.link == "pointwise" else 1
        spread = 1 / math.sqrt(config.latent.w)
        rows = self.points * own.features
        self.loading = nn.Parameter(torch.randn(config.n_blocks, config.latent.w, rows) * spread)
        z = config.latent.z if config.latent.z_place == "below" else 0
        inputs = own.features + z + context_size(config.context)
        outputs = 2 * values // self.points
        link = residual_stack(inputs, own.width, own.blocks, outputs)
        self.link = link if self.points == 1 else Skipped(link, inputs, outputs)

    def features(self, code: Tensor, parts: Parts) -> Tensor:
        """A W / K.  code: W, (B, G, d) -> (B, points, features)."""
        mean = code / parts.sizes.to(code.dtype)[:, None, None]
        return (mean.flatten(1) @ self.loading.flatten(0, 1)).view(len(code), self.points, -1)

    def forward(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Normal:
        """code: W, (B, G, d) -> normal over (B, *shape)."""
        return self._observe(self.features(code, parts), parts, z, context)

    def linearise(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Linearised:
        """Where the link is pointwise, d x_t / d W = K g'(A_t W / K) A_t / K: one backward pass through g, not D."""
        if self.points == 1:
            return super().linearise(code, parts, z, context, pixels)
        with torch.enable_grad():
            features = self.features(code, parts).detach().requires_grad_()
            whole = self._observe(features, parts, z, context)
            slope = torch.autograd.grad(whole.mean.sum(), features)[0]
        loading = self.loading.detach().flatten(0, 1).view(-1, self.points, self.own.features)
        jacobian = torch.einsum("btf,dtf->btd", slope / parts.sizes.to(code.dtype)[:, None, None], loading)
        return Linearised(whole.mean.detach().flatten(1), whole.variance.detach().flatten(1), jacobian)

    def _observe(self, features: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None) -> Normal:
        """The link.  features: (B, points, features) -> normal over (B, *shape)."""
        below = z if self.config.latent.z_place == "below" else None
        others = [other[:, None].expand(-1, self.points, -1) for other in (below, context) if other is not None]
        out = self.link(beside(features, *others))
        mean, log_variance = out.view(len(out), -1, 2).unbind(2) if self.points > 1 else out[:, 0].chunk(2, -1)
        mean, log_variance = (value.reshape(len(out), *self.config.shape) for value in (mean, log_variance))
        noise = Normal.floored(mean, log_variance, self.own.floor)
        scale = size_scale(self.config, parts, mean)
        return Normal(scale * mean, scale ** (2 * self.own.noise_power) * noise.variance)
