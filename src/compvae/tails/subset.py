"""Subset simulation: P(phi >= t) = prod_l P(phi >= t_l | phi >= t_{l-1}), each factor about 0.1  (Au & Beck 2001).

Each level is filled by Markov chains that start at the states of the level before which are above its threshold.
Their moves are those of pCN, u' = sqrt(1 - b^2) u + b xi with xi ~ N(0, I), which leave N(0, I) unchanged in any
dimension; u' is kept if phi(x(u')) >= t_l.

Error.  A state of the first level and all that descends from it are one independent experiment.  Were the thresholds
fixed, the estimate would be a mean of N independent numbers, proportional to h_e, the hits that descend from state e;
hence with H hits

    cv^2 = sum_e (h_e / H)^2 - 1 / N.

It holds the correlation within chains, between chains with a common ancestor, and between levels, which the product
of the levels' own errors (Au & Beck's gamma) leaves out.  Thresholds taken at quantiles have the same asymptotic
variance (Cerou & Guyader 2016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from compvae.checks import allocate
from compvae.errors import TailError
from compvae.noise import Noise
from compvae.tails.base import Goal, Scorer, States, TailSample, refuse_ties

__all__ = ["POPULATION", "Climb", "climb", "effective_number", "populate", "subset"]

POPULATION = 2560  # N, states of a level
LEVEL = 0.1  # share of them that the next level starts from: 256, one tile
THIN = 3  # moves between two states of a chain that enter a level
REFRESH = 10  # moves between the last level and a whole that is handed out, and between two of one chain
ACCEPTED = 0.44  # share of moves to be kept, which the step size is steered to (Papaioannou et al. 2015)
SMALLEST_LAST = 0.03  # smallest factor of the last level where the threshold is placed by a probability
MOST_LEVELS = 10
MOST_CV, FEWEST_ANCESTORS = 0.5, 10  # beyond these the estimate is refused


@dataclass(frozen=True)
class Climb:
    """The last level of the climb.

    hits: states with phi >= threshold.  scores: of the whole level, (N,).  level: how many were climbed.
    step: b of pCN.
    """

    hits: States
    scores: Tensor
    threshold: float
    probability: float
    level: int
    step: float

    @property
    def cv(self) -> float:
        """sqrt(sum_e (h_e / H)^2 - 1/N)."""
        return math.sqrt(max(0.0, 1 / effective_number(self.hits.ancestor) - 1 / POPULATION))

    @property
    def ancestors(self) -> int:
        """First states that have descendants among the hits."""
        return len(self.hits.ancestor.unique())

    def interval(self) -> tuple[float, float]:
        """Thresholds at which this level gives the probability times 1 + 2 cv and 1 - 2 cv."""
        ordered = self.scores.sort(descending=True).values
        counts = (len(self.hits) * (1 + side * 2 * self.cv) for side in (1, -1))
        low, high = (float(ordered[min(max(math.ceil(c), 1), len(ordered)) - 1]) for c in counts)
        return low, high


def subset(scorer: Scorer, goal: Goal, n: int) -> TailSample:
    """n wholes of the tail, each REFRESH moves away from the level that the estimate comes from."""
    top = climb(scorer, goal)
    x, ancestor = _refreshed(scorer, top, n)
    return TailSample(
        x=x,
        weights=np.full(n, 1 / n),
        probability=top.probability,
        cv=top.cv,
        ess=effective_number(ancestor),
        threshold=top.threshold,
        threshold_interval=None if goal.probability is None else top.interval(),
        method="subset",
        seed=scorer.seed,
        draws=scorer.draws,
        ancestors=top.ancestors,
    )


def climb(scorer: Scorer, goal: Goal) -> Climb:
    """Levels until the goal is reached; refused at the first whose estimate is poor."""
    states, probability, floor, step = scorer.prior(0, POPULATION), 1.0, -math.inf, 0.6
    for level in range(MOST_LEVELS):
        threshold, last = _next(states.score, probability, goal)
        if threshold <= floor:
            raise TailError(_stuck(floor, states.score, probability))
        hits = states.at(states.score >= threshold)
        probability *= len(hits) / POPULATION
        here = _sound(Climb(hits, states.score, threshold, probability, level, step))
        if last:
            return _at_goal(here, goal)
        states, step = populate(scorer, hits, threshold, step, level + 1)
        floor = threshold
    aim = f"{goal.threshold:g}" if goal.probability is None else f"a probability of {goal.probability:g}"
    raise TailError(
        f"the event did not reach {aim} in {MOST_LEVELS} levels: it exceeds {floor:g} with probability "
        f"{probability:.1g} and the highest value seen is {float(states.score.max()):g}; ask for a less extreme tail"
    )


def _at_goal(top: Climb, goal: Goal) -> Climb:
    """The last level; asked for a probability, its threshold was placed to have just that."""
    if goal.probability is None:
        return top
    refuse_ties(top.probability, top.threshold, goal.probability)
    return replace(top, probability=goal.probability)


def _next(score: Tensor, probability: float, goal: Goal) -> tuple[float, bool]:
    """Threshold of the next level, and whether it is the goal.  score: (N,)."""
    ordered = score.sort(descending=True).values
    usual = float(ordered[round(LEVEL * len(ordered)) - 1])
    if goal.threshold is not None:
        return min(usual, goal.threshold), usual >= goal.threshold
    assert goal.probability is not None
    remaining = goal.probability / probability
    if remaining < SMALLEST_LAST:
        return usual, False
    return float(ordered[max(1, round(remaining * len(ordered))) - 1]), True


def populate(scorer: Scorer, seeds: States, floor: float, step: float, level: int) -> tuple[States, float]:
    """N states of p(u | phi >= floor) by one chain from each seed, and the step size at the end."""
    states, kept = seeds, []
    for move in range(THIN * math.ceil(POPULATION / len(seeds))):
        states, accepted = _move(scorer, states, floor, step, level, move)
        # by the mean over all chains, and more and more slowly: what one chain did hardly matters for its next move
        step = min(1.0, max(0.01, step * math.exp((accepted - ACCEPTED) / math.sqrt(move + 1))))
        if move % THIN == THIN - 1:
            kept.append(states)
    return States.cat(kept).at(slice(POPULATION)), step


def _move(scorer: Scorer, states: States, floor: float, step: float, *fold: int) -> tuple[States, float]:
    """One pCN move of each chain, and the share that was kept."""
    xi = scorer.white(torch.arange(len(states)), *fold)
    proposed = scorer.at(math.sqrt(1 - step**2) * states.u + step * xi, states.ancestor)
    accept = proposed.score >= floor
    return states.replaced(accept, proposed), float(accept.double().mean())


def _refreshed(scorer: Scorer, top: Climb, n: int) -> tuple[np.ndarray, Tensor]:
    """n wholes from chains that start at the hits, (n, *shape), and their ancestors, (n,)."""
    order = Noise(scorer.seed, 1).permutation("order", len(top.hits))
    states = top.hits.at(order[:n])
    out, ancestor = allocate(n, *scorer.simulator.shape), torch.empty(n, dtype=torch.int64)
    for start in range(0, n, len(states)):
        for move in range(REFRESH):
            states, _ = _move(scorer, states, top.threshold, top.step, top.level + 1, start, move)
        rows = slice(start, min(start + len(states), n))
        out[rows], ancestor[rows] = states.x[: n - start].numpy(), states.ancestor[: n - start]
    return out, ancestor


def effective_number(ancestor: Tensor) -> float:
    """1 / sum_e (h_e / H)^2: how many lineages of equal size the states are worth.  ancestor: (H,) int64."""
    share = ancestor.unique(return_counts=True)[1].double() / len(ancestor)
    return float(1 / (share**2).sum())


def _sound(top: Climb) -> Climb:
    if top.cv > MOST_CV or top.ancestors < FEWEST_ANCESTORS:
        raise TailError(
            f"subset simulation gives {top.threshold:g} a probability of about {top.probability:.1g} with a relative "
            f"deviation of {top.cv:.2f} from {top.ancestors} independent ancestors (allowed: {MOST_CV} and at least "
            f"{FEWEST_ANCESTORS}); ask for a less extreme tail"
        )
    return top


def _stuck(floor: float, score: Tensor, probability: float) -> str:
    share = float((score == floor).double().mean())
    return (
        f"the event is exactly {floor:g} in {share:.0%} of the draws that reach it (probability {probability:.2g}), so "
        "that no level lies above it; give a threshold of at most that value, or an event that varies"
    )
