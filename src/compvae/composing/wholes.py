"""x of edited wholes, by either kind of network: latents given x, edits of them, and back to x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from compvae.batch import Batch, Parts
from compvae.composing.editing import Group, Known, edited, kept_or_found, redrawn
from compvae.composing.held import held_noise
from compvae.network import Network
from compvae.noise import Noise
from compvae.transport.editing import edited_wholes
from compvae.transport.network import Transport
from compvae.transport.observing import observe
from compvae.transport.placed_editing import PlacedGroup, edited_placed_wholes

__all__ = ["wholes_after"]


@torch.no_grad()
def wholes_after(
    network: Network,
    batch: Batch,
    groups: Sequence[Group],
    now: Parts,
    noise: Noise,
    draws: int,
    noisy: bool,
    known: Known,
    key: int,
) -> Tensor:
    """x of these wholes in every draw, rows draw by draw, (draws x R, *shape).

    batch: R wholes as observed.  groups, now: of the R wholes.  noise: of all rows.  noisy: with the observation noise.
    known, key: where what depends on x alone is kept, and under which key.
    """
    rows = torch.arange(len(batch)).repeat(draws)
    groups, now = [group.rows(rows) for group in groups], now.rows(rows)
    if isinstance(network, Transport):
        seen = kept_or_found(known, key, lambda: observe(network, batch))
        context, deviation = seen.drawn(rows, noise)
        shared = None if batch.shared is None else batch.shared.repeated(draws)
        observed = replace(batch.rows(rows), shared=shared, context=context)
        if network.config.places is not None:
            placed = [_placed(group) for group in groups]
            return edited_placed_wholes(network, observed, deviation, placed, now, noise)
        stages = [(group.stages, group.steps) for group in groups]
        return edited_wholes(network, observed, deviation, stages, now, noise)
    latent = redrawn(network, batch, noise, draws, known, key)
    after = edited(network, latent, groups, now, noise)
    x = after.x.mean
    return x + held_noise(network, batch.x[rows], latent, groups, after, noise) if noisy else x


def _placed(group: Group) -> PlacedGroup:
    """A group as an invertible model with a term for each part takes it."""
    assert group.now is not None
    return PlacedGroup(group.stages[0].padded(), group.now, group.steps[0])
