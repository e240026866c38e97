"""What any model should beat: a Gaussian with the data's moments, and a flow that knows nothing but the counts."""

from __future__ import annotations

import math

import torch

from compvae.batch import Batch
from compvae.network import seeded_network
from compvae.noise import Noise
from compvae.presets import SEEN
from compvae.problems.source import Source
from compvae.train.quick import descend
from compvae.transport.base import Base
from compvae.transport.config import TransportConfig
from compvae.transport.network import Transport
from compvae.transport.starting import start_transport

__all__ = ["counts_flow", "moment_gaussian"]


def moment_gaussian(source: Source, wholes: Batch, seed: int) -> Transport:
    """N(mean, covariance), both as functions of the counts: an invertible model whose map is the identity."""
    kinds, values = source.schema.n_kinds, math.prod(source.shape)
    config = TransportConfig(
        parts=source.schema, context=source.context, shape=source.shape, extensive=source.extensive,
        rank=max(1, min(8, values, 96 // (kinds + 1))), factors=min(3, values), width=1, depth=0, steps=1,
        seen=SEEN if source.context else 0,
    )  # fmt: skip
    return start_transport(_built(config, seed), wholes)


def counts_flow(source: Source, wholes: Batch, seed: int, seconds: float | None, steps: int | None) -> Transport:
    """Flow matching from N(0, I), told n / K, 1 / sqrt(K) and the context; nothing of parts is built in."""
    config = TransportConfig(
        parts=source.schema, context=source.context, shape=source.shape, rank=0, factors=0,
        width=128 if math.prod(source.shape) <= 128 else 256, floor=0.0, seen=SEEN if source.context else 0,
    )  # fmt: skip
    network = _built(config, seed)
    unit = wholes.parts.sizes[:, None].float() if source.extensive else torch.ones(len(wholes), 1)
    x = wholes.x.flatten(1) / unit
    base, centre, scale = network.base, x.mean(0), x.std(0)
    assert isinstance(base, Base)
    base.scale.copy_(scale.clamp(min=1e-4 * float(scale.max()) + 1e-30))
    base.means.zero_()
    base.noise.zero_()
    if source.extensive:  # x / K has the same mean and spread whatever K is
        base.means[:-1, 0] = centre / base.scale
        base.shared = torch.zeros_like(base.shared)
        base.noise[:-1] = 1.0
        base.noise[-1] = 1e-6
    else:
        base.means[-1, 0] = centre / base.scale
        base.noise[-1] = 1.0
    if wholes.all_told is not None:
        network.covariates.fit_(wholes.all_told)
    told = network.completed(wholes.all_told, Noise(seed, len(wholes)), len(wholes))
    network.measure_reach_(wholes.x, wholes.parts, told)
    descend(network, source, seed, seconds, steps)
    return network


def _built(config: TransportConfig, seed: int) -> Transport:
    network = seeded_network(config, seed)
    assert isinstance(network, Transport)
    return network
