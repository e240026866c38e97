"""N(mean, S^1/2 P^-1 S^1/2): a Gaussian with all correlations, its precision P given in units of a prior's variance S.

In those units the prior is N(0, I), so P = I + (what x says) is never narrower than 1 in any direction, and coordinates
that do not exist (S = 0) have an identity row: they cost nothing and stay at their mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.distributions import LOG_2PI, Normal
from compvae.noise import Noise

__all__ = ["DenseNormal", "Linearised", "jacobian", "root_of"]


@dataclass(frozen=True)
class Linearised:
    """x ~ N(mean + jacobian (w - w0), diag(variance)): an observation near w0.

    mean, variance: (B, N).  jacobian: (B, N, D).
    """

    mean: Tensor
    variance: Tensor
    jacobian: Tensor


def jacobian(function: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
    """f(at), (R, N), and df/d(at), (R, N, D), row by row.  function: rows to rows, (R, D) -> (R, N).

    One backward pass through the backward pass for each column: cheap where D is smaller than N.
    """
    with torch.enable_grad():
        at = at.detach().requires_grad_()
        value = function(at)
        seed = torch.zeros_like(value, requires_grad=True)
        (pulled,) = torch.autograd.grad(value, at, seed, create_graph=True)  # seed^T df/d(at), linear in seed
        columns = [torch.autograd.grad(pulled[:, d].sum(), seed, retain_graph=True)[0] for d in range(at.shape[1])]
    return value.detach(), torch.stack(columns, -1)


def root_of(precision: Tensor) -> Tensor:
    """L with L L^T = precision, (B, D, D); NaN, not an exception, where a diverged decoder leaves no such L."""
    root, failed = torch.linalg.cholesky_ex(precision)
    out: Tensor = root.masked_fill(failed.bool()[:, None, None], torch.nan)
    return out


class DenseNormal:
    """A Gaussian over (B, *) with D numbers a row.

    prior: normal over (B, *) whose variance is the unit.
    shift: (mean - prior's mean) in units of the prior's deviation, (B, D).
    precision: P, (B, D, D), symmetric, identity rows where a coordinate does not exist.
    """

    def __init__(self, prior: Normal, shift: Tensor, precision: Tensor) -> None:
        self.mask = torch.ones_like(prior.mean, dtype=torch.bool) if prior.mask is None else prior.mask
        self.mask = self.mask.expand_as(prior.mean)
        self._deviation = prior.variance.expand_as(prior.mean).masked_fill(~self.mask, 0.0).sqrt()
        self.mean = (prior.mean + self._deviation * shift.view_as(prior.mean)).masked_fill(~self.mask, 0.0)
        self._root = root_of(precision).to(prior.mean.dtype)

    def rows(self, rows: Tensor) -> DenseNormal:
        """Some of the rows, each as often as it is named.  rows: (R,) int64."""
        chosen = object.__new__(DenseNormal)
        chosen.mask, chosen.mean = self.mask[rows], self.mean[rows]
        chosen._deviation, chosen._root = self._deviation[rows], self._root[rows]
        return chosen

    @property
    def variance(self) -> Tensor:
        """Diagonal of the covariance, (B, *): S_i times the squared length of column i of L^-1, P = L L^T."""
        out: Tensor = self._deviation**2 * (self._inverse_root() ** 2).sum(1).view_as(self.mean)
        return out

    def covariances(self) -> Tensor:
        """Covariance within each vector of the last axis, for mean (B, A, d) -> (B, A, d, d)."""
        inverse = self._inverse_root().unflatten(2, self.mean.shape[1:])
        blocks = torch.einsum("bnad,bnae->bade", inverse, inverse)
        return blocks * self._deviation[..., :, None] * self._deviation[..., None, :]

    def marginals(self) -> Normal:
        """Each coordinate on its own, over (B, *)."""
        return Normal(self.mean, self.variance, self.mask)

    def rsample(self, noise: Noise, name: str) -> Tensor:
        """mean + S^1/2 L^-T eps, (B, *)."""
        unit = noise.normal(name, *self.mean.shape[1:], dtype=self.mean.dtype).flatten(1)
        mixed: Tensor = torch.linalg.solve_triangular(self._root.mT, unit[..., None], upper=True)[..., 0]
        return self.mean + self._deviation * mixed.view_as(self.mean)

    def log_prob(self, value: Tensor) -> Tensor:
        """ln N(value).  value: (B, *) -> (B,)."""
        whitened = ((value - self.mean) / self._deviation.masked_fill(~self.mask, 1.0)).masked_fill(~self.mask, 0.0)
        square = ((self._root.mT @ whitened.flatten(1)[..., None]) ** 2).sum((1, 2))
        return -0.5 * (square + self._log_det() + self.mask.flatten(1).sum(1) * LOG_2PI)

    def kl(self, prior: Normal) -> Tensor:
        """1/2 sum [(var_i + (mean_i - m_i)^2) / p_i^2 - 1 + ln p_i^2] - 1/2 ln|Cov|, nats (B,).  prior: over (B, *)."""
        p2 = prior.variance.expand_as(self.mean).masked_fill(~self.mask, 1.0)
        terms = (self.variance + (self.mean - prior.mean) ** 2) / p2 - 1 + p2.log()
        return 0.5 * (terms.masked_fill(~self.mask, 0.0).flatten(1).sum(1) - self._log_det())

    def _log_det(self) -> Tensor:
        """ln |covariance|, (B,)."""
        deviations = self._deviation.masked_fill(~self.mask, 1.0).log().flatten(1).sum(1)
        return 2 * (deviations - self._root.diagonal(dim1=1, dim2=2).log().sum(1))

    def _inverse_root(self) -> Tensor:
        """L^-1, (B, D, D)."""
        eye = torch.eye(self._root.shape[-1], dtype=self._root.dtype, device=self._root.device)
        out: Tensor = torch.linalg.solve_triangular(self._root, eye.expand_as(self._root), upper=False)
        return out
