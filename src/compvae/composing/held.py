"""The observation noise of edited wholes: what of e = x - x(W) stays with the parts that stay.

Where every part brings noise of its own, e has variance R, and the parts that stay have of it a draw of

    e_rest | e ~ N( R_rest/R e,  R_rest (R - R_rest)/R )                                    (the bridge, as for W)

Where parts have shares of every value x_p (a pixel's mixture), e_p stays as far as its parts do:

    e'_p = s'_p ( o_p e_p / s_p + sqrt(1 - o_p^2) eps ),   o_p = sum_{i stays} min(share_ip before, share_ip after)

with s_p, s'_p the deviations before and after: e' has the variance of fresh noise, is e where nothing changed, and is
drawn anew where other parts took the place.  Both give x back where nothing was edited.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from compvae.batch import Parts
from compvae.composing.editing import Edited, Group, bridge
from compvae.distributions import Normal
from compvae.inference import Inferred
from compvae.network import CompVAE
from compvae.noise import Noise

__all__ = ["held_noise"]


@torch.no_grad()
def held_noise(
    model: CompVAE, x: Tensor, latent: Inferred, groups: Sequence[Group], after: Edited, noise: Noise
) -> Tensor:
    """The observation noise of the edited wholes, (B, *shape); drawn anew where it belongs to the whole, not to parts.

    x, latent, groups: of the wholes as observed, x (B, *shape); after: as edited.
    """
    observed, decoder = groups[0].stages[0], model.decoder
    code = latent.w if model.posterior.of_sum else model.aggregate(latent.w, observed)
    before: Normal = decoder(code, observed, latent.z_value, latent.context)
    if decoder.noise_of_parts(observed, x) is not None:
        return _of_parts(model, x - before.mean, groups, noise)
    drawn = after.x.rsample(noise, "x") - after.x.mean
    shares = decoder.shares(code, observed)
    if shares is None or groups[0].gone:  # gone: no column of what is edited is one of the observed parts
        return drawn
    now = decoder.shares(after.code, after.parts)
    assert now is not None
    taken = _taken(shares, now)
    deviation = (after.x.variance / before.variance).sqrt()
    return (1 - taken) * deviation * (x - before.mean) + (taken * (2 - taken)).sqrt() * drawn


def _taken(before: Tensor, after: Tensor) -> Tensor:
    """1 - o = sum_i max(0, after_i - before_i): in this form 0 to the last bit where nothing changed, (B, *shape).

    before: shares, (B, K, *shape).  after: (B, K', *shape), the first K of them of the same parts.
    """
    kept, new = after[:, : before.shape[1]], after[:, before.shape[1] :]
    return ((kept - before).clamp(min=0).sum(1) + new.sum(1)).clamp(max=1.0)


def _of_parts(model: CompVAE, error: Tensor, groups: Sequence[Group], noise: Noise) -> Tensor:
    """Held for parts that stay, drawn for parts put in.  error: e, (B, *shape)."""

    def alone(parts: Parts) -> Normal:
        variance = model.decoder.noise_of_parts(parts, error)
        assert variance is not None
        return Normal(torch.zeros_like(error), variance)

    first, *added = groups
    total = bridge(error, alone(first.stages[0]), alone(first.stages[-1])).rsample(noise, "x/held")
    for group in added:
        total = total + alone(group.stages[-1]).rsample(noise, f"x/added/{group.steps[0]}")
    return total
