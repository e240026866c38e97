"""Bits in w and in z: KL(q || p) / ln 2, for each whole and by coordinate (paper, section 4.4: division of labour).

By coordinate it is the KL of each coordinate of W (or of each w_i, where the decoder sees the parts one by one) against
its prior; a coordinate is live where it holds more than a tenth of a bit on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.checks import at_least_one
from compvae.distributions import Members, Normal, PartsGaussian
from compvae.distributions.dense import Correlated
from compvae.inference import Inferred, infer
from compvae.measures.measured import Measured, mean_of
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.objective import elbo
from compvae.prior import members_of
from compvae.problems.source import Source

__all__ = ["Bits", "bits"]

TILE = 64  # wholes at once
LIVE = 0.1  # bits


@dataclass(frozen=True)
class Bits:
    """Bits of information in the latents.  w, z: for each whole, mean over wholes.

    by_coordinate: (C, d): bits in coordinate j of the block of kind c, mean over the wholes that have the kind (of the
    parts of that kind, where parts are seen one by one); (1, d) where all parts enter one sum; NaN for kinds not seen.
    z_by_coordinate: (Z,).
    """

    w: Measured
    z: Measured
    by_coordinate: np.ndarray
    z_by_coordinate: np.ndarray

    @property
    def live(self) -> np.ndarray:
        """Live coordinates of each kind, (C,) or (1,) int."""
        return np.asarray((np.nan_to_num(self.by_coordinate) > LIVE).sum(1))


@torch.no_grad()
def bits(model: CompVAE, problem: Source, n: int = 256, seed: int = 0, max_parts: int | None = None) -> Bits:
    """Measure a model on n fresh wholes of a problem, K uniform on 1..max_parts (the training range by default)."""
    totals, coordinates = [], []
    for rows in torch.arange(at_least_one(n, "n")).split(TILE):
        noise = Noise(seed, rows)
        batch = problem.draw(at_least_one(max_parts or problem.max_parts, "max_parts"), noise)
        bound = elbo(model, batch, noise)
        totals.append(torch.stack([bound.w, bound.z], 1))
        coordinates.append(_by_coordinate(model, batch, infer(model, batch, noise)))
    w, z = (torch.cat(totals).double() / math.log(2)).unbind(1)
    kinds, counts, z_total = (torch.stack(sums).sum(0).double() for sums in zip(*coordinates, strict=True))
    by_kind = kinds / counts / math.log(2)  # 0/0 is NaN: a kind not seen
    return Bits(mean_of(w.numpy()), mean_of(z.numpy()), by_kind.numpy(), (z_total / n / math.log(2)).numpy())


def _by_coordinate(model: CompVAE, batch: Batch, latent: Inferred) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over a batch, in nats: by kind (C, d) or (1, d), how many they are of (C, 1) or (1, 1), and of z, (Z,)."""
    q, prior, parts = latent.q, latent.prior, batch.parts.padded()
    if isinstance(q, Correlated):
        q = q.marginals()
    members = members_of(parts, model.config)
    if not model.decoder.aggregation.plain_sum:
        kinds = Members(parts.mask, parts.kind, parts.n_kinds)
        each = Normal(q.mean, q.variance, parts.mask[..., None])
        nats, number = kinds.total(each.kl_terms(prior)), kinds.sizes(q.mean.dtype)
    else:
        if not model.posterior.of_sum:
            q, prior = q.sum() if isinstance(q, PartsGaussian) else q.sum(members), prior.sum(members)
        assert isinstance(q, Normal)
        nats, number = q.kl_terms(prior), (members.sizes(q.mean.dtype) > 0).to(q.mean.dtype)
    return nats.sum(0), number.sum(0), _of_z(latent).sum(0)


def _of_z(latent: Inferred) -> Tensor:
    """Nats in each coordinate of z, (B, Z): closed form where there is one, else the log ratio at the draw."""
    z = latent.z
    if z is None:
        return latent.w.new_zeros(len(latent.w), 0)
    return z.q.kl_terms(z.prior) if z.exact else z.q.log_density(z.value) - z.prior.log_density(z.value)
