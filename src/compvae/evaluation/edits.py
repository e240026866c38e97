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
from compvae.compose import Model
from compvae.composition import Composition
from compvae.evaluation.plan import Plan, derived
from compvae.evaluation.rows import Judged
from compvae.measures import (
    Measured,
    Recovery,
    measured_edit_ratio,
    recover_phasors,
    recover_sharpness,
    rel_ed,
    rel_ed_splits,
    specifics_error,
)
from compvae.noise import Noise
from compvae.parts import Multiset
from compvae.problems import Problem
from compvae.problems.colours import Colours
from compvae.problems.sines import Sines

__all__ = ["Observation", "judge_edits"]


class Observation:
    """Wholes of one composition whose hidden specifics and factors are known.

    parts: one dict each.  specifics: (m, K, S).  factors: (m,) each.  x: (m, *shape).
    """

    def __init__(self, problem: Problem, parts: Multiset, wholes: int, seed: int) -> None:
        self.problem, self.parts, self.seed = problem, parts.dicts(), seed
        self.kinds = np.array([part.kind for part in parts.listed()])
        self.specifics = problem.specifics(self.parts, wholes, seed)
        self.factors = problem.factors(wholes, seed)
        self.x = problem.whole(self.parts, self.specifics, self.factors)

    @property
    def single(self) -> np.ndarray:
        """Parts whose kind stands once; all, where parts have places, (K,) bool."""
        if not self.problem.schema.countable:
            return np.ones(len(self.kinds), bool)
        return np.asarray(np.bincount(self.kinds)[self.kinds] == 1)

    @property
    def chosen(self) -> int:
        """The part that is taken away: one of the single ones."""
        which = np.flatnonzero(self.single)
        return int(which[derived(self.seed, 1) % len(which)])

    def rest(self) -> list[dict[str, str | float]]:
        """The parts but the chosen one."""
        return [part for index, part in enumerate(self.parts) if index != self.chosen]

    def without(self) -> np.ndarray:
        """Exactly what x would be without the chosen part, (m, *shape)."""
        return self.problem.whole(self.rest(), np.delete(self.specifics, self.chosen, 1), self.factors)

    def first_with(self, new: list[dict[str, str | float]], n: int, seed: int, instead: bool) -> np.ndarray:
        """Exactly what the first whole could be with a new part, added or instead of the chosen one, (n, *shape)."""
        held = np.delete(self.specifics, self.chosen, 1) if instead else self.specifics
        fresh = self.problem.specifics(new, n, seed)
        hidden = np.concatenate([np.repeat(held[:1], n, 0), fresh], 1)
        factors = {name: np.repeat(value[:1], n) for name, value in self.factors.items()}
        return self.problem.whole((self.rest() if instead else self.parts) + new, hidden, factors)


def judge_edits(model: Model, problem: Problem, parts: Multiset, plan: Plan, seed: int) -> dict[str, Judged]:
    """Every measure of edits and recovered specifics by name, on fresh wholes of one composition."""
    seen = Observation(problem, parts, plan.wholes, seed)
    inferred = model.infer(seen.x, seen.parts)
    resampled = problem.truth(seen.rest(), plan.wholes, derived(seed, 2))
    edited = inferred.remove([seen.parts[seen.chosen]]).decode()
    judged = {"edit remove": Judged(measured_edit_ratio(edited, seen.without(), resampled))}
    one, new = model.infer(seen.x[0], seen.parts), _new_part(problem, seed)
    judged["edit add relED"] = _random_edit(
        one.add(new), seen.first_with(new, 2 * plan.n, derived(seed, 3), False), plan
    )
    replaced = one.replace([seen.parts[seen.chosen]], new)
    exact = seen.first_with(new, 2 * plan.n, derived(seed, 4), True)
    judged["edit replace relED"] = _random_edit(replaced, exact, plan)
    recovered = RECOVERED.get(problem.name)
    return judged | ({} if recovered is None else recovered(seen, inferred))


def _new_part(problem: Problem, seed: int) -> list[dict[str, str | float]]:
    drawn = problem.draw_parts(torch.ones(1, dtype=torch.int64), Noise(derived(seed, 5), 1))
    return unpad(drawn, problem.schema)[0].dicts()


def _random_edit(edited: Composition, exact: np.ndarray, plan: Plan) -> Judged:
    """exact: (2 n, *shape)."""
    draws = edited.decode(plan.n, noise=True)
    return Judged(rel_ed(exact[: plan.n], draws).measured(), rel_ed_splits(exact, plan.splits))


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
