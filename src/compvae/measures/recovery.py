"""Recovered specifics: RMSE(recovered, true), beside the truth's own spread, which is what guessing the mean gets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compvae.checks import number_array
from compvae.errors import DataError
from compvae.measures.measured import Measured, check_alike, root_ratio

__all__ = ["Recovery", "specifics_error"]


@dataclass(frozen=True)
class Recovery:
    """rmse: of the recovered values, in their unit.  spread: standard deviation of the true ones."""

    rmse: Measured
    spread: float


def specifics_error(
    recovered: np.ndarray, true: np.ndarray, where: np.ndarray | None = None, period: float | None = None
) -> Recovery:
    """Compare specifics of one kind (amplitudes, phases, sharpness) of n wholes with K parts.

    recovered, true: (n, K).  where: (n, K) bool, which of them count; all if left out.  period: 2 pi for phases.
    """
    check_alike(recovered, true, ("recovered", "true"), rows=True)
    found, exact = number_array(recovered, "recovered", np.float64), number_array(true, "true", np.float64)
    counted = np.ones(exact.shape, bool) if where is None else np.asarray(where)
    if exact.ndim != 2 or counted.shape != exact.shape or counted.dtype != bool or not counted.any():
        raise DataError(
            f"recovered and true must be (n, K), where the same with some True, got {exact.shape}, {counted.shape}"
        )
    gap = found - exact
    if period is not None:
        gap = (gap + period / 2) % period - period / 2
    # a ratio of sums over wholes, since wholes differ in how many of their parts count
    return Recovery(
        root_ratio((gap**2 * counted).sum(1), counted.sum(1).astype(np.float64)),
        float(exact[counted].std()) if counted.sum() > 1 else math.nan,
    )
