"""Edits of observed wholes against exact counterfactuals, and what a model says is hidden in the parts of a whole.

Remove: RMSE to the counterfactual, against forgetting the whole.  Add and replace bring randomness: relED between
draws of the edited whole and counterfactuals that hold the factors and the untouched parts and redraw the new one.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import torch

from compvae.batch import unpad
from compvae.composing.composition import Composition
from compvae.evaluation.averages import Judged
from compvae.evaluation.observed import Described, Observation
from compvae.evaluation.plan import Plan, derived
from compvae.measures import (
    Measured,
    Recovery,
    measured_edit_ratio,
    recover_phasors,
    recover_sharpness,
    rel_ed,
    rel_ed_splits,
    rmse,
    specifics_error,
)
from compvae.model import Model
from compvae.noise import Noise
from compvae.parts import Multiset
from compvae.problems import Problem
from compvae.problems.colours import Colours
from compvae.problems.sines import Sines

__all__ = ["judge_edits"]


def judge_edits(model: Model, problem: Problem, parts: Multiset, plan: Plan, seed: int) -> dict[str, Judged]:
    """Every measure of edits and recovered specifics by name, on fresh wholes of one composition."""
    seen = Observation(problem, parts, plan.wholes, seed)
    inferred = model.infer(seen.x, seen.parts)
    resampled = problem.truth(seen.rest(), plan.wholes, derived(seed, 2))
    judged, exact = dict[str, Judged](), seen.without()
    if rmse(resampled, exact) > 0:  # sites of one colour fill an image with it: there is nothing an edit could preserve
        edited = inferred.remove([seen.parts[seen.chosen]]).decode()
        judged["edit remove"] = Judged(measured_edit_ratio(edited, exact, resampled))
    one, new = model.infer(seen.x[0], seen.parts), _new_part(problem, seed)
    judged["edit add relED"] = _random_edit(
        one.add(new), seen.first_with(new, 2 * plan.redrawn, derived(seed, 3), False), plan
    )
    replaced = one.replace([seen.parts[seen.chosen]], new)
    exact = seen.first_with(new, 2 * plan.redrawn, derived(seed, 4), True)
    judged["edit replace relED"] = _random_edit(replaced, exact, plan)
    recovered = RECOVERED.get(problem.name)
    return judged | ({} if recovered is None else recovered(seen, inferred))


def _new_part(problem: Problem, seed: int) -> Described:
    drawn = problem.draw_parts(torch.ones(1, dtype=torch.int64), Noise(derived(seed, 5), 1))
    return unpad(drawn, problem.schema)[0].dicts()


def _random_edit(edited: Composition, exact: np.ndarray, plan: Plan) -> Judged:
    """exact: (2 n, *shape)."""
    draws = edited.decode(plan.redrawn, noise=True)
    return Judged(rel_ed(exact[: plan.redrawn], draws).measured(), rel_ed_splits(exact, plan.splits))


# -- recovered specifics: RMSE in units of their spread, 1 being no better than guessing the mean ------------------


def _waves(seen: Observation, inferred: Composition) -> dict[str, Judged]:
    """Amplitude and phase of single frequencies, each decoded alone."""
    where = np.flatnonzero(seen.single)
    alone = [recover_phasors(cast(Sines, seen.problem), [seen.parts[i]], inferred.part(int(i))) for i in where]
    amplitude = np.column_stack([found.amplitude[:, 0] for found in alone])
    phase = np.column_stack([found.phase[:, 0] for found in alone])
    true_amplitude, true_phase = (seen.specifics[:, where, i] for i in (0, 1))
    return {
        "recovered amplitude": _in_spreads(specifics_error(amplitude, true_amplitude)),
        "recovered phase": _in_spreads(specifics_error(phase, true_phase, period=2 * math.pi)),
    }


def _sites(seen: Observation, inferred: Composition) -> dict[str, Judged]:
    """Sharpness of the sites that x tells, by least squares on the decoded whole."""
    found = recover_sharpness(cast(Colours, seen.problem), seen.parts, inferred.decode())
    if not found.identified.any():
        return {}
    error = specifics_error(found.value, seen.specifics[..., 0], found.identified)
    return {"recovered sharpness": _in_spreads(error)}


def _in_spreads(found: Recovery) -> Judged:
    error = found.rmse
    return Judged(Measured(error.value / found.spread, error.se / found.spread, error.n))


RECOVERED = {"sines": _waves, "colours": _sites}
