"""The units of the map: u = C^-1 (W - E W), C a function of the composition, W ~ base.

    each value alone     C = diag s,  s_t^2 = Var W_t + quiet^2 mean_t Var W
    whitened             C = (Cov W)^(1/2), the symmetric root: smooth in the composition

In units of their own spread alone, values that hardly vary have rare outliers that drown all others: hence ``quiet``.
Whitened, thin directions of a cloud (a difference of two values that nearly agree) are as wide as all others, and the
map can tell modes apart that lie along them.  That needs a covariance without directions of no variance.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from compvae.transport.gaussian import LinearGaussian

__all__ = ["RootUnits", "SpreadUnits", "Units"]

LEAST = 1e-12  # variance of a direction, over the largest


class Units(Protocol):
    """What W - E W is measured in.  Both functions are inverse to each other and linear."""

    def into(self, deviation: Tensor) -> Tensor:
        """u of W - E W.  deviation: (B, T) -> (B, T)."""

    def back(self, u: Tensor) -> Tensor:
        """W - E W of u.  u: (B, T) -> (B, T)."""


class SpreadUnits:
    """Each value alone.  spread: standard deviations of the values of W, (B, T)."""

    def __init__(self, spread: Tensor, quiet: float) -> None:
        variance = spread.square()
        self.scale = (variance + quiet**2 * variance.mean(1, keepdim=True)).sqrt()

    def into(self, deviation: Tensor) -> Tensor:
        """As in the protocol."""
        return deviation / self.scale

    def back(self, u: Tensor) -> Tensor:
        """As in the protocol."""
        return u * self.scale


class RootUnits:
    """Whitened.  gaussian: W - E W of B wholes."""

    def __init__(self, gaussian: LinearGaussian) -> None:
        variances, axes = torch.linalg.eigh(gaussian.covariance())
        spread = torch.maximum(variances, LEAST * variances[:, -1:]).sqrt()[:, None]
        self.root = (axes * spread) @ axes.mT
        self.inverse = (axes / spread) @ axes.mT

    def into(self, deviation: Tensor) -> Tensor:
        """As in the protocol."""
        u: Tensor = (self.inverse @ deviation[..., None])[..., 0]
        return u

    def back(self, u: Tensor) -> Tensor:
        """As in the protocol."""
        deviation: Tensor = (self.root @ u[..., None])[..., 0]
        return deviation
