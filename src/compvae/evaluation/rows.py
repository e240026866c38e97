"""Rows of a table of measures: the mean over compositions, with the Monte-Carlo error and the floor of that mean.

value = 1/m sum_j v_j,  se = 1/m sqrt( sum_j se_j^2 ),  floor = 95% quantile of 1/m sum_j v_j(X, X'), X, X' true
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from compvae.measures import Measured, paired

__all__ = ["Comparison", "Judged", "Row", "average", "compare", "plain"]

QUANTILE = 0.95
LEAST_CASES = 2


@dataclass(frozen=True)
class Judged:
    """A measure of one composition.  null: what pairs of true samples give, (splits,), where that was drawn."""

    found: Measured
    null: np.ndarray | None = None


@dataclass(frozen=True)
class Row:
    """A measure at one K.

    of: who was judged.  K: None where it is over the training range.  n: samples of each composition.
    floor: what a perfect model would get, None where that is 0.
    """

    of: str
    name: str
    K: int | None
    value: float
    se: float
    floor: float | None
    n: int


@dataclass(frozen=True)
class Comparison:
    """Ours minus theirs over the same compositions, lower being better.

    verdict: win below -2 se, loss above 2 se, else tie.  n: compositions.
    """

    against: str
    name: str
    K: int
    value: float
    se: float
    n: int
    verdict: str


def average(cases: Sequence[Judged]) -> Measured | None:
    """Mean over the compositions where a measure is defined, None where it is nowhere."""
    defined = [case for case in cases if math.isfinite(case.found.value)]
    if not defined:
        return None
    value = float(np.mean([case.found.value for case in defined]))
    se = math.sqrt(sum(case.found.se**2 for case in defined)) / len(defined)
    return Measured(value, se, defined[0].found.n, _floor(defined))


def _floor(cases: Sequence[Judged]) -> float | None:
    nulls = [case.null for case in cases if case.null is not None]
    if nulls:
        return float(np.quantile(np.mean(nulls, 0), QUANTILE))
    floors = [case.found.floor for case in cases if case.found.floor is not None]
    return float(np.mean(floors)) if floors else None


def compare(against: str, name: str, size: int, ours: Sequence[Judged], theirs: Sequence[Judged]) -> Comparison | None:
    """Paired over compositions; None where fewer than two can be compared."""
    values = np.array([[a.found.value, b.found.value] for a, b in zip(ours, theirs, strict=True)])
    values = values[np.isfinite(values).all(1)]
    if len(values) < LEAST_CASES:
        return None
    difference = paired(values[:, 0], values[:, 1])
    verdict = "tie"
    if abs(difference.value) > 2 * difference.se:
        verdict = "win" if difference.value < 0 else "loss"
    return Comparison(against, name, size, difference.value, difference.se, difference.n, verdict)


def plain(row: Row | Comparison) -> dict[str, Any]:
    """A row as JSON can hold it: no NaN."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(row).items()}
