"""ln p(x | {l_i}) >= E_q ln p(x | z, W) - KL_w - KL_z: the bound, in true nats  (paper, eq. 4, with its signs mended).

Errata: the paper's L_ELBO is the *negative* bound, and D_KL <= -H + L.  Terms here are w = KL_w, z = KL_z,
x = ln p(x | ..) with its 1/2 ln 2 pi, and total = x - w - z, each for every example.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.distributions import Normal
from compvae.inference import Inferred, ZInferred, infer
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.prior import PriorStatistics, TablePrior

__all__ = ["Bound", "elbo", "importance_bound"]


@dataclass(frozen=True)
class Bound:
    """The terms of the bound, nats for each example, (B,) each: total = x - w - z.

    statistics: what the M-step of the prior needs, where it is fitted by one.
    """

    w: Tensor
    z: Tensor
    x: Tensor
    statistics: PriorStatistics | None = None

    @property
    def total(self) -> Tensor:
        """The lower bound of ln p(x | {l_i}), (B,)."""
        return self.x - self.w - self.z

    def weighted(self, kl_weight: float) -> Tensor:
        """x - kl_weight (w + z): what training climbs while the KL is warmed up, (B,)."""
        return self.x - kl_weight * (self.w + self.z)


def elbo(model: CompVAE, batch: Batch, noise: Noise, kl_weight: float = 1.0) -> Bound:
    """The bound at one draw of the latents.  kl_weight: of the KL in what training climbs, for a q that is its optimum.

    In training, a pixelwise decoder looks at a random subset of the pixels, weighted up: unbiased, and cheaper.
    """
    # latents from the whole, with the priors they are measured against
    latent = infer(model, batch, noise, kl_weight)

    # what they cost: KL(q(w | ..) || p(w | l)), closed form, q being over W or over the parts
    kl_w = latent.q.kl(latent.prior)
    kl_z = _kl_z(latent.z) if latent.z is not None else torch.zeros_like(kl_w)

    # what they explain: ln p(x | z, W)
    log_x = _log_likelihood(model, batch, latent, noise)

    return Bound(kl_w, kl_z, log_x, _statistics(model, batch, latent))


def importance_bound(model: CompVAE, batch: Batch, noise: Noise, samples: int = 16) -> Tensor:
    """ln 1/S sum_s p(x, z_s, w_s) / q(z_s, w_s | x), nats (B,): tighter with S, in expectation (Burda et al. 2016)."""
    weights = []
    for sample in range(samples):
        latent = infer(model, batch, noise.fold(sample))
        ratio = latent.prior.log_prob(latent.w) - latent.q.log_prob(latent.w)
        if latent.z is not None:
            ratio = ratio - (latent.z.q.log_prob(latent.z.value) - latent.z.prior.log_prob(latent.z.value))
        weights.append(ratio + _log_likelihood(model, batch, latent, noise.fold(sample)))
    return torch.logsumexp(torch.stack(weights, 1), 1) - math.log(samples)


def _kl_z(z: ZInferred) -> Tensor:
    """KL(q(z | ..) || p(z | ..)): closed form unless p(z | W) hangs on a later draw of w, then at it (Alg. 1)."""
    if z.exact:
        return z.q.kl(z.prior)
    return z.q.log_prob(z.value) - z.prior.log_prob(z.value)


def _log_likelihood(model: CompVAE, batch: Batch, latent: Inferred, noise: Noise) -> Tensor:
    """ln p(x | ..), (B,)."""
    total, subset = model.decoder.n_pixels, model.decoder.pixels
    x, weight, pixels = batch.x, 1.0, None
    if model.training and 0 < subset < total:
        pixels = noise.permutation("pixels", total)[:subset]
        x, weight = x.reshape(len(x), -1, total)[:, :, pixels], total / subset
    whole: Normal = model.decoder(latent.code, batch.parts, latent.z_value, latent.context, pixels)
    return whole.log_prob(x) * weight


def _statistics(model: CompVAE, batch: Batch, latent: Inferred) -> PriorStatistics | None:
    if model.config.prior.fit != "m_step" or not isinstance(model.prior, TablePrior):
        return None
    return model.prior.statistics(batch.parts, latent.q, model.posterior.of_sum)
