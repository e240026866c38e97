"""Latents from a whole: z and {w_i} ~ q(z, {w_i} | x, {l_i}), with the priors they are measured against.

The order of the draws is the model's: the paper's q(z | x) comes first; with the collapsed posterior W comes first, so
that both KLs have a closed form (theory, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from compvae.batch import Batch
from compvae.distributions import Normal, PartsGaussian
from compvae.distributions.dense import Correlated, Linearised
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.posterior.base import Given, prior_for
from compvae.scale import beside, context_of

__all__ = ["Inferred", "ZInferred", "infer"]


@dataclass(frozen=True)
class ZInferred:
    """z with the two distributions it is measured by.  value: (B, Z).  exact: the KL has a closed form at the draws.

    It has none where p(z | W) hangs on a w drawn after z, and so from a q that depends on it (the paper's order).
    """

    q: Normal
    prior: Normal
    value: Tensor
    exact: bool


@dataclass(frozen=True)
class Inferred:
    """One draw of the latents of each whole.

    q, prior: over W, (B, G, d), for a collapsed posterior, over the parts, (B, K, d), otherwise; w: a draw of q.
    code: what the decoder takes.  context: (B, E) or None.
    """

    q: Normal | PartsGaussian | Correlated
    prior: Normal
    w: Tensor
    code: Tensor
    z: ZInferred | None
    context: Tensor | None

    @property
    def z_value(self) -> Tensor | None:
        """z, (B, Z), or None where the model has none."""
        return None if self.z is None else self.z.value


def infer(model: CompVAE, batch: Batch, noise: Noise, kl_weight: float = 1.0) -> Inferred:
    """Draw the latents of each whole of the batch from q, each whole on its own.

    kl_weight: of the KL in the bound that is climbed.
    """
    below, posterior = model.config.latent.z_place == "below", model.posterior
    context = context_of(batch, model.config) if model.config.context else None
    evidence = posterior.read(batch)

    z_first = below and not posterior.of_sum
    z_q = _q_of_z(model, evidence, None) if z_first else None
    z = None if z_q is None else z_q.rsample(noise, "z")

    prior = prior_for(posterior, model.prior, batch.parts)

    def linearise(w: Tensor, pixels: Tensor | None) -> Linearised:
        return model.decoder.linearise(w, batch.parts, z, context, pixels)

    q = posterior.w(Given(batch, evidence, prior, z, noise, linearise, model.decoder.n_pixels, kl_weight))
    w = q.rsample(noise, "w")
    code = w if posterior.of_sum else model.aggregate(w, batch.parts)

    if not below:
        return Inferred(q, prior, w, code, None, context)
    z_prior = model.z_below(code, batch.parts, context)
    if z_q is None or z is None:
        z_q = _q_of_z(model, beside(evidence, model.z_view(code, batch.parts, None)), z_prior)
        z = z_q.rsample(noise, "z")
    return Inferred(q, prior, w, code, ZInferred(z_q, z_prior, z, exact=not z_first), context)


def _q_of_z(model: CompVAE, evidence: Tensor, prior: Normal | None) -> Normal:
    """q(z | ..).  evidence: (B, H)."""
    assert model.posterior.z_network is not None
    q: Normal = model.posterior.z_network(evidence, prior)
    return q
