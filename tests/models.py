"""Tiny models of every combination of pieces that is allowed; every property is tested on all of them."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import BaseModel

from compvae.batch import Batch, PaddedParts
from compvae.config import (
    CollapsedConfig,
    GraphConfig,
    LatentConfig,
    LinkedConfig,
    ModelConfig,
    NewtonConfig,
    PaperDecoderConfig,
    PlacedConfig,
    PriorConfig,
    ZNetworkConfig,
)
from compvae.context import encode_values
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.parts import Categorical, Continuous, PartsSchema
from compvae.transport.config import TransportConfig
from compvae.transport.network import Transport


def schema_of(*attributes: Categorical | Continuous) -> PartsSchema:
    """A schema of these attributes."""
    return PartsSchema(attributes=attributes)


NOTES = PartsSchema(attributes=(Categorical(name="note", categories=("a", "b", "c")),))
SITES = PartsSchema(
    attributes=(
        Categorical(name="colour", categories=("red", "green")),
        Continuous(name="x", low=-1, high=1),
        Continuous(name="y", low=-1, high=1),
    )
)
WEATHER = (
    Continuous(name="temperature", low=-20, high=40, unit="C"),
    Categorical(name="day", categories=("week", "end")),
)
CURVE, IMAGE = (6,), (3, 5, 5)
SMALL_Z = ZNetworkConfig(width=8, blocks=1)

LATENTS = {
    "dense": LatentConfig(w=4),
    "blocks": LatentConfig(w=2, blocks=True),
    "z below": LatentConfig(w=4, z=3, z_place="below"),
}
POSTERIORS = {
    "graph": GraphConfig(embedding=4, width=8, blocks=2, z_network=SMALL_Z),
    "graph sum_controlled": GraphConfig(family="sum_controlled", embedding=4, width=8, blocks=2, z_network=SMALL_Z),
    "collapsed": CollapsedConfig(width=8, blocks=1, z_network=SMALL_Z),
    "newton": NewtonConfig(rounds=2),
}
DECODERS = {
    "paper": PaperDecoderConfig(hidden=8, blocks=1),
    "linked": LinkedConfig(features=4, width=8, blocks=1),
    "pointwise": LinkedConfig(link="pointwise", features=2, width=8, blocks=1),
    "losses": LinkedConfig(link="losses", features=1, part_noise=True),
    "placed": PlacedConfig(embedding=4, basis=3, hidden=8, values=4),
}


def without_idle(pieces: dict[str, Any]) -> ModelConfig:
    """A model of these pieces, settings left out that nothing would read, such as networks of z where there is none."""
    models = {name: piece.model_dump(mode="json") for name, piece in pieces.items() if isinstance(piece, BaseModel)}
    return ModelConfig.read({**pieces, **models}, stored=True)


def curve_configs() -> dict[str, ModelConfig]:
    """Every allowed combination on categorical parts."""
    prior = PriorConfig(z_network=SMALL_Z)
    return {
        f"{posterior}, {decoder}, {latent}": without_idle({
            "parts": NOTES, "shape": CURVE, "scale": "size", "latent": LATENTS[latent], "prior": prior,
            "posterior": POSTERIORS[posterior], "decoder": DECODERS[decoder],
        })
        for posterior in POSTERIORS
        for decoder in ("paper", "linked", "pointwise")
        for latent in LATENTS
        if not (posterior == "newton" and latent == "z below")
    }  # fmt: skip


def image_configs() -> dict[str, ModelConfig]:
    """Parts with a place: the placed decoder, and the sum of a network prior."""
    table, network = (
        PriorConfig(z_network=SMALL_Z),
        PriorConfig(kind="network", embedding=4, hidden=8, z_network=SMALL_Z),
    )
    below = LatentConfig(w=4, z=3, z_place="below")
    added = PaperDecoderConfig(hidden=8, stem="added")
    pieces = {
        "graph, placed": (LatentConfig(w=2), table, POSTERIORS["graph"], DECODERS["placed"]),
        "graph, paper, z below, network prior": (below, network, POSTERIORS["graph"], added),
        "collapsed, paper, z below, network prior": (below, network, POSTERIORS["collapsed"], added),
        "newton, placed": (LatentConfig(w=2), table, POSTERIORS["newton"], DECODERS["placed"]),
        "newton, placed, network prior": (LatentConfig(w=2), network, POSTERIORS["newton"], DECODERS["placed"]),
        "newton, linked, network prior": (LatentConfig(w=4), network, POSTERIORS["newton"], DECODERS["linked"]),
        "newton, pointwise, network prior": (LatentConfig(w=4), network, POSTERIORS["newton"], DECODERS["pointwise"]),
    }
    return {
        name: without_idle({
            "parts": SITES, "shape": IMAGE, "latent": latent, "prior": prior,
            "posterior": posterior, "decoder": decoder,
        })
        for name, (latent, prior, posterior, decoder) in pieces.items()
    }  # fmt: skip


def sums_configs() -> dict[str, ModelConfig]:
    """Loads that add up: noise of the parts, more coordinates than values."""
    return {
        "newton, losses, blocks": without_idle({
            "parts": NOTES, "shape": CURVE, "scale": "size", "latent": LatentConfig(w=5, blocks=True),
            "prior": PriorConfig(), "posterior": POSTERIORS["newton"], "decoder": DECODERS["losses"],
        })
    }  # fmt: skip


CONFIGS = {**curve_configs(), **image_configs(), **sums_configs()}


def build(config: ModelConfig) -> CompVAE:
    """A model with weights of a fixed seed."""
    torch.manual_seed(1)
    return CompVAE(config).to(torch.get_default_dtype()).eval()


def invertible(context: bool = False) -> Transport:
    """Curves of six places whose parts share something, by a random base and a map that is not the identity.

    context: the weather moves them, and is drawn where nobody tells it.
    """
    covariates = WEATHER if context else ()
    config = TransportConfig(
        parts=NOTES, context=covariates, shape=CURVE, rank=2, factors=2, width=8, depth=1, steps=4,
        seen=16 if context else 0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = Transport(config)
        network.field.last.weight.data.normal_().mul_(0.3)
        for term in (network.base.means, network.base.loadings, network.base.shared):
            term.normal_().mul_(0.5)
        network.base.noise.fill_(0.1)
        if context:
            days = torch.stack([40 * torch.rand(64) - 10, torch.randint(2, (64,)).float()], 1)
            network.covariates.fit_(encode_values(WEATHER, days, torch.ones(64, 2, dtype=torch.bool)))
    return network.eval().requires_grad_(False)


def random_parts(config: ModelConfig, sizes: list[int], seed: int = 0) -> PaddedParts:
    """Random compositions of these sizes, padded to the largest."""
    noise, width = Noise(seed, len(sizes)), max(sizes)
    mask = torch.arange(width) < torch.tensor(sizes)[:, None]
    kind = noise.integers("kind", 0, config.parts.n_kinds - 1, width).masked_fill(~mask, 0)
    dtype = torch.get_default_dtype()
    features = noise.uniform("place", width, config.parts.n_features, dtype=dtype) * 2 - 1
    return PaddedParts(kind, features * mask[..., None], mask, config.parts.n_kinds)


def random_batch(config: ModelConfig, sizes: list[int], seed: int = 0) -> Batch:
    """Random wholes with random parts."""
    parts = random_parts(config, sizes, seed)
    x = Noise(seed, len(sizes)).normal("x", *config.shape, dtype=torch.get_default_dtype())
    return Batch(x, parts)


def widened(batch: Batch, extra: int) -> Batch:
    """The same batch with more padding, filled with junk."""
    parts = batch.parts.padded()
    rows = len(parts)
    kind = torch.cat([parts.kind, torch.zeros(rows, extra, dtype=torch.int64)], 1)
    features = torch.cat([parts.features, torch.full((rows, extra, parts.features.shape[2]), 0.37)], 1)
    mask = torch.cat([parts.mask, torch.zeros(rows, extra, dtype=torch.bool)], 1)
    return Batch(batch.x, PaddedParts(kind, features, mask, parts.n_kinds), batch.context, batch.shared)
