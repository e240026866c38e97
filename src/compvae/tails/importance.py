"""Importance sampling: u ~ q, weights w = N(u; 0, I) / q(u) where phi >= t, P(phi >= t) = E_q[w; phi >= t].

q shifts white noise towards the tail (:mod:`compvae.tails.proposal`).  A part of the tail that it does not shift to is
missed without a trace in the weights, since nearly no draw falls there; but the subset simulation that q was fitted to
has states there.  The second moment of the weights under q is p E[w | phi >= t], an expectation over those states,
and it is large where q is thin: so the error is judged by the larger of the two estimates.
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
from compvae.tails.proposal import Proposal, fit_proposal
from compvae.tails.subset import climb, populate

__all__ = ["importance"]

HITS = 4000  # behind every estimate, however few wholes are asked for; as many draws as the climb takes
CHUNK = 4096  # draws at a time
MOST_K, FEWEST = 0.7, 100  # Pareto k and effective number of draws beyond which the sample is refused
_FOLD = -1  # of the draws from q


def importance(scorer: Scorer, goal: Goal, n: int) -> TailSample:
    """n weighted wholes of the tail.  Asked for a quantile, subset simulation places the threshold."""
    top = climb(scorer, goal)
    tail, _ = populate(scorer, top.hits, top.threshold, top.step, top.level + 1)
    proposal = fit_proposal(tail)
    drawn = _draw(scorer, proposal, top.threshold, n)
    found = _Weighed(drawn.weights, drawn.draws, proposal.second_moment(tail))
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
    """weights: w of the hits, (H,).  draws: T.  second_moment: E[w | phi >= t], by the subset simulation."""

    weights: np.ndarray
    draws: int
    second_moment: float

    @property
    def probability(self) -> float:
        """sum w / T."""
        return float(self.weights.sum() / self.draws)

    @property
    def effective(self) -> float:
        """The smaller of (sum w)^2 / sum w^2 and T p / E[w | phi >= t]."""
        seen = self.weights.sum() ** 2 / (self.weights**2).sum()
        return float(min(seen, self.draws * self.probability / self.second_moment))

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


def _draw(scorer: Scorer, proposal: Proposal, threshold: float, n: int) -> _Drawn:
    """Draws from q until max(n, HITS) are in the tail."""
    needed, budget, x, weights, hits = max(n, HITS), 100_000 + 20 * n, [], [], 0
    for start in range(0, budget, CHUNK):
        states = _proposed(scorer, proposal, torch.arange(start, start + CHUNK))
        rows = (states.score >= threshold).nonzero()[: needed - hits, 0]
        x.append(states.x[rows[: max(0, n - hits)]])
        weights.append(proposal.log_weights(states.u[rows]).exp())
        hits += len(rows)
        if hits == needed:
            return _Drawn(torch.cat(x).numpy(), torch.cat(weights).numpy(), start + int(rows[-1]) + 1)
    raise TailError(
        f"only {hits} of {budget:,} draws that were shifted towards the tail fell into it where {needed} are needed; "
        "use method='subset'"
    )


def _proposed(scorer: Scorer, proposal: Proposal, rows: Tensor) -> States:
    """Rows of draws from q."""
    u = proposal.shift(scorer.white(rows, _FOLD), Noise(scorer.seed, rows, _FOLD))
    return scorer.at(u, rows)


def _refuse_poor(found: _Weighed, shape: float) -> None:
    if shape > MOST_K or found.effective < FEWEST:
        raise TailError(
            f"the {len(found.weights):,} weighted draws of the tail are worth {found.effective:.0f} (at least {FEWEST} "
            f"are needed) and their weights have a Pareto k of {shape:.2f} (at most {MOST_K}): a "
            "few shifts of white noise do not cover this tail; use method='subset'"
        )
