"""The shape of each kind's parts, fitted to what single parts show: v = (w - m_c(z)) / p_c(z), w and z ~ q(w, z | x).

Single parts are wholes with K = 1; z is known from the larger wholes of the same day that are drawn beside them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from compvae.calibration import Draw
from compvae.inference import infer
from compvae.model import CompVAE
from compvae.noise import Noise
from compvae.prior import TablePrior

__all__ = ["shape_parts", "shaped"]

BATCHES, ROWS = 400, 256


def shaped(model: CompVAE) -> bool:
    """True where the prior has a mixture to fit."""
    return isinstance(model.prior, TablePrior) and model.prior.mixture is not None


@torch.no_grad()
def shape_parts(model: CompVAE, draw: Draw, seed: int, batches: int = BATCHES) -> None:
    """Fit the mixture of every kind, in place, to wholes drawn with a seed of their own."""
    prior = model.prior
    assert isinstance(prior, TablePrior)
    assert prior.mixture is not None
    model.train()  # fewer rounds of inference: the model is close to linear
    found = [_single_parts(model, prior, draw, Noise(seed, ROWS, number)) for number in range(batches)]
    model.eval()
    kind, v, z = (torch.cat(pieces) for pieces in zip(*found, strict=True))
    for c in range(model.config.parts.n_kinds):
        prior.mixture.fit(c, v[kind == c], z[kind == c])


def _single_parts(model: CompVAE, prior: TablePrior, draw: Draw, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
    """Kinds (R,), v (R, d) and z (R, Z) of the wholes of one part in a batch."""
    batch = draw(noise).to(prior.mean.device, prior.mean.dtype)
    latent = infer(model, batch, noise)
    single = batch.parts.sizes == 1
    kind = batch.parts.counts[single].argmax(1)
    z = latent.z_value[single] if latent.z_value is not None else latent.w.new_zeros(int(single.sum()), 0)
    rows = torch.arange(len(kind))
    p = latent.prior
    v = (latent.w - p.mean)[single][rows, kind] / p.variance.expand_as(p.mean)[single][rows, kind].sqrt()
    return kind, v, z
