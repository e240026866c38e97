"""The map, by Heun's method: y_(k+1) = y_k + h/2 (f(y_k, t_k) + f(y_k + h f(y_k, t_k), t_(k+1))), for

    y = u / s(t),   dy/dt = f(y, t) = network(s(t) y, t) / s(t)                  (field.py; s(0) = s(1) = 1)

Sampling runs it, inversion solves it step by step, the likelihood is that of its Jacobians: one and the same map, so
that inverting and mapping again gives back what came, and densities integrate to 1 whatever the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from compvae.transport.convolution import ConvolutionField
from compvae.transport.field import VelocityField, path_scale

__all__ = ["EXACT_VALUES", "Field", "apply", "invert", "log_determinant", "roughly_inverted"]

Field = VelocityField | ConvolutionField

TOLERANCE = 1e-5  # of a solved step, in units of the spread
ROUNDS = 60  # of fixed-point iteration at most
EXACT_VALUES = 256  # up to so many values, Jacobians are computed whole
SERIES, PROBES = 6, 8  # terms of ln det(I + E), and vectors that estimate their traces, beyond that


def _step(field: Field, u: Tensor, embedded: Tensor, index: int, steps: int) -> Tensor:
    """u_(k+1) from u_k, (B, T), k = index."""
    start, end = (u.new_full((1, 1), k / steps) for k in (index, index + 1))
    slope = _velocity(field, u, start, embedded)
    return u + (slope + _velocity(field, u + slope / steps, end, embedded)) / (2 * steps)


def _velocity(field: Field, y: Tensor, time: Tensor, embedded: Tensor) -> Tensor:
    """f(y, t), (B, T)."""
    scale = path_scale(time)
    said: Tensor = field(scale * y, time, embedded)
    return said / scale


def apply(field: Field, u: Tensor, embedded: Tensor, steps: int) -> Tensor:
    """The map.  u: (B, T), embedded: (B, H) -> (B, T)."""
    for index in range(steps):
        u = _step(field, u, embedded, index, steps)
    return u


def invert(field: Field, u: Tensor, embedded: Tensor, steps: int, rounds: int = ROUNDS) -> Tensor:
    """The inverse of the same map, each step solved to TOLERANCE.  u: (B, T), embedded: (B, H) -> (B, T).

    Fixed-point iteration with Anderson's acceleration, depth 1; a row rests once it is solved, so that no row depends
    on those beside it.
    """
    for index in reversed(range(steps)):
        u = _solved(lambda v, k=index: _step(field, v, embedded, k, steps), u, rounds)  # type: ignore[misc]
    return u


def roughly_inverted(field: Field, u: Tensor, embedded: Tensor, steps: int) -> Tensor:
    """About the inverse, arguments as in :func:`invert`: each step is corrected once."""
    return invert(field, u, embedded, steps, rounds=1)


def _solved(step: Callable[[Tensor], Tensor], target: Tensor, rounds: int) -> Tensor:
    """v with step(v) = target.  target: (B, T)."""
    value = 2 * target - step(target)  # the step backwards, to first order
    before_value, before_left = value, torch.zeros_like(value)
    for index in range(rounds):
        left = target - step(value)
        active = left.abs().amax(1, keepdim=True) > TOLERANCE
        if not active.any():
            break
        change = left - before_left
        share = (left * change).sum(1, keepdim=True) / change.square().sum(1, keepdim=True).clamp(min=1e-30)
        share = share.clamp(-2, 2) if index else torch.zeros_like(share)
        new = value + left - share * (value - before_value + change)
        before_value, before_left = value, left
        value = torch.where(active, new, value)
    return value


def log_determinant(field: Field, u: Tensor, embedded: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """The map of u, (B, T), and ln |det| of its Jacobian there, (B,).

    Exact up to EXACT_VALUES values; by Hutchinson's estimate of the traces in ln det(I + E) = tr E - tr E^2 / 2 + ..
    beyond that, with vectors that depend on nothing but their number.
    """
    total = u.new_zeros(len(u))
    for index in range(steps):
        if u.shape[1] <= EXACT_VALUES:
            u, jacobian = _step_with_jacobian(field, u, embedded, index, steps)
            total = total + torch.linalg.slogdet(jacobian)[1]
        else:
            after, change = _estimated(lambda v, k=index: _step(field, v, embedded, k, steps), u)  # type: ignore[misc]
            u, total = after, total + change
    return u, total


def _step_with_jacobian(field: Field, u: Tensor, embedded: Tensor, index: int, steps: int) -> tuple[Tensor, Tensor]:
    """u_(k+1), (B, T), and its derivative by u_k, I + h/2 (A + A' (I + h A)), (B, T, T), with A, A' those of f."""
    start, end = (u.new_full((1, 1), k / steps) for k in (index, index + 1))
    first, last = path_scale(start), path_scale(end)
    slope, inner = field.with_jacobian(first * u, start, embedded)
    ahead, outer = field.with_jacobian(last * (u + slope / first / steps), end, embedded)
    one = torch.eye(u.shape[1], dtype=u.dtype)
    jacobian = one + (inner + outer @ (one + inner / steps)) / (2 * steps)
    return u + (slope / first + ahead / last) / (2 * steps), jacobian


def _estimated(step: Callable[[Tensor], Tensor], u: Tensor) -> tuple[Tensor, Tensor]:
    """The step of u, (B, T), and ln det of its Jacobian, (B,), estimated."""
    generator = torch.Generator().manual_seed(u.shape[1])
    total = u.new_zeros(len(u))
    with torch.enable_grad():
        point = u.detach().requires_grad_()
        after = step(point)
        for _ in range(PROBES):
            probe = (torch.randint(0, 2, (1, u.shape[1]), generator=generator).to(u) * 2 - 1).expand_as(u)
            vector = probe
            for power in range(1, SERIES + 1):
                vector = torch.autograd.grad(after, point, vector, retain_graph=True)[0] - vector
                total = total - (-1) ** power / power * (probe * vector).sum(1) / PROBES
    return after.detach(), total
