"""What every posterior offers: read x once, then q(z | ..), then q(w | ..).

A posterior never sees more of the decoder than :data:`Linearise`, p(x | ..) near a point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from compvae.batch import Batch, Parts
from compvae.config import ModelConfig, NewtonConfig, ZNetworkConfig
from compvae.context import context_size
from compvae.distributions import WIDEST, Normal, PartsGaussian, variance_of
from compvae.distributions.dense import Correlated, Linearised
from compvae.nn.embedding import PartEmbedding
from compvae.nn.residual import mlp, residual_stack
from compvae.nn.trunks import CurveIn, ImageIn, VectorIn
from compvae.noise import Noise
from compvae.prior import PartPrior
from compvae.scale import context_of, x_scale

__all__ = ["Given", "Linearise", "Posterior", "Reader", "ZPosterior", "prior_for"]

Linearise = Callable[[Tensor, Tensor | None], Linearised]
"""(W (B, G, d) or w (B, K, d), pixels (P,) or None) -> p(x | ..) near there, at those pixels."""


@dataclass(frozen=True)
class Given:
    """What q(w | ..) is given: the batch, x as read, the prior's distribution of w, z, and the way to the decoder.

    evidence: (B, H).  prior: over (B, K, d), or over W, (B, G, d), for a collapsed posterior.  z: (B, Z) or None.
    n_pixels: N, how many places of x can be decoded alone, 0 for none.
    kl_weight: what a nat of KL costs in the bound that is climbed, below 1 while it is warmed up.
    """

    batch: Batch
    evidence: Tensor
    prior: Normal
    z: Tensor | None
    noise: Noise
    linearise: Linearise
    n_pixels: int
    kl_weight: float = 1.0


class Reader(nn.Module):
    """x (in its unit, over K where it grows with it), and beside it n/K, 1/sqrt(K), pooled places, context.

    with_parts=False reads x and context alone, as the paper's q(z | x) does (errata: q(z given x)).
    """

    def __init__(self, config: ModelConfig, with_parts: bool) -> None:
        super().__init__()
        self.config, self.with_parts = config, with_parts
        self.trunk = _trunk_in(config)
        self.width = self.trunk.width + context_size(config.context)
        self.pool: nn.Module | None = None
        if with_parts:
            self.width += config.parts.n_kinds + 1
        if with_parts and config.parts.n_features:
            self.embedding = PartEmbedding(config.parts.n_kinds, config.parts.n_features, 16)
            self.pool = mlp(self.embedding.width, 64, 32)
            self.width += 32

    def forward(self, batch: Batch) -> Tensor:
        """-> (B, width)."""
        pieces = [self.trunk(batch.x / x_scale(self.config, batch.parts, batch.x))]
        if self.with_parts:
            size = batch.parts.sizes[:, None]
            pieces += [(batch.parts.counts / size).to(batch.x.dtype), size.rsqrt().to(batch.x.dtype)]
        if self.pool is not None:
            parts = batch.parts.padded()
            each = self.pool(self.embedding(parts.kind, parts.features)) * parts.mask[..., None]
            pieces.append(each.sum(1) / parts.sizes[:, None].to(each.dtype))
        if self.config.context:
            pieces.append(context_of(batch, self.config).to(batch.x.dtype))
        return torch.cat(pieces, -1)


def _trunk_in(config: ModelConfig) -> CurveIn | ImageIn | VectorIn:
    own = config.posterior
    assert not isinstance(own, NewtonConfig)
    if own.trunk == "curve":
        return CurveIn(own.channels)
    if own.trunk == "image":
        return ImageIn(own.channels)
    return VectorIn(config.shape)


class ZPosterior(nn.Module):
    """q(z | ..): a Gaussian of its own (the paper's q(z | x)), or the prior times a Gaussian message (free=False).

    A message cannot make q wider than the prior.
    """

    def __init__(self, inputs: int, z: int, network: ZNetworkConfig, free: bool) -> None:
        super().__init__()
        self.free = free
        self.network = residual_stack(inputs, network.width, network.blocks, 2 * z, network.stem)

    def forward(self, evidence: Tensor, prior: Normal | None) -> Normal:
        """evidence: (B, H).  prior: over (B, Z).  -> normal over (B, Z)."""
        mean, log_variance = self.network(evidence).chunk(2, -1)
        if self.free:
            return Normal(mean, variance_of(log_variance, widest=WIDEST))
        assert prior is not None
        return prior.times(mean, log_variance)


class Posterior(nn.Module, ABC):
    """q(z, {w_i} | x, {l_i})."""

    of_sum: bool  # True where q is over W = sum w_i, False where it is over each w_i
    reader: Reader | None  # None where the posterior reads x in its own way alone
    z_network: ZPosterior | None

    def read(self, batch: Batch) -> Tensor:
        """What the posterior sees of x, computed once, (B, H)."""
        if self.reader is None:
            return batch.x.new_zeros(len(batch), 0)
        out: Tensor = self.reader(batch)
        return out

    @abstractmethod
    def w(self, given: Given) -> Normal | PartsGaussian | Correlated:
        """q(w | x, z, {l_i}): over W, (B, G, d), where ``of_sum``, over the parts, (B, K, d), otherwise."""


def prior_for(posterior: Posterior, prior: PartPrior, parts: Parts) -> Normal:
    """The prior over what this posterior is a distribution of."""
    return prior.of_sum(parts) if posterior.of_sum else prior.of_parts(parts.padded())
