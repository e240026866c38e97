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

__all__ = ["Inferred", "ZInferred", "draw_z", "infer"]


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


def infer(model: CompVAE, batch: Batch, noise: Noise, kl_weight: float = 1.0) -> Inferred:
    """Draw the latents of each whole of the batch from q.  kl_weight: of the KL in the bound that is climbed."""
    place, posterior = model.config.latent.z_place, model.posterior
    if batch.shared is not None and place != "above":
        raise ConfigError(f"shared needs a model with z above the parts (p(w | l, z)), this one has z_place {place!r}")
    context = context_of(batch, model.config) if model.config.context else None
    if batch.shared is not None and context is not None:
        _check_common(context, batch.shared)
    evidence = posterior.read(batch)

    z_q: Normal | Correlated | None = None
    z_prior = z = None
    z_first = place == "above" or (place == "below" and not posterior.of_sum)
    if z_first:
        if place == "above":
            z_prior = model.z_above(context, batch.x)
            z_q = posterior.z(_above(model, batch, evidence, z_prior, context, kl_weight))
        else:
            z_q = _z_by_network(model, evidence, None)
        z = _draw(z_q, batch.shared, noise)

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
            z = _draw(z_q, None, noise)

    if z_q is None or z_prior is None or z is None:
        return Inferred(q, prior, w, code, None, context)
    return Inferred(q, prior, w, code, ZInferred(z_q, z_prior, z, exact=not (z_first and place == "below")), context)


@torch.no_grad()
def draw_z(model: CompVAE, batch: Batch, noise: Noise) -> Tensor:
    """A draw of q(z | x, context), z above the parts, and of nothing else, (B, Z)."""
    context = context_of(batch, model.config) if model.config.context else None
    prior = model.z_above(context, batch.x)
    q = model.posterior.z(_above(model, batch, model.posterior.read(batch), prior, context, 1.0))
    return _draw(q, batch.shared, noise)


def _check_common(context: Tensor, shared: Shared) -> None:
    """Wholes with one z have one p(z | context).  context: (B, E)."""
    differs = (context != context[shared.first][shared.group]).any(1)
    if differs.any():
        row = int(differs.nonzero()[0, 0])
        raise DataError(
            f"row {row} shares its factor with a row of another context; equal ids in shared need equal context"
        )


def _above(
    model: CompVAE, batch: Batch, evidence: Tensor, prior: Normal, context: Tensor | None, kl_weight: float
) -> Above:
    """evidence: (B, H).  prior: p(z | context), over (B, Z).  context: (B, E) or None."""
    return Above(
        batch,
        evidence,
        prior,
        sums=lambda z: model.prior.of_sum(batch.parts, z),
        linearise=lambda code: model.decoder.linearise(code, batch.parts, None, context, None),
        kl_weight=kl_weight,
    )


def _z_by_network(model: CompVAE, evidence: Tensor, prior: Normal | None) -> Normal:
    """q(z | ..) of z below the parts.  evidence: (B, H)."""
    assert model.posterior.z_network is not None
    q: Normal = model.posterior.z_network(evidence, prior, None)
    return q


def _draw(q: Normal | Correlated, shared: Shared | None, noise: Noise) -> Tensor:
    """A draw of z, (B, Z), the same for all wholes of a group."""
    return q.rsample(noise if shared is None else noise.at(shared.first[shared.group]), "z")
