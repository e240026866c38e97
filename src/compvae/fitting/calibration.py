"""The prior that the posterior implies: m_c, p_c^2 <- moments of q averaged over wholes, in the code's principal axes.

With C_c = E[ ((E w - n m)(E w - n m)^T + Cov_q w) / n ] = U diag(p^2) U^T the code of kind c is turned by U^T, and a
linear decoder's loading with it: x does not change, but the prior, which is diagonal, now misses no correlation, and
coordinates that carry nothing lose their variance.  The training's moving M-step (theory, section 5) does the diagonal
part only, and lags.  Without the turn the samples of a well-trained model are wrong (docs/experiments.md, 7).

At the end of a run it takes a while: a person should see how far it is, and a budget of minutes has to count it.  So
it says beforehand how many batches it will look at (:func:`work_of`), ticks after each of them, and what one takes can
be measured (:func:`seconds_of_batch`).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.distributions.dense import Correlated
from compvae.errors import DivergenceError
from compvae.inference import infer
from compvae.network import CompVAE, Network
from compvae.noise import Noise
from compvae.prior import TablePrior

__all__ = ["BATCHES", "ROUNDS", "Draw", "Tick", "calibratable", "calibrate", "fit_prior", "seconds_of_batch", "work_of"]

ROUNDS = 2  # q hangs on the prior a little
BATCHES, ROWS = 24, 256

Draw = Callable[[Noise], Batch]
"""Noise of the rows -> wholes with their parts, as in training."""

Tick = Callable[[], None]
"""Called after each batch."""


def calibratable(model: CompVAE) -> bool:
    """True where the prior is a table fitted by the M-step and no encoder was trained to the code's axes."""
    return model.config.prior.fit == "m_step" and model.config.posterior.kind == "newton"


def _turnable(model: CompVAE) -> bool:
    """True where the decoder has a loading for the code of each kind."""
    return hasattr(model.decoder, "loading") and (model.config.latent.blocks or not model.posterior.of_sum)


@torch.no_grad()
def calibrate(
    model: CompVAE, draw: Draw, seed: int, batches: int = BATCHES, rounds: int = ROUNDS, tick: Tick | None = None
) -> None:
    """Fit the prior, in place, to wholes drawn with a seed of their own; a DivergenceError where q is not finite."""
    assert isinstance(model.prior, TablePrior)
    like = model.prior.mean
    model.train()  # as in training, a posterior may look at some of the pixels: many wholes matter more
    for round_ in range(rounds):
        total = _Moments.zeros(*like.shape)
        for number in range(batches):
            noise = Noise(seed, ROWS, round_, number)
            batch = draw(noise).to(like.device, like.dtype)
            total = total.plus(_moments(model, batch, noise))
            if tick is not None:
                tick()
        mean, covariance = total.best()
        if not (torch.isfinite(mean).all() and torch.isfinite(covariance).all()):
            raise DivergenceError("training diverged: the moments of q, which the prior is fitted to, are not finite")
        if _turnable(model):
            variance, axes = torch.linalg.eigh(covariance)
            model.decoder.turn(axes.to(like))
            mean = torch.einsum("cde,cd->ce", axes, mean)
        else:
            variance = covariance.diagonal(dim1=1, dim2=2)
        model.prior.set_moments(mean.to(like), variance.to(like), total.parts[:, 0] > 0)
    model.eval()


def _batches(steps: int) -> int:
    """Of each round; a short run is not worth a long fit."""
    return min(BATCHES, 1 + steps // 50)


def work_of(model: Network, steps: int) -> int:
    """Batches that :func:`fit_prior` looks at after so many steps of training; 0 where there is nothing to fit."""
    return ROUNDS * _batches(steps) if isinstance(model, CompVAE) and calibratable(model) else 0


def fit_prior(model: Network, draw: Draw, seed: int, steps: int, tick: Tick | None = None) -> None:
    """Calibrate, in place, where that is possible, after so many steps of training.

    draw: wholes as in training.  seed: of wholes that no step trained on.
    """
    if isinstance(model, CompVAE) and calibratable(model):
        calibrate(model, draw, seed, _batches(steps), tick=tick)


def seconds_of_batch(model: Network, draw: Draw, seed: int) -> float:
    """What a batch takes, measured on a copy of the model; 0 where there is nothing to fit."""
    own, times = copy.deepcopy(model).float().cpu(), []
    if not (isinstance(own, CompVAE) and calibratable(own)):
        return 0.0
    for _ in range(2):  # what the first alone takes (memory, caches) is not repeated
        started = time.perf_counter()
        calibrate(own, draw, seed, 1, rounds=1)
        times.append(time.perf_counter() - started)
    return min(times)


@dataclass(frozen=True)
class _Moments:
    """Sums over parts or blocks, about 0.  first: sum E w, (C, d).  parts: sum n, (C, 1).  terms: number of summands.

    second: sum E[w w^T] / n, (C, d, d): with W ~ N(n m, n C), C = (second - parts m m^T) / terms at m = first / parts.
    """

    first: Tensor
    second: Tensor
    parts: Tensor
    terms: Tensor

    @staticmethod
    def zeros(kinds: int, size: int) -> _Moments:
        shapes = ((kinds, size), (kinds, size, size), (kinds, 1), (kinds, 1))
        return _Moments(*(torch.zeros(shape, dtype=torch.float64) for shape in shapes))

    def plus(self, other: _Moments) -> _Moments:
        return _Moments(
            self.first + other.first,
            self.second + other.second,
            self.parts + other.parts,
            self.terms + other.terms,
        )

    def best(self) -> tuple[Tensor, Tensor]:
        """m_c, (C, d), and C_c, (C, d, d)."""
        mean = self.first / self.parts.clamp(min=1)
        square = torch.einsum("cd,ce->cde", mean, mean)
        return mean, (self.second - self.parts[..., None] * square) / self.terms.clamp(min=1)[..., None]


def _moments(model: CompVAE, batch: Batch, noise: Noise) -> _Moments:
    """Of one batch: over blocks W_c of n_c parts, or over the parts one by one."""
    q = infer(model, batch, noise).q
    assert isinstance(q, Correlated)
    mean, covariance = q.mean.double(), q.covariances().double()
    kinds = model.prior.config.parts.n_kinds
    if model.posterior.of_sum:
        n, kind = batch.parts.counts, torch.arange(kinds).expand(len(batch), -1)
    else:
        parts = batch.parts.padded()
        n, kind = parts.mask.double(), parts.kind
    present = n > 0
    kind, n, mean, covariance = kind[present], n[present], mean[present], covariance[present]  # (R, ..)
    second = (torch.einsum("rd,re->rde", mean, mean) + covariance) / n[:, None, None]
    zeros = _Moments.zeros(kinds, mean.shape[1])
    return _Moments(
        zeros.first.index_add_(0, kind, mean),
        zeros.second.index_add_(0, kind, second),
        zeros.parts.index_add_(0, kind, n[:, None]),
        zeros.terms.index_add_(0, kind, torch.ones_like(n)[:, None]),
    )
