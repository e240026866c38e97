"""q(z | x_1..x_m): the Gaussian at the peak of p(z | context) prod_j p(x_j | z), with W integrated out.

z above the parts, wholes of one day, no encoder (theory, section 5, "The shared factor").  Near z, with M(z) and S(z)
the moments of p(W | z) and A = dx/dW at M(z),

    x_j | z ~ N( x(M_j(z)), C_j ),   C_j = A S_j A^T + R_j,   slope J_j = A dM_j/dz

so that each whole sends the Gaussian message of precision J^T C^-1 J, and messages of wholes that share z multiply:
what is not shared cannot enter z.  Damped Gauss-Newton, as for W in :mod:`compvae.posterior.newton`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.distributions import Normal
from compvae.distributions.dense import Correlated, DenseNormal, Linearised, damped_step, jacobian, root_of
from compvae.posterior.climbing import Place, climb

__all__ = ["Above", "factor_at_peak"]


@dataclass(frozen=True)
class Above:
    """What q(z | ..) is given where z stands above the parts.

    prior: p(z | context), over (B, Z).  sums: z (B, Z) -> p(W | z), over (B, G, d).
    linearise: W (B, G, d) -> p(x | W) near there.  kl_weight: as in :class:`~compvae.posterior.base.Given`.
    """

    batch: Batch
    evidence: Tensor
    prior: Normal
    sums: Callable[[Tensor], Normal]
    linearise: Callable[[Tensor], Linearised]
    kl_weight: float = 1.0


@torch.no_grad()
def factor_at_peak(above: Above, rounds: int) -> Correlated:
    """q(z | ..), over (B, Z), the same in all rows of a group."""
    start = torch.zeros_like(above.prior.mean, dtype=torch.float64)
    peak = climb(lambda u: _look(above, u), start, rounds, torch.finfo(above.prior.mean.dtype).eps)
    return DenseNormal(above.prior, peak.at.to(above.prior.mean.dtype), peak.seen)


class _Place(Place):
    """at: z in units of its prior, (B, Z).  seen: the precision, (B, Z, Z)."""

    def step(self, damping: Tensor) -> Tensor:
        """Where to go from here, (B, Z).  damping: (B,)."""
        return damped_step(self.seen, self.slope, damping)


def _look(above: Above, u: Tensor) -> _Place:
    """What is seen from u, (B, Z)."""
    prior, deviation = above.prior, above.prior.variance.sqrt()
    z = prior.mean + deviation * u.to(prior.mean.dtype)
    _, slope = jacobian(lambda at: above.sums(at).mean.flatten(1), z)  # dM/dz, (B, GD, Z)
    sums = above.sums(z)
    seen = above.linearise(sums.mean)
    spread = sums.variance.expand_as(sums.mean)
    spread = spread if sums.mask is None else spread.masked_fill(~sums.mask, 0.0)
    loading = seen.jacobian.double() * spread.flatten(1).double().sqrt()[:, None]
    noise = torch.diag_embed(seen.variance.double() * above.kl_weight)
    root = root_of(loading @ loading.mT + noise)
    moved = seen.jacobian.double() @ (slope * deviation[:, None]).double()
    residual = (above.batch.x.flatten(1).double() - seen.mean.double())[..., None]
    both = torch.linalg.solve_triangular(root, torch.cat([residual, moved], -1), upper=False)
    residual, moved = both[..., 0], both[..., 1:]
    misfit = 0.5 * (residual**2).sum(1) + root.diagonal(dim1=1, dim2=2).log().sum(1)
    eye = torch.eye(u.shape[1], dtype=u.dtype, device=u.device)
    return _Place(
        u,
        _together(misfit, above.batch) + 0.5 * (u**2).sum(1),
        _together((moved.mT @ residual[..., None])[..., 0], above.batch) - u,
        _together(moved.mT @ moved, above.batch) + eye,
    )


def _together(message: Tensor, batch: Batch) -> Tensor:
    """Messages of the wholes that share one z, added up and given to each.  message: (B, *)."""
    if batch.shared is None:
        return message
    total = batch.shared.total(message.reshape(len(message), -1))[batch.shared.group]
    return total.view_as(message)
