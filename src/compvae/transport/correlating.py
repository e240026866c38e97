"""What two wholes share, corrected after the map: B_c <- (1 + e_c) B_c, until drawn pairs with one z go together as
real ones do.

    <v, r> <v, r'> of a real pair - that of a drawn pair  =  sum_c e_c (what e_c changes) + noise,   e_c = e + e'_c

with r = (x - c) / unit, c the whole at the mean of its base, one unit for each value (times sqrt K, where wholes grow
with it), and v the direction in which drawn pairs have most in common.  Real and drawn pairs have the same
compositions, so that what the linear form neglects is in both.  e and e'_c are the means of their posterior, Gaussian
before: kinds of which the pairs say little move with the others.

The base has the covariance of real pairs, but the map is trained on one whole at a time and loosens it.  The variance
of each value stays as it is on average: what B gains, the terms of the kinds and of the whole lose.  The map goes on
training from the corrected base.
"""

from __future__ import annotations

import torch
from torch import Tensor

from compvae.batch import Batch, Shared
from compvae.noise import Noise
from compvae.transport.base import Base, with_whole
from compvae.transport.network import Transport

__all__ = ["CORRECTED_AT", "correct_shared_", "drawn_together", "scale_shared_"]

CORRECTED_AT = (0.4, 0.7, 0.9)  # of the steps
PAIRS, PAIR_VALUES = 8000, 2**21  # at most, and values of all of them
COARSE = 4  # steps of the map: statistics of many draws need no more
ITERATIONS = 20  # for the direction
PRIOR, PRIOR_KIND = 0.3, 0.15  # of the change that all kinds have in common, and of what each has beside it
LARGEST_CHANGE = 0.4  # of a loading at once
LEAST_OWN = 0.05  # of their variance that parts keep


@torch.no_grad()
def correct_shared_(network: Transport, wholes: Batch, seed: int) -> Tensor:
    """Correct in place; returns 1 + e_c, (C,), 1 where nothing is known to be shared.

    wholes: of the training data; those with one z stand together.
    """
    base = network.base
    first = _pairs(wholes) if isinstance(base, Base) else torch.zeros(0)
    if not len(first) or not network.config.factors:
        return torch.ones(network.config.parts.n_kinds, dtype=torch.float64)
    assert isinstance(base, Base)
    both = [wholes.rows(first + k) for k in (0, 1)]
    drawn = drawn_together(network, both[0], both[1], 1, seed, COARSE)
    roots = [b.parts.sizes[:, None].double().sqrt() if network.config.extensive else torch.ones(()) for b in both]
    centres = [_centre(network, b) for b in both]
    inside = [(x[:, 0].double() - c) / k for x, c, k in zip(drawn, centres, roots, strict=True)]
    real = [(b.x.flatten(1).double() - c) / k for b, c, k in zip(both, centres, roots, strict=True)]
    unit = torch.cat(inside).std(0).clamp(min=1e-30)
    inside, real = ([r / unit for r in pair] for pair in (inside, real))
    along = _common(*(r - r.mean(0) for r in inside))
    products = [(pair[0] @ along) * (pair[1] @ along) for pair in (real, inside)]
    loadings = torch.einsum("t,ctz->cz", along * base.scale.double() / unit, base.shared.double())
    shares = [b.parts.counts.double()[..., None] * loadings / k[..., None] for b, k in zip(both, roots, strict=True)]
    change = _change(products[0], products[1], shares[0], shares[1])
    scale_shared_(base, wholes.parts.counts.double(), 1 + change)
    return 1 + change


def _change(real: Tensor, drawn: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """e_c, (C,).  real, drawn: products of pairs, (P,).  one, other: what each kind brings to each whole, (P, C, Z)."""
    predicted = (one.sum(1) * other.sum(1)).sum(1)
    gain = (drawn @ predicted) / (predicted @ predicted).clamp(min=1e-300)  # the map's
    each = ((one * other.sum(1, keepdim=True)) + (other * one.sum(1, keepdim=True))).sum(2) * gain
    design = torch.cat([each.sum(1, keepdim=True), each], 1)  # what all have in common first
    target = real - drawn
    noise = target.var().clamp(min=1e-300)
    prior = torch.tensor([PRIOR, *[PRIOR_KIND] * each.shape[1]], dtype=design.dtype).square()
    found = torch.linalg.solve(design.T @ design / noise + (1 / prior).diag(), design.T @ target / noise)
    change: Tensor = (found[0] + found[1:]).clamp(-LARGEST_CHANGE, LARGEST_CHANGE)
    return change


def _centre(network: Transport, batch: Batch) -> Tensor:
    """The whole at the mean of its base, (B, T) float64."""
    given = network.given(batch.parts, batch.all_told)
    values = batch.x[0].numel()
    return network.wholes(torch.zeros(len(batch), values, dtype=torch.float64), given, COARSE).flatten(1).double()


@torch.no_grad()
def drawn_together(
    network: Transport, one: Batch, other: Batch, draws: int, seed: int, steps: int | None = None
) -> tuple[Tensor, Tensor]:
    """Draws for the compositions of both, (P, draws, T) each; z and unknown covariates are drawn once for the two.

    steps: of the map.
    """
    pairs = len(one)
    rows = torch.arange(pairs).repeat_interleave(draws)
    common = Noise(seed, len(rows), 2)
    z = common.normal("z", max(1, network.base.factors), dtype=torch.float64)
    found = []
    for number, batch in enumerate((one, other)):
        many = batch.rows(rows)
        noise = Noise(seed, len(rows), number)
        context = network.completed(many.all_told, common, len(many))
        x = network.draw(many.parts, context, noise, z[:, : network.base.factors], steps)
        found.append(x.flatten(1).view(pairs, draws, -1))
    return found[0], found[1]


def scale_shared_(base: Base, counts: Tensor, factors: Tensor) -> None:
    """B_c <- factor_c B_c in place; the terms of the kinds and of the whole take the rest of the variance.

    counts: (N, C).  factors: (C,).
    """
    size = counts.sum(1, keepdim=True)
    own = base.loadings.double().square().sum(2) + base.noise.double()
    own = (with_whole(counts) @ own / size).mean(0)  # (T,)

    def shared() -> Tensor:
        return (torch.einsum("bc,ctz->btz", counts, base.shared.double()).square().sum(2) / size).mean(0)

    before = shared()
    base.shared.mul_(factors[:, None, None].to(base.shared.dtype))
    left = (1 - (shared() - before) / own).clamp(min=LEAST_OWN).to(base.noise.dtype)
    base.noise.mul_(left)
    base.loadings.mul_(left.sqrt()[:, None])


def _pairs(wholes: Batch) -> Tensor:
    """The first of two neighbours with one z, (P,) int64."""
    groups: Shared | None = wholes.shared
    if groups is None:
        return torch.zeros(0, dtype=torch.int64)
    first = (groups.group[1:] == groups.group[:-1]).nonzero()[:, 0]
    return first[: min(PAIRS, PAIR_VALUES // wholes.x[0].numel())]


def _common(one: Tensor, other: Tensor) -> Tensor:
    """The direction of largest covariance between both, (T,), by power iteration.  one, other: (N, T)."""
    along = one.new_ones(one.shape[1])
    for _ in range(ITERATIONS):
        along = one.T @ (other @ along) + other.T @ (one @ along)
        along = along / along.norm().clamp(min=1e-300)
    return along
