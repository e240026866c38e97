"""What is fitted when a model with a mixture as the shape of its parts is trained: EM, then shapes.

E-step: draws of q(z, W | x) for wholes that no step trained on (fitting/seen.py).  M-step, in each of some rounds:

    z                 <-  turned to mean 0 and covariance I over the days that are well known
    p(z | context)    <-  z of those days
    m_c(z), p_c(z)    <-  argmax sum over wholes of E ln N(W_c; n_c m_c(z), n_c p_c^2(z)), a regression on z
    s_c^2             <-  mean of E[e_c^2] / n_c, e the noise that W leaves

Gradients of the bound reach these too slowly: the likelihood is thousands of times stiffer (theory, section 5).  In the
end, from more wholes, p(z | context) once more and

    p_c^2, R_c R_c^T  <-  covariance of v = (W_c - n m_c(z)) / (sqrt(n) p_c(z)), R_c R_c^T its correlations
    shape of kind c   <-  R_c^-1 v of single parts (K = 1), z known from the larger wholes of the same day

Shapes are mixtures (prior/mixture.py).  Few rounds: the parts' covariance is not all in W, so that q(z) is too
sure of itself, and EM drifts (docs/experiments.md, 11).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from compvae.decoder.linked import LinkedDecoder
from compvae.fitting.calibration import Draw
from compvae.fitting.seen import Seen, look
from compvae.network import CompVAE
from compvae.nn.descent import Tick, descend
from compvae.prior import TablePrior
from compvae.prior.given_context import STEPS as DAY_STEPS
from compvae.prior.given_context import ContextPrior
from compvae.prior.mixture import EM_ROUNDS

__all__ = ["BATCHES", "DAYS", "MOMENTS", "SHAPES", "WHOLES", "regress", "shape_parts", "shaped", "work_of"]

BATCHES = 400
ROUNDS, SHARE = 6, 0.2  # of EM, and of the batches that each looks at
STEPS, BATCH, RATE = 400, 1024, 3e-3  # of the regression on z
JITTER, SMALLEST = 1e-4, 1e-3  # of a variance of 1

# kinds of work: a batch of wholes, a step of a descent, a round of EM
WHOLES, DAYS, MOMENTS, SHAPES = "inferring wholes", "fitting p(z | context)", "fitting moments", "fitting shapes"


def shaped(model: CompVAE) -> bool:
    """True where the prior has a mixture to fit."""
    return isinstance(model.prior, TablePrior) and model.prior.mixture is not None


def work_of(model: CompVAE, batches: int = BATCHES, rounds: int = ROUNDS) -> dict[str, int]:
    """Kind of work -> units of it in :func:`shape_parts`; fewer of DAYS and SHAPES where too few are seen to fit."""
    work = {WHOLES: rounds * _some(batches) + batches, MOMENTS: rounds * STEPS}
    if isinstance(model.z_prior, ContextPrior):
        work[DAYS] = (rounds + 1) * DAY_STEPS
    work[SHAPES] = model.config.parts.n_kinds * EM_ROUNDS
    return work


def _some(batches: int) -> int:
    """Batches of one round of EM."""
    return max(1, int(SHARE * batches))


@torch.no_grad()
def shape_parts(
    model: CompVAE,
    draw: Draw,
    seed: int,
    batches: int = BATCHES,
    rounds: int = ROUNDS,
    told: Callable[[str], None] = lambda name: None,
) -> None:
    """Fit all of it, in place.  draw: wholes as in training; seed: of their own.  told: hears of each unit of work."""
    assert isinstance(model.prior, TablePrior)
    model.train()  # fewer rounds of inference: the model is close to linear
    for round_ in range(rounds):
        seen = _turned(model, look(model, draw, seed, round_, _some(batches), lambda: told(WHOLES)))
        _fit_days(model, seen, lambda: told(DAYS))
        regress(model.prior, seen, STEPS, lambda: told(MOMENTS))
        _fit_noise(model, seen)
    seen = look(model, draw, seed, rounds, batches, lambda: told(WHOLES))
    _fit_days(model, seen, lambda: told(DAYS))
    _fit_shapes(model.prior, seen, lambda: told(SHAPES))
    model.eval()


def _turned(model: CompVAE, seen: Seen) -> Seen:
    """The same in coordinates of z that are uncorrelated: inference takes p(z) to be so.

    What q(z) is on average is strongly correlated after training, and a prior that is not puts z where no day is
    (docs/experiments.md, 11).
    """
    prior = model.prior
    assert isinstance(prior, TablePrior)
    if prior.shift is None or not prior.config.prior.z_network.stem or len(seen.days) <= 2 * prior.config.latent.z:
        return seen
    centre, covariance = seen.days.mean(0), torch.cov(seen.days.T)
    root = torch.linalg.cholesky(covariance + JITTER * torch.eye(len(centre)))
    prior.turn_z(centre, root)

    def turned(z: Tensor) -> Tensor:
        u: Tensor = torch.linalg.solve_triangular(root, (z - centre).mT, upper=False).T
        return u

    return replace(seen, z=turned(seen.z), days=turned(seen.days), single_z=turned(seen.single_z))


def _fit_days(model: CompVAE, seen: Seen, tick: Tick | None = None) -> None:
    if isinstance(model.z_prior, ContextPrior) and len(seen.days) >= model.z_prior.components:
        model.z_prior.fit(seen.days, seen.told, DAY_STEPS, tick)


def regress(prior: TablePrior, seen: Seen, steps: int, tick: Tick | None = None) -> None:
    """m_c(z) and p_c(z) by Adam on draws that stay as they are: no inference within the loop."""
    weights = [prior.mean, prior.log_variance, *([] if prior.shift is None else prior.shift.parameters())]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        descend(weights, lambda: _surprise(prior, seen, torch.randint(len(seen.counts), (BATCH,))), steps, RATE, tick)


def _surprise(prior: TablePrior, seen: Seen, rows: Tensor) -> Tensor:
    """-E ln N(W_c; n m_c(z), n p_c^2(z)), a mean over these wholes and the kinds in them.  rows: (R,)."""
    mean, variance = prior.moments(seen.z[rows] if prior.shift is not None else None)
    n = seen.counts[rows].to(mean.dtype)[..., None]
    square = (seen.mean[rows] - n * mean) ** 2 + seen.variance[rows]
    terms = square / (n.clamp(min=1) * variance) + variance.log()
    return 0.5 * terms.masked_fill(n == 0, 0.0).sum() / (n > 0).sum()


def _fit_noise(model: CompVAE, seen: Seen) -> None:
    if seen.noise is not None:
        assert isinstance(model.decoder, LinkedDecoder)
        there = seen.terms > 0
        model.decoder.set_noise(seen.noise / seen.terms.clamp(min=1)[:, None], there)


def _fit_shapes(prior: TablePrior, seen: Seen, tick: Tick | None = None) -> None:
    """Variances and correlations once more, in closed form, then the shapes of single parts."""
    assert prior.mixture is not None
    mean, variance = (m.double() for m in prior.moments(seen.single_z if prior.shift is not None else None))
    for c in range(len(prior.mean)):
        if not seen.terms[c]:
            continue
        covariance = _positive(seen.covariance[c] / seen.terms[c])
        scale = covariance.diagonal().clamp(min=SMALLEST)
        eye = JITTER * torch.eye(len(scale), dtype=scale.dtype)
        root = torch.linalg.cholesky(covariance / (scale[:, None] * scale).sqrt() + eye)
        prior.correlate(c, scale, root)
        own = seen.kind == c
        centre, spread = (m.expand(len(own), -1, -1)[own, c] for m in (mean, variance))
        v = (seen.single[own].double() - centre) / (spread * scale).sqrt()
        prior.mixture.fit(c, torch.linalg.solve_triangular(root, v.T, upper=False).T, seen.single_z[own], tick=tick)


def _positive(covariance: Tensor) -> Tensor:
    """The nearest matrix without negative variances: few wholes may leave less than nothing.  (d, d)."""
    values, axes = torch.linalg.eigh(covariance)
    out: Tensor = (axes * values.clamp(min=SMALLEST)) @ axes.T
    return out
