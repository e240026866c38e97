"""What is hidden in samples, recovered problem by problem: features for C2ST, and what can be said without a truth.

sines: phasors; residual off the reachable curves, period violation, KS of amplitudes and phases.
colours: sharpness; residual, glitches, KS of the sharpness.  households: means of blocks of the day, peak, ramp.
Registered problems: means of blocks of values, the largest and the smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from compvae.measures import (
    Measured,
    glitch_fraction,
    ks_amplitude,
    ks_phase,
    ks_uniform,
    measured_period_violation,
    off_manifold,
    recover_phasors,
    recover_sharpness,
)
from compvae.parts import Multiset
from compvae.problems import Problem
from compvae.problems.colours import SHARPNESS, Colours
from compvae.problems.sines import Sines
from compvae.tails.events import EVENTS

__all__ = ["RECOVER", "Hidden", "recover"]

BLOCKS = 6  # of a day


@dataclass(frozen=True)
class Hidden:
    """features: (n, F).  usable: which of them x tells, (F,) bool.

    measures: by name, computed when asked for: of the truth nobody asks.
    """

    features: np.ndarray
    usable: np.ndarray
    measures: Callable[[], dict[str, Measured]]


def _curves(problem: Problem, parts: Multiset, x: np.ndarray) -> Hidden:
    sines = cast(Sines, problem)
    found = recover_phasors(sines, parts, x)

    def measures() -> dict[str, Measured]:
        measured = {"off-manifold": off_manifold(x, found.reachable)}
        if sines.settings.resolution < sines.settings.timesteps:
            measured["period"] = measured_period_violation(x, sines.settings.resolution)
        if found.unique.any():
            measured["KS amplitude"] = ks_amplitude(found)
            if sines.settings.phase_std > 0:
                measured["KS phase"] = ks_phase(found, sines.settings.phase_std)
        return measured

    return Hidden(found.features, np.ones(found.features.shape[1], bool), measures)


def _images(problem: Problem, parts: Multiset, x: np.ndarray) -> Hidden:
    colours = cast(Colours, problem)
    free = recover_sharpness(colours, parts, x)

    def measures() -> dict[str, Measured]:
        near = recover_sharpness(colours, parts, x, SHARPNESS, free.value).reachable
        measured = {"off-manifold": off_manifold(x, near), "glitches": glitch_fraction(x, near)}
        if free.usual.any():
            measured["KS sharpness"] = ks_uniform(free.value[:, free.usual].ravel(), *SHARPNESS)
        return measured

    return Hidden(free.value, free.usual, measures)


def _loads(problem: Problem, parts: Multiset, x: np.ndarray) -> Hidden:
    blocks = x.reshape(len(x), BLOCKS, -1).mean(2)
    features = np.column_stack([blocks, EVENTS["peak"](x), EVENTS["ramp"](x)])
    return Hidden(features, np.ones(features.shape[1], bool), dict)


RECOVER: dict[str, Callable[[Problem, Multiset, np.ndarray], Hidden]] = {
    "sines": _curves,
    "colours": _images,
    "households": _loads,
}
"""(problem, parts, x (n, *shape)) -> what is hidden in x."""


def recover(problem: Problem, parts: Multiset, x: np.ndarray) -> Hidden:
    """What is hidden in x; of a problem that was registered, a few features that any whole has."""
    return RECOVER.get(problem.name, _any)(problem, parts, x)


def _any(problem: Problem, parts: Multiset, x: np.ndarray) -> Hidden:
    """Means of a few blocks of values, the largest and the smallest value."""
    flat = x.reshape(len(x), -1)
    blocks = [block.mean(1) for block in np.array_split(flat, min(BLOCKS, flat.shape[1]), axis=1)]
    features = np.column_stack([*blocks, flat.max(1), flat.min(1)])
    return Hidden(features, np.ones(features.shape[1], bool), dict)
