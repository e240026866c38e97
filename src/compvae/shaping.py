"""What is fitted when a model with a mixture as the shape of its parts is trained: p(z | context), moments, shapes.

All of it to draws of q(z, W | x) for wholes that no step trained on, in two passes:

    p(z | context)    <-  z of days that are well known, from wholes of many parts
    m_c, p_c^2, R_c   <-  moments of v = (W_c - n m_c(z)) / (sqrt(n) p_c(z)): mean into m_c, variances into p_c^2, and
                          R_c R_c^T their correlations
    shape of kind c   <-  v of single parts (K = 1), z known from the larger wholes of the same day

The first two are the M-step, which gradients reach too slowly: the likelihood is thousands of times stiffer (theory,
section 5).  Shapes are mixtures (:mod:`compvae.mixture`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.calibration import Draw
from compvae.context_prior import ContextPrior
from compvae.dense import Correlated
from compvae.inference import Inferred, draw_z, infer
from compvae.model import CompVAE
from compvae.noise import Noise
from compvae.prior import TablePrior
from compvae.scale import context_of

__all__ = ["BATCHES", "shape_parts", "shaped"]

BATCHES, ROWS = 400, 256
ROUNDS, LAST = 5, 2  # of the fit of p(z | context), on which q(z | x) hangs; the last to twice the days
DAYS = 0.15  # share of the batches that p(z | context) is fitted to


def shaped(model: CompVAE) -> bool:
    """True where the prior has a mixture to fit."""
    return isinstance(model.prior, TablePrior) and model.prior.mixture is not None


@torch.no_grad()
def shape_parts(model: CompVAE, draw: Draw, seed: int, batches: int = BATCHES) -> None:
    """Fit all of it, in place.  draw: wholes as in training; seed: of their own."""
    model.train()  # fewer rounds of inference: the model is close to linear
    if isinstance(model.z_prior, ContextPrior):
        _fit_days(model, model.z_prior, draw, seed, max(1, int(DAYS * batches)))
    _fit_kinds(model, draw, seed, batches)
    model.eval()


def _inferred(model: CompVAE, draw: Draw, noise: Noise) -> tuple[Batch, Inferred]:
    like = next(model.decoder.parameters())
    batch = draw(noise).to(like.device, like.dtype)
    return batch, infer(model, batch, noise)


def _fit_days(model: CompVAE, prior: ContextPrior, draw: Draw, seed: int, batches: int) -> None:
    for round_ in range(ROUNDS):
        many = batches * (LAST if round_ == ROUNDS - 1 else 1)
        found = [_days(model, draw, Noise(seed, ROWS, 0, round_, number)) for number in range(many)]
        z, context = (torch.cat(pieces) for pieces in zip(*found, strict=True))
        if len(z) >= prior.components:
            prior.fit(z, context)


def _days(model: CompVAE, draw: Draw, noise: Noise) -> tuple[Tensor, Tensor]:
    """z, (R, Z), and context, (R, E), of the quarter of a batch's days that are seen through the most parts.

    Of days that are hardly seen q(z | ..) is the prior they were trained with, which is to be replaced.
    """
    like = next(model.decoder.parameters())
    batch = draw(noise).to(like.device, like.dtype)
    z = draw_z(model, batch, noise)
    context = context_of(batch, model.config) if model.config.context else like.new_zeros(len(batch), 0)
    sizes, first = batch.parts.sizes.double()[:, None], torch.arange(len(batch))
    if batch.shared is not None:
        sizes, first = batch.shared.total(sizes), batch.shared.first
    chosen = first[sizes[:, 0].argsort(descending=True)[: max(1, len(first) // 4)]]
    return z[chosen], context[chosen].to(like.dtype)


def _fit_kinds(model: CompVAE, draw: Draw, seed: int, batches: int) -> None:
    prior = model.prior
    assert isinstance(prior, TablePrior)
    assert prior.mixture is not None
    seen = [_Seen.of(prior, *_inferred(model, draw, Noise(seed, ROWS, 1, number))) for number in range(batches)]
    for c in range(model.config.parts.n_kinds):
        moments = [one.moments[c] for one in seen]
        terms, parts = (sum(float(getattr(m, name)) for m in moments) for name in ("terms", "parts"))
        if not terms:
            continue
        shift = torch.stack([m.shift for m in moments]).sum(0) / parts
        # taking the shift out of the mean takes its square out of the second moment
        second = torch.stack([m.second for m in moments]).sum(0) / terms
        unit = shift / prior.moments_at_rest()[1][c].double().sqrt()
        covariance = _positive(second - parts / terms * torch.outer(unit, unit))
        scale = covariance.diagonal().clamp(min=1e-3)
        root = torch.linalg.cholesky(covariance / (scale[:, None] * scale).sqrt() + 1e-4 * torch.eye(len(scale)))
        prior.adjust(c, shift, scale, root)
        v, z = (torch.cat([getattr(one, name)[one.kind == c] for one in seen]) for name in ("v", "z"))
        v = (v.double() - unit) / scale.sqrt()
        prior.mixture.fit(c, torch.linalg.solve_triangular(root, v.T, upper=False).T, z)


def _positive(covariance: Tensor) -> Tensor:
    """The nearest matrix without negative variances: few wholes may leave less than the shift takes away.  (d, d)."""
    values, axes = torch.linalg.eigh(covariance)
    out: Tensor = (axes * values.clamp(min=1e-3)) @ axes.T
    return out


@dataclass(frozen=True)
class _Moments:
    """Of one kind in one batch.  shift: sum of W - n m, (d,).  second: sum of E[v v^T], (d, d).  parts: sum of n."""

    shift: Tensor
    second: Tensor
    parts: float
    terms: int


@dataclass(frozen=True)
class _Seen:
    """One batch: moments of each kind, and the single parts in it: kind (R,), v (R, d), z (R, Z)."""

    moments: list[_Moments]
    kind: Tensor
    v: Tensor
    z: Tensor

    @staticmethod
    def of(prior: TablePrior, batch: Batch, latent: Inferred) -> _Seen:
        q, p, n = latent.q, latent.prior, batch.parts.counts.double()
        assert isinstance(q, Correlated)
        deviation = p.variance.expand_as(p.mean).double().clamp(min=1e-12).sqrt()  # sqrt(n) p_c(z), (B, C, d)
        centred = (q.mean - p.mean).double()
        v = centred / deviation
        second = q.covariances().double() / (deviation[..., :, None] * deviation[..., None, :])
        second = second + v[..., :, None] * v[..., None, :]
        moments = []
        for c in range(n.shape[1]):
            there = n[:, c] > 0
            moments.append(
                _Moments(centred[there, c].sum(0), second[there, c].sum(0), float(n[:, c].sum()), int(there.sum()))
            )
        single = batch.parts.sizes == 1
        kind, rows = n[single].argmax(1), torch.arange(int(single.sum()))
        drawn = ((latent.w - p.mean).double() / deviation)[single][rows, kind]
        z = latent.w.new_zeros(len(rows), 0) if latent.z_value is None else latent.z_value[single]
        return _Seen(moments, kind, drawn.float(), z)
