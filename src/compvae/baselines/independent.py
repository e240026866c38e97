"""x = sum_i x_i, x_i ~ p(x | {l_i}) of a model, each part alone: the whole as the sum of its parts.

Images are averaged, sum_i x_i / K.  What the paper argues against (section 4.1): parts saturate, compete and share.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from compvae.baselines.base import Budget, Context, Sampler
from compvae.checks import allocate, at_least_one
from compvae.noise import Noise
from compvae.parts import Multiset
from compvae.problems import Problem

__all__ = ["Independent"]


class Independent:
    """Parts generated alone by a given model, then put together.  Nothing is fitted."""

    name: ClassVar[str] = "independent"

    def __init__(self, problem: Problem, model: Sampler) -> None:
        self.problem, self.model = problem, model

    def fit(self, budget: Budget) -> Self:
        """Nothing to learn."""
        return self

    def sample(self, parts: object, n: int, seed: int = 0, context: Context | None = None) -> np.ndarray:
        """n wholes of one composition, float32 (n, *shape)."""
        composition = self.problem.schema.parse(parts).canonical()
        total = np.zeros_like(allocate(at_least_one(n, "n"), *self.problem.shape), np.float64)
        seeds = Noise(seed, 1).integers("part", 0, 2**31 - 2, composition.size)[0].tolist()
        for part, own in zip(composition.listed(), seeds, strict=True):
            total += self.model.sample(Multiset(composition.schema, ((part, 1),)), n, own, context)
        return (total if self.problem.extensive else total / composition.size).astype(np.float32)
