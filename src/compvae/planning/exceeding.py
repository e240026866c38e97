"""P(daily peak > rating): by counting, with Wilson's interval; where it is rare, by tail sampling, or by a bound alone.

(p + z^2/2n -+ z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n),  z = 1.96                          (Wilson 1927)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compvae.errors import DataError, TailError
from compvae.measures.measured import scalars
from compvae.model import Model

__all__ = ["Chance", "by_counting", "chance_of_exceeding", "wilson"]

Z = 1.959964  # of a 95% interval
SEEN = 50  # days beyond the rating from which on counting is good enough: a relative error of 14%


@dataclass(frozen=True)
class Chance:
    """A probability under the model.  value: None where only a bound is known.  low, high: 95% interval.

    method: "counting", or that of the tail sampler.  draws: days behind it.  note: why the sampler refused, if it did.
    """

    value: float | None
    low: float
    high: float
    method: str
    draws: int
    note: str = ""


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95% interval of a probability of which ``hits`` of n independent trials were seen."""
    if not 0 <= hits <= n or n < 1:
        raise DataError(f"of n >= 1 trials 0 to n can be hits, got {hits} of {n}")
    share, z2 = hits / n, Z * Z / n
    half = Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n))
    low, high = (share + z2 / 2 - half) / (1 + z2), (share + z2 / 2 + half) / (1 + z2)
    return (low if hits else 0.0), (high if hits < n else 1.0)


def by_counting(peaks: np.ndarray, rating: float) -> Chance:
    """Share of days whose peak is above the rating.  peaks: (n,)."""
    values = scalars(peaks, "peaks")
    if not math.isfinite(rating):
        raise DataError(f"the rating must be a finite number, got {rating!r}")
    hits = int((values > rating).sum())
    return Chance(hits / len(values), *wilson(hits, len(values)), "counting", len(values))


def chance_of_exceeding(
    model: Model,
    parts: object,
    rating: float,
    peaks: np.ndarray,
    seed: int = 0,
    context: Mapping[str, object] | None = None,
) -> Chance:
    """By counting where enough of the days that were drawn are above the rating, else by tail sampling.

    Where the sampler refuses, what is left is Wilson's bound of the days drawn.  peaks: of days already drawn, (n,).
    """
    counted = by_counting(peaks, rating)
    assert counted.value is not None
    if counted.value * counted.draws >= SEEN:
        return counted
    try:
        found = model.tail(parts, "peak", threshold=float(rating), seed=seed, context=context)
    except TailError as error:
        return Chance(None, counted.low, counted.high, "counting", counted.draws, str(error))
    spread = math.exp(Z * math.sqrt(math.log1p(found.cv**2)))  # an estimate of a rare event has a log-normal error
    low, high = found.probability / spread, min(1.0, found.probability * spread)
    return Chance(found.probability, low, high, found.method, found.draws)
