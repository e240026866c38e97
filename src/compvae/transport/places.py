"""What data shows of attributes before anything is trained: which of them are places in x, and where.

An attribute a is a place along an axis if wholes are explained better by the offset p - (alpha a + beta) of each value
from each part, in bins, than by a cubic of a that is each value's own.  Both are least squares, summed over parts, on
profiles of x along that axis; alpha and beta are those that explain most.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from compvae.batch import Batch, PaddedParts
from compvae.transport.config import TransportConfig
from compvae.transport.part_network import grid_of, space_of
from compvae.transport.structure import limits_of

__all__ = ["find_places"]

WHOLES, POSITIONS = 1000, 48  # that are looked at
BINS, REACH = 24, 2.2  # of an offset
SLOPES = tuple(sign * 0.05 * step for sign in (1, -1) for step in range(3, 26))  # alpha that are tried
SHIFTS = tuple(0.1 * step for step in range(-6, 7))  # beta
STANDARD = 0.02  # of what there is to explain, by which another alpha, beta must beat 1, 0
RIDGE = 1e-3


@torch.no_grad()
def find_places(plain: TransportConfig, training: Batch) -> TransportConfig:
    """Look at training wholes, and choose.  plain: what is not a matter of choice."""
    assert plain.places is not None
    lower, upper, integers = limits_of(training.x.flatten(1).double())
    parts = training.parts.padded().rows(slice(0, WHOLES))
    channels, space = space_of(plain.shape)
    x = training.x[:WHOLES].double().reshape(-1, channels, *space)
    found = [_axis_of(_profiles(x, len(space)), parts, column) for column in range(plain.parts.n_features)]
    axes = tuple(axis for axis, _, _ in found)
    places = plain.places.model_copy(
        update={
            "axes": axes,
            "stretch": tuple(alpha for _, alpha, _ in found),
            "shift": tuple(beta for _, _, beta in found),
            "absolute": set(axes) != set(range(len(space))),
        }
    )
    return plain.with_changes(lower=lower, upper=upper, integers=integers, places=dict(places))


def _profiles(x: Tensor, axes: int) -> list[tuple[Tensor, Tensor]]:
    """Along each axis: where values are, (P,), and what deviates there from the mean of all wholes, (N, P).

    x: (N, channels, *space).
    """
    found = []
    for axis in range(axes):
        others = tuple(k for k in range(1, x.ndim) if k != axis + 2)
        profile = x.mean(others)
        keep = torch.linspace(0, profile.shape[1] - 1, min(POSITIONS, profile.shape[1])).round().long()
        position = grid_of((profile.shape[1],))[:, 0].double()
        found.append((position[keep], (profile - profile.mean(0))[:, keep]))
    return found


def _axis_of(profiles: list[tuple[Tensor, Tensor]], parts: PaddedParts, column: int) -> tuple[int | None, float, float]:
    """The axis along which an attribute is a place, alpha and beta; None where it is no place."""
    best: tuple[float, int | None, float, float] = (0.0, None, 1.0, 0.0)
    for axis, (position, profile) in enumerate(profiles):
        if len(position) < 4:
            continue
        standard = _by_offset(position, profile, parts, column, 1.0, 0.0)
        explained, alpha, beta = standard, 1.0, 0.0
        for slope in SLOPES:
            for shift in SHIFTS:
                tried = _by_offset(position, profile, parts, column, slope, shift)
                if tried > max(explained, standard + STANDARD):
                    explained, alpha, beta = tried, slope, shift
        by_value = _by_value(profile, parts, column)
        if explained > max(best[0], by_value):
            best = (explained, axis, alpha, beta)
    return best[1], best[2], best[3]


def _by_offset(position: Tensor, profile: Tensor, parts: PaddedParts, column: int, alpha: float, beta: float) -> float:
    """Share of variance that bins of the offset explain, each kind with bins of its own."""
    place = alpha * parts.features[..., column].double() + beta
    offset = position[None, None] - place[..., None]  # (N, K, P)
    bins = ((offset + REACH) / (2 * REACH) * BINS).long().clamp(0, BINS - 1)
    rows, width = profile.numel(), BINS
    design = profile.new_zeros(*profile.shape, width)
    design.scatter_add_(2, bins.transpose(1, 2), parts.mask[:, None].expand(-1, len(position), -1).double())
    return _explained(design.view(rows, width), profile.reshape(rows, 1))


def _by_value(profile: Tensor, parts: PaddedParts, column: int) -> float:
    """Share of variance that a cubic of the attribute explains, one for each value."""
    a = parts.features[..., column].double()
    powers = torch.stack([a**k for k in range(4)], -1) * parts.mask[..., None]
    return _explained(powers.sum(1), profile)


def _explained(design: Tensor, target: Tensor) -> float:
    """R^2 of least squares, less what as many noise regressors would explain.  design: (N, P).  target: (N, M)."""
    design, target = design - design.mean(0), target - target.mean(0)
    square = design.T @ design
    square = square + RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    product = design.T @ target
    gained = float((product * torch.linalg.solve(square, product)).sum() / target.square().sum().clamp(min=1e-300))
    return gained - math.sqrt(design.shape[1] / len(design)) * 0.01
