"""Rejection: draw x ~ p(x | parts), keep those with phi(x) >= t.

The k-th of them comes at draw T; (k - 1) / (T - 1) is an unbiased estimate of p (Haldane 1945), with relative
variance close to (1 - p) / k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from compvae.checks import allocate
from compvae.errors import TailError
from compvae.tails.base import Goal, Scorer, TailSample, refuse_ties

__all__ = ["rejection"]

HITS = 200  # behind every estimate, however few wholes are asked for: a relative deviation of 7%
FIRST, CHUNK = 256, 4096  # draws at a time: few at first, for a model whose wholes take long
_PILOT = 1  # fold of the draws that place the threshold


def rejection(scorer: Scorer, goal: Goal, n: int) -> TailSample:
    """n independent wholes of the tail, in the order in which ``sample`` gives them."""
    if goal.threshold is not None:
        x, probability, last = _keep(scorer, goal.threshold, n, max(n, HITS))
        # 1/T keeps three deviations at the rule of three where all draws are hits
        cv = math.sqrt((1 - probability + 1 / last) / max(n, HITS))
        return _sample(scorer, x, probability, cv, goal.threshold, None)
    assert goal.probability is not None
    threshold, interval = _place(scorer, goal.probability, n)
    x, _, _ = _keep(scorer, threshold, n, n)  # the probability is known
    cv = math.sqrt((1 - goal.probability) / HITS)
    return _sample(scorer, x, goal.probability, cv, threshold, interval)


def _sample(
    scorer: Scorer, x: np.ndarray, probability: float, cv: float, threshold: float, interval: tuple[float, float] | None
) -> TailSample:
    n = len(x)
    weights = np.full(n, 1 / n)
    return TailSample(
        x, weights, probability, cv, float(n), threshold, interval, "rejection", scorer.seed, scorer.draws
    )


def _budget(n: int) -> int:
    """Draws that are made at most: twice what n hits of probability 1e-2 take, and a million at least."""
    return 1_000_000 + 200 * n


def _keep(scorer: Scorer, threshold: float, n: int, needed: int) -> tuple[np.ndarray, float, int]:
    """The first n hits, (n, *shape); the probability by the first ``needed`` of them, and the draw of the last."""
    out, budget = allocate(n, *scorer.simulator.shape), _budget(n)
    hits, highest = 0, -math.inf
    for start, stop in _chunks(budget):
        states = scorer.prior(start, stop)
        rows = (states.score >= threshold).nonzero()[:, 0]
        kept = states.x[rows[: max(0, n - hits)]]
        out[hits : hits + len(kept)] = kept.numpy()
        if hits + len(rows) >= needed:
            last = start + int(rows[needed - hits - 1]) + 1
            return out, (needed - 1) / max(last - 1, 1), last
        hits, highest = hits + len(rows), max(highest, float(states.score.max()))
    raise TailError(_too_few(hits, needed, budget, threshold, highest))


def _chunks(budget: int) -> Iterator[tuple[int, int]]:
    """Where chunks of draws start and stop; they grow."""
    start, height = 0, FIRST
    while start < budget:
        stop = min(start + height, budget)
        yield start, stop
        start, height = stop, min(2 * height, CHUNK)


def _too_few(hits: int, needed: int, draws: int, threshold: float, highest: float) -> str:
    if not hits:
        return (
            f"the event never reached {threshold:g} in {draws:,} draws, whose highest value is {highest:g}: its "
            f"probability is below {3 / draws:.1g} (95%); lower the threshold, or use method='subset'"
        )
    return (
        f"only {hits} of {draws:,} draws reached {threshold:g} (probability about {hits / draws:.2g}) where {needed} "
        "are needed; use method='subset', or ask for fewer wholes"
    )


def _place(scorer: Scorer, probability: float, n: int) -> tuple[float, tuple[float, float]]:
    """The threshold with HITS of HITS / p draws above it, and its interval by order statistics, 2 deviations wide."""
    draws = math.ceil(HITS / probability)
    if draws > _budget(n):
        raise TailError(
            f"rejection needs {draws:.3g} draws to place a threshold of probability {probability:g}, its limit is "
            f"{_budget(n):,}; use method='subset'"
        )
    chunks = range(0, draws, CHUNK)
    scores = torch.cat([scorer.prior(s, min(s + CHUNK, draws), _PILOT).score for s in chunks])
    ordered = scores.sort(descending=True).values
    threshold = float(ordered[HITS - 1])
    refuse_ties(float((scores >= threshold).double().mean()), threshold, probability)
    width = 2 * math.sqrt(HITS * (1 - probability))
    low, high = (min(max(math.ceil(HITS + side * width), 1), draws) for side in (1, -1))
    return threshold, (float(ordered[low - 1]), float(ordered[high - 1]))
