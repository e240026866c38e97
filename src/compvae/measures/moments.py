"""Errors of simple summaries: RMSE, moments relative to the spread, period violation.

    error of the mean = sqrt( sum_c (mean_c Y - mean_c X)^2 / sum_c var_c X ), over the coordinates c of x;

the same for the standard deviation; for the skewness, sqrt of the mean of (skew_c Y - skew_c X)^2 weighted by var_c X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compvae.errors import DataError
from compvae.measures.measured import Measured, check_alike, root_ratio, samples

__all__ = ["MomentErrors", "measured_period_violation", "moment_errors", "period_violation", "rmse"]


CONSTANT = 1e-9
"""A standard deviation below this share of the truth's whole spread is rounding."""


def rmse(a: np.ndarray, b: np.ndarray) -> float:
    """Root of the mean squared difference.  a, b: any one shape."""
    if np.shape(a) != np.shape(b):
        raise DataError(f"arrays to compare need one shape, got {np.shape(a)} and {np.shape(b)}")
    return float(np.sqrt(np.mean((np.asarray(a, np.float64) - np.asarray(b, np.float64)) ** 2)))


def period_violation(x: np.ndarray, period: int) -> float:
    """RMS of x(t + period) - x(t) over RMS of x: 0 for every true curve of the 1D problem.  x: (n, T)."""
    return measured_period_violation(x, period).value


def measured_period_violation(x: np.ndarray, period: int) -> Measured:
    """:func:`period_violation` with its error; 0 for curves that are 0 throughout.  x: (n, T)."""
    if np.ndim(x) != 2 or not 0 < period < np.shape(x)[1]:
        raise DataError(f"x must be curves (n, T) longer than the period {period}, got shape {np.shape(x)}")
    values = samples(x, "x", 1)
    found = root_ratio(((values[:, period:] - values[:, :-period]) ** 2).mean(1), (values**2).mean(1))
    return Measured(0.0, 0.0, found.n) if math.isnan(found.value) else found


@dataclass(frozen=True)
class MomentErrors:
    """Errors of mean and standard deviation in units of the truth's spread, and of the skewness (no unit).

    Each is a root of a mean of squares, so it is positive for equal distributions too: floor is its root mean square
    then, for these numbers of samples.  NaN where the truth does not vary.
    """

    mean: Measured
    std: Measured
    skew: Measured


def moment_errors(truth: np.ndarray, model: np.ndarray) -> MomentErrors:
    """Compare moments coordinate by coordinate.  truth: (n, *shape).  model: (m, *shape)."""
    x, y = samples(truth, "truth"), samples(model, "model")
    check_alike(truth, model, ("truth", "model"))
    weight = x.var(0)
    return MomentErrors(*(_error(a, b, weight) for a, b in zip(_moments(x, weight), _moments(y, weight), strict=True)))


@dataclass(frozen=True)
class _Moment:
    """An estimate, (dim,), and the influence of each sample on it, (n, dim): estimate = truth + mean of influence.

    scale: (dim,): what turns the error of a coordinate into units of its spread.
    """

    value: np.ndarray
    influence: np.ndarray
    scale: np.ndarray


def _moments(x: np.ndarray, weight: np.ndarray) -> tuple[_Moment, _Moment, _Moment]:
    """Mean, standard deviation, skewness.  x: (n, dim).  weight: variance of the truth, (dim,)."""
    mean, std = x.mean(0), x.std(0)
    varies = std > CONSTANT * math.sqrt(weight.sum())  # rounding makes a constant coordinate wobble
    unit = np.where(varies, (x - mean) / np.where(varies, std, 1.0), 0.0)
    square = unit * unit
    cube = square * unit  # numpy's unit**3 is ten times slower
    skew, excess = cube.mean(0), square - 1
    one, spread = np.ones_like(weight), np.sqrt(weight)
    return (
        _Moment(mean, x - mean, one),
        _Moment(std, 0.5 * std * excess, one),
        _Moment(skew, cube - skew - 3 * unit - 1.5 * skew * excess, spread),
    )


def _error(truth: _Moment, model: _Moment, weight: np.ndarray) -> Measured:
    """Root of the mean square difference; error and floor by the delta method.  weight: (dim,)."""
    n, m = len(truth.influence), len(model.influence)
    total = float(weight.sum())
    if not total:
        return Measured(math.nan, math.nan, min(n, m))
    unit = truth.scale / math.sqrt(total)
    difference = unit * (model.value - truth.value)
    value = float(np.linalg.norm(difference))
    along = unit * difference / value if value else np.zeros_like(unit)  # moves the norm as the estimates move
    variance = float((truth.influence @ along).var()) / n + float((model.influence @ along).var()) / m
    chance = float(((unit * truth.influence) ** 2).mean(0).sum()) * (1 / n + 1 / m)
    return Measured(value, math.sqrt(variance), min(n, m), math.sqrt(chance))
