"""Edits where every part has a term of its own: x -> W, terms given W, parts out, in and elsewhere, W' -> x'.

A part that goes takes its term along, a new one brings a draw of its prior; z and the whole's own term are held.  One
that is moved from l to l' keeps its hidden values:

    D' = L(l') f + sqrt(d(l') / d(l)) (D - L(l) f),   f = (I + L' d^-1 L)^-1 L' d^-1 D,   L, d at l: its factors given D

With no edit W' = W, and x' = x as far as the inverse was solved.  Terms are those before the link's slope (placed.py),
which is that of the composition as it is after the edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch, PaddedParts, Parts
from compvae.noise import Noise
from compvae.transport.gaussian import Terms
from compvae.transport.given import PlacedGiven
from compvae.transport.network import Transport
from compvae.transport.placed import PlacedBase

__all__ = ["PlacedGroup", "edited_placed_wholes"]

LEAST_NOISE = 1e-12  # of a value that a part does not reach


@dataclass(frozen=True)
class PlacedGroup:
    """Parts that came together.  first: as they came.  now: as they are, in the same places, those that went masked.

    step: number of the edit that brought them.
    """

    first: PaddedParts
    now: PaddedParts
    step: int


@torch.no_grad()
def edited_placed_wholes(
    model: Transport, batch: Batch, deviation: Tensor, groups: Sequence[PlacedGroup], now: Parts, noise: Noise
) -> Tensor:
    """x after the edits at one draw of the terms, float32 (B, *shape); noise that is 0 everywhere gives their means.

    batch: the wholes as observed.  deviation: W - E W of them, (B, T).  groups: the observed parts first.  now: what is
    left, all groups together.
    """
    base, given = model.base, model.given(batch.parts, batch.context)
    assert isinstance(base, PlacedBase)
    gaussian = given.gaussian
    rows, number, values = gaussian.noises.shape
    loadings = gaussian.loadings.view(rows, values, number, -1).transpose(1, 2)
    each = base.draw_terms(loadings, gaussian.noises, noise, "terms") * gaussian.factor[:, None]
    z = noise.normal("terms/z", max(1, base.factors), dtype=each.dtype)[:, : base.factors]
    if batch.shared is not None:
        z = z[batch.shared.first][batch.shared.group]
    found = gaussian.conditioned(Terms(each, z), deviation, batch.shared)
    observed = found.each / gaussian.factor[:, None]
    total = observed[:, -1]
    for index, group in enumerate(groups):
        own = observed[:, :-1] if index == 0 else _added(model, base, group, batch.context, noise)
        if _moved(group):
            own = _carried(model, own, group, batch.context)
        total = total + (own * group.now.mask[..., None]).sum(1)
    after = model.given(now, batch.context)
    changed = after.gaussian
    return model.wholes(total * changed.factor + changed.of_z(found.z), after)


def _part_terms(model: Transport, parts: PaddedParts, context: Tensor | None) -> tuple[Tensor, Tensor]:
    """Loadings (B, K, T, R) and noises (B, K, T) of parts on their own."""
    given = model.given(parts, context)
    assert isinstance(given, PlacedGiven)
    return given.terms.loadings[given.rows], given.terms.noises[given.rows]


def _added(model: Transport, base: PlacedBase, group: PlacedGroup, context: Tensor | None, noise: Noise) -> Tensor:
    """Terms of new parts, (B, K, T)."""
    return base.draw_terms(*_part_terms(model, group.first, context), noise, f"added/{group.step}")


def _moved(group: PlacedGroup) -> bool:
    stays = group.now.mask
    return bool((group.first.features != group.now.features)[stays].any())


def _carried(model: Transport, own: Tensor, group: PlacedGroup, context: Tensor | None) -> Tensor:
    """Terms of parts at their new places, (B, K, T); those of parts that stay as they are.  own: (B, K, T)."""
    loadings, noises = _part_terms(model, group.first, context)
    new_loadings, new_noises = _part_terms(model, group.now, context)
    noises, new_noises = noises.clamp(min=LEAST_NOISE), new_noises.clamp(min=LEAST_NOISE)
    scaled = loadings / noises[..., None]
    precision = loadings.mT @ scaled + torch.eye(loadings.shape[-1], dtype=own.dtype)
    factors = torch.linalg.solve(precision, scaled.mT @ own[..., None])  # (B, K, R, 1)
    rest = own - (loadings @ factors)[..., 0]
    carried = (new_loadings @ factors)[..., 0] + (new_noises / noises).sqrt().clamp(max=1.0) * rest
    stays = (group.first.features == group.now.features).all(-1)
    return torch.where(stays[..., None], own, carried)
