"""Importance sampling: u ~ q = 0.1 N(0, I) + 0.9 N(mu, I), weights N(u; 0, I) / q(u) where phi >= t.

mu = E[u | phi >= t] minimises the cross-entropy between the tail and N(mu, I).  It is taken from the last level of a
subset simulation, as in Chan & Kroese (2012): levels of reweighted draws would degenerate with the size of u.

A shift sees one direction.  A tail that lies elsewhere as well is missed without a trace in the weights, since nearly
no draw falls there; but the subset simulation has states there.  The second moment of the weights under q is
p E[w | phi >= t], an expectation over those states, and it is large where q is thin: so the error is judged by the
larger of the two estimates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.errors import TailError
from compvae.noise import Noise
from compvae.tails.base import Goal, Scorer, States, TailSample
from compvae.tails.pareto import tail_shape
from compvae.tails.subset import climb, populate

__all__ = ["importance"]

DEFENSIVE = 0.1  # share of draws from the prior; no weight exceeds 1 / DEFENSIVE
HITS = 1000  # behind every estimate, however few wholes are asked for
CHUNK = 4096  # draws at a time
MOST_K, FEWEST = 0.7, 100  # Pareto k and effective number of draws beyond which the sample is refused
_FOLD = -1  # of the draws from q


def importance(scorer: Scorer, goal: Goal, n: int) -> TailSample:
    """n weighted wholes of the tail.  Asked for a quantile, subset simulation places the threshold."""
    top = climb(scorer, goal)
    tail, _ = populate(scorer, top.hits, top.threshold, top.step, top.level + 1)
    shift = _shift(tail)
    drawn = _draw(scorer, shift, top.threshold, n)
    in_tail = float(_log_weights(tail.u, shift).exp().mean())
    found = _Weighed(drawn.weights, drawn.draws, in_tail)
    shape = tail_shape(drawn.weights)
    _refuse_poor(found, shape)
    weights = drawn.weights[:n] / drawn.weights[:n].sum()
    return TailSample(
        x=drawn.x,
        weights=weights,
        probability=found.probability,
        cv=found.cv,
        ess=float(1 / (weights**2).sum()),
        threshold=top.threshold,
        threshold_interval=None if goal.probability is None else top.interval(),
        method="importance",
        seed=scorer.seed,
        draws=scorer.draws,
        ancestors=top.ancestors,
        pareto_k=shape,
    )


@dataclass(frozen=True)
class _Weighed:
    """weights: w of the hits, (H,).  draws: T.  in_tail: E[w | phi >= t], by the subset simulation."""

    weights: np.ndarray
    draws: int
    in_tail: float

    @property
    def probability(self) -> float:
        """sum w / T."""
        return float(self.weights.sum() / self.draws)

    @property
    def effective(self) -> float:
        """The smaller of (sum w)^2 / sum w^2 and T p / E[w | phi >= t]."""
        seen = self.weights.sum() ** 2 / (self.weights**2).sum()
        return float(min(seen, self.draws * self.probability / self.in_tail))

    @property
    def cv(self) -> float:
        """sqrt((E_q[w^2] / p^2 - 1) / T)."""
        return math.sqrt(max(0.0, 1 / self.effective - 1 / self.draws))


@dataclass(frozen=True)
class _Drawn:
    """x: the first n hits, (n, *shape).  weights: of all hits, (H,).  draws: T, up to the last of them."""

    x: np.ndarray
    weights: np.ndarray
    draws: int


def _shift(tail: States) -> Tensor:
    """mu: the mean of u in the tail, (D,), 0 where it cannot be told from 0: noise in many coordinates costs weights.

    Told apart at sqrt(2 ln D) standard errors (Donoho & Johnstone 1994), lineages counting as one observation each.
    """
    mean = tail.u.mean(0)
    lineage = tail.ancestor.unique(return_inverse=True)[1]
    sums = mean.new_zeros(int(lineage.max()) + 1, len(mean)).index_add_(0, lineage, tail.u - mean)
    error = (sums**2).sum(0).sqrt() / len(tail)
    return mean.where(mean.abs() > math.sqrt(2 * math.log(max(2, len(mean)))) * error, 0.0)


def _log_weights(u: Tensor, shift: Tensor) -> Tensor:
    """-ln(0.1 + 0.9 exp(mu.u - |mu|^2 / 2)).  u: (R, D) -> (R,) float64."""
    shift = shift.double()
    ratio = u.double() @ shift - 0.5 * shift @ shift
    return -torch.logaddexp(torch.full_like(ratio, math.log(DEFENSIVE)), math.log1p(-DEFENSIVE) + ratio)


def _draw(scorer: Scorer, shift: Tensor, threshold: float, n: int) -> _Drawn:
    """Draws from q until max(n, HITS) are in the tail."""
    needed, budget, x, weights, hits = max(n, HITS), 100_000 + 20 * n, [], [], 0
    for start in range(0, budget, CHUNK):
        states = _proposed(scorer, shift, torch.arange(start, start + CHUNK))
        rows = (states.score >= threshold).nonzero()[: needed - hits, 0]
        x.append(states.x[rows[: max(0, n - hits)]])
        weights.append(_log_weights(states.u[rows], shift).exp())
        hits += len(rows)
        if hits == needed:
            return _Drawn(torch.cat(x).numpy(), torch.cat(weights).numpy(), start + int(rows[-1]) + 1)
    raise TailError(
        f"a Gaussian shifted by {float(shift.norm()):.2g} put only {hits} of {budget:,} draws into the tail where "
        f"{needed} are needed: the tail does not lie in one direction; use method='subset'"
    )


def _proposed(scorer: Scorer, shift: Tensor, rows: Tensor) -> States:
    """Rows of draws from q."""
    shifted = Noise(scorer.seed, rows, _FOLD).uniform("component", 1) >= DEFENSIVE
    return scorer.at(scorer.white(rows, _FOLD) + shifted * shift, rows)


def _refuse_poor(found: _Weighed, shape: float) -> None:
    if shape > MOST_K or found.effective < FEWEST:
        raise TailError(
            f"the {len(found.weights):,} weighted draws of the tail are worth {found.effective:.0f} (at least {FEWEST} "
            f"are needed) and their weights have a Pareto k of {shape:.2f} (at most {MOST_K}): the tail does not lie "
            "in one direction; use method='subset'"
        )
