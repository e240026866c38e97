"""v ~ sum_m pi_m(z) N(mu_m, L_m L_m^T), brought to mean 0 and covariance I: the shape of a part's distribution.

A part's latents are w = m_c(z) + p_c(z) v.  Gaussian v is enough for many parts of a kind, but one car that charges or
does not is no Gaussian, and peaks of a few homes show it.  A sum of n draws of a mixture is Gaussian given how many
parts took each component, so that the sum is drawn from those numbers: O(#kinds * M), not O(K) networks.  Because v is
standardised at every z, sums keep the moments n m_c(z), n p_c^2(z) whatever the shape, and beyond
:data:`COUNTED` parts of a kind the sum is Gaussian (central limit).

Inference takes the Gaussian with the same moments.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from compvae.distributions.dense import root_of
from compvae.nn.descent import Tick
from compvae.noise import NormalSource

__all__ = ["COUNTED", "EM_ROUNDS", "PartMixture"]

COUNTED = 64  # parts of a kind whose components are drawn one by one
EM_ROUNDS = 40
JITTER = 1e-4  # of a variance of 1, keeps covariances invertible


class PartMixture(nn.Module):
    """M components for each of C kinds, in d coordinates, with weights that move with z (Z may be 0).

    gate: (C, M, 1 + Z), logits are gate . (1, z).  mean: (C, M, d).  root: (C, M, d, d), lower triangular.
    correlated: R, (C, d, d), v = R times the standardised mixture; rows of length 1.
    """

    gate: Tensor
    mean: Tensor
    root: Tensor
    correlated: Tensor

    def __init__(self, kinds: int, components: int, size: int, z: int) -> None:
        super().__init__()
        self.register_buffer("gate", torch.zeros(kinds, components, 1 + z))
        self.register_buffer("mean", torch.zeros(kinds, components, size))
        self.register_buffer("root", torch.eye(size).expand(kinds, components, size, size).clone())
        self.register_buffer("correlated", torch.eye(size).expand(kinds, size, size).clone())

    def weights(self, z: Tensor | None, rows: int, kinds: Tensor | slice = slice(None)) -> Tensor:
        """pi_m(z) of these kinds, (B, S, M).  z: (B, Z) or None.  kinds: (S,) int64."""
        one = self.gate.new_ones(rows, 1)
        seen = one if z is None else torch.cat([one, z.to(one)], 1)
        return torch.einsum("bz,cmz->bcm", seen, self.gate[kinds]).softmax(-1)

    def draw_sum(self, counts: Tensor, z: Tensor | None, noise: NormalSource, name: str) -> Tensor:
        """The sum of n_c draws of v for each kind, (B, C, d): mean 0, covariance n_c R R^T.

        counts: n, (B, C).  z: (B, Z) or None.
        """
        kinds, _, size = self.mean.shape
        unit = noise.normal(name, kinds, size, dtype=self.mean.dtype)
        n = counts.to(unit.dtype)[..., None]
        total = n.sqrt() * unit
        # only kinds of which some whole has a few parts have a shape; of the others nothing is computed
        shaped = ((counts > 0) & (counts <= COUNTED)).any(0).nonzero()[:, 0]
        if len(shaped):
            drawn = self._few(shaped, counts, unit[:, shaped], z, noise, name)
            total[:, shaped] = torch.where(n[:, shaped] > COUNTED, total[:, shaped], drawn)
        return torch.einsum("cde,bce->bcd", self.correlated, total.masked_fill(n == 0, 0.0))

    def _few(
        self, kinds: Tensor, counts: Tensor, unit: Tensor, z: Tensor | None, noise: NormalSource, name: str
    ) -> Tensor:
        """The standardised sum of up to COUNTED draws for these kinds, (B, S, d).

        kinds: (S,) int64.  counts: (B, C).  unit: white noise, (B, S, d).  z: (B, Z) or None.
        """
        few = counts[:, kinds].clamp(max=COUNTED)
        weights = self.weights(z, len(counts), kinds)
        mean, root = self.mean[kinds], self.root[kinds]
        taken = self._taken(kinds, counts.shape[1], few, weights, noise, f"{name}/component").to(mean.dtype)
        covariance = root @ root.mT
        spread = root_of(torch.einsum("bcm,cmde->bcde", taken, covariance).flatten(0, 1) + self._jitter())
        total = torch.einsum("bcm,cmd->bcd", taken, mean) + _apply(spread, unit)
        return self._standard(total, few.to(unit.dtype), weights, mean, covariance)

    def _taken(
        self, kinds: Tensor, total: int, counts: Tensor, weights: Tensor, noise: NormalSource, name: str
    ) -> Tensor:
        """How many parts took each component, (B, S, M).

        kinds: (S,) int64, of ``total``.  counts: (B, S), at most COUNTED.  weights: (B, S, M).
        """
        drawn = noise.normal(name, COUNTED, total)[..., kinds].mT  # always as many, so that K costs nothing
        quantile = 0.5 * torch.erfc(-drawn / math.sqrt(2))
        chosen = torch.searchsorted(weights.cumsum(-1), quantile.contiguous()).clamp_(max=weights.shape[-1] - 1)
        there = (torch.arange(COUNTED, device=counts.device) < counts[..., None]).to(torch.int64)
        return torch.zeros_like(weights, dtype=torch.int64).scatter_add_(2, chosen, there)

    def _standard(self, total: Tensor, n: Tensor, weights: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
        """T^-1 (total - n E v), T T^T = Cov v at these weights, (B, S, d).

        total: (B, S, d).  n: (B, S).  mean: (S, M, d).  covariance: (S, M, d, d).
        """
        expected = torch.einsum("bcm,cmd->bcd", weights, mean)
        second = covariance + torch.einsum("cmd,cme->cmde", mean, mean)
        spread = torch.einsum("bcm,cmde->bcde", weights, second) - torch.einsum("bcd,bce->bcde", expected, expected)
        root = root_of(spread.flatten(0, 1) + self._jitter())
        centred = (total - n[..., None] * expected).flatten(0, 1)[..., None]
        out: Tensor = torch.linalg.solve_triangular(root, centred, upper=False)[..., 0].view_as(total)
        return out

    def _jitter(self) -> Tensor:
        return JITTER * torch.eye(self.mean.shape[-1], dtype=self.mean.dtype, device=self.mean.device)

    @torch.no_grad()
    def fit(self, kind: int, v: Tensor, z: Tensor | None, rounds: int = EM_ROUNDS, tick: Tick | None = None) -> None:
        """Generalised EM of one kind.  v: (N, d), z: (N, Z), draws of its parts; N of a few hundred or more."""
        if len(v) < 4 * self.mean.shape[-1]:
            return
        v = v.double()
        seen = torch.cat([v.new_ones(len(v), 1), v[:, :0] if z is None else z.double()], 1)
        gate, components = self.gate.shape, self.mean.shape[1]
        resp = _first_guess(v, components)
        weights = torch.zeros(components, gate[-1], dtype=torch.float64)
        for _ in range(rounds):
            mean, root = _moments(v, resp)
            weights = _gated(weights, seen, resp)
            density = _log_density(v, mean, root)
            resp = (density + (seen @ weights.T).log_softmax(1)).softmax(1)
            if tick is not None:
                tick()
        mean, root = _moments(v, resp)
        self.gate[kind], self.mean[kind], self.root[kind] = (t.to(self.mean) for t in (weights, mean, root))


def _apply(root: Tensor, unit: Tensor) -> Tensor:
    """root unit, row by row.  root: (B C, d, d).  unit: (B, C, d)."""
    return (root @ unit.flatten(0, 1)[..., None])[..., 0].view_as(unit)


def _first_guess(v: Tensor, components: int) -> Tensor:
    """Memberships by a few rounds of k-means from points spread over the data, (N, M)."""
    centres = v[torch.linspace(0, len(v) - 1, components).long()]
    for _ in range(10):
        near = torch.nn.functional.one_hot(torch.cdist(v, centres).argmin(1), components).double()
        number = near.sum(0)[:, None]
        centres = torch.where(number > 0, near.T @ v / number.clamp(min=1), centres)
    return near


def _moments(v: Tensor, resp: Tensor) -> tuple[Tensor, Tensor]:
    """Means (M, d) and roots of covariances (M, d, d), drawn towards the whole's where a component has few members."""
    size = v.shape[1]
    number = resp.sum(0)
    mean = resp.T @ v / number.clamp(min=1e-6)[:, None]
    second = torch.stack([(v * r[:, None]).T @ v for r in resp.T])
    scatter = second - number[:, None, None] * torch.einsum("md,me->mde", mean, mean)
    prior = size * torch.diag(scatter.sum(0).diagonal() / len(v))  # as good as ``size`` further members
    covariance = (scatter + prior) / (number + size)[:, None, None]
    return mean, root_of(covariance + JITTER * torch.eye(size, dtype=v.dtype))


def _log_density(v: Tensor, mean: Tensor, root: Tensor) -> Tensor:
    """ln N(v; mean_m, L_m L_m^T) but for a constant, (N, M)."""
    columns = []
    for centre, lower in zip(mean, root, strict=True):
        white = torch.linalg.solve_triangular(lower, (v - centre).T, upper=False)
        columns.append(-0.5 * (white**2).sum(0) - lower.diagonal().log().sum())
    return torch.stack(columns, 1)


def _gated(weights: Tensor, seen: Tensor, resp: Tensor, steps: int = 5, ridge: float = 1.0) -> Tensor:
    """A few quasi-Newton steps of the softmax regression of memberships on (1, z) (Boehning's bound on the curvature).

    weights: (M, 1 + Z).  seen: (N, 1 + Z).  resp: (N, M).
    """
    curvature = 0.5 * seen.T @ seen + ridge * torch.eye(seen.shape[1], dtype=seen.dtype)
    for _ in range(steps):
        slope = (resp - (seen @ weights.T).softmax(1)).T @ seen - ridge * weights
        weights = weights + torch.linalg.solve(curvature, slope.T).T
    return weights
