"""An observed whole whose truth is known, and what it would exactly be with other parts.

x = whole({l_i}, {s_i}, f): the counterfactual holds the factors f and the specifics s_i of the parts that stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from compvae.parts import Multiset
from compvae.problems import Problem

__all__ = ["Exact"]

REDRAWN = 8  # counterfactuals where parts were added: those are drawn afresh


class Exact:
    """One whole of these parts, with what is hidden in it."""

    def __init__(self, problem: Problem, parts: Multiset, seed: int, context: Mapping[str, Any] | None) -> None:
        self.problem, self.seed = problem, seed
        self.listed, self.parts = parts.listed(), parts.dicts()
        self.specifics = problem.specifics(self.parts, 1, seed)
        self.factors = problem.factors(1, seed, context)
        self.x = problem.whole(self.parts, self.specifics, self.factors)[0]

    def with_parts(self, untouched: Multiset, now: Multiset) -> np.ndarray:
        """(m, *shape): m = 1 where parts only went, of alike ones the last; REDRAWN where others came."""
        stay, added = self._stay(untouched), _difference(now, untouched)
        parts, held = [self.parts[place] for place in stay], self.specifics[:, stay]
        if not added.runs:
            return self.problem.whole(parts, held, self.factors)
        fresh = self.problem.specifics(added.dicts(), REDRAWN, self.seed + 1)
        hidden = np.concatenate([np.repeat(held, REDRAWN, 0), fresh], 1)
        factors = {name: np.repeat(value, REDRAWN) for name, value in self.factors.items()}
        return self.problem.whole(parts + added.dicts(), hidden, factors)

    def _stay(self, untouched: Multiset) -> list[int]:
        left, places = Counter(untouched.listed()), []
        for place, part in enumerate(self.listed):
            if left[part]:
                left[part] -= 1
                places.append(place)
        return places


def _difference(now: Multiset, before: Multiset) -> Multiset:
    """The parts that are there now and were not before."""
    counts = Counter(dict(now.canonical().runs))
    counts.subtract(dict(before.canonical().runs))
    return Multiset(now.schema, tuple((part, count) for part, count in sorted(counts.items()) if count > 0))
