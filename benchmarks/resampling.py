"""Bootstrap over homes and days: each is drawn again with replacement, a whole counts as often as its day and homes.

    weight_i = (times its day was drawn) x (mean of the times its homes were drawn)

Wholes that share a day or a home move together, so that 200 groups of 17 homes are not taken for 200 independent ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["Statistic", "interval", "weighted_quantile", "weighted_variance", "weights_of"]

Statistic = Callable[[np.ndarray], float]
"""weights of the wholes, (n,) -> a number."""


def weights_of(days: Sequence[str], homes: Sequence[Sequence[str]], times: int, seed: int = 0) -> np.ndarray:
    """Weights of each whole in each resample, (times, n), mean about 1; the first row is 1 throughout: the data."""
    random = np.random.default_rng(seed)
    day_names, day = np.unique(np.array(days), return_inverse=True)
    home_names = sorted({home for group in homes for home in group})
    place = {home: i for i, home in enumerate(home_names)}
    member = np.zeros((len(homes), len(home_names)))
    for row, group in enumerate(homes):
        for home in group:
            member[row, place[home]] += 1 / len(group)
    found = np.ones((times + 1, len(days)))
    for row in range(1, times + 1):
        of_day = random.multinomial(len(day_names), np.full(len(day_names), 1 / len(day_names)))
        of_home = random.multinomial(len(home_names), np.full(len(home_names), 1 / len(home_names)))
        found[row] = of_day[day] * (member @ of_home)
    counted: np.ndarray = found[found.sum(1) > 0]
    return counted


def interval(statistic: Statistic, weights: np.ndarray) -> tuple[float, float, float]:
    """The statistic of the data, and its 95% interval over resamples.  weights: (B + 1, n), the data first."""
    values = [statistic(row) for row in weights]
    low, high = np.quantile(values[1:], [0.025, 0.975]) if len(values) > 1 else (np.nan, np.nan)
    return values[0], float(low), float(high)


def weighted_quantile(values: np.ndarray, level: float) -> Statistic:
    """A quantile of values (n, m), row i with the weight of whole i."""
    order = np.argsort(values, axis=None)
    ordered, row = values.ravel()[order], order // values.shape[1]

    def statistic(weights: np.ndarray) -> float:
        reached = np.cumsum(weights[row])
        return float(ordered[np.searchsorted(reached, level * reached[-1])])

    return statistic


def weighted_variance(x: np.ndarray) -> Statistic:
    """Variance summed over intervals.  x: (n, m, T), row i with the weight of whole i."""
    mean, square = x.mean(1), (x.astype(np.float64) ** 2).mean(1)

    def statistic(weights: np.ndarray) -> float:
        share = weights / weights.sum()
        return float((share @ square - (share @ mean) ** 2).sum())

    return statistic
