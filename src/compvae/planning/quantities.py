"""Quantiles with their Monte-Carlo error: Q_q from n independent values, se = sqrt(q (1 - q) / n) / f(Q_q).

1 / f, the slope of the quantile function, is read off the order statistics at q n -+ sqrt(q (1 - q) n), where the error
itself moves the quantile to: no density has to be estimated.  The influence of each value on the quantile,
(q - [x <= Q]) / f, gives the error of differences between paired samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compvae.errors import DataError
from compvae.measures.measured import Measured, samples, scalars

__all__ = ["Quantile", "days", "quantile", "quantile_change"]

LEAST = 20  # values a quantile and its error are read from


@dataclass(frozen=True)
class Quantile:
    """The value below which a share ``level`` of n values lies.  se: its Monte-Carlo standard error."""

    level: float
    value: float
    se: float
    n: int

    @property
    def name(self) -> str:
        """P50, P99.9."""
        return f"P{100 * self.level:g}"


def days(x: np.ndarray, name: str = "x") -> np.ndarray:
    """Curves of days as float64.  x: (n, T), finite."""
    if np.ndim(x) != 2:
        raise DataError(f"{name} must be curves of shape (n, T), one row a day, got shape {np.shape(x)}")
    return samples(x, name, 1)


def quantile(values: np.ndarray, level: float) -> Quantile:
    """A quantile of independent values, (n,)."""
    ordered = np.sort(scalars(values, "values", LEAST))
    value, slope = _read(ordered, level)
    return Quantile(level, value, slope * math.sqrt(level * (1 - level) / len(ordered)), len(ordered))


def quantile_change(before: np.ndarray, after: np.ndarray, level: float) -> Measured:
    """Q(after) - Q(before), and its error where row i of both is the same day.  before, after: (n,)."""
    a, b = scalars(before, "before", LEAST), scalars(after, "after", LEAST)
    if len(a) != len(b):
        raise DataError(f"before has {len(a)} days and after {len(b)}; a change is one of the same days")
    (old, slope_old), (new, slope_new) = _read(np.sort(a), level), _read(np.sort(b), level)
    influence = slope_new * (level - (b <= new)) - slope_old * (level - (a <= old))
    return Measured(new - old, float(influence.std() / math.sqrt(len(a))), len(a))


def _read(ordered: np.ndarray, level: float) -> tuple[float, float]:
    """The quantile, and the slope of the quantile function there.  ordered: (n,)."""
    if not 0 < level < 1:
        raise DataError(f"the level of a quantile lies between 0 and 1 (0.95 for P95), got {level!r}")
    reach = math.sqrt(level * (1 - level) / len(ordered))
    low, high = max(0.0, level - reach), min(1.0, level + reach)
    below, value, above = np.quantile(ordered, [low, level, high])
    return float(value), float((above - below) / (high - low))
