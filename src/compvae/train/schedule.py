"""Schedules: pure functions of the step.

The paper's (section 4.3): K from 2, one more every 3,000 steps; Adam's rate halved every 20,000 steps down to 1e-6.
Ours, for a fixed budget: K grows over the first 30%, the rate follows a cosine, the weight of the KL is warmed up.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["RECIPES", "Recipe", "in_phase", "kl_weight", "largest_size", "learning_rate", "recipe_for"]


class Recipe(BaseModel):
    """How a model is trained.

    style: "paper", the paper's schedules; "budget", ours; "flat", ours with all K from the first step on.

    kl_from: weight of the KL at the first step, rising to 1 at ``kl_until`` of the budget.
    m_step_from: share of the budget after which the prior's moments follow the posterior's.
    average: decay of a moving average of weights and prior moments, which then is the model; 0 for none.
    sampled: share of the steps, the last ones, that descend the energy score of samples, for structured models.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    style: Literal["paper", "budget", "flat"] = "budget"
    steps: int = Field(8000, ge=1)
    batch: int = Field(256, ge=1)
    rate: float = Field(2e-3, gt=0)
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = Field(200.0, gt=0)
    kl_from: float = Field(1.0, gt=0, le=1)
    kl_until: float = Field(0.5, gt=0, le=1)
    m_step_from: float = Field(0.0, ge=0, le=1)
    average: float = Field(0.0, ge=0, lt=1)
    sampled: float = Field(0.0, ge=0, lt=1)

    @property
    def bound_steps(self) -> int:
        """Steps that climb the bound; those after them descend the energy score of samples (sampled.py)."""
        return self.steps - int(self.sampled * self.steps)


RECIPES: dict[tuple[str, str], Recipe] = {
    ("sines", "paper"): Recipe(style="paper", steps=500_000, rate=1e-4, betas=(0.5, 0.9)),
    ("colours", "paper"): Recipe(style="paper", steps=500_000, rate=1e-4, betas=(0.5, 0.9)),
    ("sines", "paper-narrow"): Recipe(steps=160_000, batch=64, rate=1e-3, betas=(0.5, 0.9)),
    ("colours", "paper-narrow"): Recipe(steps=100_000, batch=64, rate=5e-4, betas=(0.5, 0.9)),
    ("sines", "small"): Recipe(steps=3000, batch=64, rate=1e-2),  # docs/experiments.md, 7
    ("colours", "small"): Recipe(
        steps=3500, batch=32, rate=5e-3, clip=500.0, kl_from=0.02, sampled=4 / 7
    ),  # docs/experiments.md, 8 and 25
    ("households", "small"): Recipe(style="flat", steps=40_000, rate=2e-3, clip=10.0),  # docs/experiments.md, 23
    ("meters", "sums"): Recipe(steps=1000, batch=64, rate=3e-3),
    ("tables", "small"): Recipe(steps=3000, batch=64, rate=3e-3, kl_from=0.02),
    ("tables", "sums"): Recipe(steps=1000, batch=64, rate=3e-3),
    ("places", "small"): Recipe(steps=3000, batch=64, rate=1e-2),
}
TRANSPORT = Recipe(style="flat", steps=15_000, rate=2e-3, clip=10.0)
PLACED_TRANSPORT = Recipe(style="flat", steps=5000, batch=32, rate=2e-3, clip=10.0)


def recipe_for(family: str, preset: str) -> Recipe:
    """The recipe of a preset for problems of this family."""
    if preset == "transport":
        return PLACED_TRANSPORT if family in ("places", "colours") else TRANSPORT
    return RECIPES[family, preset]


def largest_size(recipe: Recipe, step: int, top: int) -> int:
    """K drawn at most at this step, of ``top`` in the end."""
    if recipe.style == "paper":
        return min(top, 2 + step // 3000)
    if recipe.style == "flat":
        return top
    return min(top, 2 + int(step / recipe.bound_steps / 0.3 * (top - 2)))


def in_phase(recipe: Recipe, step: int, first: int) -> tuple[Recipe, int]:
    """The recipe of the phase that a step is in, and the step counted from its beginning.

    first: steps of the first phase, 0 where there is one phase alone.
    """
    if not first:
        return recipe, step
    if step < first:
        return recipe.model_copy(update={"steps": first}), step
    return recipe.model_copy(update={"steps": recipe.steps - first}), step - first


def learning_rate(recipe: Recipe, step: int) -> float:
    """Adam's rate at this step."""
    if recipe.style == "paper":
        return max(1e-6, recipe.rate * 0.5 ** (step // 20_000))
    warm = min(1.0, (step + 1) / min(200, max(1, recipe.steps // 5)))  # a short run has no time for a long one
    return recipe.rate * warm * (0.495 * (1 + math.cos(math.pi * step / recipe.steps)) + 0.01)


def kl_weight(recipe: Recipe, step: int) -> float:
    """Weight of the KL in what training climbs."""
    return min(1.0, recipe.kl_from + (1 - recipe.kl_from) * step / (recipe.kl_until * recipe.bound_steps))
