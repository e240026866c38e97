"""p(x | z, W) of the paper: a stem on W and z, residual blocks, a trunk to x  (appendix A, p(x | z, sum w))."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compvae.aggregation import Aggregation, PlainSum
from compvae.batch import Parts
from compvae.config import ModelConfig, PaperDecoderConfig
from compvae.context import context_size
from compvae.decoder.base import Decoder
from compvae.distributions import Normal
from compvae.nn.residual import Residual
from compvae.nn.trunks import CurveOut, ImageOut
from compvae.scale import beside, x_scale

__all__ = ["PaperDecoder"]


class JoinedStem(nn.Module):
    """ELU(Linear(W, z)), then (Residual, ELU) x blocks  (1D)."""

    def __init__(self, w: int, z: int, width: int, blocks: int) -> None:
        super().__init__()
        self.join = nn.Linear(w + z, width)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(blocks))

    def forward(self, w: Tensor, z: Tensor | None) -> Tensor:
        """w: (B, w), z: (B, z) -> (B, width)."""
        h = F.elu(self.join(beside(w, z)))
        for block in self.blocks:
            h = F.elu(block(h))
        return h


class AddedStem(nn.Module):
    """ELU(Linear?(Residual(W)) + Linear(z)), Residual, tanh, Residual, ELU  (2D).

    In the paper W is as wide as the trunk, 2048; where it is not, a linear map stands between.
    """

    def __init__(self, w: int, z: int, width: int) -> None:
        super().__init__()
        self.of_w = Residual(w)
        self.fit = nn.Identity() if w == width else nn.Linear(w, width)
        self.of_z = nn.Linear(z, width) if z else None
        self.first, self.second = Residual(width), Residual(width)

    def forward(self, w: Tensor, z: Tensor | None) -> Tensor:
        """w: (B, w), z: (B, z) -> (B, width)."""
        h = self.fit(self.of_w(w))
        if self.of_z is not None:
            h = h + self.of_z(z)
        return F.elu(self.second(torch.tanh(self.first(F.elu(h)))))


class VectorOut(nn.Module):
    """(B, width) -> mean and log-variance of x by one linear layer."""

    def __init__(self, width: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        self.linear = nn.Linear(width, 2 * math.prod(shape))

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """h: (B, width) -> mean (B, *shape), log-variance (B, *shape)."""
        mean, log_variance = self.linear(h).view(len(h), 2, *self.shape).unbind(1)
        return mean, log_variance


class PaperDecoder(Decoder):
    """N(mean, variance) of x from W and z; context, which the paper does not have, stands beside z."""

    aggregation: ClassVar[Aggregation] = PlainSum()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.decoder
        assert isinstance(own, PaperDecoderConfig)
        self.config, self.own = config, own
        self.trunk = self._trunk(own, config.shape)
        z = context_size(config.context) + config.latent.z
        w = config.n_blocks * config.latent.w
        if own.stem == "joined":
            self.stem: nn.Module = JoinedStem(w, z, self.trunk.width, own.blocks)
        else:
            self.stem = AddedStem(w, z, self.trunk.width)

    @staticmethod
    def _trunk(own: PaperDecoderConfig, shape: tuple[int, ...]) -> CurveOut | ImageOut | VectorOut:
        if own.trunk == "curve":
            return CurveOut(own.channels)
        return ImageOut(own.channels) if own.trunk == "image" else VectorOut(own.hidden, shape)

    def forward(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Normal:
        """code: W, (B, G, d) -> normal over (B, *shape)."""
        whole = code.flatten(1)
        extra = beside(whole[:, :0], z, context) if z is not None or context is not None else None
        mean, log_variance = self.trunk(self.stem(whole, extra))
        scale = x_scale(self.config, parts, mean)
        noise = Normal.floored(mean, log_variance, self.own.floor)
        return Normal(scale * noise.mean, scale**2 * noise.variance)
