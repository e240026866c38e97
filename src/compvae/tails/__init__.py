"""Tail-biased sampling: wholes from p(x | parts, phi(x) >= t), with the probability of it (theory, section 8).

* rejection: independent, exact; for p >= 1e-2.
* subset simulation with pCN moves: any p, any shape of the tail.
* importance sampling by shifted Gaussians: independent, weighted; where a few shifts cover the tail.
"""

from __future__ import annotations

from collections.abc import Callable

from compvae.checks import at_least_one
from compvae.errors import DataError
from compvae.tails.base import Goal, Scorer, TailSample
from compvae.tails.events import EVENTS, Event
from compvae.tails.importance import importance
from compvae.tails.rejection import rejection
from compvae.tails.simulator import Simulator, Whitened
from compvae.tails.subset import POPULATION, subset

__all__ = ["EVENTS", "METHODS", "Event", "Goal", "Simulator", "TailSample", "Whitened", "tail"]

COMMON = 1e-2  # probability from which on rejection is used

METHODS: dict[str, Callable[[Scorer, Goal, int], TailSample]] = {
    "rejection": rejection,
    "subset": subset,
    "importance": importance,
}


def tail(
    simulator: Simulator, event: str | Event, goal: Goal, n: int = 200, seed: int = 0, method: str = "auto"
) -> TailSample:
    """n wholes with phi(x) >= t.  The same seed gives the same bytes; fewer wholes are the first of more.

    method: "rejection", "subset", "importance", or "auto": rejection where p >= 1e-2, subset simulation below.
    """
    if method not in ("auto", *METHODS):
        raise DataError(f"method must be one of auto, {', '.join(METHODS)}, got {method!r}")
    n = at_least_one(n, "n")
    scorer = Scorer(simulator, event, seed)
    if method == "auto":
        method = "rejection" if _pilot(scorer, goal) >= COMMON else "subset"
    return METHODS[method](scorer, goal, n)


def _pilot(scorer: Scorer, goal: Goal) -> float:
    """The probability of the goal: as asked for, or roughly, from as many draws as subset simulation starts with."""
    if goal.threshold is None:
        assert goal.probability is not None
        return goal.probability
    return float((scorer.prior(0, POPULATION).score >= goal.threshold).double().mean())
