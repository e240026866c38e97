"""What two wholes share, corrected after the map: B <- s B, until drawn pairs with one z go together as real ones do.

    s^2 = E q(x, x') of real pairs / E q of drawn pairs,   q = <r, r'> / T + mean(r) mean(r'),   r = (x - E x) / spread

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

CORRECTED_AT = (0.3, 0.5, 0.7)  # of the steps
PAIRS, DRAWS = 400, 12  # of wholes, and of both with one z
LARGEST_CHANGE = 2.0  # of s^2 at once
LEAST_OWN = 0.05  # of their variance that parts keep


@torch.no_grad()
def correct_shared_(network: Transport, wholes: Batch, seed: int) -> float:
    """Correct in place; returns s^2, 1 where nothing is known to be shared.

    wholes: of the training data; those with one z stand together.
    """
    if wholes.shared is None or not network.config.factors:
        return 1.0
    first = _pairs(wholes.shared)
    if not len(first):
        return 1.0
    one, other = (wholes.rows(first + k) for k in (0, 1))
    drawn = [x.double() for x in drawn_together(network, one, other, DRAWS, seed)]  # (P, DRAWS, T) each
    mean = [x.mean(1) for x in drawn]
    spread = [x.std(1) + 1e-3 * x.std() for x in drawn]
    within = [(x - m[:, None]) / s[:, None] for x, m, s in zip(drawn, mean, spread, strict=True)]
    of_drawn = float(_product(*within).mean()) * DRAWS / (DRAWS - 1)
    real = [(b.x.flatten(1).double() - m) / s for b, m, s in zip((one, other), mean, spread, strict=True)]
    real = [r - r.mean(0) for r in real]
    of_real = float(_product(*real).mean()) - of_drawn / DRAWS  # both means come from draws with one z
    ratio = of_real / of_drawn if of_drawn > 0 else LARGEST_CHANGE
    return scale_shared_(network.base, wholes.parts.counts.double(), ratio)


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


def _product(one: Tensor, other: Tensor) -> Tensor:
    """q of each pair, (..,).  one, other: (.., T)."""
    return (one * other).mean(-1) + one.mean(-1) * other.mean(-1)
