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
        given = network.given(batch.parts, batch.context)
        deviation = kept_or_found(known, key, lambda: network.deviations(batch.x, given))
        shared = None if batch.shared is None else batch.shared.repeated(draws)
        stages = [(group.stages, group.steps) for group in groups]
        return edited_wholes(network, replace(batch.rows(rows), shared=shared), deviation[rows], stages, now, noise)
    latent = redrawn(network, batch, noise, draws, known, key)
    after = edited(network, latent, groups, now, noise)
    x = after.x.mean
    return x + held_noise(network, batch.x[rows], latent, groups, after, noise) if noisy else x
