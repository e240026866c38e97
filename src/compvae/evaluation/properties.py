"""What one composition shows: that the order of its parts does not matter, and how far its whole is from their sum.

departure = RMS(whole - sum of its parts) / RMS(whole), by the exact generator; the mean where x does not grow with K.
"""

from __future__ import annotations

import numpy as np

from compvae import problems
from compvae.evaluation.averages import Judged
from compvae.evaluation.observed import Observation, shown_parts
from compvae.measures import Measured
from compvae.measures.measured import root_ratio
from compvae.model import Model
from compvae.problems import Problem
from compvae.problems.sines import Sines

__all__ = ["STRENGTHS", "departures", "order"]

STRENGTHS = (1.0, 3.0, 10.0)  # values of C
ORDERED = 32  # samples in two orders
DEPARTED = 200  # wholes


def order(model: Model, problem: Problem, seed: int = 0) -> Judged:
    """Largest difference between samples of one composition given in two orders."""
    parts = shown_parts(problem)
    forth, back = (model.sample(given, ORDERED, seed) for given in (parts, parts[::-1]))
    return Judged(Measured(float(np.abs(forth - back).max()), 0.0, ORDERED))


def departures(problem: Problem, seed: int = 0) -> dict[str, Judged]:
    """By name; for sines at several strengths C of the saturation."""
    if not isinstance(problem, Sines):
        return {"departure from the sum": _departure(problem, seed)}
    settings = problem.settings.model_dump()
    return {
        f"departure from the sum, C = {C:g}": _departure(problems.get("sines", **{**settings, "C": C}), seed)
        for C in STRENGTHS
    }


def _departure(problem: Problem, seed: int) -> Judged:
    seen = Observation(problem, shown_parts(problem), DEPARTED, seed)
    each = np.sum([seen.only([i]).astype(np.float64) for i in range(len(seen.parts))], 0)
    gap = seen.x - (each if problem.extensive else each / len(seen.parts))
    top, bottom = ((values.reshape(DEPARTED, -1) ** 2).mean(1) for values in (gap, seen.x.astype(np.float64)))
    return Judged(root_ratio(top, bottom))
