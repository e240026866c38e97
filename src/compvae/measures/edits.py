"""edit ratio = RMSE(edited, exact counterfactual) / RMSE(resampled remaining parts, exact counterfactual)."""

from __future__ import annotations

import numpy as np

from compvae.errors import DataError
from compvae.measures.measured import Measured, root_ratio, samples
from compvae.measures.moments import rmse

__all__ = ["edit_ratio", "measured_edit_ratio"]


def edit_ratio(edited: np.ndarray, counterfactual: np.ndarray, resampled: np.ndarray) -> float:
    """0 is exact; 1 is no better than forgetting the observed x.  All three: (n, *shape)."""
    return measured_edit_ratio(edited, counterfactual, resampled).value


def measured_edit_ratio(edited: np.ndarray, counterfactual: np.ndarray, resampled: np.ndarray) -> Measured:
    """:func:`edit_ratio` with its error over the wholes that were edited.  All three: (n, *shape)."""
    if rmse(resampled, counterfactual) == 0:
        raise DataError("resampled equals counterfactual: there is nothing an edit could preserve")
    rmse(edited, counterfactual)  # refuses another shape
    exact = samples(counterfactual, "counterfactual", 1)
    off, base = ((samples(a, name, 1) - exact) ** 2 for a, name in ((edited, "edited"), (resampled, "resampled")))
    return root_ratio(off.mean(1), base.mean(1))
