"""Daily peaks max_t x(t) and daily energy dt sum_t x(t): P50, P95, P99 and means, with their Monte-Carlo errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compvae.measures.measured import Measured, mean_of
from compvae.planning.quantities import Quantile, days, quantile

__all__ = ["LEVELS", "Peaks", "daily_energy", "daily_peaks", "peaks"]

LEVELS = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class Peaks:
    """The distribution of the daily peak.  values: of each day, (n,).  mean: of them."""

    values: np.ndarray
    mean: Measured
    quantiles: tuple[Quantile, ...]


def daily_peaks(x: np.ndarray) -> np.ndarray:
    """The highest load of each day, (n,).  x: (n, T)."""
    highest: np.ndarray = days(x).max(1)
    return highest


def daily_energy(x: np.ndarray, hours: float) -> Measured:
    """Mean energy of a day, in the unit of x times hours.  x: (n, T).  hours: of one interval."""
    return mean_of(hours * days(x).sum(1))


def peaks(x: np.ndarray, levels: tuple[float, ...] = LEVELS) -> Peaks:
    """The distribution of daily peaks.  x: (n, T)."""
    values = daily_peaks(x)
    return Peaks(values, mean_of(values), tuple(quantile(values, level) for level in levels))
