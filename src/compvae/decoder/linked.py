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
from compvae.distributions import Normal
from compvae.nn.residual import residual_stack
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
        spread = 1 / math.sqrt(config.latent.w)
        self.loading = nn.Parameter(torch.randn(config.n_blocks, config.latent.w, own.features) * spread)
        z = config.latent.z if config.latent.z_place == "below" else 0
        inputs = own.features + z + context_size(config.context)
        self.link = residual_stack(inputs, own.width, own.blocks, 2 * math.prod(config.shape))

    def features(self, code: Tensor, parts: Parts) -> Tensor:
        """A W / K.  code: W, (B, G, d) -> (B, features)."""
        mean = code / parts.sizes.to(code.dtype)[:, None, None]
        return torch.einsum("bgd,gdf->bf", mean, self.loading)

    def forward(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Normal:
        """code: W, (B, G, d) -> normal over (B, *shape)."""
        below = z if self.config.latent.z_place == "below" else None
        out = self.link(beside(self.features(code, parts), below, context))
        mean, log_variance = out.view(len(out), 2, *self.config.shape).unbind(1)
        noise = Normal.floored(mean, log_variance, self.own.floor)
        scale = size_scale(self.config, parts, mean)
        return Normal(scale * mean, scale ** (2 * self.own.noise_power) * noise.variance)
