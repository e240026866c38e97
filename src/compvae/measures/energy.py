"""Distances between samples: relED, its floor, the energy score of forecasts, the sliced Wasserstein distance.

relED(X, Y) = ( 2 E|X-Y| - E|X-X'| - E|Y-Y'| ) / E|X-X'|, X true, Y of the model, without diagonal terms: the numerator
is unbiased, 0 in expectation exactly when the distributions are equal.  Always beside its floor: what two true samples
give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from compvae.checks import at_least_one
from compvae.errors import DataError
from compvae.extras import need
from compvae.measures.measured import Measured, check_alike, floor_of, mean_of, samples
from compvae.measures.moments import rmse
from compvae.noise import Noise

__all__ = [
    "RelED",
    "distances_among",
    "energy_score",
    "rel_ed",
    "rel_ed_floor",
    "rel_ed_splits",
    "shadows",
    "sliced_wasserstein",
    "wasserstein_of_shadows",
]

DEGENERATE = 1e-3
"""Below this times sqrt(dim), E|X-X'| is too small to divide by."""
LARGEST_FORECAST = 2**27  # numbers held at once for the energy score of one forecast: a gigabyte


@dataclass(frozen=True)
class RelED:
    """Relative energy distance.

    value: NaN where the truth hardly varies (as for one colour); then mean_rmse says how far off the mean is.
    spread: E|X-X'|.  mean_rmse: RMSE between the two sample means.
    se: by the jackknife over samples; for equal distributions it is about sqrt(2) too large, never too small.
    n: the smaller number of samples.
    """

    value: float
    spread: float
    mean_rmse: float
    se: float = field(default=math.nan, compare=False)
    n: int = field(default=0, compare=False)

    def measured(self, floor: float | None = None) -> Measured:
        """The value as every other measure gives it."""
        return Measured(self.value, self.se, self.n, floor)


def rel_ed(truth: np.ndarray, model: np.ndarray, among: Tensor | None = None) -> RelED:
    """Compare samples.  truth: (n, *shape).  model: (m, *shape).

    among: distances among the true samples, (n, n), where they are known already (:func:`distances_among`).
    """
    x, y = torch.from_numpy(samples(truth, "truth")), torch.from_numpy(samples(model, "model"))
    check_alike(truth, model, ("truth", "model"))
    centre = x.mean(0)  # cdist expands |x|^2 - 2 x.y + |y|^2, which far from 0 loses the digits of |x - y|
    x, y = x - centre, y - centre
    sums = _Sums.of(x, y, _among(x) if among is None else among)
    gap, n = rmse(x.mean(0).numpy(), y.mean(0).numpy()), min(len(x), len(y))
    if sums.spread < DEGENERATE * math.sqrt(x.shape[1]):
        return RelED(math.nan, sums.spread, gap, n=n)
    return RelED(sums.value, sums.spread, gap, sums.jackknife(), n)


def rel_ed_floor(draw: Callable[[int], np.ndarray], pairs: int = 50, quantile: float = 0.95) -> float:
    """What true samples give against each other: a quantile of relED over pairs.  draw: seed -> (n, *shape)."""
    return floor_of(lambda a, b: rel_ed(a, b).value, draw, pairs, quantile)


def distances_among(x: np.ndarray) -> Tensor:
    """|x_i - x_j|, (n, n) float64.  x: (n, *shape)."""
    values = torch.from_numpy(samples(x, "x"))
    return _among(values - values.mean(0))


def _among(x: Tensor) -> Tensor:
    """Distances of rows, 0 from each to itself.  x: (n, dim), centred -> (n, n)."""
    return torch.cdist(x, x).fill_diagonal_(0.0)


def rel_ed_splits(pool: np.ndarray, splits: int = 100, seed: int = 0, among: Tensor | None = None) -> np.ndarray:
    """relED between the two halves of one pool of true samples, halved at random so many times.

    The same pairs :func:`rel_ed_floor` draws anew, at the cost of one matrix of distances.
    pool: (2 n, *shape) -> (splits,) float64, NaN where the truth hardly varies.
    among: distances among all of the pool, (2 n, 2 n), where they are known already.
    """
    n = len(samples(pool, "pool", 4)) // 2
    distance = (distances_among(pool) if among is None else among)[: 2 * n, : 2 * n]
    order = Noise(seed, at_least_one(splits, "splits")).uniform("split", 2 * n).argsort(1)
    half = torch.zeros(splits, 2 * n, dtype=distance.dtype).scatter_(1, order[:, :n], 1.0).T
    within = (half * (distance @ half)).sum(0)
    across = distance.sum(1) @ half - within
    other = distance.sum() - within - 2 * across
    spread = _within(within, n)
    spread[spread < DEGENERATE * math.sqrt(math.prod(pool.shape[1:]))] = math.nan
    return np.asarray(((2 * across / n**2 - _within(other, n)) / spread - 1).numpy())


