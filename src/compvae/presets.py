"""Configurations by name: ``paper`` (the paper's tables), ``small`` (what suits a problem best, minutes on two cores),
``sums`` (structured, of own wholes that add up), ``transport`` (invertible)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from pydantic import ValidationError

from compvae.checks import describe_invalid
from compvae.config import (
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
from compvae.errors import ConfigError
from compvae.problems.source import Source
from compvae.transport.config import AnyModelConfig, PlacesConfig, TransportConfig

__all__ = ["AUTO", "FIRST", "PRESETS", "default_preset", "family", "preset", "presets_of", "structured_preset"]

AUTO = "auto"  # the preset that is chosen among all that suit
SEEN = 1024  # contexts that are kept
FIRST = "transport"  # what a choice starts from: the invertible model


def _shaped_for(problem: Source) -> dict[str, Any]:
    """What a configuration takes from the problem as it is."""
    return {"parts": problem.schema, "context": problem.context, "shape": problem.shape, "unit": problem.unit}


def _scale_of(problem: Source) -> Literal["none", "size"]:
    return "size" if problem.extensive else "none"


def _paper_curves(problem: Source) -> ModelConfig:
    """Appendix A.1.  Latent sizes by the tables (w 1024, z 256), which the text contradicts (errata)."""
    return ModelConfig(
        parts=problem.schema,
        shape=problem.shape,
        latent=LatentConfig(w=1024, z=256, z_place="below"),
        prior=PriorConfig(floor=1e-3, z_network=ZNetworkConfig(width=1280, blocks=0)),
        posterior=GraphConfig(
            trunk="curve",
            channels=160,
            embedding=1024,
            width=2048,
            blocks=3,
            z_network=ZNetworkConfig(width=512, blocks=2),
        ),
        decoder=PaperDecoderConfig(trunk="curve", channels=160, blocks=3, stem="joined", floor=1e-3),
    )


def _paper_images(problem: Source) -> ModelConfig:
    """Appendix A.2."""
    return ModelConfig(
        parts=problem.schema,
        shape=problem.shape,
        latent=LatentConfig(w=2048, z=1024, z_place="below"),
        prior=PriorConfig(
            kind="network", embedding=32, hidden=1024, floor=5e-3, z_network=ZNetworkConfig(width=1024, blocks=1)
        ),
        posterior=GraphConfig(
            trunk="image",
            channels=128,
            embedding=32,
            width=2048,
            blocks=3,
            z_network=ZNetworkConfig(width=1024, blocks=1, stem=False),
        ),
        decoder=PaperDecoderConfig(trunk="image", channels=128, stem="added", floor=5e-3),
    )


def _narrow_curves(problem: Source) -> ModelConfig:
    """The form of :func:`_paper_curves` at widths that a core can train, and a z of 4: what decides whether the parts
    or z hold the information (docs/paper.md, "Reproduction").  Noise on the embeddings as in the authors' code: samples
    are nearer to the truth with it (docs/experiments.md, 24)."""
    network = ZNetworkConfig(width=128, blocks=1)
    return ModelConfig(
        parts=problem.schema,
        shape=problem.shape,
        latent=LatentConfig(w=128, z=4, z_place="below"),
        prior=PriorConfig(floor=1e-3, z_network=network),
        posterior=GraphConfig(
            trunk="curve", channels=32, embedding=32, embedding_noise=1.0, width=128, blocks=3, z_network=network
        ),
        decoder=PaperDecoderConfig(trunk="curve", channels=32, blocks=3, stem="joined", floor=1e-3),
    )


def _narrow_images(problem: Source) -> ModelConfig:
    """The form of :func:`_paper_images` at widths that a core can train, and a z of 8."""
    return ModelConfig(
        parts=problem.schema,
        shape=problem.shape,
        latent=LatentConfig(w=128, z=8, z_place="below"),
        prior=PriorConfig(
            kind="network", embedding=16, hidden=128, floor=5e-3, z_network=ZNetworkConfig(width=128, blocks=1)
        ),
        posterior=GraphConfig(
            trunk="image",
            channels=32,
            embedding=16,
            width=96,
            blocks=3,
            z_network=ZNetworkConfig(width=256, blocks=1, stem=False),
        ),
        decoder=PaperDecoderConfig(trunk="image", channels=24, stem="added", floor=5e-3),
    )


def _small_curves(problem: Source) -> ModelConfig:
    """Category-owned blocks, plain sum, exact M-step, no z (theory, section 7, row 4); a pointwise link on A W / K, and
    the posterior at its peak in place of an encoder (docs/experiments.md, 7)."""
    return ModelConfig(
        **_shaped_for(problem),
        scale=_scale_of(problem),
        latent=LatentConfig(w=3, blocks=True),
        prior=PriorConfig(fit="m_step", centre=0.5, spread=0.0),
        posterior=NewtonConfig(rounds=6),
        decoder=LinkedConfig(link="pointwise", features=2, width=16, blocks=1, floor=0.01),
    )


def _small_images(problem: Source) -> ModelConfig:
    """Softmax over sites, M-step by colour (theory, section 5); one latent a site, a link of each channel's own values,
    and the posterior at its peak (docs/experiments.md, 8)."""
    return ModelConfig(
        parts=problem.schema,
        shape=problem.shape,
        latent=LatentConfig(w=1),
        prior=PriorConfig(fit="m_step", spread=0.0, floor=5e-3, rate=0.01),
        posterior=NewtonConfig(rounds=4, pixels=160),
        decoder=PlacedConfig(floor=0.01, pixels=160),
    )


def _sums(problem: Source) -> ModelConfig:
    """Own wholes that add up, but for losses; training starts at the principal axes of single parts.  What wholes share
    and their context are not told apart from what is each part's own."""
    return ModelConfig(
        **_shaped_for(problem),
        scale=_scale_of(problem),
        latent=LatentConfig(w=min(6, math.prod(problem.shape)), blocks=True),
        prior=PriorConfig(fit="m_step"),
        posterior=NewtonConfig(rounds=2),
        decoder=LinkedConfig(link="losses", features=1, floor=0.01, part_noise=True),
    )


