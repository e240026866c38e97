"""N(mean, diag(variance)), its bounds, and the sums that parts enter  (theory, sections 3 and 4).

The paper says that variances of p are lower-bounded, and gives no value: see :func:`soft_floor`.  Every exponential of
a network's output or of a learned number is taken by :func:`variance_of`, which bounds it from both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from compvae.noise import NormalSource

__all__ = [
    "LOG_2PI", "MOST", "WIDEST", "Members", "Normal", "bounded", "per_row", "raised", "soft_floor", "variance_of",
]  # fmt: skip

LOG_2PI = math.log(2 * math.pi)
LEAST, MOST = 1e-8, 1e8  # standard deviations of anything: their squares, and sums of these, are float32 numbers
WIDEST = 100.0  # standard deviation of x (in its unit) or of z that a network may predict far from its training data


def soft_floor(log_variance: Tensor, sigma: float) -> Tensor:
    """v -> low + 1 + ELU(v - low - 1), low = 2 ln sigma: the identity above low + 1, smooth, always above low.

    The paper says its variances are "lower-bounded" and gives no value (errata: variance floor).
    log_variance: any shape.
    """
    low = 2 * math.log(sigma)
    return F.elu(log_variance - low - 1) + low + 1


def bounded(log_variance: Tensor, narrowest: float = LEAST, widest: float = MOST) -> Tensor:
    """v -> c + tanh(v - c), c = clamp(v, low + 1, high - 1), low and high = 2 ln narrowest and 2 ln widest.

    This is the identity, to the last bit, within [low + 1, high - 1], smooth, and always in [low, high].
    log_variance: any shape; infinite values are allowed.
    """
    inside = log_variance.clamp(2 * math.log(narrowest) + 1, 2 * math.log(widest) - 1)
    return inside + torch.tanh(log_variance - inside)


def variance_of(log_variance: Tensor, floor: float | None = None, widest: float = MOST) -> Tensor:
    """exp(log_variance), bounded: the one place where an output of a network is exponentiated.

    A linear head has no bounds of its own: outside of the training data its exponential overflows, or is a thousand
    times what was seen (docs/experiments.md, "Failures mended").

    Args:
        log_variance: any shape; minus a log-variance gives the precision.
        floor: the standard deviation that :func:`soft_floor` keeps the result above; None for :data:`LEAST`.
        widest: the standard deviation that the result stays below.
    """
    raw = log_variance if floor is None else soft_floor(log_variance, floor)
    return bounded(raw, widest=widest).exp()


def raised(variance: Tensor, sigma: float) -> Tensor:
    """The log-variance that :func:`soft_floor` maps onto this variance, or near its floor.  variance: any shape."""
    low = 2 * math.log(sigma)
    above = variance.clamp(min=1e-12).log() - low
    return torch.where(above > 1, above, 1 + above.clamp(min=1e-3).log()) + low


def per_row(value: Tensor) -> Tensor:
    """Sum over everything but the first axis.  value: (B, *) -> (B,)."""
    return value.flatten(1).sum(1)


@dataclass(frozen=True)
class Members:
    """Which sum each part enters.

    mask: (B, K) bool, True for a part.
    block: (B, K) int64, the block whose sum the part enters, or None where all parts enter one sum.
    blocks: G, the number of blocks.
    """

    mask: Tensor
    block: Tensor | None = None
    blocks: int = 1

    def total(self, value: Tensor) -> Tensor:
        """Sum over the parts of each block.  value: (B, K, D) -> (B, G, D)."""
        value = value * self.mask[..., None]
        if self.block is None:
            return value.sum(1, keepdim=True)
        zeros = value.new_zeros(len(value), self.blocks, value.shape[2])
        return zeros.scatter_add(1, self._index(value), value)

    def highest(self, value: Tensor) -> Tensor:
        """Maximum of 0 and the parts of each block.  value: (B, K, D) -> (B, G, D)."""
        value = value.masked_fill(~self.mask[..., None], -torch.inf)
        if self.block is None:
            return value.amax(1, keepdim=True).clamp(min=0)
        zeros = value.new_zeros(len(value), self.blocks, value.shape[2])
        return zeros.scatter_reduce(1, self._index(value), value, "amax")

    def spread(self, total: Tensor) -> Tensor:
        """Give each part the value of its block.  total: (B, G, D) -> (B, K, D)."""
        if self.block is None:
            return total.expand(-1, self.mask.shape[1], -1)
        return total.gather(1, self.block[..., None].expand(-1, -1, total.shape[2]))

    def sizes(self, dtype: torch.dtype) -> Tensor:
        """Number of parts of each block, (B, G, 1)."""
        return self.total(self.mask[..., None].to(dtype))

    def _index(self, value: Tensor) -> Tensor:
        assert self.block is not None
        return self.block[..., None].expand_as(value)


@dataclass(frozen=True)
class Normal:
    """N(mean, diag(variance)).

    mean: (B, *).  variance: (B, *), broadcastable to mean (one noise for three colours).
    mask: (B, *) bool, broadcastable: False where a coordinate does not exist; it is 0 there and counts nothing.
    """

    mean: Tensor
    variance: Tensor
    mask: Tensor | None = None

    @staticmethod
    def floored(mean: Tensor, log_variance: Tensor, sigma: float, widest: float = WIDEST) -> Normal:
        """A normal whose standard deviation stays between ``sigma`` and ``widest``.  mean, log_variance: (B, *)."""
        return Normal(mean, variance_of(log_variance, sigma, widest))

    def rsample(self, noise: NormalSource, name: str) -> Tensor:
        """One draw for each row, differentiable, (B, *)."""
        unit = noise.normal(name, *self.mean.shape[1:], dtype=self.mean.dtype)
        return self._masked(self.mean + self._safe(self.variance).sqrt() * unit)

    def log_prob(self, value: Tensor) -> Tensor:
        """ln N(value).  value: (B, *) -> (B,)."""
        return per_row(self._masked(self.log_density(value)))

    def log_density(self, value: Tensor) -> Tensor:
        """ln N(value), coordinate by coordinate.  value: (B, *) -> (B, *)."""
        variance = self._safe(self.variance)
        return -0.5 * ((value - self.mean) ** 2 / variance + variance.log() + LOG_2PI)

    def kl(self, prior: Normal) -> Tensor:
        """KL(self || prior) in nats, (B,)."""
        return per_row(self.kl_terms(prior))

    def kl_terms(self, prior: Normal) -> Tensor:
        """KL(self || prior) in nats, coordinate by coordinate, (B, *)."""
        own, other = self._safe(self.variance), self._safe(prior.variance)
        ratio = own / other
        return self._masked(0.5 * (ratio + (self.mean - prior.mean) ** 2 / other - 1 - ratio.log()))

    def sum(self, members: Members) -> Normal:
        """The distribution of W = sum_i w_i.  For mean (B, K, D) -> Normal over (B, G, D)."""
        present = members.sizes(self.mean.dtype) > 0
        return Normal(members.total(self.mean), members.total(self.variance.expand_as(self.mean)), present)

    def times(self, shift: Tensor, log_variance: Tensor) -> Normal:
        """Product with a Gaussian message N(mean + shift, exp log_variance): never wider than this normal.

        shift, log_variance: (B, *).
        """
        precision = variance_of(-log_variance)
        gain = 1 / (1 + self.variance * precision)
        return Normal(self.mean + self.variance * precision * gain * shift, self.variance * gain, self.mask)

    def _masked(self, value: Tensor) -> Tensor:
        return value if self.mask is None else value.masked_fill(~self.mask, 0.0)

    def _safe(self, variance: Tensor) -> Tensor:
        """Variances with 1 where the coordinate does not exist, so that no NaN enters a gradient."""
        return variance if self.mask is None else variance.masked_fill(~self.mask, 1.0)
