"""What all methods share: the goal, states u with x(u) and phi(x(u)), and the sample that comes back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.checks import allocate
from compvae.errors import DataError, TailError
from compvae.noise import Noise
from compvae.tails.events import Event, checked_event
from compvae.tails.simulator import Simulator

__all__ = ["Goal", "Scorer", "States", "TailSample", "refuse_ties"]


@dataclass(frozen=True)
class TailSample:
    """Wholes from the tail, p(x | parts, phi(x) >= threshold), and what is known about it.

    All uncertainties are of the Monte-Carlo estimate; how far the model is from the world is another matter.

    x: float32 (n, *shape).  weights: float64 (n,), sum 1; equal unless the method is "importance".
    probability: P(phi(x) >= threshold) under the model.  Asked for a quantile, rejection and subset simulation place
        the threshold where their estimate of this probability is 1 - quantile.
    cv: standard deviation of the estimated probability, relative to it.  Asked for a quantile: by how much the true
        probability at the reported threshold may differ from ``probability``.
    ess: how many independent wholes of equal weight these are worth.  For subset simulation wholes with one ancestor
        are counted as one, which is a lower bound.
    threshold: t.  threshold_interval: about 95%, where t was estimated; None where it was given.
    draws: how many wholes were simulated.
    ancestors: distinct first ancestors behind the estimate; None without chains.
    pareto_k: shape of the tail of the weights, below 0.7 where they can be trusted; None without weights.
    """

    x: np.ndarray
    weights: np.ndarray
    probability: float
    cv: float
    ess: float
    threshold: float
    threshold_interval: tuple[float, float] | None
    method: str
    seed: int
    draws: int
    ancestors: int | None = None
    pareto_k: float | None = None


@dataclass(frozen=True)
class Goal:
    """The event phi >= t: t given, or placed where the event has the given probability.  One of the two is None."""

    threshold: float | None
    probability: float | None

    @classmethod
    def of(cls, quantile: float | None, threshold: float | None) -> Goal:
        """From what the caller gave: one of quantile, in (0, 1), and threshold."""
        if (quantile is None) == (threshold is None):
            came = "neither" if quantile is None else "both"
            raise DataError(f"a tail is given by quantile= or by threshold=, one of them; {came} came")
        if threshold is not None:
            return cls(_number(threshold, "threshold"), None)
        q = _number(quantile, "quantile")
        if not 0 < q < 1:
            raise DataError(f"quantile must lie between 0 and 1 (0.99: the highest 1% of the event), got {quantile!r}")
        return cls(None, round(1 - q, 15))


def _number(value: object, name: str) -> float:
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not numeric or not math.isfinite(value):  # type: ignore[arg-type]
        raise DataError(f"{name} must be a finite number, got {value!r}")
    return float(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class States:
    """u: (R, D).  x: (R, *shape).  score: phi(x), (R,) float64.  ancestor: first state of the lineage, (R,) int64."""

    u: Tensor
    x: Tensor
    score: Tensor
    ancestor: Tensor

    def __len__(self) -> int:
        return len(self.u)

    def at(self, rows: Tensor | slice) -> States:
        """Some of the states.  rows: (R',) int64 positions, (R,) bool, or a slice."""
        return States(self.u[rows], self.x[rows], self.score[rows], self.ancestor[rows])

    def replaced(self, where: Tensor, other: States) -> States:
        """The other's states where this is True; lineages stay.  where: (R,) bool."""
        chosen = self.u.clone(), self.x.clone(), self.score.clone()
        for own, new in zip(chosen, (other.u, other.x, other.score), strict=True):
            own[where] = new[where]
        return States(*chosen, self.ancestor)

    @staticmethod
    def cat(states: list[States]) -> States:
        """All of them, one after the other."""
        return States(*(torch.cat([getattr(s, name) for s in states]) for name in ("u", "x", "score", "ancestor")))


class Scorer:
    """u -> (x(u), phi(x(u))), counting the draws.

    The simulator and the event see tiles of one height, the last one filled up: no row depends on those beside it.
    """

    def __init__(self, simulator: Simulator, event: str | Event, seed: int) -> None:
        self.simulator, self.event, self.seed, self.draws = simulator, checked_event(event), seed, 0

    def white(self, rows: Tensor, *fold: int) -> Tensor:
        """u ~ N(0, I).  rows: (R,) int64 -> (R, D)."""
        return self.simulator.white(Noise(self.seed, rows, *fold))

    def prior(self, start: int, stop: int, *fold: int) -> States:
        """Rows start..stop-1 of independent draws, each its own ancestor; without a fold they are those of sample."""
        rows = torch.arange(start, stop)
        return self.at(self.white(rows, *fold), rows)

    def at(self, u: Tensor, ancestor: Tensor) -> States:
        """u: (R, D).  ancestor: (R,) int64."""
        height = self.simulator.height
        x = torch.from_numpy(allocate(len(u), *self.simulator.shape))
        score = torch.empty(len(u), dtype=torch.float64)
        for start in range(0, len(u), height):
            given = u[start : start + height]
            tile = torch.cat([given, given.new_zeros(height - len(given), given.shape[1])])
            whole = self.simulator(tile)
            values = torch.from_numpy(self.event(whole.numpy()))
            x[start : start + height], score[start : start + height] = whole[: len(given)], values[: len(given)]
        self.draws += len(u)
        return States(u, x, score, ancestor)


def refuse_ties(reached: float, threshold: float, probability: float) -> None:
    """An event with few values may have no threshold of the wanted probability; reached: that of the one chosen."""
    if reached > 1.1 * probability:
        raise TailError(
            f"no threshold of the event has probability {probability:g}: it is exactly {threshold:g} so often that "
            f"this is reached with probability {reached:.2g}; give a threshold instead of a quantile, or another event"
        )
