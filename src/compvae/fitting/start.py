"""Where training starts: the code of each kind in the principal axes of its single parts.

    x | K = 1, kind c  ~  mean mu_c, covariance C_c;    A_c A_c^T = U U^T C_c U U^T,   A_c m_c = mu_c

with U the mean's direction and the d - 1 leading axes beside it; what is left of C_c is the noise of the part.  From
random loadings the noise explains everything first and the latents die before they have found anything
(docs/experiments.md, 10).
"""

from __future__ import annotations

import torch
from torch import Tensor

from compvae.decoder.linked import LinkedDecoder
from compvae.distributions import raised
from compvae.fitting.calibration import Draw
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.prior import TablePrior

__all__ = ["start", "startable"]

WHOLES, BATCH = 20_000, 2_000
JITTER = 1e-6


def startable(model: CompVAE) -> bool:
    """True where x is, but for losses, the sum of what the parts contribute and of their noise."""
    own = model.config.decoder
    table = model.config.prior.kind == "table"
    return own.kind == "linked" and own.link == "losses" and table and model.config.latent.blocks


@torch.no_grad()
def start(model: CompVAE, draw: Draw, seed: int) -> None:
    """Set loading, noise and prior, in place, from single parts.  draw: wholes of one part, for each row of noise."""
    assert isinstance(model.decoder, LinkedDecoder)
    assert isinstance(model.prior, TablePrior)
    batches = [draw(Noise(seed, torch.arange(first, first + BATCH))) for first in range(0, WHOLES, BATCH)]
    counts = torch.cat([batch.parts.counts for batch in batches])
    single = counts.sum(1) == 1  # own data may have none
    x = torch.cat([batch.x for batch in batches])[single].flatten(1).double() / model.config.unit
    kind = counts[single].argmax(1)
    size, floor = model.config.latent.w, model.decoder.own.floor
    for c in range(model.config.parts.n_kinds):
        seen = x[kind == c]
        if len(seen) <= size:
            continue  # too rare to know: its random start stays
        loading, mean, left = _axes(seen, size)
        model.decoder.loading[c] = loading.T
        model.decoder.log_noise[c] = raised(left, floor).view(model.config.shape)
        model.prior.mean[c], model.prior.log_variance[c] = mean, 0.0


def _axes(x: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """A, (T, d), m, (d,), and the variances that are left, (T,).  x: (N, T)."""
    mean, covariance = x.mean(0), torch.cov(x.T)
    first = mean / mean.norm().clamp(min=1e-12)
    off = torch.eye(len(mean), dtype=x.dtype) - torch.outer(first, first)
    _, vectors = torch.linalg.eigh(off @ covariance @ off)
    axes = torch.cat([first[:, None], vectors[:, len(mean) - size + 1 :]], 1)
    inside = axes.T @ covariance @ axes + JITTER * torch.eye(size, dtype=x.dtype)
    root = torch.linalg.cholesky(inside)
    loading = axes @ root
    left = (covariance.diagonal() - (loading**2).sum(1)).clamp(min=0)
    return loading, torch.linalg.solve(root, axes.T @ mean), left
