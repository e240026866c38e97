"""Kolmogorov-Smirnov: D = max_v |F_n(v) - F(v)|, samples against a distribution that is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from compvae.extras import need
from compvae.measures.measured import Measured, scalars

__all__ = ["ks_distance", "ks_uniform"]


def ks_distance(values: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> Measured:
    """D of n independent values; floor is the exact 95% quantile of D when they come from the cdf.

    values: (n,).  cdf: (n,) -> (n,) in [0, 1].  se: of the empirical share at the place of the largest gap.
    """
    ordered = np.sort(scalars(values, "values"))
    expected, n = np.asarray(cdf(ordered), np.float64), len(ordered)
    gaps = np.maximum(np.arange(1, n + 1) / n - expected, expected - np.arange(n) / n)
    share = float(expected[int(gaps.argmax())])
    floor = float(need("scipy.stats", "eval").kstwo.ppf(0.95, n))
    return Measured(float(gaps.max()), math.sqrt(share * (1 - share) / n), n, floor)


def ks_uniform(values: np.ndarray, low: float = 0.0, high: float = 1.0) -> Measured:
    """D against U(low, high).  values: (n,)."""
    return ks_distance(values, lambda v: np.clip((v - low) / (high - low), 0.0, 1.0))
