"""N(mean, S^1/2 P^-1 S^1/2): a Gaussian with all correlations, its precision P given in units of a prior's variance S.

In those units the prior is N(0, I), so P = I + (what x says) is never narrower than 1 in any direction, and coordinates
that do not exist (S = 0) have an identity row: they cost nothing and stay at their mean.  What N values say of D
coordinates is P = I + J^T J with J (N, D): where N < D everything is done with I + J J^T, which is the smaller
(Woodbury), and P is never built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.distributions.normal import LOG_2PI, Normal
from compvae.noise import Noise

__all__ = [
    "Correlated",
    "DenseNormal",
    "Linearised",
    "ObservedNormal",
    "damped_step",
    "damped_step_wide",
    "jacobian",
    "root_of",
]


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


class Correlated(ABC):
    """A Gaussian over (B, *) with D numbers a row, all correlated.

    prior: normal over (B, *) whose variance is the unit.
    shift: (mean - prior's mean) in units of the prior's deviation, (B, D).
    """

    def __init__(self, prior: Normal, shift: Tensor) -> None:
        self.mask = torch.ones_like(prior.mean, dtype=torch.bool) if prior.mask is None else prior.mask
        self.mask = self.mask.expand_as(prior.mean)
        self._deviation = prior.variance.expand_as(prior.mean).masked_fill(~self.mask, 0.0).sqrt()
        self.mean = (prior.mean + self._deviation * shift.view_as(prior.mean)).masked_fill(~self.mask, 0.0)

    @property
    def variance(self) -> Tensor:
        """Diagonal of the covariance, (B, *)."""
        return self._deviation**2 * self._unit_variance().view_as(self.mean)

    def covariances(self) -> Tensor:
        """Covariance within each vector of the last axis, for mean (B, A, d) -> (B, A, d, d)."""
        return self._unit_covariances() * self._deviation[..., :, None] * self._deviation[..., None, :]

    def marginals(self) -> Normal:
        """Each coordinate on its own, over (B, *)."""
        return Normal(self.mean, self.variance, self.mask)

    def rsample(self, noise: Noise, name: str) -> Tensor:
        """mean + S^1/2 u, u ~ N(0, P^-1), (B, *)."""
        return self.mean + self._deviation * self._unit_draw(noise, name).view_as(self.mean)

    def log_prob(self, value: Tensor) -> Tensor:
        """ln N(value).  value: (B, *) -> (B,)."""
        whitened = ((value - self.mean) / self._deviation.masked_fill(~self.mask, 1.0)).masked_fill(~self.mask, 0.0)
        square = self._square(whitened.flatten(1))
        return -0.5 * (square + self._log_det() + self.mask.flatten(1).sum(1) * LOG_2PI)

    def kl(self, prior: Normal) -> Tensor:
        """1/2 sum [(var_i + (mean_i - m_i)^2) / p_i^2 - 1 + ln p_i^2] - 1/2 ln|Cov|, nats (B,).  prior: over (B, *)."""
        p2 = prior.variance.expand_as(self.mean).masked_fill(~self.mask, 1.0)
        terms = (self.variance + (self.mean - prior.mean) ** 2) / p2 - 1 + p2.log()
        return 0.5 * (terms.masked_fill(~self.mask, 0.0).flatten(1).sum(1) - self._log_det())

    def _log_det(self) -> Tensor:
        """ln |covariance|, (B,)."""
        return 2 * self._deviation.masked_fill(~self.mask, 1.0).log().flatten(1).sum(1) - self._log_precision()

    @abstractmethod
    def _unit_variance(self) -> Tensor:
        """Diagonal of P^-1, (B, D)."""

    @abstractmethod
    def _unit_covariances(self) -> Tensor:
        """Blocks of P^-1 on its diagonal, (B, A, d, d)."""

    @abstractmethod
    def _unit_draw(self, noise: Noise, name: str) -> Tensor:
        """u ~ N(0, P^-1), (B, D)."""

    @abstractmethod
    def _square(self, u: Tensor) -> Tensor:
        """u^T P u, (B,).  u: (B, D)."""

    @abstractmethod
    def _log_precision(self) -> Tensor:
        """ln |P|, (B,)."""


class DenseNormal(Correlated):
    """With P itself.

    precision: P, (B, D, D), symmetric, identity rows where a coordinate does not exist.
    """

    def __init__(self, prior: Normal, shift: Tensor, precision: Tensor) -> None:
        super().__init__(prior, shift)
        self._root = root_of(precision).to(prior.mean.dtype)

    def _unit_variance(self) -> Tensor:
        """Squared length of column i of L^-1, P = L L^T."""
        return (self._inverse_root() ** 2).sum(1)

    def _unit_covariances(self) -> Tensor:
        inverse = self._inverse_root().unflatten(2, self.mean.shape[1:])
        return torch.einsum("bnad,bnae->bade", inverse, inverse)

    def _unit_draw(self, noise: Noise, name: str) -> Tensor:
        """L^-T eps."""
        unit = noise.normal(name, *self.mean.shape[1:], dtype=self.mean.dtype).flatten(1)
        out: Tensor = torch.linalg.solve_triangular(self._root.mT, unit[..., None], upper=True)[..., 0]
        return out

    def _square(self, u: Tensor) -> Tensor:
        return ((self._root.mT @ u[..., None]) ** 2).sum((1, 2))

    def _log_precision(self) -> Tensor:
        return 2 * self._root.diagonal(dim1=1, dim2=2).log().sum(1)

    def _inverse_root(self) -> Tensor:
        """L^-1, (B, D, D)."""
        eye = torch.eye(self._root.shape[-1], dtype=self._root.dtype, device=self._root.device)
        out: Tensor = torch.linalg.solve_triangular(self._root, eye.expand_as(self._root), upper=False)
        return out


class ObservedNormal(Correlated):
    """P = I + J^T J where N values say little of D coordinates: P^-1 = I - H^T H, H = L^-1 J, L L^T = I + J J^T.

    seen: J, (B, N, D), in units of the prior's and of the noise's deviation, 0 where a coordinate does not exist.
    """

    def __init__(self, prior: Normal, shift: Tensor, seen: Tensor) -> None:
        super().__init__(prior, shift)
        root = root_of(_gram(seen))
        self._half = torch.linalg.solve_triangular(root, seen, upper=False).to(prior.mean.dtype)
        self._seen, self._root = seen.to(prior.mean.dtype), root.to(prior.mean.dtype)

    def _unit_variance(self) -> Tensor:
        out: Tensor = (1 - (self._half**2).sum(1)).clamp(min=1e-12)
        return out

    def _unit_covariances(self) -> Tensor:
        half = self._half.unflatten(2, self.mean.shape[1:])
        eye = torch.eye(half.shape[-1], dtype=half.dtype, device=half.device)
        return eye - torch.einsum("bnad,bnae->bade", half, half)

    def _unit_draw(self, noise: Noise, name: str) -> Tensor:
        """v - J^T (I + J J^T)^-1 (J v + e), v and e ~ N(0, I): a draw of the prior, corrected by what it would show."""
        v = noise.normal(name, *self.mean.shape[1:], dtype=self.mean.dtype).flatten(1)
        e = noise.normal(f"{name}/observed", self._seen.shape[1], dtype=self.mean.dtype)
        wrong = (self._seen @ v[..., None]) + e[..., None]
        pull: Tensor = self._half.mT @ torch.linalg.solve_triangular(self._root, wrong, upper=False)
        return v - pull[..., 0]

    def _square(self, u: Tensor) -> Tensor:
        out: Tensor = (u**2).sum(1) + ((self._seen @ u[..., None]) ** 2).sum((1, 2))
        return out

    def _log_precision(self) -> Tensor:
        return 2 * self._root.diagonal(dim1=1, dim2=2).log().sum(1)


def damped_step(precision: Tensor, slope: Tensor, damping: Tensor) -> Tensor:
    """(P + damping diag P)^-1 slope, (B, D).  precision: P, (B, D, D).  slope: (B, D).  damping: (B,)."""
    damped = precision + torch.diag_embed(damping[:, None] * precision.diagonal(dim1=1, dim2=2))
    return torch.cholesky_solve(slope[..., None], root_of(damped))[..., 0]


def damped_step_wide(seen: Tensor, slope: Tensor, damping: Tensor) -> Tensor:
    """(P + damping I)^-1 slope, (B, D), P = I + J^T J never built.  seen: J, (B, N, D), wide.  damping: (B,)."""
    scale = (1 + damping)[:, None]
    pushed = (seen @ slope[..., None]) / scale[..., None]
    back = torch.cholesky_solve(pushed, root_of(_gram(seen / scale.sqrt()[..., None])))
    return (slope - (seen.mT @ back)[..., 0]) / scale


def _gram(seen: Tensor) -> Tensor:
    """I + J J^T, (B, N, N)."""
    return seen @ seen.mT + torch.eye(seen.shape[1], dtype=seen.dtype, device=seen.device)
