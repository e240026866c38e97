"""A number with its Monte-Carlo error, and what all measures share: how samples come in, how a mean goes out.

floor = quantile of measure(X, X') over pairs of true samples: what a perfect model would get.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compvae.checks import number_array
from compvae.errors import DataError

__all__ = ["Measured", "check_alike", "floor_of", "mean_of", "paired", "root_ratio", "samples", "scalars"]


@dataclass(frozen=True)
class Measured:
    """A measured number.

    value: NaN where it is not defined.  se: its Monte-Carlo standard error, NaN where n is too small to tell.
    n: how many independent rows it rests on.  floor: what a perfect model would get, None where that is 0 or unknown.
    """

    value: float
    se: float
    n: int
    floor: float | None = None


def samples(value: np.ndarray, name: str, least: int = 2) -> np.ndarray:
    """Samples as float64 (n, dim), all axes after the first made one.  value: (n, *shape), n >= least."""
    array = number_array(value, name, np.float64)
    if array.ndim < 1 or len(array) < least or not array.size:
        plural = "s" if least > 1 else ""
        raise DataError(f"{name} needs at least {least} sample{plural}, got an array of shape {array.shape}")
    return array.reshape(len(array), -1)


def scalars(value: np.ndarray, name: str, least: int = 1) -> np.ndarray:
    """One finite number for each whole, float64 (n,), n >= least."""
    if np.ndim(value) != 1:
        raise DataError(f"{name} must be numbers (n,), one for each whole, got shape {np.shape(value)}")
    return samples(value, name, least)[:, 0]


def check_alike(a: np.ndarray, b: np.ndarray, names: tuple[str, str], rows: bool = False) -> None:
    """Refuse samples of different shapes.  a: (n, *shape).  b: (m, *shape), with m = n where rows is True."""
    start = 0 if rows else 1
    if np.shape(a)[start:] != np.shape(b)[start:]:
        what = "arrays" if rows else "samples"
        shapes = f"{np.shape(a)[start:]} and {names[1]} of {np.shape(b)[start:]}"
        raise DataError(f"{names[0]} has {what} of shape {shapes}; both need the same shape")


def mean_of(values: np.ndarray) -> Measured:
    """Mean of independent rows and its standard error.  values: (n,)."""
    return Measured(float(np.mean(values)), _standard_error(values), len(values))


def root_ratio(numerator: np.ndarray, denominator: np.ndarray) -> Measured:
    """sqrt( mean numerator / mean denominator ) over rows, its error by the delta method.

    numerator, denominator: (n,), >= 0.  NaN where the denominator is 0 throughout.
    """
    top, bottom = float(np.mean(numerator)), float(np.mean(denominator))
    if not bottom:
        return Measured(math.nan, math.nan, len(numerator))
    value = math.sqrt(top / bottom)
    influence = numerator / top - denominator / bottom if top else np.zeros(len(numerator))
    return Measured(value, 0.5 * value * _standard_error(influence), len(numerator))


def paired(ours: np.ndarray, theirs: np.ndarray) -> Measured:
    """Mean of ours - theirs over the same cases, and its standard error over them.

    ours, theirs: (n,), one number a case (such as relED of each composition), lower being better.
    """
    check_alike(ours, theirs, ("ours", "theirs"), rows=True)
    return mean_of((samples(ours, "ours") - samples(theirs, "theirs")).mean(1))


def floor_of(
    measure: Callable[[np.ndarray, np.ndarray], float],
    draw: Callable[[int], np.ndarray],
    pairs: int = 50,
    quantile: float = 0.95,
) -> float:
    """What true samples give against each other: a quantile of the measure over pairs.

    measure: (X (n, *shape), X' (n, *shape)) -> number.  draw: seed -> (n, *shape).
    """
    values = [measure(draw(2 * pair), draw(2 * pair + 1)) for pair in range(pairs)]
    return float(np.quantile(values, quantile))


def _standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
