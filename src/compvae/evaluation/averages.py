"""Means over compositions, with the Monte-Carlo error and the floor of that mean; paired differences.

value = 1/m sum_j v_j,  se = 1/m sqrt( sum_j se_j^2 ),  floor = 95% quantile of 1/m sum_j v_j(X, X'), X, X' true
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compvae.evaluation.rows import MODEL, Comparison, Row
from compvae.extras import need
from compvae.measures import Measured, paired

__all__ = ["Judged", "average", "compare", "row_of"]

QUANTILE = 0.95
LEAST_CASES = 3  # the interval of two is too wide to call anything a win


@dataclass(frozen=True)
class Judged:
    """A measure of one composition.  null: what pairs of true samples give, (splits,), where that was drawn."""

    found: Measured
    null: np.ndarray | None = None


def average(cases: Sequence[Judged]) -> Measured | None:
    """Mean over the compositions where a measure is defined, None where it is nowhere."""
    defined = [case for case in cases if math.isfinite(case.found.value)]
    if not defined:
        return None
    value = float(np.mean([case.found.value for case in defined]))
    se = math.sqrt(sum(case.found.se**2 for case in defined)) / len(defined)
    return Measured(value, se, defined[0].found.n, _floor(defined))


def row_of(name: str, size: int | None, cases: Sequence[Judged], of: str = MODEL) -> Row | None:
    """The row of a measure at one K, None where it is defined for no composition."""
    mean = average(cases)
    if mean is None:
        return None
    se = mean.se if math.isfinite(mean.se) else None
    return Row(of=of, name=name, K=size, value=mean.value, se=se, floor=mean.floor, n=mean.n)


def _floor(cases: Sequence[Judged]) -> float | None:
    nulls = [case.null for case in cases if case.null is not None]
    if nulls:
        return float(np.quantile(np.mean(nulls, 0), QUANTILE))
    floors = [case.found.floor for case in cases if case.found.floor is not None]
    return float(np.mean(floors)) if floors else None


def compare(against: str, name: str, size: int, ours: Sequence[Judged], theirs: Sequence[Judged]) -> Comparison | None:
    """Paired over compositions; None where fewer than three can be compared."""
    values = np.array([[a.found.value, b.found.value] for a, b in zip(ours, theirs, strict=True)])
    values = values[np.isfinite(values).all(1)]
    if len(values) < LEAST_CASES:
        return None
    difference = paired(values[:, 0], values[:, 1])
    far = float(need("scipy.stats", "eval").t.ppf(0.975, difference.n - 1))  # 2.36 for 8 compositions
    verdict = "tie"
    if abs(difference.value) > far * difference.se:
        verdict = "win" if difference.value < 0 else "loss"
    return Comparison(
        against=against,
        name=name,
        K=size,
        value=difference.value,
        se=difference.se,
        n=difference.n,
        verdict=verdict,
    )
