"""Latents from a whole: z and {w_i} ~ q(z, {w_i} | x, {l_i}), with the priors they are measured against.

The order of the draws is the model's: z above the parts comes first; the paper's q(z | x) too; with the collapsed
posterior and z below W, W comes first, so that both KLs have a closed form (theory, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch, Shared
from compvae.distributions import Normal, PartsGaussian
from compvae.distributions.dense import Correlated, Linearised
from compvae.errors import ConfigError, DataError
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.posterior.base import Given, prior_for
from compvae.posterior.factor import Above
from compvae.scale import beside, context_of

__all__ = ["Inferred", "ZInferred", "draw_z", "infer", "infer_z"]


@dataclass(frozen=True)
class ZInferred:
    """z with the two distributions it is measured by.  value: (B, Z).  exact: the KL has a closed form at the draws.

    It has none where p(z | W) hangs on a w drawn after z, and so from a q that depends on it (the paper's order).
    """

    q: Normal | Correlated
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


def infer(
    model: CompVAE, batch: Batch, noise: Noise, kl_weight: float = 1.0, drawn: ZInferred | None = None
) -> Inferred:
    """Draw the latents of each whole of the batch from q.

    kl_weight: of the KL in the bound that is climbed.  drawn: z above the parts, where there are draws of it already.
    """
    place, posterior = model.config.latent.z_place, model.posterior
    context = _common_context(model, batch)
    evidence = posterior.read(batch)

    z_q: Normal | Correlated | None = None
    z_prior = z = None
    z_first = place == "above" or (place == "below" and not posterior.of_sum)
    if place == "above":
        drawn = drawn or _z_above(model, batch, evidence, context, noise, kl_weight)
        z_q, z_prior, z = drawn.q, drawn.prior, drawn.value
    elif z_first:
        z_q = _z_by_network(model, evidence, None)
        z = draw_z(z_q, None, noise)

    above = z if place == "above" else None
    prior = prior_for(posterior, model.prior, batch.parts, above)

    def likelihood(w: Tensor, pixels: Tensor | None) -> Normal:
        out: Normal = model.decoder(model.aggregate(w, batch.parts), batch.parts, z, context, pixels)
        return out

    def linearise(w: Tensor, pixels: Tensor | None) -> Linearised:
        return model.decoder.linearise(w, batch.parts, z, context, pixels)

    q = posterior.w(Given(batch, evidence, prior, z, noise, likelihood, linearise, model.decoder.n_pixels, kl_weight))
    w = q.rsample(noise, "w")
    code = w if posterior.of_sum else model.aggregate(w, batch.parts)

    if place == "below":
        z_prior = model.z_below(code, batch.parts, context)
        if not z_first:
            seen = beside(evidence, model.z_view(code, batch.parts, None))
            z_q = _z_by_network(model, seen, z_prior)
            z = draw_z(z_q, None, noise)

    if z_q is None or z_prior is None or z is None:
        return Inferred(q, prior, w, code, None, context)
    return Inferred(q, prior, w, code, ZInferred(z_q, z_prior, z, exact=not (z_first and place == "below")), context)


@torch.no_grad()
def infer_z(model: CompVAE, batch: Batch, noise: Noise) -> ZInferred:
    """Draw z from q(z | x, context), z above the parts: the first half of :func:`infer`, without gradients."""
    return _z_above(model, batch, model.posterior.read(batch), _common_context(model, batch), noise, 1.0)


def draw_z(q: Normal | Correlated, shared: Shared | None, noise: Noise) -> Tensor:
    """z ~ q, (B, Z), the same for all wholes of a group.  q: over (B, Z)."""
    return q.rsample(noise if shared is None else noise.at(shared.first[shared.group]), "z")


def _common_context(model: CompVAE, batch: Batch) -> Tensor | None:
    """The context of each whole, (B, E), None where the model takes none; wholes that share one z must agree in it."""
    place, shared = model.config.latent.z_place, batch.shared
    if shared is not None and place != "above":
        raise ConfigError(f"shared needs a model with z above the parts (p(w | l, z)), this one has z_place {place!r}")
    if not model.config.context:
        return None
    context = context_of(batch, model.config)
    if shared is not None and (differs := (context != context[shared.first][shared.group]).any(1)).any():
        row = int(differs.nonzero()[0, 0])
        raise DataError(
            f"row {row} shares its factor with a row of another context; equal ids in shared need equal context"
        )
    return context


def _z_above(
    model: CompVAE, batch: Batch, evidence: Tensor, context: Tensor | None, noise: Noise, kl_weight: float
) -> ZInferred:
    """z ~ q(z | x, context), z above the parts.  evidence: (B, H).  context: (B, E) or None."""
    prior = model.z_above(context, batch.x)
    q = model.posterior.z(
        Above(
            batch,
            evidence,
            prior,
            sums=lambda z: model.prior.of_sum(batch.parts, z),
            linearise=lambda code: model.decoder.linearise(code, batch.parts, None, context, None),
            kl_weight=kl_weight,
        )
    )
    return ZInferred(q, prior, draw_z(q, batch.shared, noise), exact=True)


def _z_by_network(model: CompVAE, evidence: Tensor, prior: Normal | None) -> Normal:
    """q(z | ..) of z below the parts.  evidence: (B, H)."""
    assert model.posterior.z_network is not None
    q: Normal = model.posterior.z_network(evidence, prior, None)
    return q
