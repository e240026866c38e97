"""What the networks of baselines see: x in its principal coordinates, the parts as a vector that knows no order.

y = V'(x / unit - mean) / scale,  V: the directions that hold all but 1e-4 of the variance of x / unit
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from compvae.baselines.base import examples, unit_of
from compvae.batch import Parts
from compvae.context import context_size
from compvae.nn.residual import mlp
from compvae.problems import Problem

__all__ = ["Coordinates", "CountsCondition", "SetCondition", "condition_for"]

PILOT = -3  # the fold of the draws that coordinates are taken from: no training step has this number
PILOT_BATCHES = 8
LOST = 1e-4  # share of the variance left out: 1% of the size of x
OCTAVES = 3  # of the waves in which places are given


@dataclass(frozen=True)
class Coordinates:
    """Principal coordinates of x.

    mean: (M,).  basis: orthonormal, (M, D).  scale: standard deviation of a value of x / unit.
    spread: standard deviation of each coordinate y, (D,), descending.
    """

    mean: Tensor
    basis: Tensor
    scale: float
    spread: Tensor

    @classmethod
    def of(cls, problem: Problem, seed: int) -> Coordinates:
        """From a few thousand draws of the problem."""
        batches = [examples(problem, seed, PILOT - i)[0] for i in range(PILOT_BATCHES)]
        x = torch.cat([b.x.flatten(1).double() / unit_of(problem, b.parts) for b in batches])
        mean = x.mean(0)
        _, singular, directions = torch.linalg.svd(x - mean, full_matrices=False)
        variance = singular**2 / len(x)
        kept = int((variance.cumsum(0) / variance.sum() < 1 - LOST).sum()) + 1
        scale = math.sqrt(float(variance.sum()) / x.shape[1])
        spread = variance[:kept].sqrt() / scale
        return cls(mean.float(), directions[:kept].T.contiguous().float(), scale, spread.float())

    def of_x(self, x: Tensor, unit: Tensor) -> Tensor:
        """x: (B, *shape), unit: (B, 1) -> y (B, D)."""
        return ((x.flatten(1) / unit).float() - self.mean) @ self.basis / self.scale

    def to_x(self, y: Tensor, unit: Tensor) -> Tensor:
        """y: (B, D), unit: (B, 1) -> (B, M)."""
        return (y @ self.basis.T * self.scale + self.mean) * unit.float()


class CountsCondition(nn.Module):
    """[n / K, 1 / sqrt(K), context]: bounded however many parts there are."""

    def __init__(self, problem: Problem, width: int) -> None:
        super().__init__()
        self.size = problem.schema.n_kinds + 1 + context_size(problem.context)

    def forward(self, parts: Parts, context: Tensor) -> Tensor:
        """context: (B, E) -> (B, size)."""
        sizes = parts.sizes[:, None]
        return torch.cat([parts.counts / sizes, sizes.rsqrt(), context], 1).float()


class SetCondition(nn.Module):
    """[sum_i f(l_i) / sqrt(K), 1 / sqrt(K), context], f a network of kind and place (deep sets, Zaheer et al. 2017)."""

    def __init__(self, problem: Problem, width: int) -> None:
        super().__init__()
        schema = problem.schema
        self.each = mlp(schema.n_kinds + schema.n_features * (1 + 2 * OCTAVES), width, width, width)
        self.size = width + 1 + context_size(problem.context)

    def forward(self, parts: Parts, context: Tensor) -> Tensor:
        """context: (B, E) -> (B, size)."""
        padded = parts.padded()
        angle = (padded.features[..., None] * math.pi / 2 * 2 ** torch.arange(OCTAVES)).flatten(2)
        kind = one_hot(padded.kind, padded.n_kinds).float()
        seen = self.each(torch.cat([kind, padded.features, angle.sin(), angle.cos()], 2))
        root = parts.sizes[:, None].rsqrt().float()
        return torch.cat([(seen * padded.mask[..., None]).sum(1) * root, root, context], 1)


def condition_for(problem: Problem, width: int) -> CountsCondition | SetCondition:
    """Counts where they say all there is to say, else a network of the set."""
    return (CountsCondition if problem.schema.countable else SetCondition)(problem, width)
