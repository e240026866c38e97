"""What two wholes share, corrected after the map: B <- s B, until drawn pairs with one z go together as real ones do.

    s^2 = E <v, r> <v, r'> of real pairs / that of drawn pairs,   r = (x - E x) / unit

with E x that of the draws, one unit for each value (times sqrt K, where wholes grow with it), and v the direction in
which drawn pairs have most in common.

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

CORRECTED_AT = (0.4, 0.7)  # of the steps
PAIRS, DRAWS = 2000, 4  # of wholes, and of both with one z
ITERATIONS = 20  # for the direction
LARGEST_CHANGE = 2.0  # of s^2 at once
LEAST_OWN = 0.05  # of their variance that parts keep


@torch.no_grad()
def correct_shared_(network: Transport, wholes: Batch, seed: int) -> float:
    """Correct in place; returns s^2, 1 where nothing is known to be shared.

    wholes: of the training data; those with one z stand together.
    """
    if wholes.shared is None or not network.config.factors or not isinstance(network.base, Base):
        return 1.0
    first = _pairs(wholes.shared)
    if not len(first):
        return 1.0
    both = [wholes.rows(first + k) for k in (0, 1)]
    drawn = [x.double() for x in drawn_together(network, both[0], both[1], DRAWS, seed)]  # (P, DRAWS, T) each
    means = [x.mean(1) for x in drawn]
    sizes = [b.parts.sizes[:, None].double().sqrt() if network.config.extensive else 1.0 for b in both]
    inside = [
        (x - m[:, None]).transpose(0, 1) / k for x, m, k in zip(drawn, means, sizes, strict=True)
    ]  # (DRAWS, P, T)
    unit = torch.cat(inside).square().mean((0, 1)).sqrt().clamp(min=1e-30)
    inside = [(r / unit).flatten(0, 1) for r in inside]
    along = _common(inside[0], inside[1])
    of_drawn = float(((inside[0] @ along) * (inside[1] @ along)).mean()) * DRAWS / (DRAWS - 1)
    real = [(b.x.flatten(1).double() - m) / k / unit for b, m, k in zip(both, means, sizes, strict=True)]
    real = [r - r.mean(0) for r in real]
    products = (real[0] @ along) * (real[1] @ along)
    of_real = float(products.mean()) - of_drawn / DRAWS  # both means come from draws with one z
    if of_drawn <= 0:
        return 1.0
    error = float(products.std()) / len(products) ** 0.5 / of_drawn
    return scale_shared_(network.base, wholes.parts.counts.double(), _beyond_error(of_real / of_drawn, error))


def _beyond_error(ratio: float, error: float) -> float:
    """The ratio, nearer to 1 where it is not much farther from 1 than its standard error."""
    off = ratio - 1
    return 1 + off * max(0.0, 1 - (error / off) ** 2) if off else 1.0


@torch.no_grad()
def drawn_together(network: Transport, one: Batch, other: Batch, draws: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draws for the compositions of both, z drawn once for the two, (P, draws, T) each."""
    pairs = len(one)
    rows = torch.arange(pairs).repeat_interleave(draws)
    z = Noise(seed, len(rows), 2).normal("z", max(1, network.config.factors), dtype=torch.float64)
    found = []
    for number, batch in enumerate((one, other)):
        many = batch.rows(rows)
        x = network.draw(many.parts, many.context, Noise(seed, len(rows), number), z[:, : network.config.factors])
        found.append(x.flatten(1).view(pairs, draws, -1))
    return found[0], found[1]


def scale_shared_(base: Base, counts: Tensor, ratio: float) -> float:
    """B B' <- ratio B B' in place, as far as there is room; returns the ratio.  counts: (N, C)."""
    size = counts.sum(1, keepdim=True)
    own = base.loadings.double().square().sum(2) + base.noise.double()
    own = (with_whole(counts) @ own / size).mean(0)  # (T,)
    shared = (torch.einsum("bc,ctz->btz", counts, base.shared.double()).square().sum(2) / size).mean(0)
    if not float(shared.sum()) > 0:
        return 1.0
    room = 1 + (1 - LEAST_OWN) * float(own.sum() / shared.sum())
    ratio = min(max(ratio, 1 / LARGEST_CHANGE), LARGEST_CHANGE, room)
    left = (1 - (ratio - 1) * shared / own).clamp(min=LEAST_OWN).to(base.noise.dtype)
    base.shared.mul_(ratio**0.5)
    base.noise.mul_(left)
    base.loadings.mul_(left.sqrt()[:, None])
    return ratio


def _pairs(groups: Shared) -> Tensor:
    """The first of two neighbours with one z, (P,) int64."""
    return (groups.group[1:] == groups.group[:-1]).nonzero()[:PAIRS, 0]


def _common(one: Tensor, other: Tensor) -> Tensor:
    """The direction of largest covariance between both, (T,), by power iteration.  one, other: (N, T)."""
    along = one.new_ones(one.shape[1])
    for _ in range(ITERATIONS):
        along = one.T @ (other @ along) + other.T @ (one @ along)
        along = along / along.norm().clamp(min=1e-300)
    return along
