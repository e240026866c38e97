"""Terms that add up to W - E W, all Gaussian, and their posterior given it: one algebra for every base.

    (W - E W) / factor = r = sum_g (L_g f_g + sqrt(d_g) e_g) + B z,   f_g, e_g, z ~ N(0, I)

g runs over the terms of a whole: one for each kind of part (base.py) or for each part (placed.py), the last for what
the whole brings beside its parts.  Woodbury's identity over the factors of all terms, then over z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from compvae.batch import Shared

__all__ = ["LinearGaussian", "Terms"]


@dataclass(frozen=True)
class Terms:
    """What W is made of beside its mean.

    each: deviation of each term from its mean, that of the whole in the last place, (B, G, T).
    z: (B, Z).
    """

    each: Tensor
    z: Tensor


@dataclass(frozen=True)
class LinearGaussian:
    """The terms of one batch of wholes.

    loadings: L_g side by side, (B, T, F), F = G R.  noises: d_g, (B, G, T).  shared: B, (B, T, Z).
    factor: what all terms are multiplied by, (B, 1) or (B, T).
    """

    loadings: Tensor
    noises: Tensor
    shared: Tensor
    factor: Tensor

    @cached_property
    def noise(self) -> Tensor:
        """Diagonal variances of all terms together, (B, T)."""
        return self.noises.sum(1)

    @cached_property
    def triangle(self) -> Tensor:
        """Cholesky factor of I + L' D^-1 L, (B, F, F)."""
        precision = self.loadings.mT @ (self.loadings / self.noise[..., None])
        found: Tensor = torch.linalg.cholesky(precision + torch.eye(precision.shape[-1], dtype=precision.dtype))
        return found

    @cached_property
    def inverse(self) -> Tensor:
        """(I + L' D^-1 L)^-1, (B, F, F)."""
        return torch.cholesky_inverse(self.triangle)

    def rows(self, rows: Tensor | slice) -> LinearGaussian:
        """The terms of some of the wholes, each as often as it is named.  rows: (R,) int64."""
        return LinearGaussian(self.loadings[rows], self.noises[rows], self.shared[rows], self.factor[rows])

    def spread(self) -> Tensor:
        """Standard deviation of each value of W, (B, T)."""
        own = self.loadings.square().sum(2) + self.noise + self.shared.square().sum(2)
        return own.sqrt() * self.factor

    def covariance(self) -> Tensor:
        """Cov W, (B, T, T): for few values."""
        own = self.loadings @ self.loadings.mT + torch.diag_embed(self.noise) + self.shared @ self.shared.mT
        factor = self.factor.expand(-1, own.shape[1])
        return own * factor[:, :, None] * factor[:, None]

    def pull(self, value: Tensor) -> Tensor:
        """(L L' + D)^-1 value.  value: (B, T, M) -> (B, T, M)."""
        scaled = value / self.noise[..., None]
        inner = torch.cholesky_solve(self.loadings.mT @ scaled, self.triangle)
        return scaled - (self.loadings @ inner) / self.noise[..., None]

    def log_prob(self, deviation: Tensor, groups: Shared | None = None) -> Tensor:
        """ln N(W - E W; 0, Cov W), nats (B,); that of wholes with one z is theirs together, split equally over them.

        deviation: W - E W, (B, T).
        """
        residual = (deviation / self.factor)[..., None]
        square = (residual * self.pull(residual)).sum((1, 2))
        spread = self.noise.log().sum(1) + 2 * self.triangle.diagonal(dim1=1, dim2=2).log().sum(1)
        information, score = self.messages(residual)
        groups = groups or Shared(torch.arange(len(deviation)), len(deviation))
        precision = torch.eye(score.shape[1], dtype=score.dtype) + groups.total(information)
        total = groups.total(score)
        gain = (total * torch.linalg.solve(precision, total[..., None])[..., 0]).sum(1)
        common = 0.5 * (gain - torch.linalg.slogdet(precision)[1]) / groups.members
        scales = self.factor.expand_as(deviation).log().sum(1)
        own = -0.5 * (square + spread + deviation.shape[1] * math.log(2 * math.pi)) - scales
        found: Tensor = own + common[groups.group]
        return found

    def square(self, deviation: Tensor) -> Tensor:
        """(W - E W)' (Cov W)^-1 (W - E W), (B, M), T in expectation, of M deviations of each.  deviation: (B, T, M)."""
        residual = deviation / self.factor[..., None]
        own = (residual * self.pull(residual)).sum(1)
        pulled = self.pull(self.shared)
        information, score = self.shared.mT @ pulled, pulled.mT @ residual
        precision = information + torch.eye(score.shape[1], dtype=score.dtype)
        explained: Tensor = (score * torch.linalg.solve(precision, score)).sum(1)
        return own - explained

    def of_z(self, z: Tensor) -> Tensor:
        """What parts share, (B, T).  z: (B, Z)."""
        return (self.shared @ z[..., None])[..., 0] * self.factor

    def posterior_mean(self, deviation: Tensor, groups: Shared | None = None) -> Terms:
        """E[terms | W]; their sum, with what is shared, is W - E W again.

        deviation: W - E W, (B, T).  groups: which wholes have one z.
        """
        residual = (deviation / self.factor)[..., None]
        z = self.z_given(residual, groups)[0]
        left = residual - self.shared @ z[..., None]
        inner = torch.cholesky_solve(self.loadings.mT @ (left / self.noise[..., None]), self.triangle)
        rows, number, values = self.noises.shape
        own = self.loadings.view(rows, values, number, -1) * inner.view(rows, 1, number, -1)
        rest = (left - self.loadings @ inner)[..., 0] / self.noise
        each = own.sum(3).mT + self.noises * rest[:, None]
        return Terms(each * self.factor[:, None], z)

    def conditioned(self, drawn: Terms, deviation: Tensor, groups: Shared | None = None) -> Terms:
        """A draw of the terms given W: one of their prior, moved by what W says beyond it (Matheron's rule).

        drawn: of the prior; wholes with one z have it in common.  Zeros give the means.
        """
        seen = drawn.each.sum(1) + self.of_z(drawn.z)
        moved = self.posterior_mean(deviation - seen, groups)
        return Terms(drawn.each + moved.each, drawn.z + moved.z)

    def messages(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """What each whole says of z: precision (B, Z, Z) and precision times mean (B, Z).  residual: (B, T, 1)."""
        pulled = self.pull(self.shared)
        return self.shared.mT @ pulled, (pulled.mT @ residual)[..., 0]

    def z_given(self, residual: Tensor, groups: Shared | None) -> tuple[Tensor, Tensor]:
        """Mean (B, Z) and covariance (B, Z, Z) of z given the wholes that share it.  residual: (B, T, 1)."""
        information, score = self.messages(residual)
        if groups is not None:
            information, score = groups.total(information)[groups.group], groups.total(score)[groups.group]
        covariance = torch.linalg.inv(information + torch.eye(score.shape[1], dtype=information.dtype))
        return (covariance @ score[..., None])[..., 0], covariance
