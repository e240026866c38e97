"""q(w | x, {l_i}) = N(w*, (H + S^-1)^-1): the Gaussian at the peak of p(x | w) p(w), found by damped Gauss-Newton.

In units of the prior's deviation, v = (w - m)/p, with J the Jacobian of the decoder's mean over its noise and r the
residual over the noise, one step (Levenberg 1944, Marquardt 1963) is

    (J^T J + I + damping diag(J^T J + I)) (v' - v) = J^T r - v,                    q = N(v*, (J^T J + I)^-1)

No encoder, and so no amortisation gap, no drift between encoder and prior, and no trust in an encoder outside
of its training range.  Gradients of the bound do not run through q: at the bound's maximum over q they need not.  While
the KL is warmed up, the residuals weigh 1 / its weight, so that q stays that maximum and unused latents are found
before they can be pruned.  Steps that do not climb are taken back, whole by whole.

Two parts that do nearly the same (sites of one colour side by side) make a second peak.  Outside training, a whole that
is badly explained at the first is climbed again from two other starts, and the highest peak counts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from compvae.config import ModelConfig, NewtonConfig
from compvae.distributions.dense import (
    Correlated,
    DenseNormal,
    Linearised,
    ObservedNormal,
    damped_step,
    damped_step_wide,
)
from compvae.posterior.base import Given, Posterior
from compvae.posterior.climbing import EVAL_FACTOR, Place, climb

__all__ = ["NewtonPosterior"]

BADLY = 1.0  # misfit of a whole beyond which it is climbed again: more than its noise explains


class NewtonPosterior(Posterior):
    """Gaussian at the peak, over W for decoders of the plain sum, over the parts together otherwise."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.posterior
        assert isinstance(own, NewtonConfig)
        self.config, self.own = config, own
        self.of_sum = config.decoder.kind != "placed"
        self.reader = self.z_network = None

    @torch.no_grad()
    def w(self, given: Given) -> Correlated:
        """Gaussian over W, (B, G, d), or over the parts, (B, K, d)."""
        pixels = self._pixels(given)
        x, weight = given.batch.x.flatten(1), 1 / given.kl_weight
        if pixels is not None:
            x = given.batch.x.reshape(len(x), -1, given.n_pixels)[:, :, pixels].flatten(1)
            weight *= given.n_pixels / len(pixels)
        prior = given.prior
        deviation = prior.variance.expand_as(prior.mean)
        deviation = deviation.sqrt() if prior.mask is None else deviation.masked_fill(~prior.mask, 0.0).sqrt()

        wide = x.shape[1] < prior.mean[0].numel()  # fewer values than coordinates: the precision is never built

        def linearised(v: Tensor) -> Linearised:
            return given.linearise(prior.mean + deviation * v.view_as(prior.mean).to(prior.mean.dtype), pixels)

        def look(v: Tensor) -> _Place:
            return (_Wide if wide else _Place).of(v, x, linearised(v), deviation.flatten(1), weight)

        rounds, rounding = self._rounds(), torch.finfo(prior.mean.dtype).eps
        start = torch.zeros_like(prior.mean, dtype=torch.float64).flatten(1)
        peak = climb(look, start, rounds, rounding)
        if not (self.training or self.of_sum):  # parts one by one: there may be several peaks
            badly = _misfit(x, linearised(peak.at)) > BADLY
            for side in (1.0, -1.0) if badly.any() else ():
                other = climb(look, _apart(start, side), rounds, rounding)
                peak = other.where(badly & (other.cost < peak.cost), peak)
        found = ObservedNormal if wide else DenseNormal
        return found(prior, peak.at.to(prior.mean.dtype), peak.seen)

    def _rounds(self) -> int:
        return self.own.rounds * (1 if self.training else EVAL_FACTOR)

    def _pixels(self, given: Given) -> Tensor | None:
        """Which pixels a training step looks at, (P,); None for all."""
        if not self.own.pixels or not self.training:
            return None
        return given.noise.permutation("pixels/newton", given.n_pixels)[: self.own.pixels]


def _misfit(x: Tensor, seen: Linearised) -> Tensor:
    """Mean of (x - mean)^2 / variance over the values of a whole, about 1 where it is explained, (B,).  x: (B, N)."""
    return ((x - seen.mean) ** 2 / seen.variance).mean(1)


def _apart(start: Tensor, side: float) -> Tensor:
    """Neighbours on either side of their priors, side (1, -1, 1, ..): one start for all wholes.  start: (B, D)."""
    sign = 1 - 2 * (torch.arange(start.shape[1], device=start.device) % 2)
    return start + side * sign.to(start.dtype)


class _Place(Place):
    """at: v, (B, D).  cost: -ln p(x | w) p(w) but for a constant.  slope: J^T r - v.  seen: I + J^T J, (B, D, D)."""

    @classmethod
    def of(cls, v: Tensor, x: Tensor, seen: Linearised, deviation: Tensor, weight: float) -> _Place:
        """x: (B, N).  deviation: of the prior, (B, D).  weight: of a value against the prior."""
        # in double precision: J^T J is far larger than the I beside it where x says much
        variance, deviation = seen.variance.double(), deviation.double()
        sigma = (variance / weight).sqrt()
        residual = (x - seen.mean) / sigma
        cost = 0.5 * ((v**2).sum(1) + (residual**2).sum(1)) + weight * 0.5 * variance.log().sum(1)
        jacobian = seen.jacobian.double().div_(sigma[..., None])
        slope = (residual[:, None] @ jacobian)[:, 0] * deviation - v
        return cls(v, cost, slope, cls.curvature(jacobian, deviation))

    @staticmethod
    def curvature(jacobian: Tensor, deviation: Tensor) -> Tensor:
        """What is kept of J = jacobian deviation: far less than J where x has many values.  jacobian: (B, N, D)."""
        precision = (jacobian.mT @ jacobian).mul_(deviation[:, :, None]).mul_(deviation[:, None])
        precision.diagonal(dim1=1, dim2=2).add_(1)
        return precision

    def step(self, damping: Tensor) -> Tensor:
        """Where to go from here, (B, D).  damping: (B,)."""
        return damped_step(self.seen, self.slope, damping)


class _Wide(_Place):
    """seen: J itself, (B, N, D), which is smaller where there are fewer values than coordinates."""

    @staticmethod
    def curvature(jacobian: Tensor, deviation: Tensor) -> Tensor:
        """J.  jacobian: (B, N, D).  deviation: (B, D)."""
        return jacobian.mul_(deviation[:, None])

    def step(self, damping: Tensor) -> Tensor:
        """Where to go from here, (B, D).  damping: (B,)."""
        return damped_step_wide(self.seen, self.slope, damping)
