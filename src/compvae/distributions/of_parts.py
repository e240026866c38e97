"""Gaussians over the parts of one whole: one interface, `rsample`, `log_prob`, `kl(prior)`, `sum`.

Per coordinate, with eps ~ N(0, I), R = sum rho_i, 0 < rho_i, R < 1  (theory, sections 3 and 4):

* :class:`Normal`              w_i = mu_i + s_i eps_i, which knows no parts: its `sum` is told which sum each enters
* :class:`PaperCorrelated`     w_i = mu_i + s_i (eps_i - rho_i sum_j eps_j)                   (paper, appendix C)
* :class:`SumControlled`       w_i = mu_i + s_i eps_i - rho_i sum_j s_j eps_j                 (ours)
* :class:`Bridge`              W ~ q(W), then {w_i} | W ~ N(m + k (W - M), diag(p^2) - S k k^T)   (ours)

All cost O(K).  Errata: the paper's L_w lacks a 1/2 on its trace term and the constant -K/2, and its formula for
Var(sum w) is wrong; the ones here are checked against dense multivariate normals in the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.distributions.normal import LOG_2PI, WIDEST, Members, Normal, bounded, per_row, variance_of
from compvae.noise import Noise

__all__ = ["Bridge", "PaperCorrelated", "PartsGaussian", "SumControlled", "correlations"]


class PartsGaussian(ABC):
    """A Gaussian over the parts {w_i}, (B, K, D), correlated within each coordinate and block.

    members: which parts exist and which sum each enters.  mean: (B, K, D).
    """

    members: Members
    mean: Tensor

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Diagonal of the covariance, (B, K, D); anything finite where padded."""

    @abstractmethod
    def rsample(self, noise: Noise, name: str) -> Tensor:
        """One draw of all parts, (B, K, D), 0 where padded."""

    @abstractmethod
    def sum(self) -> Normal:
        """The distribution of the sums W, (B, G, D)."""

    @abstractmethod
    def _log_det(self) -> Tensor:
        """ln |covariance| summed over coordinates, (B,)."""

    @abstractmethod
    def _quadratic(self, deviation: Tensor) -> Tensor:
        """(w - mean)^T covariance^-1 (w - mean), summed over coordinates.  deviation: (B, K, D), 0 where padded."""

    def log_prob(self, w: Tensor) -> Tensor:
        """ln q({w_i}).  w: (B, K, D) -> (B,)."""
        coordinates = self.members.mask.sum(1) * self.mean.shape[2]
        deviation = (w - self.mean) * self.members.mask[..., None]
        return -0.5 * (self._quadratic(deviation) + self._log_det() + coordinates * LOG_2PI)

    def kl(self, prior: Normal) -> Tensor:
        """KL(q || prod_i N(m_i, p_i^2)) = 1/2 sum [(var_i + (mean_i - m_i)^2)/p_i^2 - 1 + ln p_i^2] - 1/2 ln|Cov|.

        prior: normal over (B, K, D).  -> (B,) nats.
        """
        mask = self.members.mask[..., None]
        p2 = prior.variance.masked_fill(~mask, 1.0)
        terms = (self.variance + (self.mean - prior.mean) ** 2) / p2 - 1 + p2.log()
        return 0.5 * (per_row(terms.masked_fill(~mask, 0.0)) - self._log_det())


def correlations(logits: Tensor, members: Members) -> tuple[Tensor, Tensor]:
    """rho_i = exp(r_i) / (1 + sum_j exp(r_j)), and ln(1 - R) = -ln(1 + sum_j exp(r_j)) without cancellation.

    Logits are bounded as log-variances are, so that 1 / (1 - R) is a number too.
    logits: (B, K, D) -> rho (B, K, D), log_slack (B, G, D).
    """
    logits = bounded(logits)
    top = members.highest(logits)
    shifted = (logits - members.spread(top)).masked_fill(~members.mask[..., None], -torch.inf).exp()
    denominator = (-top).exp() + members.total(shifted)
    return shifted / members.spread(denominator), -(top + denominator.log())


@dataclass(frozen=True)
class _Repelled(PartsGaussian):
    """What both families with rho hold: parts that repel each other, so that their sum varies less than they do.

    mean, scale, rho: (B, K, D), rho 0 where padded.  log_slack: ln(1 - R), (B, G, D).
    """

    members: Members
    mean: Tensor
    scale: Tensor
    rho: Tensor
    log_slack: Tensor

    @classmethod
    def of(cls, members: Members, mean: Tensor, log_variance: Tensor, logits: Tensor) -> _Repelled:
        """From a network's outputs.  mean, log_variance, logits: (B, K, D)."""
        rho, log_slack = correlations(logits, members)
        return cls(members, mean, variance_of(log_variance, widest=WIDEST).sqrt(), rho, log_slack)

    def _log_det(self) -> Tensor:
        scales = self.scale.log().masked_fill(~self.members.mask[..., None], 0.0)
        return 2 * (per_row(scales) + per_row(self.log_slack))

    def _unmix(self, value: Tensor) -> Tensor:
        """(I - rho 1^T)^-1 value, by Sherman-Morrison.  value: (B, K, D)."""
        return value + self.rho * self.members.spread(self.members.total(value) * (-self.log_slack).exp())

    def _unit(self, noise: Noise, name: str) -> Tensor:
        unit = noise.normal(name, *self.mean.shape[1:], dtype=self.mean.dtype)
        return unit * self.members.mask[..., None]

    def _present(self) -> Tensor:
        return self.members.sizes(self.mean.dtype) > 0


