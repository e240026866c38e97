"""The configuration of an invertible model: the form of its base, its link, its map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from compvae.checks import from_plain_data
from compvae.config import ModelConfig
from compvae.errors import ConfigError
from compvae.parts import Attribute, PartsSchema

__all__ = [
    "AnyModelConfig",
    "LinkName",
    "ModelConfigField",
    "PlacesConfig",
    "TransportConfig",
    "model_config_from",
    "without_old_settings",
]

LinkName = Literal["identity", "bend", "log", "saturation", "logit"]


class PlacesConfig(BaseModel):
    """How parts with continuous attributes enter an invertible model (part_network.py, placed.py).

    axes: of each continuous attribute, the axis of x along which it is a place, None where it is no place.
    stretch, shift: where that is to begin with, position = stretch * attribute + shift, both scaled to [-1, 1].
    absolute: a part may act otherwise in one place than in another.  hidden: width of the network of a part.
    share: of the steps, the first ones, that fit the base.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    axes: tuple[int | None, ...]
    stretch: tuple[float, ...]
    shift: tuple[float, ...]
    absolute: bool = True
    hidden: Annotated[int, Field(ge=1, le=4096)] = 48
    share: Annotated[float, Field(ge=0, lt=1)] = 0.25


class TransportConfig(BaseModel):
    """An invertible model.

    link: in which units parts add up (link.py).  extensive: W = y where True, W = K y where x does not grow with K.
    rank: factors of each kind's covariance.  factors: coordinates of z.
    seen: how many contexts of training wholes are kept, of which those that nobody tells are drawn (covariates.py).
    lower, upper: limits that no whole exceeds, None where there is none.  integers: wholes are whole numbers.
    nonnegative: kinds that are never below 0, where others are: neither are wholes of these kinds alone.
    width, depth: of the velocity field.  steps: of the discretised map.
    quiet: share of a whole's spread that is added to that of each of its values, in the units of the map.
    whitened: these units are the root of the base's covariance instead (units.py).
    atom: width of the interval beyond a limit from which values on the limit are drawn, in these units.
    floor: noise added to wholes in training, in units of their spread: where data has no density, this is its density.
    places: how continuous attributes of parts enter; None: parts are counted by kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    kind: Literal["transport"] = "transport"
    parts: PartsSchema
    context: tuple[Attribute, ...] = ()
    shape: Annotated[tuple[Annotated[int, Field(ge=1, le=65_536)], ...], Field(min_length=1, max_length=3)]
    link: LinkName = "identity"
    extensive: bool = True
    rank: Annotated[int, Field(ge=0, le=4096)] = 8
    factors: Annotated[int, Field(ge=0, le=256)] = 3
    seen: Annotated[int, Field(ge=0, le=65_536)] = 0  # none, as in files that have no such field
    lower: float | None = None
    upper: float | None = None
    nonnegative: tuple[int, ...] = ()
    integers: bool = False
    width: Annotated[int, Field(ge=1, le=16_384)] = 128
    depth: Annotated[int, Field(ge=0, le=64)] = 4
    steps: Annotated[int, Field(ge=1, le=1024)] = 16
    quiet: Annotated[float, Field(ge=0, le=10)] = 0.0  # as in files that have no such field
    whitened: bool = False
    atom: Annotated[float, Field(ge=0, le=10)] = 0.3
    floor: Annotated[float, Field(ge=0, le=1)] = 0.1
    places: PlacesConfig | None = None

    def settled(self) -> TransportConfig:
        """The configuration itself: it has no settings that nothing reads."""
        return self

    def with_changes(self, **changes: Any) -> TransportConfig:
        """The same with other fields, checked again."""
        return TransportConfig.model_validate({**dict(self), **changes})


AnyModelConfig = ModelConfig | TransportConfig


def _kind_of(data: object) -> str:
    """Which of the two kinds data describe."""
    kind = data.get("kind") if isinstance(data, Mapping) else getattr(data, "kind", None)
    return "transport" if kind == "transport" else "structured"


ModelConfigField = Annotated[
    Annotated[ModelConfig, Tag("structured")] | Annotated[TransportConfig, Tag("transport")], Discriminator(_kind_of)
]
"""A configuration of either kind as a field of a pydantic model."""


OF_NEWTON = ("trunk", "channels", "z_network")  # settings of the posterior newton in files of release 0.1


def without_old_settings(data: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """A configuration without what release 0.1 alone had; a ConfigError where it cannot be read without."""
    prior, posterior = (_piece(data, name) for name in ("prior", "posterior"))
    for there, what in (
        (bool(data.get("draws_context")), "draws unknown covariates from a Gaussian"),
        (_piece(data, "latent").get("z_place") == "above", "has z above its parts"),
        (bool(prior.get("components")), "has mixtures as the shapes of its parts"),
        (posterior.get("kind") == "per_part", "has the posterior per_part"),
    ):
        if there:
            raise ConfigError(
                f"{where}: this model {what}, as compvae 0.1 did; load it with compvae 0.1, or train it again"
            )
    found = {name: value for name, value in data.items() if name != "draws_context"}
    if prior:
        found["prior"] = {name: value for name, value in prior.items() if name != "components"}
    if posterior.get("kind") == "newton":
        found["posterior"] = {name: value for name, value in posterior.items() if name not in OF_NEWTON}
    return found


def _piece(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a configuration, empty where it is none."""
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def model_config_from(data: Mapping[str, Any], where: str, stored: bool = False) -> AnyModelConfig:
    """A configuration of either kind from plain data (as in config.json); a ConfigError names the field at fault."""
    data = without_old_settings(data, where)
    if _kind_of(data) == "transport":
        return from_plain_data(TransportConfig, data, where, stored)
    return ModelConfig.read(data, where, stored=stored)
