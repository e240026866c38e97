"""What data shows of attributes before anything is trained: which of them are places in x, and where.

An attribute a is a place along an axis if the offset p - (alpha a + beta) of each value from each part, in bins,
explains nearly as much of wholes as a cubic of a that is each value's own, or more.  Both are least squares, summed
over parts, on profiles of x along that axis, judged on wholes they were not fitted to.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from compvae.batch import Batch, PaddedParts
from compvae.transport.config import TransportConfig
from compvae.transport.part_network import grid_of, space_of
from compvae.transport.structure import limits_of

__all__ = ["find_places"]

WHOLES, POSITIONS, KINDS = 400, 32, 8  # that are looked at; more kinds than that are seen as one
BINS = 24  # of an offset
SLOPES = tuple(sign * 0.05 * step for sign in (1, -1) for step in range(3, 26))  # alpha that are tried
CENTRED = 0.15  # beta that is none
STANDARD = 0.05  # of what there is to explain, by which another alpha must beat 1
RIDGE = 1e-3
LEAST, NEARLY = 0.005, 0.75  # of variance, and of what a cubic for each value explains, that offsets must explain


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
            "absolute": not set(range(len(space))) <= set(axes),
        }
    )
    return plain.with_changes(lower=lower, upper=upper, integers=integers, places=dict(places))


def _profiles(x: Tensor, axes: int) -> list[tuple[Tensor, Tensor]]:
    """Along each axis: where values are, (P,), and how each channel there deviates from its mean, (N, P, channels).

    x: (N, channels, *space).
    """
    found = []
    for axis in range(axes):
        others = tuple(k for k in range(2, x.ndim) if k != axis + 2)
        profile = (x.mean(others) if others else x).mT
        keep = torch.linspace(0, profile.shape[1] - 1, min(POSITIONS, profile.shape[1])).round().long()
        position = grid_of((profile.shape[1],))[:, 0].double()
        found.append((position[keep], (profile - profile.mean(0))[:, keep]))
    return found


def _axis_of(profiles: list[tuple[Tensor, Tensor]], parts: PaddedParts, column: int) -> tuple[int | None, float, float]:
    """The axis along which an attribute is a place, alpha and beta; None where it is no place."""
    best: tuple[float, int | None, float, float] = (LEAST, None, 1.0, 0.0)
    for axis, (position, profile) in enumerate(profiles):
        if len(position) < 4:
            continue
        alpha, beta = _stretch_and_shift(position, profile, parts, column)
        without = _by_value(profile, parts, column, degree=0)
        gain = _explained(_binned(position, parts, column, alpha, beta), profile.flatten(0, 1)) - without
        if gain > max(best[0], NEARLY * (_by_value(profile, parts, column, degree=3) - without)):
            best = (gain, axis, alpha, beta)
    return best[1], best[2], best[3]


def _stretch_and_shift(position: Tensor, profile: Tensor, parts: PaddedParts, column: int) -> tuple[float, float]:
    """alpha that explains most, 1 unless another explains clearly more, and beta: where along the offset parts act."""

    def explained(alpha: float) -> float:
        return _explained(_binned(position, parts, column, alpha, 0.0), profile.flatten(0, 1))

    best = max([(explained(1.0) + STANDARD, 1.0), *((explained(alpha), alpha) for alpha in SLOPES)])[1]
    design = _binned(position, parts, column, best, 0.0)
    effect = _least_squares(design - design.mean(0), profile.flatten(0, 1)).view(-1, BINS, profile.shape[2])
    weight = (effect - effect.median(1, keepdim=True).values).square().sum((0, 2))
    centre = (1 + abs(best)) * ((2 * torch.arange(BINS) + 1) / BINS - 1)
    shift = float((weight * centre).sum() / weight.sum().clamp(min=1e-300))
    return best, shift if abs(shift) > CENTRED else 0.0


def _binned(position: Tensor, parts: PaddedParts, column: int, alpha: float, beta: float) -> Tensor:
    """How many parts of each kind have each offset from each value, (N P, kinds bins)."""
    place = alpha * parts.features[..., column].double() + beta
    offset = (position[None, None] - place[..., None]) / (1 + abs(alpha))  # (N, K, P), in [-1, 1] where beta is 0
    kinds, kind = _kinds(parts)
    bins = ((offset + 1) / 2 * BINS).long().clamp(0, BINS - 1) + BINS * kind[..., None]
    design = position.new_zeros(len(place), len(position), kinds * BINS)
    design.scatter_add_(2, bins.mT, parts.mask[:, None].expand(-1, len(position), -1).double())
    return design.flatten(0, 1)


def _by_value(profile: Tensor, parts: PaddedParts, column: int, degree: int) -> float:
    """Share of variance that a polynomial of the attribute explains, one for each kind and value; 0: the kind alone."""
    a = parts.features[..., column].double()
    kinds, kind = _kinds(parts)
    own = one_hot(kind, kinds) * parts.mask[..., None]  # (N, K, kinds)
    powers = torch.stack([a**k for k in range(degree + 1)], -1)
    return _explained(torch.einsum("nkc,nkp->ncp", own.double(), powers).flatten(1), profile.flatten(1))


def _kinds(parts: PaddedParts) -> tuple[int, Tensor]:
    """How many kinds are told apart, and that of each part, (N, K)."""
    return (parts.n_kinds, parts.kind) if parts.n_kinds <= KINDS else (1, torch.zeros_like(parts.kind))


def _explained(design: Tensor, target: Tensor) -> float:
    """R^2 of least squares on the second half, fitted to the first.  design: (N, P).  target: (N, M)."""
    design, target = design - design.mean(0), target - target.mean(0)
    half = len(design) // 2
    left = target[half:] - design[half:] @ _least_squares(design[:half], target[:half])
    return 1 - float(left.square().sum() / target[half:].square().sum().clamp(min=1e-300))


def _least_squares(design: Tensor, target: Tensor) -> Tensor:
    """(P, M).  design: (N, P).  target: (N, M)."""
    square = design.T @ design
    square = square + RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    solved: Tensor = torch.linalg.solve(square, design.T @ target)
    return solved