class PaperCorrelated(_Repelled):
    """The paper's family.  Var(sum w) = sum_i (s_i - c)^2, c = sum_k s_k rho_k: 0 only if all s_i are equal."""

    @property
    def variance(self) -> Tensor:
        """s_i^2 (1 - 2 rho_i + K rho_i^2), (B, K, D)."""
        size = self.members.spread(self.members.sizes(self.mean.dtype))
        return self.scale**2 * (1 - 2 * self.rho + size * self.rho**2)

    def rsample(self, noise: Noise, name: str) -> Tensor:
        """w_i = mu_i + s_i (eps_i - rho_i sum_j eps_j), (B, K, D)."""
        unit = self._unit(noise, name)
        mixed = unit - self.rho * self.members.spread(self.members.total(unit))
        return (self.mean + self.scale * mixed) * self.members.mask[..., None]

    def sum(self) -> Normal:
        """Moments of W, (B, G, D)."""
        centre = self.members.spread(self.members.total(self.scale * self.rho))
        return Normal(self.members.total(self.mean), self.members.total((self.scale - centre) ** 2), self._present())

    def _quadratic(self, deviation: Tensor) -> Tensor:
        return per_row(self._unmix(deviation / self.scale) ** 2)


class SumControlled(_Repelled):
    """Our family.  Var(sum w) = (1 - R)^2 S, S = sum_j s_j^2: goes to 0 for any s."""

    @property
    def variance(self) -> Tensor:
        """s_i^2 (1 - 2 rho_i) + S rho_i^2, (B, K, D)."""
        total = self.members.spread(self.members.total(self.scale**2))
        return self.scale**2 * (1 - 2 * self.rho) + total * self.rho**2

    def rsample(self, noise: Noise, name: str) -> Tensor:
        """w_i = mu_i + s_i eps_i - rho_i sum_j s_j eps_j, (B, K, D)."""
        scaled = self.scale * self._unit(noise, name)
        mixed = scaled - self.rho * self.members.spread(self.members.total(scaled))
        return (self.mean + mixed) * self.members.mask[..., None]

    def sum(self) -> Normal:
        """Moments of W, (B, G, D)."""
        variance = (2 * self.log_slack).exp() * self.members.total(self.scale**2)
        return Normal(self.members.total(self.mean), variance, self._present())

    def _quadratic(self, deviation: Tensor) -> Tensor:
        return per_row((self._unmix(deviation) / self.scale) ** 2)


class Bridge(PartsGaussian):
    """q({w_i}) = q(W) p({w_i} | W, {l_i}): the best q with this q(W), for every decoder that sees W alone.

    k_i = p_i^2 / S, S = sum p_i^2, M = sum m_i; with q(W) = N(mean_W, v) the covariance is
    diag(p^2) - S k k^T + v k k^T, and KL(q || prior) = KL(q(W) || N(M, S)).

    whole: q(W), normal over (B, G, D).  prior: normal over (B, K, D).
    """

    def __init__(self, whole: Normal, prior: Normal, members: Members) -> None:
        self.members, self.whole, self.prior = members, whole, prior
        self.prior_sum = prior.sum(members)
        self._total_variance = self.prior_sum._safe(self.prior_sum.variance)
        self.share = prior.variance / members.spread(self._total_variance)
        self.mean = self.condition(prior.mean, whole.mean)

    @property
    def variance(self) -> Tensor:
        """p_i^2 + (v - S) k_i^2, (B, K, D)."""
        excess = self.whole.variance - self._total_variance
        return self.prior.variance + self.members.spread(excess) * self.share**2

    def condition(self, w: Tensor, whole: Tensor) -> Tensor:
        """Move parts drawn freely onto sum_i w_i = W: w_i + k_i (W - sum_j w_j)  (Matheron's rule).

        w: (B, K, D).  whole: W, (B, G, D).  A draw of the prior becomes an exact draw of the bridge at W.
        """
        gap = self.members.spread(whole - self.members.total(w))
        return (w + self.share * gap) * self.members.mask[..., None]

    def rsample(self, noise: Noise, name: str) -> Tensor:
        """W ~ q(W), then the parts given W, (B, K, D)."""
        return self.rsample_given(self.whole.rsample(noise, name), noise, name)

    def rsample_given(self, whole: Tensor, noise: Noise, name: str) -> Tensor:
        """Parts given their sum.  whole: W, (B, G, D) -> (B, K, D)."""
        return self.condition(self.prior.rsample(noise, f"{name}/bridge"), whole)

    def sum(self) -> Normal:
        """q(W) itself, (B, G, D)."""
        return self.whole

    def _log_det(self) -> Tensor:
        mask = self.members.mask[..., None]
        parts = per_row(self.prior.variance.masked_fill(~mask, 1.0).log())
        ratio = self.prior_sum._safe(self.whole.variance) / self._total_variance
        return parts + per_row(ratio.log())

    def _quadratic(self, deviation: Tensor) -> Tensor:
        mask = self.members.mask[..., None]
        gap = self.members.total(deviation)
        parts = deviation**2 / self.prior.variance.masked_fill(~mask, 1.0)
        sums = gap**2 / self.prior_sum._safe(self.whole.variance) - gap**2 / self._total_variance
        return per_row(parts) + per_row(self.prior_sum._masked(sums))
