"""Numbers that judge samples and edits (theory, section 6).

relED(X, Y) = ( 2 E|X-Y| - E|X-X'| - E|Y-Y'| ) / E|X-X'|, X true, Y of the model, without diagonal terms: the numerator
is unbiased, 0 in expectation exactly when the distributions are equal.  Always beside its floor: what two true samples
give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.checks import number_array
from compvae.errors import DataError

__all__ = ["RelED", "edit_ratio", "period_violation", "rel_ed", "rel_ed_floor", "rmse"]

DEGENERATE = 1e-3
"""Below this times sqrt(dim), E|X-X'| is too small to divide by."""


@dataclass(frozen=True)
class RelED:
    """Relative energy distance.

    value: NaN where the truth hardly varies (as for one colour); then mean_rmse says how far off the mean is.
    spread: E|X-X'|.  mean_rmse: RMSE between the two sample means.
    """

    value: float
    spread: float
    mean_rmse: float


def rel_ed(truth: np.ndarray, model: np.ndarray) -> RelED:
    """Compare samples.  truth: (n, *shape).  model: (m, *shape)."""
    x, y = _flat(truth, "truth"), _flat(model, "model")
    if np.shape(truth)[1:] != np.shape(model)[1:]:
        shapes = f"{np.shape(truth)[1:]} and model of {np.shape(model)[1:]}"
        raise DataError(f"truth has samples of shape {shapes}; both need the same shape")
    centre = x.mean(0)  # cdist expands |x|^2 - 2 x.y + |y|^2, which far from 0 loses the digits of |x - y|
    x, y = x - centre, y - centre
    spread = _mean_distance_within(x)
    gap = rmse(x.mean(0).numpy(), y.mean(0).numpy())
    if spread < DEGENERATE * math.sqrt(x.shape[1]):
        return RelED(math.nan, spread, gap)
    across = float(torch.cdist(x, y).mean())
    return RelED((2 * across - spread - _mean_distance_within(y)) / spread, spread, gap)


def rel_ed_floor(draw: Callable[[int], np.ndarray], pairs: int = 50, quantile: float = 0.95) -> float:
    """What true samples give against each other: a quantile of relED over pairs.  draw: seed -> (n, *shape)."""
    values = [rel_ed(draw(2 * pair), draw(2 * pair + 1)).value for pair in range(pairs)]
    return float(np.quantile(values, quantile))


def edit_ratio(edited: np.ndarray, counterfactual: np.ndarray, resampled: np.ndarray) -> float:
    """RMSE(edited, exact counterfactual) / RMSE(resampled remaining parts, exact counterfactual).

    edited, counterfactual, resampled: (n, *shape).  0 is exact; 1 is no better than forgetting the observed x.
    """
    base = rmse(resampled, counterfactual)
    if base == 0:
        raise DataError("resampled equals counterfactual: there is nothing an edit could preserve")
    return rmse(edited, counterfactual) / base


def period_violation(x: np.ndarray, period: int) -> float:
    """RMS of x(t + period) - x(t) over RMS of x: 0 for every true curve of the 1D problem.  x: (n, T)."""
    values = np.asarray(x, np.float64)
    if values.ndim != 2 or not 0 < period < values.shape[1]:
        raise DataError(f"x must be curves (n, T) longer than the period {period}, got shape {values.shape}")
    size = float(np.sqrt(np.mean(values**2)))
    return rmse(values[:, period:], values[:, :-period]) / size if size else 0.0


def rmse(a: np.ndarray, b: np.ndarray) -> float:
    """Root of the mean squared difference.  a, b: any one shape."""
    if np.shape(a) != np.shape(b):
        raise DataError(f"arrays to compare need one shape, got {np.shape(a)} and {np.shape(b)}")
    return float(np.sqrt(np.mean((np.asarray(a, np.float64) - np.asarray(b, np.float64)) ** 2)))


def _flat(samples: np.ndarray, name: str) -> Tensor:
    """(n, *shape) -> (n, dim) float64: in float32, distances of near points would drown in rounding."""
    array = number_array(samples, name, np.float64)
    if array.ndim < 1 or len(array) < 2 or not array.size:
        raise DataError(f"{name} needs at least 2 samples, got an array of shape {array.shape}")
    return torch.from_numpy(array.reshape(len(array), -1))


def _mean_distance_within(x: Tensor) -> float:
    """E|X-X'| over distinct pairs.  x: (n, dim)."""
    return float(torch.cdist(x, x).fill_diagonal_(0.0).sum()) / (len(x) * (len(x) - 1))
