"""x = K g( A W / K ): a link g on a linear function of the sum (theory, section 5).

Everything before the link is linear in W and no feature of n or K stands beside it, so nothing is left that could drift
with the number of parts, and size generality is built in.  Standard deviations scale like K^noise_power, or every part
brings noise of its own, Var x_t = sum_c n_c s_ct^2: what of a part is not in w_i adds up as independent things do.
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
from compvae.distributions import Normal, variance_of
from compvae.distributions.dense import Linearised
from compvae.nn.residual import Skipped, residual_stack, white
from compvae.scale import beside, size_scale

__all__ = ["LinkedDecoder"]


class Losses(nn.Module):
    """g(u) = u + a u^2: what goes lost, or is gained, with the square of the load.

    A link that may bend more does: a convex one makes single parts as skewed as meters are, and sums of parts wrong
    (docs/experiments.md, 10).
    """

    def __init__(self) -> None:
        super().__init__()
        self.percent = nn.Parameter(torch.zeros(()))  # in percent, so that a step of training is a small one

    def forward(self, u: Tensor) -> Tensor:
        """u: (*, 1) -> (*, 1)."""
        return u + 0.01 * self.percent * u**2


class LinkedDecoder(Decoder):
    """Link on A W / K, with z and context beside it; losses take the load alone."""

    aggregation: ClassVar[Aggregation] = PlainSum()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.decoder
        assert isinstance(own, LinkedConfig)
        self.config, self.own = config, own
        values = math.prod(config.shape)
        self.points = 1 if own.link == "joint" else values
        spread = 1 / math.sqrt(config.latent.w)
        rows = self.points * own.features
        self.loading = nn.Parameter(white(config.n_blocks, config.latent.w, rows) * spread)
        outputs = (1 if own.part_noise else 2) * values // self.points
        self.link = self._link(own.features + config.latent.z + context_size(config.context), outputs)
        if own.part_noise:
            self.log_noise = nn.Parameter(torch.zeros(config.parts.n_kinds, *config.shape))

    def _link(self, inputs: int, outputs: int) -> nn.Module:
        if self.own.link == "losses":
            return Losses()
        link = residual_stack(inputs, self.own.width, self.own.blocks, outputs)
        return link if self.points == 1 else Skipped(link, inputs, outputs)

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
        others = [] if self.own.link == "losses" else [o for o in (z, context) if o is not None]
        out = self.link(beside(features, *(other[:, None].expand(-1, self.points, -1) for other in others)))
        out = out.transpose(1, 2).reshape(len(out), -1, *self.config.shape)  # mean, and log-variance where it is made
        size, unit = size_scale(self.config, parts, out[:, 0]), self.config.unit
        if self.own.part_noise:
            return Normal(unit * size * out[:, 0], self._noise(parts, out))
        noise = Normal.floored(out[:, 0], out[:, 1], self.own.floor)
        return Normal(unit * size * out[:, 0], unit**2 * size ** (2 * self.own.noise_power) * noise.variance)

    def noise_of_parts(self, parts: Parts, like: Tensor) -> Tensor | None:
        """sum_c n_c s_c^2 where every part brings noise of its own."""
        return self._noise(parts, like) if self.own.part_noise else None

    def _noise(self, parts: Parts, like: Tensor) -> Tensor:
        """sum_c n_c s_c^2, (B, *shape)."""
        each = self.config.unit**2 * variance_of(self.log_noise, self.own.floor).flatten(1)  # s_c^2, (C, T)
        return (parts.counts.to(like.dtype) @ each).view(len(like), *self.config.shape)