def energy_score(forecast: np.ndarray, observed: np.ndarray) -> Measured:
    """ES = E|Y - x| - 1/2 E|Y - Y'|, Y of the forecast for x, without diagonal terms (fair); lower is better.

    forecast: (n, m, *shape), m >= 2 draws for each observed whole.  observed: (n, *shape).
    """
    check_forecast(forecast, observed)
    x, size = samples(observed, "observed", 1), np.shape(forecast)[1]
    drawn = samples(forecast, "forecast", 1).reshape(len(x), size, -1)
    if size < 2 or size * drawn[0].size > LARGEST_FORECAST:
        most = max(2, math.isqrt(LARGEST_FORECAST // x.shape[1]))
        raise DataError(f"forecast has {size} draws for each whole; the energy score takes 2 to {most} of this shape")
    score = need("scoringrules", "eval").es_ensemble
    return mean_of(np.array([float(score(one, draws, estimator="fair")) for one, draws in zip(x, drawn, strict=True)]))


def check_forecast(forecast: np.ndarray, observed: np.ndarray) -> None:
    """Refuse draws that do not belong to what was observed.  forecast: (n, m, *shape).  observed: (n, *shape)."""
    drawn, seen = np.shape(forecast), np.shape(observed)
    if len(drawn) < 2 or (drawn[0], *drawn[2:]) != seen or not drawn[1]:
        raise DataError(f"forecast must be (n, m, *shape) for observed (n, *shape), got {drawn} and {seen}")


def sliced_wasserstein(truth: np.ndarray, model: np.ndarray, projections: int = 200, seed: int = 0) -> Measured:
    """SW_2 = sqrt( E_u W_2(u.X, u.Y)^2 ), u uniform on the unit sphere, in the unit of x.

    The directions are a function of the seed.  se is that of the choice of directions; what the choice of samples does
    is shown by the floor (:func:`floor_of`).  truth: (n, *shape).  model: (m, *shape).
    """
    check_alike(truth, model, ("truth", "model"))
    cast = [shadows(samples(x, name), projections, seed) for x, name in ((truth, "truth"), (model, "model"))]
    return wasserstein_of_shadows(*cast)


def shadows(x: np.ndarray, projections: int = 200, seed: int = 0) -> np.ndarray:
    """u.x for each direction u, (n, projections): what :func:`wasserstein_of_shadows` compares.  x: (n, *shape)."""
    flat = samples(x, "x", 1)
    number = at_least_one(projections, "projections")
    normal = Noise(seed, number).normal("direction", flat.shape[1], dtype=torch.float64)
    return np.asarray(flat @ (normal / normal.norm(dim=1, keepdim=True)).T.numpy())


def wasserstein_of_shadows(truth: np.ndarray, model: np.ndarray) -> Measured:
    """SW_2 from samples already cast on the directions.  truth: (n, projections).  model: (m, projections)."""
    distance, each = need("ot", "eval").sliced_wasserstein_distance, np.eye(truth.shape[1])
    value, log = distance(truth, model, projections=each, p=2, log=True)
    squares = mean_of(np.asarray(log["projected_emds"]))
    return Measured(float(value), squares.se / (2 * float(value)) if value else 0.0, min(len(truth), len(model)))


@dataclass(frozen=True)
class _Sums:
    """Distances summed by row: what relED and each of its leave-one-out values are made of.

    x_y, x_x: sums from each true sample, (n,).  y_x, y_y: from each sample of the model, (m,).
    """

    x_y: Tensor
    x_x: Tensor
    y_x: Tensor
    y_y: Tensor

    @classmethod
    def of(cls, x: Tensor, y: Tensor, among: Tensor) -> _Sums:
        """x: (n, dim).  y: (m, dim).  among: distances of x, (n, n)."""
        across = torch.cdist(x, y)
        return cls(across.sum(1), among.sum(1), across.sum(0), _among(y).sum(1))

    @property
    def spread(self) -> float:
        """E|X-X'| over distinct pairs."""
        return float(_within(self.x_x.sum(), len(self.x_x)))

    @property
    def value(self) -> float:
        """relED."""
        n, m = len(self.x_x), len(self.y_y)
        across = float(self.x_y.sum()) / (n * m)
        return (2 * across - self.spread - float(_within(self.y_y.sum(), m))) / self.spread

    def jackknife(self) -> float:
        """Standard error from leaving out one sample at a time, on either side; NaN below three samples."""
        n, m = len(self.x_x), len(self.y_y)
        if min(n, m) < 3:
            return math.nan
        across, x_x, y_y = self.x_y.sum(), self.x_x.sum(), self.y_y.sum()
        spread = _within(x_x - 2 * self.x_x, n - 1)  # (n,)
        no_x = (2 * (across - self.x_y) / ((n - 1) * m) - _within(y_y, m)) / spread - 1
        no_y = (2 * (across - self.y_x) / (n * (m - 1)) - _within(y_y - 2 * self.y_y, m - 1)) / self.spread - 1
        return math.sqrt(sum(float(v.var(correction=0)) * (len(v) - 1) for v in (no_x, no_y)))


def _within(total: Tensor, n: int) -> Tensor:
    """Mean distance over the distinct pairs of n samples.  total: over ordered pairs, any shape."""
    return total / (n * (n - 1))
