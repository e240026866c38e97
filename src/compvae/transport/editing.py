"""Edits of observed wholes: x -> W by inversion, terms of the kinds and z given W, parts out and in, z held, W' -> x'.

Of the n_c parts of kind c that a whole has, n'_c stay: what is left of their term D_c is a draw of the bridge

    D'_c | D_c ~ N( n'_c / n_c D_c,  n'_c (n_c - n'_c) / n_c S_c )

and in the mean its expectation.  With no edit W' = W, and x' = x as far as the inverse was solved.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from compvae.batch import Batch, Parts
from compvae.noise import Noise
from compvae.transport.base import Base
from compvae.transport.network import Transport

__all__ = ["edited_wholes"]


@torch.no_grad()
def edited_wholes(
    model: Transport,
    batch: Batch,
    deviation: Tensor,
    groups: Sequence[tuple[Sequence[Parts], Sequence[int]]],
    now: Parts,
    noise: Noise,
) -> Tensor:
    """x after the edits at one draw of the terms, float32 (B, *shape); noise that is 0 everywhere gives their means.

    batch: the wholes as observed.  deviation: W - E W of them, (B, T).  groups: parts that came together (the observed
    ones first): their counts at first and after each removal, and the number of the edit that led there.  now: what is
    left.
    """
    base, given = model.base, model.given(batch.parts, batch.context)
    assert isinstance(base, Base)
    terms = base.posterior(deviation, given.counts, given.context, batch.shared, noise)
    total = terms.each[:, -1]
    for number, (stages, steps) in enumerate(groups):
        counts = stages[0].counts
        added = f"added/{steps[0]}"
        kinds = base.draw_terms(counts, given.context, noise, added) if number else terms.each[:, :-1]
        for step, stage in zip(steps[1:], stages[1:], strict=True):
            kinds = _left(base, kinds, counts, stage.counts, given.context, noise, f"removed/{number}/{step}")
            counts = stage.counts
        total = total + kinds.sum(1)
    after = model.given(now, batch.context)
    return model.wholes(total + base.of_z(after.counts, after.context, terms.z), after)


def _left(base: Base, kinds: Tensor, before: Tensor, after: Tensor, context: Tensor, noise: Noise, name: str) -> Tensor:
    """A draw of what is left of each kind's term, (B, C, T).  kinds: (B, C, T).  before, after: counts, (B, C)."""
    share = after / before.clamp(min=1)
    drawn = base.draw_terms(share * (before - after), context, noise, name)
    return kinds * share[..., None] + drawn
