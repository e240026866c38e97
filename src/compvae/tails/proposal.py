"""q(u) = 0.1 N(0, I) + 0.9 mean_j N(mu_j, I): white noise shifted towards a tail, by the cross-entropy method.

The mu_j that bring q closest to the tail in cross-entropy are, with hard assignments, its means by k-means.  States of
the tail come from a subset simulation, as in Chan & Kroese (2012): levels of reweighted draws would degenerate with
the size of u.  How many shifts there are is decided by E[w | tail], to which the variance of an estimate under q is
proportional, on states that the shifts were not fitted to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.noise import Noise
from compvae.tails.base import States

__all__ = ["Proposal", "fit_proposal"]

DEFENSIVE = 0.1  # share of draws from the prior; no weight exceeds 1 / DEFENSIVE
SHIFTS = (1, 2, 4, 8, 16)  # numbers of shifts that are tried
ROUNDS = 20  # of k-means


@dataclass(frozen=True)
class Proposal:
    """shifts: mu_j, (J, D)."""

    shifts: Tensor

    def log_weights(self, u: Tensor) -> Tensor:
        """ln N(u; 0, I) / q(u) = -ln(0.1 + 0.9 mean_j exp(mu_j.u - |mu_j|^2 / 2)).  u: (R, D) -> (R,) float64."""
        shifts = self.shifts.double()
        ratios = u.double() @ shifts.T - 0.5 * (shifts**2).sum(1)
        shifted = math.log((1 - DEFENSIVE) / len(shifts)) + ratios.logsumexp(1)
        return -torch.logaddexp(torch.full_like(shifted, math.log(DEFENSIVE)), shifted)

    def shift(self, white: Tensor, noise: Noise) -> Tensor:
        """Draws from q.  white: ~ N(0, I), (R, D)."""
        away = noise.uniform("away", 1) >= DEFENSIVE
        return white + away * self.shifts[noise.integers("shift", 0, len(self.shifts) - 1)]

    def second_moment(self, tail: States) -> float:
        """E[w | tail] = E_q[w^2; tail] / P(tail)."""
        return float(self.log_weights(tail.u).exp().mean())


def fit_proposal(tail: States) -> Proposal:
    """The number of shifts that does best on lineages left out of the fit, then fitted to all."""
    held_out = tail.ancestor % 4 == 0
    fitted, judges = tail.at(~held_out), tail.at(held_out)
    return _fit(tail, min(SHIFTS, key=lambda number: _fit(fitted, number).second_moment(judges)))


def _fit(tail: States, number: int) -> Proposal:
    """Shifts to the means of clusters, 0 in coordinates that cannot be told from white noise."""
    active = _told_apart(tail.u, tail.ancestor) | _told_apart(tail.u**2 - 1, tail.ancestor)
    cluster = _clusters(tail.u * active, number)
    members = [tail.at(cluster == j) for j in range(number)]
    return Proposal(torch.stack([m.u.mean(0).where(_told_apart(m.u, m.ancestor), 0.0) for m in members if len(m)]))


def _told_apart(values: Tensor, ancestor: Tensor) -> Tensor:
    """Which coordinates have a mean that is not 0: noise in many would cost more weight than they are worth.

    At sqrt(2 ln D) standard errors (Donoho & Johnstone 1994), a lineage counting as one observation.
    values: (R, D).  ancestor: (R,) -> (D,) bool.
    """
    mean = values.mean(0)
    lineage = ancestor.unique(return_inverse=True)[1]
    sums = mean.new_zeros(int(lineage.max()) + 1, len(mean)).index_add_(0, lineage, values - mean)
    error = (sums**2).sum(0).sqrt() / len(values)
    return mean.abs() > math.sqrt(2 * math.log(max(2, len(mean)))) * error


def _clusters(u: Tensor, number: int) -> Tensor:
    """k-means, from states each as far as possible from those before.  u: (R, D) -> (R,) int64."""
    centres = u[:1]
    for _ in range(number - 1):
        centres = torch.cat([centres, u[_distances(u, centres).amin(1).argmax()][None]])
    for _ in range(ROUNDS):
        nearest = _distances(u, centres).argmin(1)
        sizes = torch.bincount(nearest, minlength=number).clamp(min=1)[:, None]
        centres = torch.zeros_like(centres).index_add_(0, nearest, u) / sizes
    return nearest


def _distances(u: Tensor, centres: Tensor) -> Tensor:
    """|u - centre|^2.  u: (R, D).  centres: (J, D) -> (R, J)."""
    return (u**2).sum(1, keepdim=True) - 2 * u @ centres.T + (centres**2).sum(1)
