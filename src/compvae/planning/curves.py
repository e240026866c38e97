"""The day as planners draw it: the quantile fan, and the load-duration curve with its band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compvae.errors import DataError
from compvae.planning.quantities import days

__all__ = ["FAN", "Duration", "Fan", "duration", "fan"]

FAN = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BAND = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Fan:
    """Quantiles of each interval of the day.  levels: Q.  values: (Q, T)."""

    levels: tuple[float, ...]
    values: np.ndarray


@dataclass(frozen=True)
class Duration:
    """For how long a day a load is reached: row q, column k is a quantile, over days, of a day's (k + 1)-th load.

    hours: (k + 1) dt, (T,).  levels: Q.  values: (Q, T), falling along T.
    """

    hours: np.ndarray
    levels: tuple[float, ...]
    values: np.ndarray


def fan(x: np.ndarray, levels: tuple[float, ...] = FAN) -> Fan:
    """Quantiles over days, interval by interval.  x: (n, T)."""
    return Fan(levels, np.quantile(days(x), levels, axis=0))


def duration(x: np.ndarray, hours: float, levels: tuple[float, ...] = BAND) -> Duration:
    """The intervals of each day from the highest load to the lowest.  x: (n, T).  hours: dt, of one interval."""
    if not hours > 0:
        raise DataError(f"the length of an interval must be above 0 hours, got {hours!r}")
    falling = -np.sort(-days(x), axis=1)
    return Duration(hours * np.arange(1, falling.shape[1] + 1), levels, np.quantile(falling, levels, axis=0))
