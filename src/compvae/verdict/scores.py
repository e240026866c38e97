"""Draws of a network for wholes that were held out, one forecast for each whole, and what they are worth.

    energy score   E|X - x| - E|X - X'| / 2, X, X' drawn for the composition of x: strictly proper, lower is better

beside the share of values within 90% intervals, the spread of draws over the error of their mean, and how often the
largest value of a whole exceeds the 95% quantile of the drawn ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.composing.generation import drawn
from compvae.network import Network
from compvae.noise import Noise

__all__ = ["Scores", "scores_of"]

DRAWS = 60  # for each whole
CHUNK_VALUES = 2**22  # numbers drawn at once
INSIDE, PEAK = (0.05, 0.95), 0.95


@dataclass(frozen=True)
class Scores:
    """What was found for each held-out whole.

    energy: energy score, (n,).  inside: share of its values within the 90% interval, (n,).  error: mean squared error
    of the draws' mean, (n,).  variance: of the draws, (n,).  above: 1 where its largest value exceeds the draws' P95,
    (n,).  sizes: K, (n,).  largest: largest absolute value drawn.  finite: whether all draws were.
    """

    energy: Tensor
    inside: Tensor
    error: Tensor
    variance: Tensor
    above: Tensor
    sizes: Tensor
    largest: float
    finite: bool

    @property
    def mean(self) -> float:
        """Mean energy score."""
        return float(self.energy.mean())

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in vars(self).items()}

    @classmethod
    def of_plain(cls, data: Mapping[str, Any]) -> Scores:
        """From :meth:`plain`."""
        read: dict[str, Any] = {k: torch.tensor(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**read)

    @property
    def spread_ratio(self) -> float:
        """Variance of the draws over the squared error of their mean: 1 where they vary as much as the wholes do."""
        return float(self.variance.mean() / self.error.mean().clamp(min=1e-30))


@torch.no_grad()
def scores_of(
    network: Network, wholes: Batch, seed: int, watch: Callable[[int, int], None] = lambda done, total: None
) -> Scores:
    """Score a network on wholes.  watch: told how many wholes are done."""
    rows = max(1, CHUNK_VALUES // (DRAWS * wholes.x[0].numel()))
    pieces = []
    for start in range(0, len(wholes), rows):
        batch = wholes.rows(torch.arange(start, min(start + rows, len(wholes))))
        pieces.append(_scored(network, batch, Noise(seed, torch.arange(len(batch) * DRAWS), start)))
        watch(min(start + rows, len(wholes)), len(wholes))
    energy, inside, error, variance, above = (torch.cat([piece[k] for piece in pieces]) for k in range(5))
    return Scores(
        energy,
        inside,
        error,
        variance,
        above,
        sizes=wholes.parts.sizes,
        largest=max(float(piece[5]) for piece in pieces),
        finite=all(bool(piece[6]) for piece in pieces),
    )


def _scored(network: Network, batch: Batch, noise: Noise) -> tuple[Tensor, ...]:
    """Energy, inside, error, variance, above, (B,) each; largest and finite, ()."""
    many = batch.rows(torch.arange(len(batch)).repeat_interleave(DRAWS))
    x = drawn(network, many.parts, noise, many.context, noise=True).flatten(1).double()
    x = x.view(len(batch), DRAWS, -1)
    finite, largest = torch.isfinite(x).all(), x.abs().nan_to_num(posinf=torch.inf).max()
    real = batch.x.flatten(1).double()
    apart = torch.cdist(x, x).sum((1, 2)) / (DRAWS * (DRAWS - 1))
    energy = (x - real[:, None]).norm(dim=2).mean(1) - apart / 2
    low, high = (x.quantile(level, 1) for level in INSIDE)
    inside = ((real >= low) & (real <= high)).double().mean(1)
    mean = x.mean(1)
    error = (real - mean).square().mean(1) * DRAWS / (DRAWS + 1)  # the mean of the draws has an error of its own
    above = (real.amax(1) > x.amax(2).quantile(PEAK, 1)).double()
    return energy, inside, error, x.var(1).mean(1), above, largest, finite
