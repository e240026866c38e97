"""Tails and intervals: P(phi(x) >= t) of model and truth, coverage of predictive intervals, PIT.

PIT = (#{draws below x} + u (1 + #{ties})) / (m + 1), u ~ U(0, 1):  exactly uniform where x and its m draws have
one distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from compvae.errors import DataError
from compvae.measures.energy import check_forecast
from compvae.measures.measured import Measured, mean_of, samples, scalars
from compvae.noise import Noise

__all__ = ["Exceedance", "coverage", "exceedance", "pit"]


@dataclass(frozen=True)
class Exceedance:
    """P(phi >= threshold) under the truth and under the model."""

    threshold: float
    truth: Measured
    model: Measured

    @property
    def z_score(self) -> float:
        """(model - truth) in standard errors of the difference."""
        return (self.model.value - self.truth.value) / math.hypot(self.model.se, self.truth.se)


def exceedance(truth: np.ndarray, model: np.ndarray, thresholds: np.ndarray) -> list[Exceedance]:
    """How often a statistic of x (its peak, say) reaches each threshold.

    truth: (n,).  model: (m,).  thresholds: (Q,).
    """
    x, y = scalars(truth, "truth"), scalars(model, "model")
    return [Exceedance(float(t), _share(x >= t), _share(y >= t)) for t in scalars(thresholds, "thresholds")]


def _share(event: np.ndarray) -> Measured:
    """Share of True; binomial error at (k + 1) / (n + 2), so that none of n is not taken for certainty.  (n,) bool."""
    n = len(event)
    smoothed = (int(event.sum()) + 1) / (n + 2)
    return Measured(float(event.mean()), math.sqrt(smoothed * (1 - smoothed) / n), n)


def coverage(forecast: np.ndarray, observed: np.ndarray, level: float = 0.9) -> Measured:
    """Share of observed values inside the central interval of that level; a calibrated forecast gives the level.

    The interval lies between order statistics of the m draws at (m + 1)(1 -+ level)/2, which makes the coverage exact
    where these are whole numbers.  Coordinates of one whole hang together: the error is that over wholes.
    forecast: (n, m, *shape).  observed: (n, *shape).
    """
    check_forecast(forecast, observed)
    size = np.shape(forecast)[1]
    if not 0 < level < 1 or (size + 1) * (1 - level) / 2 < 1:
        raise DataError(f"level must lie between 0 and {1 - 2 / (size + 1):g} with {size} draws, got {level}")
    x = samples(observed, "observed", 1)
    drawn = samples(forecast, "forecast", 1).reshape(len(x), size, -1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=1, method="weibull")
    return mean_of(((low <= x) & (x <= high)).mean(1))


def pit(forecast: np.ndarray, observed: np.ndarray, seed: int = 0) -> np.ndarray:
    """Where each observed value falls among its draws, in (0, 1): uniform for a calibrated forecast (see ks_uniform).

    forecast: (n, m, *shape).  observed: (n, *shape) -> (n, *shape) float64.
    """
    check_forecast(forecast, observed)
    x = samples(observed, "observed", 1)
    drawn = samples(forecast, "forecast", 1).reshape(len(x), np.shape(forecast)[1], -1)
    below, ties = (drawn < x[:, None]).sum(1), (drawn == x[:, None]).sum(1)
    u = Noise(seed, len(x)).uniform("pit", x.shape[1], dtype=torch.float64).numpy()
    ranks = (below + u * (1 + ties)) / (drawn.shape[1] + 1)
    return np.asarray(ranks.reshape(np.shape(observed)))
