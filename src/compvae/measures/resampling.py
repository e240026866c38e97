"""weight_i = (times its day was drawn) x (mean of the times its homes were drawn): a bootstrap over days and homes.

Each is drawn again with replacement.  Wholes that share a day or a home move together, so that 200 groups of 17 homes
are not taken for 200 independent ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["Statistic", "interval", "resampled", "weighted_quantile", "weighted_variance", "weights_of"]

Statistic = Callable[[np.ndarray], float]
"""weights of the wholes, (n,) -> a number."""


def weights_of(days: Sequence[str], homes: Sequence[Sequence[str]], times: int, seed: int = 0) -> np.ndarray:
    """Weights of each whole in each resample, (times + 1, n), mean about 1; the first row is 1 throughout: the data.

    homes: of each whole; none anywhere where wholes have nothing but their day in common.
    """
    random = np.random.default_rng(seed)
    of_days = _drawn(random, [[day] for day in days], times)
    of_homes = _drawn(random, homes, times) if any(homes) else np.ones((times, len(days)))
    found = of_days * of_homes
    return np.concatenate([np.ones((1, len(days))), found[found.sum(1) > 0]])


def _drawn(random: np.random.Generator, members: Sequence[Sequence[str]], times: int) -> np.ndarray:
    """How often the members of each whole were drawn, on average over them, (times, n)."""
    names = sorted({name for group in members for name in group})
    place = {name: i for i, name in enumerate(names)}
    share = np.zeros((len(names), len(members)))
    for column, group in enumerate(members):
        for name in group:
            share[place[name], column] += 1 / len(group)
    return np.asarray(random.multinomial(len(names), np.full(len(names), 1 / len(names)), times) @ share)


def resampled(statistic: Statistic, weights: np.ndarray) -> np.ndarray:
    """The statistic of the data, then of every resample, (B + 1,).  weights: (B + 1, n)."""
    return np.array([statistic(row) for row in weights])


def interval(values: np.ndarray) -> tuple[float, float, float, float]:
    """The value of the data, its 95% interval and its standard deviation over resamples.  values: (B + 1,)."""
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return float(values[0]), float(low), float(high), float(np.std(values[1:]))


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
