"""Wholes from parts: z, W and x ~ p(x | z, W) p(z | W) prod_i p(w_i | l_i)  (paper, section 3.1).

Where the decoder sees only W = sum_i w_i, W is drawn from its closed-form prior: from counts, nothing here grows with
K; where parts have continuous attributes, only the moments of the prior do.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Parts
from compvae.context import context_size
from compvae.distributions import Normal
from compvae.model import CompVAE
from compvae.noise import Noise

__all__ = ["Generated", "generate"]


@dataclass(frozen=True)
class Generated:
    """x: the distribution of the whole given the latents drawn, over (B, *shape).

    code: W, (B, G, d), or {w_i}, (B, K, d).  z: (B, Z) or None.
    """

    x: Normal
    code: Tensor
    z: Tensor | None


@torch.no_grad()
def generate(model: CompVAE, parts: Parts, noise: Noise, context: Tensor | None = None) -> Generated:
    """One whole for each row.  context: (B, E), None where unknown."""
    place = model.config.latent.z_place
    like = next(model.decoder.parameters()).new_zeros(len(parts), 1)
    if model.config.context and context is None:
        context = like.new_zeros(len(parts), context_size(model.config.context))

    z = model.z_above(context, like).rsample(noise, "z") if place == "above" else None
    if model.decoder.aggregation.plain_sum:
        code = model.prior.of_sum(parts, z).rsample(noise, "w")
    else:
        code = model.prior.of_parts(parts.padded(), z).rsample(noise, "w")
    if place == "below":
        z = model.z_below(code, parts, context).rsample(noise, "z")
    return Generated(model.decoder(code, parts, z, context), code, z)
