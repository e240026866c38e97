"""The model before its first step: units of the link, the base by EM, how far wholes reach; all from draws of data."""

from __future__ import annotations

import math

import torch

from compvae.batch import Batch
from compvae.context import context_size
from compvae.noise import Noise
from compvae.transport.expectation import fit_base, raise_noise_
from compvae.transport.network import DEQUANTISED, Transport
from compvae.transport.placed import PlacedBase

__all__ = ["alone", "fitted_rows", "start_transport"]

FITTED_ROWS, FITTED_NUMBERS = 16384, 2**23  # wholes that are drawn for it; fewer where they are wide
FEWEST_ROWS = 512
EM_ROWS = 1500
EM_ROUNDS = 3  # least squares are near


def fitted_rows(shape: tuple[int, ...]) -> int:
    """How many wholes are drawn for what is fitted before the first step.  shape: of x."""
    return max(FEWEST_ROWS, min(FITTED_ROWS, FITTED_NUMBERS // math.prod(shape)))


def alone(wholes: Batch) -> Batch:
    """Each whole once, for a fit; where some share a z, as they were drawn: they must stand together."""
    return wholes if wholes.shared is not None else wholes.different()


@torch.no_grad()
def start_transport(network: Transport, wholes: Batch) -> Transport:
    """Fit all but the map, in place.  wholes: training data; those that share a z stand together."""
    config, wholes = network.config, alone(wholes)
    if wholes.all_told is not None:
        network.covariates.fit_(wholes.all_told)
    if isinstance(network.base, PlacedBase):
        return _start_placed(network, network.base, wholes)
    counts = wholes.parts.counts.double()
    sizes, x = counts.sum(1, keepdim=True), wholes.x.flatten(1).double()
    context = network.completed(wholes.all_told, Noise(0, len(x)), len(x))
    told = counts.new_zeros(len(x), context_size(config.context)) if context is None else context
    network.link.fit_(x, sizes)
    if config.integers:  # as the map sees them: a kind that never shows a face has some spread there too
        x = x + DEQUANTISED * Noise(0, len(x)).normal("dequantised", x.shape[1], dtype=x.dtype)
    y = network.link(x, sizes)
    w = y if config.extensive else y * sizes
    fit_base(network.base, w, counts, told.double(), wholes.shared, EM_ROUNDS, EM_ROWS)
    raise_noise_(network.base, config.floor)
    network.measure_reach_(wholes.x, wholes.parts, context)
    return network


def _start_placed(network: Transport, base: PlacedBase, wholes: Batch) -> Transport:
    """The units of a base that is fitted in the first steps: one for each channel."""
    counts = wholes.parts.counts.double()
    sizes, x = counts.sum(1, keepdim=True), wholes.x.flatten(1).double()
    network.link.fit_(x, sizes)
    y = network.link(x, sizes)
    w = (y if network.config.extensive else y * sizes).view(len(y), base.channels, -1)
    scale = w.std((0, 2)).clamp(min=max(1e-4 * float(w.std()), 1e-30))
    base.scale.copy_(scale[:, None].expand(-1, w.shape[2]).flatten())
    return network
