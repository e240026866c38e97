"""Wholes whose hidden specifics and factors are known, so that every edit has an exact answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from compvae.batch import unpad
from compvae.evaluation.plan import derived
from compvae.noise import Noise
from compvae.problems import Problem

__all__ = ["Described", "Observation", "shown_parts"]

Described = list[dict[str, str | float]]

SHOWN = 4  # parts, where a problem draws them
SITES = (
    ("red", -0.5, -0.5), ("green", 0.5, -0.4), ("blue", 0.0, 0.15), ("white", -0.45, 0.6), ("black", 0.6, 0.6),
)  # fmt: skip


class Observation:
    """Wholes of one composition with all that is hidden in them.

    parts: one dict each.  specifics: (m, K, S).  factors: (m,) each.  x: (m, *shape).
    """

    def __init__(self, problem: Problem, parts: object, wholes: int, seed: int) -> None:
        composition = problem.schema.parse(parts)
        self.problem, self.seed = problem, seed
        self.parts: Described = composition.dicts()
        self.kinds = np.array([part.kind for part in composition.listed()])
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

    @property
    def others(self) -> list[int]:
        """Places of the parts but the chosen one."""
        return [index for index in range(len(self.parts)) if index != self.chosen]

    def rest(self) -> Described:
        """The parts but the chosen one."""
        return [self.parts[index] for index in self.others]

    def only(self, kept: Sequence[int]) -> np.ndarray:
        """Exactly what x would be with these parts alone, (m, *shape).  kept: their places."""
        return self.problem.whole([self.parts[i] for i in kept], self.specifics[:, list(kept)], self.factors)

    def without(self) -> np.ndarray:
        """Exactly what x would be without the chosen part, (m, *shape)."""
        return self.only(self.others)

    def first_with(self, new: Described, n: int, seed: int, instead: bool) -> np.ndarray:
        """Exactly what the first whole could be with a new part, added or instead of the chosen one, (n, *shape)."""
        held = self.specifics[:1, self.others] if instead else self.specifics[:1]
        hidden = np.concatenate([np.repeat(held, n, 0), self.problem.specifics(new, n, seed)], 1)
        factors = {name: np.repeat(value[:1], n) for name, value in self.factors.items()}
        return self.problem.whole((self.rest() if instead else self.parts) + new, hidden, factors)


def shown_parts(problem: Problem) -> Described:
    """A few different parts, for figures and for properties that one composition shows."""
    if problem.name == "colours":
        return [{"colour": colour, "x": x, "y": y} for colour, x, y in SITES]
    if problem.schema.countable and len(problem.schema.attributes) == 1:
        names = problem.schema.categories
        return [{problem.schema.attributes[0].name: name} for name in (names[::2] if len(names) > 3 else names)[:4]]
    size = min(SHOWN, problem.max_parts)
    return unpad(problem.draw_parts(torch.tensor([size]), Noise(0, 1)), problem.schema)[0].dicts()