def _small_places(problem: Source) -> ModelConfig:
    """Own wholes whose parts have continuous attributes: a network prior of these, the posterior at its peak."""
    return ModelConfig(
        **_shaped_for(problem),
        scale=_scale_of(problem),
        latent=LatentConfig(w=12),
        prior=PriorConfig(kind="network", embedding=16, hidden=128, floor=5e-3),
        posterior=NewtonConfig(rounds=2),
        decoder=LinkedConfig(
            link="pointwise", features=1, width=16, blocks=1, floor=0.02, part_noise=problem.extensive
        ),
    )


def family(problem: Source) -> str:
    """Whose presets and recipes fit: the problem's own, or those of own data with the same kind of parts."""
    if problem.name in PRESETS or problem.name in OWN_DATA:
        return problem.name
    return "tables" if problem.schema.countable else "places"


def _transport(problem: Source) -> TransportConfig:
    """An invertible model; what the data shows of its structure is found when a run begins (transport/structure.py)."""
    return TransportConfig(
        parts=problem.schema,
        context=problem.context,
        shape=problem.shape,
        extensive=problem.extensive,
        seen=SEEN if problem.context else 0,
        width=128 if math.prod(problem.shape) <= 128 else 256,
        quiet=0.5,  # docs/experiments.md, 21
        atom=1.0,
    )


def _placed_transport(problem: Source) -> TransportConfig:
    """An invertible model of parts with continuous attributes; which of them are places is found when a run begins
    (transport/places.py)."""
    features = problem.schema.n_features
    places = PlacesConfig(
        axes=(None,) * features,
        stretch=(1.0,) * features,
        shift=(0.0,) * features,
        share=0.25 if len(problem.shape) == 1 else 0.6,  # steps of the map take five times as long over images
    )
    return TransportConfig(
        parts=problem.schema,
        context=problem.context,
        shape=problem.shape,
        seen=SEEN if problem.context else 0,
        rank=4,
        factors=2 if problem.rows_together > 1 else 0,
        width=64,
        depth=4,
        steps=6,
        places=places,
    )


def _feeder(problem: Source) -> TransportConfig:
    """The invertible model of the feeder: of its profiles, solar homes alone feed in (docs/experiments.md, 23)."""
    never_below = tuple(kind for kind, name in enumerate(problem.schema.categories) if name != "solar")
    return _transport(problem).with_changes(rank=8, factors=6, nonnegative=never_below, width=192)


PRESETS: dict[str, dict[str, Callable[[Source], AnyModelConfig]]] = {
    "sines": {"paper": _paper_curves, "paper-narrow": _narrow_curves, "small": _small_curves},
    "colours": {"paper": _paper_images, "paper-narrow": _narrow_images, "small": _small_images},
    "households": {"small": _feeder},
}
OWN_DATA: dict[str, dict[str, Callable[[Source], AnyModelConfig]]] = {
    "meters": {"sums": _sums},
    "tables": {"small": _small_curves, "sums": _sums},
    "places": {"small": _small_places},
}


def presets_of(problem: Source) -> dict[str, Callable[[Source], AnyModelConfig]]:
    """The presets of a problem by their names."""
    invertible = _transport if problem.schema.countable else _placed_transport
    return {**{**PRESETS, **OWN_DATA}[family(problem)], "transport": invertible}


def default_preset(problem: Source) -> str:
    """The preset where none is named: that of a built-in problem, else a choice by what was held out."""
    return "small" if problem.name in PRESETS else AUTO


def structured_preset(problem: Source, name: str) -> ModelConfig:
    """The configuration of that name, which must be of a structured model."""
    config = preset(problem, name)
    if not isinstance(config, ModelConfig):
        raise ConfigError(f"preset {name!r} is an invertible model; this needs a structured one, such as small")
    return config


def preset(problem: Source, name: str) -> AnyModelConfig:
    """The configuration of that name for this problem."""
    known = presets_of(problem)
    if name not in known:
        raise ConfigError(f"preset {name!r} is unknown for {problem.name}, the presets are {', '.join(known)}")
    try:
        return known[name](problem)
    except ValidationError as error:
        raise ConfigError(f"preset {name} of {problem.name} with these settings: {describe_invalid(error)}") from None
