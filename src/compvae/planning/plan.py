"""A plan: all that a planner asks about one composition, from one set of draws.

Monte-Carlo errors are of the draws; how far the model is from the world is another matter (docs/planning.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compvae.errors import DataError, TailError
from compvae.measures.measured import Measured
from compvae.model import Model
from compvae.parts import Multiset
from compvae.planning.changes import Change, Effect, effect, on_fresh_days, on_observed_day
from compvae.planning.curves import Duration, Fan, duration, fan
from compvae.planning.daily import Peaks, daily_energy, peaks
from compvae.planning.diversity import Diversity, after_diversity
from compvae.planning.exceeding import Chance, by_counting, chance_of_exceeding
from compvae.planning.quantities import LEAST
from compvae.planning.scales import Scale, scale_of
from compvae.tails import TailSample

__all__ = ["Changed", "Plan", "Question", "make_plan"]

FOR_DIVERSITY = 2000  # draws at each number of homes, at most
OF_A_DAY = 1000  # draws of an observed day, at most
WORST = 0.99  # quantile of the peak from which on a day is among the worst
WORST_DAYS = 20


@dataclass(frozen=True)
class Question:
    """What is asked.  replace, by: parts to take away and to put in, both or neither.  observed: a day, (T,)."""

    parts: Multiset
    context: Mapping[str, object] | None = None
    rating: float | None = None
    replace: Multiset | None = None
    by: Multiset | None = None
    observed: np.ndarray | None = None
    n: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.replace is None) != (self.by is None):
            raise DataError("a replacement names both what goes and what comes: replace and by")
        if self.observed is not None and self.replace is None:
            raise DataError("an observed day is there to be changed: name what to replace, and by what")
        if self.n < LEAST:
            raise DataError(f"a plan needs at least {LEAST} draws for its quantiles, got n = {self.n}")


@dataclass(frozen=True)
class Changed:
    """A replacement: the draws, what it does, the peaks after it and their chance to exceed the rating."""

    change: Change
    effect: Effect
    peaks: Peaks
    chance: Chance | None


@dataclass(frozen=True)
class Plan:
    """The answers.  x: the draws, (n, T).  worst: days of the highest 1% of peaks, or why there are none.

    chance: of exceeding the rating, None where none is asked for.  fresh, observed: a replacement on fresh days and on
    the observed one, None where none is asked for.
    """

    question: Question
    scale: Scale
    x: np.ndarray
    fan: Fan
    duration: Duration
    peaks: Peaks
    energy: Measured
    diversity: list[Diversity]
    chance: Chance | None
    worst: TailSample | str
    fresh: Changed | None
    observed: Changed | None


def make_plan(model: Model, question: Question) -> Plan:
    """Draw, and answer."""
    scale, asked = scale_of(model), question
    fresh = _fresh(model, asked, scale)
    x = fresh.change.before if fresh else model.sample(asked.parts, asked.n, asked.seed, asked.context)
    found = peaks(x)
    return Plan(
        question=asked,
        scale=scale,
        x=x,
        fan=fan(x),
        duration=duration(x, scale.step),
        peaks=found,
        energy=daily_energy(x, scale.step),
        diversity=after_diversity(model, asked.parts, min(asked.n, FOR_DIVERSITY), asked.seed, asked.context),
        chance=_chance(model, asked, asked.parts, found.values),
        worst=_worst(model, asked),
        fresh=fresh,
        observed=_observed(model, asked, scale),
    )


def _chance(model: Model, asked: Question, parts: Multiset, values: np.ndarray) -> Chance | None:
    """That a day's peak exceeds the rating.  values: peaks of the days that were drawn, (n,)."""
    if asked.rating is None:
        return None
    return chance_of_exceeding(model, parts, asked.rating, values, asked.seed, asked.context)


def _worst(model: Model, asked: Question) -> TailSample | str:
    try:
        return model.tail(asked.parts, "peak", quantile=WORST, n=WORST_DAYS, seed=asked.seed, context=asked.context)
    except TailError as error:
        return str(error)


def _fresh(model: Model, asked: Question, scale: Scale) -> Changed | None:
    if asked.replace is None or asked.by is None:
        return None
    change = on_fresh_days(model, asked.parts, asked.replace, asked.by, asked.n, asked.seed, asked.context)
    after = peaks(change.after)
    return Changed(change, effect(change, scale.step), after, _chance(model, asked, change.parts, after.values))


def _observed(model: Model, asked: Question, scale: Scale) -> Changed | None:
    """The chance here is that of this one day, by counting alone: a tail sampler draws fresh days."""
    if asked.observed is None or asked.replace is None or asked.by is None:
        return None
    change = on_observed_day(
        model,
        asked.observed,
        asked.parts,
        asked.replace,
        asked.by,
        min(asked.n, OF_A_DAY),
        asked.seed,
        asked.context,
    )
    after = peaks(change.after)
    chance = None if asked.rating is None else by_counting(after.values, asked.rating)
    return Changed(change, effect(change, scale.step), after, chance)
