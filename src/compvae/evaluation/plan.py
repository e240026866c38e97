"""What is measured: at which K, on how many compositions, with how many samples; compositions no training has seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from compvae.batch import unpad
from compvae.checks import at_least_one
from compvae.errors import ConfigError
from compvae.noise import Noise
from compvae.parts import Multiset
from compvae.problems import Problem
from compvae.tails.events import EVENTS, Event

__all__ = ["Plan", "compositions", "derived", "plan_for", "power"]

EVALUATED = -2  # the fold of compositions that are judged: no training step has this number, nor the held-out check
CANDIDATES = 64  # compositions drawn for each that is wanted
SIZED = 512  # wholes that show how few parts a registered problem draws


@dataclass(frozen=True)
class Plan:
    """How a problem is judged.

    sizes: K of generated wholes.  edited: K of wholes that are edited.  compositions: for each K.  n: samples of each.
    recovered: how many of them are solved for what is hidden in them.  splits: pairs of true samples for a floor.
    wholes: edited, for each composition.  redrawn: draws of one whole to which a part is added.
    statistic: of which the exceedance is measured.  different: kinds at least.
    """

    sizes: tuple[int, ...]
    edited: tuple[int, ...]
    statistic: Event
    recovered: int
    different: int = 1
    compositions: int = 8
    n: int = 1000
    splits: int = 100
    wholes: int = 32
    redrawn: int = 400

    def quick(self, trained: int) -> Plan:
        """Little of everything: for tests, and to see whether all is in place.  trained: largest K of training."""
        few = (self.sizes[0], self.sizes[:3][-1], *[size for size in self.sizes if size > trained][:1])
        little = replace(self, compositions=2, n=60, recovered=30, splits=40, wholes=4, redrawn=60)
        return replace(little, sizes=tuple(dict.fromkeys(few)), edited=self.edited[1:2] or self.edited)


def power(x: np.ndarray) -> np.ndarray:
    """Mean of x^2: the peak of a saturated curve is K, whatever the curve.  x: (n, T) -> (n,)."""
    return np.asarray(np.square(x, dtype=np.float64).mean(1))


PLANS = {
    "sines": Plan((1, 2, 4, 8, 16, 30, 100, 1000), (2, 4, 8), power, 400),
    "colours": Plan((2, 3, 4, 8, 12, 16), (3, 4, 8), EVENTS["energy"], 100, different=2, wholes=16, redrawn=200),
    "households": Plan((5, 20, 50, 100, 1000), (5, 20), EVENTS["peak"], 400),
}


def plan_for(
    problem: Problem,
    quick: bool = False,
    n: int | None = None,
    compositions: int | None = None,
    sizes: tuple[int, ...] | None = None,
) -> Plan:
    """The plan of a problem, with what was asked for instead of its defaults."""
    plan = PLANS[problem.name] if problem.name in PLANS else _plan_of_any(problem)
    plan = plan.quick(problem.max_parts) if quick else plan
    if n is not None:
        plan = replace(plan, n=at_least_one(n, "n"), recovered=min(plan.recovered, n))
    if compositions is not None:
        plan = replace(plan, compositions=at_least_one(compositions, "compositions"))
    if sizes is not None:
        plan = replace(plan, sizes=tuple(at_least_one(size, "K") for size in sizes))
    if plan.recovered < 10:
        raise ConfigError(f"n must be at least 10 to judge samples by, got {plan.n}")
    if min(plan.sizes) < plan.different:
        raise ConfigError(
            f"{problem.name} is judged on wholes of at least {plan.different} parts, not {min(plan.sizes)}"
        )
    return plan


def _plan_of_any(problem: Problem) -> Plan:
    """A plan for a problem that was registered: K from the smallest it draws to twice its training range."""
    drawn = problem.draw(problem.max_parts, Noise(0, SIZED, EVALUATED)).parts.sizes
    least, most = int(drawn.min()), problem.max_parts
    sizes = sorted({least, min(least + 1, most), (least + most) // 2, most, 2 * most})
    several = not problem.schema.countable or problem.schema.n_kinds > 1  # else no kind stands once beside others
    edited = sorted({size for size in (2, 3, 5, most) if least < size <= most}) if several else []
    return Plan(tuple(sizes), tuple(edited[:3]), EVENTS["peak"], 400)


def derived(seed: int, *keys: int) -> int:
    """A seed of its own for each purpose."""
    return int(Noise(seed, 1, EVALUATED, *keys).integers("seed", 0, 2**31 - 2))


def compositions(problem: Problem, size: int, plan: Plan, seed: int, single: bool = False) -> list[Multiset]:
    """Compositions of that size, drawn as the problem draws them, the first that have what is needed.

    single: some kind stands once, so that taking that part away has one exact answer.
    """
    rows = CANDIDATES * plan.compositions
    drawn = problem.draw_parts(torch.full((rows,), size), Noise(seed, rows, EVALUATED, size))
    found = [parts for parts in unpad(drawn, problem.schema) if _suits(parts, plan, single)][: plan.compositions]
    if len(found) < plan.compositions:
        raise ConfigError(f"{problem.name} hardly has compositions of {size} parts as they are needed here")
    return found


def _suits(parts: Multiset, plan: Plan, single: bool) -> bool:
    exact = not single or not parts.schema.countable or 1 in parts.counts
    return exact and sum(count > 0 for count in parts.counts) >= plan.different
