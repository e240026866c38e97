"""What draws of q(z, W | x) show of many wholes: the E-step of the fits at the end of training (fitting/shaping.py).

    (z, W) ~ q(z | x_1..x_m) q(W | x, z),        e = x - x(W)

Kept are numbers of parts, z, and mean and variance of q(W | x, z), whole by whole; second moments of the noise e by
kind, as sums; z and context of the days that are well known; single parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.decoder.linked import LinkedDecoder
from compvae.distributions.dense import Correlated
from compvae.errors import DivergenceError
from compvae.fitting.calibration import Draw
from compvae.inference import Inferred, infer
from compvae.network import CompVAE
from compvae.nn.descent import Tick
from compvae.noise import Noise

__all__ = ["Seen", "look"]

WELL_KNOWN = 0.25  # share of the days, those that are seen through the most parts
ROWS = 256


@dataclass(frozen=True)
class Seen:
    """B wholes, R of them of one part; D days that are well known.

    counts: n, (B, C).  z: (B, Z).  mean, variance: of q(W | x, z), (B, C, d).
    covariance: sum over wholes of E[v v^T], v = (W_c - n m_c(z)) / (sqrt(n) p_c(z)), (C, d, d).
    noise: sum over wholes of E[e_c^2] / n_c in units of x, (C, T); None where parts bring none.
    days: z, (D, Z).  told: their context, (D, E).
    kind: (R,).  single: W of single parts, drawn, (R, d).  single_z: (R, Z).
    """

    counts: Tensor
    z: Tensor
    mean: Tensor
    variance: Tensor
    covariance: Tensor
    noise: Tensor | None
    days: Tensor
    told: Tensor
    kind: Tensor
    single: Tensor
    single_z: Tensor

    @staticmethod
    def together(pieces: list[Seen]) -> Seen:
        """Several batches as one."""

        def joined(name: str) -> Tensor:
            return torch.cat([getattr(piece, name) for piece in pieces])

        noise = [piece.noise for piece in pieces if piece.noise is not None]
        return Seen(
            joined("counts"),
            joined("z"),
            joined("mean"),
            joined("variance"),
            torch.stack([piece.covariance for piece in pieces]).sum(0),
            torch.stack(noise).sum(0) if noise else None,
            joined("days"),
            joined("told"),
            joined("kind"),
            joined("single"),
            joined("single_z"),
        )

    @property
    def terms(self) -> Tensor:
        """In how many wholes each kind is, (C,)."""
        return (self.counts > 0).sum(0)


@torch.no_grad()
def look(model: CompVAE, draw: Draw, seed: int, fold: int, batches: int, tick: Tick | None = None) -> Seen:
    """What so many batches show; a DivergenceError where it is not finite.

    draw: wholes as in training; seed, fold: of their own.
    """
    like = next(model.decoder.parameters())
    pieces = []
    for number in range(batches):
        noise = Noise(seed, ROWS, fold, number)
        batch = draw(noise).to(like.device, like.dtype)
        pieces.append(_seen(model, batch, infer(model, batch, noise)))
        if tick is not None:
            tick()
    seen = Seen.together(pieces)
    if not all(torch.isfinite(value).all() for value in (seen.z, seen.mean, seen.covariance)):
        raise DivergenceError("training diverged: draws of q, which the parts' shapes are fitted to, are not finite")
    return seen


def _seen(model: CompVAE, batch: Batch, latent: Inferred) -> Seen:
    q, n = latent.q, batch.parts.counts
    assert isinstance(q, Correlated)
    z = latent.w.new_zeros(len(batch), 0) if latent.z_value is None else latent.z_value
    told = z[:, :0] if latent.context is None else latent.context
    days = _well_known(batch)
    single = batch.parts.sizes == 1
    kind = n[single].argmax(1)
    return Seen(
        n,
        z,
        q.mean,
        q.variance,
        _second_moments(q, latent, n),
        _noise(model, batch, latent),
        z[days],
        told[days],
        kind,
        latent.w[single][torch.arange(len(kind)), kind],
        z[single],
    )


def _well_known(batch: Batch) -> Tensor:
    """One row of each day that is seen through the most parts: of the others q(z | ..) is half its old prior."""
    sizes, first = batch.parts.sizes.double()[:, None], torch.arange(len(batch))
    if batch.shared is not None:
        sizes, first = batch.shared.total(sizes), batch.shared.first
    return first[sizes[:, 0].argsort(descending=True)[: max(1, int(WELL_KNOWN * len(first)))]]


def _second_moments(q: Correlated, latent: Inferred, n: Tensor) -> Tensor:
    """Sum over wholes of E[v v^T], (C, d, d).  n: (B, C)."""
    p = latent.prior
    deviation = p.variance.expand_as(p.mean).double().clamp(min=1e-12).sqrt()
    v = (q.mean - p.mean).double() / deviation
    second = q.covariances().double() / (deviation[..., :, None] * deviation[..., None, :])
    second = second + v[..., :, None] * v[..., None, :]
    return second.masked_fill((n == 0)[..., None, None], 0.0).sum(0)


def _noise(model: CompVAE, batch: Batch, latent: Inferred) -> Tensor | None:
    """Sum over wholes of E[e_c^2] / n_c, (C, T): the parts of kind c have the share k = n_c s_c^2 / sum of the noise e.

    E[e_c^2] = k^2 e^2 + (1 - k) n_c s_c^2, as on a bridge.
    """
    decoder = model.decoder
    if not isinstance(decoder, LinkedDecoder) or not decoder.own.part_noise:
        return None
    whole = decoder(latent.code, batch.parts, latent.z_value, latent.context)
    error = ((batch.x - whole.mean) / model.config.unit).flatten(1).double()
    each, n = decoder.noise_of_part().double(), batch.parts.counts[..., None]
    own = n * each  # (B, C, T)
    share = own / own.sum(1, keepdim=True)
    square = (share**2 * error[:, None] ** 2 + (1 - share) * own) / n.clamp(min=1)
    total: Tensor = square.masked_fill(n == 0, 0.0).sum(0)
    return total
