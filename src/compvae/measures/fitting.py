"""The nearest reachable whole: argmin_p |x - f(p)|^2 for each x, low <= p <= high  (Levenberg-Marquardt, in batch).

    (J'J + lambda diag J'J) step = J'(x - f(p)),  p <- clamp(p + step) where that is nearer, else lambda grows

Parameters at a bound that the gradient pushes outward are held there (an active set).  All rows go at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.measures.measured import Measured, check_alike, root_ratio, samples

__all__ = ["Fit", "Reach", "best_of", "nearest", "off_manifold"]

Reach = Callable[[Tensor], tuple[Tensor, Tensor]]
"""parameters (n, P) -> wholes f(p) (n, M), and their Jacobian (n, M, P)."""

TILE_NUMBERS = 2**20  # of a Jacobian held at once
GROW, SHRINK, FIRST, LAST = 4.0, 0.2, 1e-3, 1e8  # of lambda
SETTLED = 1e-7  # relative gain below which a row is left alone
STILL = 1e-7  # the same for the size of a step, relative to the parameters


@dataclass(frozen=True)
class Fit:
    """What came nearest.  parameters: (n, P).  whole: f(p), (n, M).  curvature: J'J there, (n, P, P).  cost: (n,)."""

    parameters: Tensor
    whole: Tensor
    curvature: Tensor
    cost: Tensor


def nearest(reach: Reach, x: Tensor, start: Tensor, low: float, high: float, rounds: int = 60) -> Fit:
    """The nearest f(p) to each x, from a start.  x: (n, M).  start: (n, P), within the bounds."""
    height = max(1, TILE_NUMBERS // max(1, x.shape[1] * start.shape[1]))
    fits = [
        _descend(reach, *rows, low, high, rounds) for rows in zip(x.split(height), start.split(height), strict=True)
    ]
    return Fit(*(torch.cat(tensors) for tensors in zip(*(vars(fit).values() for fit in fits), strict=True)))


def best_of(fits: list[Fit]) -> Fit:
    """For each row the fit of least cost."""
    choice = torch.stack([fit.cost for fit in fits]).argmin(0)
    rows = torch.arange(len(choice))
    return Fit(*(torch.stack(tensors)[choice, rows] for tensors in zip(*(vars(f).values() for f in fits), strict=True)))


def off_manifold(x: np.ndarray, reachable: np.ndarray) -> Measured:
    """RMS of x - nearest reachable x, over RMS of x: 0 for true wholes.  x, reachable: (n, *shape)."""
    check_alike(x, reachable, ("x", "reachable"), rows=True)
    values, near = samples(x, "x", 1), samples(reachable, "reachable", 1)
    return root_ratio(((values - near) ** 2).mean(1), (values**2).mean(1))


@dataclass
class _State:
    """Where the descent of each row stands."""

    parameters: Tensor
    whole: Tensor
    curvature: Tensor
    cost: Tensor
    slope: Tensor  # J'(x - f), (n, P)

    @classmethod
    def at(cls, reach: Reach, x: Tensor, parameters: Tensor) -> _State:
        whole, jacobian = reach(parameters)
        gap = x - whole
        return cls(parameters, whole, jacobian.mT @ jacobian, (gap**2).sum(1), (jacobian.mT @ gap[..., None])[..., 0])

    def rows(self, rows: Tensor) -> _State:
        return _State(*(tensor[rows] for tensor in vars(self).values()))

    def put(self, rows: Tensor, other: _State) -> None:
        for mine, new in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[rows] = new


def _descend(reach: Reach, x: Tensor, start: Tensor, low: float, high: float, rounds: int) -> Fit:
    state = _State.at(reach, x, start.clone())
    damping, active = torch.full_like(state.cost, FIRST), torch.arange(len(x))
    for _ in range(rounds):
        here = state.rows(active)
        trial = (here.parameters + _step(here, damping[active], low, high)).clamp(low, high)
        there = _State.at(reach, x[active], trial)
        better = there.cost < here.cost
        state.put(active[better], there.rows(better))
        damping[active] *= torch.where(better, SHRINK, GROW)
        settled = better & (here.cost - there.cost <= SETTLED * here.cost)
        settled |= (trial - here.parameters).abs().amax(1) <= STILL * here.parameters.abs().amax(1)
        active = active[~settled & (damping[active] < LAST)]
        if not len(active):
            break
    return Fit(state.parameters, state.whole, state.curvature, state.cost)


def _step(state: _State, damping: Tensor, low: float, high: float) -> Tensor:
    """The damped step, (n, P), 0 for parameters held at a bound.  damping: (n,)."""
    outward = (state.parameters <= low) & (state.slope < 0) | (state.parameters >= high) & (state.slope > 0)
    free = (~outward).to(state.slope.dtype)
    diagonal = state.curvature.diagonal(dim1=1, dim2=2)
    tiny = 1e-12 * diagonal.amax(1, keepdim=True) + torch.finfo(diagonal.dtype).tiny  # for what changes nothing
    system = state.curvature * free[:, :, None] * free[:, None, :]
    system = system + torch.diag_embed(damping[:, None] * diagonal + tiny + (1 - free) * (1 + diagonal))
    step: Tensor = torch.linalg.solve(system, state.slope * free)
    return step
