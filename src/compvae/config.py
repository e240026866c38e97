"""The configuration of a model: which pieces, of which sizes, and which of them go together.

One schema for presets, files and flags.  What does not go together is found here, before a network is built, and said
in one sentence (:class:`~compvae.errors.ConfigError`).  So is a setting that nothing would read: only files, which hold
all settings, may have some of them, and they are put back to their defaults (:func:`idle_settings`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from compvae.checks import from_plain_data
from compvae.parts import Attribute, PartsSchema

__all__ = [
    "CollapsedConfig", "GraphConfig", "LatentConfig", "LinkedConfig", "ModelConfig", "NewtonConfig",
    "PaperDecoderConfig", "PlacedConfig", "PriorConfig", "ZNetworkConfig", "idle_settings", "is_stored",
]  # fmt: skip

Width = Annotated[int, Field(ge=1, le=16_384)]
Depth = Annotated[int, Field(ge=0, le=64)]
Sigma = Annotated[float, Field(gt=0, le=10)]
Trunk = Literal["vector", "curve", "image"]
NEEDS_SUM = "needs a decoder of the plain sum W = sum w_i (paper, linked), placed is not one"
TRUNK_SHAPES = {"curve": (200,), "image": (3, 32, 32)}


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class LatentConfig(_Config):
    """Sizes of the latent variables.

    w: coordinates of w_i.  blocks: each kind owns a block of W (theory, section 5), w is then the size of one block.
    z: coordinates of z.  z_place: "below" W as in the paper, or "none".
    """

    w: Width
    blocks: bool = False
    z: Annotated[int, Field(ge=0, le=16_384)] = 0
    z_place: Literal["none", "below"] = "none"

    @model_validator(mode="after")
    def _z_has_a_place(self) -> Self:
        if (self.z > 0) != (self.z_place != "none"):
            raise ValueError(f"z has {self.z} coordinates but z_place is {self.z_place!r}; give both or neither")
        return self


class ZNetworkConfig(_Config):
    """A network that returns a distribution of z: Linear, ELU, (Residual, ELU) x blocks, Linear.

    stem=False leaves out the first Linear and ELU (the paper's q(z | x) in 2D); the input must then have the width.
    """

    width: Width = 256
    blocks: Depth = 1
    stem: bool = True


class PriorConfig(_Config):
    """p(w_i | l_i): a table over kinds, or a network of kind and continuous attributes.

    fit: "gradient", or "m_step": moving average (rate) of the posterior's moments, the exact
    optimum given q where parts or blocks are seen one by one, one step of EM where kinds are mixed in one sum.
    floor: smallest standard deviation.  spread: initial standard deviation of the table's means around ``centre``.
    """

    kind: Literal["table", "network"] = "table"
    fit: Literal["gradient", "m_step"] = "gradient"
    floor: Sigma = 1e-3
    rate: Annotated[float, Field(gt=0, le=1)] = 0.02
    centre: float = 0.0
    spread: Annotated[float, Field(ge=0, le=100)] = 1.0
    embedding: Width = 32
    hidden: Width = 1024
    z_network: ZNetworkConfig = ZNetworkConfig()


class _Reading(_Config):
    """How an encoder reads x: flat, or through one of the paper's convolutional trunks."""

    trunk: Trunk = "vector"
    channels: Annotated[int, Field(ge=16, le=4096, multiple_of=8)] = 32


class GraphConfig(_Reading):
    """q({w_i} | x, z, {l_i}) by graph blocks over the parts (paper, section 3.3)."""

    kind: Literal["graph"] = "graph"
    family: Literal["paper", "sum_controlled"] = "paper"
    embedding: Width = 32
    embedding_noise: Annotated[float, Field(ge=0, le=10)] = 0.1
    width: Width = 256
    blocks: Annotated[int, Field(ge=1, le=64)] = 3
    z_network: ZNetworkConfig = ZNetworkConfig()


class CollapsedConfig(_Reading):
    """q(W | x, {l_i}) alone; the parts given W are the bridge (theory, section 4)."""

    kind: Literal["collapsed"] = "collapsed"
    width: Width = 256
    blocks: Depth = 3
    z_network: ZNetworkConfig = ZNetworkConfig()


class NewtonConfig(_Config):
    """q at the peak of p(x | w) p(w), with the curvature there, by damped Gauss-Newton; no encoder.

    rounds: steps of a training step; more outside training.
    pixels: how many pixels they look at during training (0: all).
    """

    kind: Literal["newton"] = "newton"
    rounds: Annotated[int, Field(ge=1, le=64)] = 4
    pixels: Annotated[int, Field(ge=0, le=1_048_576)] = 0


class _Observing(_Config):
    """p(x | ..): floor is the smallest standard deviation of the observation, in units of x (of x/K where scaled)."""

    floor: Sigma = 1e-3


class PaperDecoderConfig(_Observing):
    """p(x | z, W) of the paper: a stem on (W, z), residual blocks, a trunk.

    stem: "joined" concatenates W and z (1D), "added" sums their images (2D).  hidden: width of a vector trunk.
    """

    kind: Literal["paper"] = "paper"
    trunk: Trunk = "vector"
    channels: Annotated[int, Field(ge=16, le=4096, multiple_of=8)] = 32
    hidden: Width = 256
    blocks: Depth = 3
    stem: Literal["joined", "added"] = "joined"


class LinkedConfig(_Observing):
    """x = K g(A W / K): everything before the link g is linear in W (theory, section 5).

    link: "joint" is a network of all features A W / K; "pointwise" is one small network, the same for every value of x,
    of that value's own features: x_t = K g(A_t W / K), as for a sensor that saturates; "losses" is that with
    g(u) = u + a u^2, x being in the units of its parts, as for a feeder (features 1, part_noise, no z below).
    features: rows of A, for each value of x where the link is pointwise.  width, blocks: of the link.
    noise_power: the noise of x scales like K to this power, where x scales like K.
    part_noise: in place of that, every part brings noise of its kind, Var x_t = sum_c n_c s_ct^2, s at least the floor.
    """

    kind: Literal["linked"] = "linked"
    link: Literal["joint", "pointwise", "losses"] = "joint"
    features: Width = 128
    width: Width = 256
    blocks: Depth = 2
    noise_power: Annotated[float, Field(ge=0, le=1)] = 1.0
    part_noise: bool = False


class PlacedConfig(_Observing):
    """Parts that have a place in the whole: softmax over parts of logits(w_i, l_i, offset), then a pixelwise link.

    values: what a kind contributes to each channel.  embedding: of a kind.  basis: learned features of an offset.
    hidden, link: widths of the networks of logits and of the link.
    """

    kind: Literal["placed"] = "placed"
    embedding: Width = 8
    basis: Width = 12
    hidden: Width = 64
    values: Width = 2
    link: Width = 16
    pixels: Annotated[int, Field(ge=0, le=1_048_576, description="pixels of a training step, 0 for all")] = 0


PosteriorConfig = Annotated[GraphConfig | CollapsedConfig | NewtonConfig, Field(discriminator="kind")]
DecoderConfig = Annotated[PaperDecoderConfig | LinkedConfig | PlacedConfig, Field(discriminator="kind")]


class ModelConfig(_Config):
    """A whole model.

    parts: what a part is.  context: observed covariates of a whole.  shape: of x.
    scale: "size" where x grows with K: encoders see x/K and decoders return K times their output; "none" otherwise.
    unit: what x is measured in inside the networks, so that kW and W train alike; x outside keeps the user's unit.
    """

    parts: PartsSchema
    context: tuple[Attribute, ...] = ()
    shape: Annotated[tuple[Annotated[int, Field(ge=1, le=65_536)], ...], Field(min_length=1, max_length=3)]
    scale: Literal["none", "size"] = "none"
    unit: Annotated[float, Field(gt=1e-30, lt=1e30)] = 1.0
    latent: LatentConfig
    prior: PriorConfig = PriorConfig()
    posterior: PosteriorConfig
    decoder: DecoderConfig

    @classmethod
    def read(cls, data: Mapping[str, Any], where: str = "config", stored: bool = False) -> ModelConfig:
        """A configuration from plain data (as in config.json); a :class:`ConfigError` names the field at fault.

        stored: the data is a file, whose idle settings are put back to their defaults.
        """
        found = from_plain_data(cls, data, where, stored)
        return found.settled() if stored else found

    def settled(self) -> ModelConfig:
        """The same model, with the settings that nothing reads at their defaults."""
        data: dict[str, Any] = self.model_dump(mode="json")
        for name in idle_settings(self):
            piece, field = name.split(".")
            del data[piece][field]
        return from_plain_data(type(self), data, "config")

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        for check in (
            _check_shape, _check_context, _check_sum, _check_link, _check_place, _check_z, _check_prior
        ):  # fmt: skip
            problem = check(self)
            if problem:
                raise ValueError(problem)
        if not is_stored(info):
            for name, need in idle_settings(self).items():
                raise ValueError(f"{name} does nothing unless {need}; leave it out")
        return self

    @property
    def n_blocks(self) -> int:
        """G: how many sums W consists of."""
        return self.parts.n_kinds if self.latent.blocks else 1


def is_stored(info: ValidationInfo) -> bool:
    """True where a file of ours is read, not what a caller sets."""
    return bool((info.context or {}).get("stored"))


def idle_settings(config: ModelConfig) -> dict[str, str]:
    """Settings that have another value than their default though nothing reads them -> what would have to be so."""
    found = {}
    for name, need in _unread(config):
        piece, field = name.split(".")
        own: BaseModel = getattr(config, piece)
        if getattr(own, field) != type(own).model_fields[field].default:
            found[name] = need
    return found


def _unread(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Settings that no network of this model and no step of its training reads, with what would read them."""
    prior, z = config.prior, config.latent.z > 0
    if prior.kind == "table":
        yield from ((f"prior.{name}", "prior.kind is network") for name in ("embedding", "hidden"))
    else:
        yield from ((f"prior.{name}", "prior.kind is table") for name in ("centre", "spread"))
    if prior.fit != "m_step":
        yield "prior.rate", "prior.fit is m_step"
    if not z:
        yield "prior.z_network", "the model has a z (latent.z, latent.z_place)"
    yield from _unread_by_posterior(config)
    yield from _unread_by_decoder(config)


def _unread_by_posterior(config: ModelConfig) -> Iterator[tuple[str, str]]:
    own = config.posterior
    if own.kind == "newton":
        return
    if own.trunk == "vector":
        yield "posterior.channels", "posterior.trunk is curve or image"
    if not config.latent.z:
        yield "posterior.z_network", "the model has a z (latent.z, latent.z_place)"


def _unread_by_decoder(config: ModelConfig) -> Iterator[tuple[str, str]]:
    own = config.decoder
    if own.kind == "paper":
        if own.trunk == "vector":
            yield "decoder.channels", "decoder.trunk is curve or image"
        else:
            yield "decoder.hidden", "decoder.trunk is vector"
        if own.stem == "added":
            yield "decoder.blocks", "decoder.stem is joined"
    elif own.kind == "linked":
        if own.link == "losses":
            yield from ((f"decoder.{name}", "decoder.link is joint or pointwise") for name in ("width", "blocks"))
        if own.part_noise or config.scale == "none":
            yield "decoder.noise_power", "scale is size and decoder.part_noise is false"


def _check_shape(config: ModelConfig) -> str | None:
    if math.prod(config.shape) > 4_194_304:
        return f"shape {config.shape} has more than 4194304 values, the most a model takes"
    for piece in (config.posterior, config.decoder):
        trunk = getattr(piece, "trunk", "vector")
        if trunk != "vector" and config.shape != TRUNK_SHAPES[trunk]:
            shape = TRUNK_SHAPES[trunk]
            return f"the {trunk} trunk of {piece.kind} is for x of shape {shape}, not {config.shape}; use trunk vector"
    return None


def _check_context(config: ModelConfig) -> str | None:
    names = [covariate.name for covariate in config.context]
    if len(set(names)) < len(names):
        return f"covariates of context need different names, got {', '.join(names)}"
    return None


def _check_sum(config: ModelConfig) -> str | None:
    """The collapse and category-owned blocks stand on W = sum w_i (theory, section 4)."""
    if config.decoder.kind == "placed" and config.posterior.kind == "collapsed":
        return f"posterior collapsed {NEEDS_SUM}; use newton or graph"
    if config.decoder.kind == "placed" and config.latent.blocks:
        return f"latent.blocks {NEEDS_SUM}"
    return None


def _check_link(config: ModelConfig) -> str | None:
    """Losses take x_t in the units of its parts and return nothing beside its mean (LinkedConfig)."""
    own = config.decoder
    if own.kind != "linked" or own.link != "losses":
        return None
    if own.features == 1 and own.part_noise and config.latent.z_place == "none":
        return None
    return "decoder.link losses needs decoder.features 1, decoder.part_noise true and z_place none"


def _check_place(config: ModelConfig) -> str | None:
    places, shape = config.parts.n_features, config.shape
    if config.decoder.kind == "placed" and not (places in (1, 2) and len(shape) - places in (0, 1)):
        return (
            "decoder placed needs parts with 1 or 2 continuous attributes, one for each axis of x, "
            f"got {places} for x of shape {shape}"
        )
    if getattr(config.posterior, "pixels", 0) and config.decoder.kind != "placed":
        return "posterior.pixels needs a decoder that can decode pixels alone (placed); set it to 0 for all"
    return None


def _check_z(config: ModelConfig) -> str | None:
    place = config.latent.z_place
    if place == "below" and config.decoder.kind == "placed":
        return f"z below W {NEEDS_SUM}; use z_place none"
    if place == "below" and config.posterior.kind == "newton":
        return "z below W needs posterior graph or collapsed; with newton use z_place none"
    return None


def _check_prior(config: ModelConfig) -> str | None:
    if config.prior.fit == "m_step" and config.prior.kind != "table":
        return "prior.fit m_step needs prior.kind table: a network of the attributes has no closed-form optimum"
    return None
