"""The configuration of a run: all that decides what comes out, one schema for flags, TOML files and config.json.

A run directory can be run again from its own config.json; steps and threads are measured once and stored there.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from compvae import presets, problems
from compvae.checks import from_plain_data
from compvae.config import ModelConfig, is_stored
from compvae.errors import ConfigError
from compvae.files import reason
from compvae.problems.own import OwnData, own_data
from compvae.problems.source import Source
from compvae.train.schedule import Recipe, recipe_for
from compvae.transport.config import ModelConfigField, without_old_settings

__all__ = ["FORMAT_VERSION", "RunConfig", "read_options", "read_run", "resolve", "with_data"]

OF_RECIPES = ("kl_until", "m_step_from", "sampled")  # settings of recipes that some models do not read
FORMAT_VERSION = 1


class RunConfig(BaseModel):
    """One run.

    problem: a built-in one, or "meters" or "tables" with ``data``, a user's own.
    threads: of torch in each process.  devices, accelerator, precision: as Lightning Fabric names them.
    checkpoint_every, check_every, log_every: steps between checkpoints, held-out checks, lines of metrics.jsonl.
    keep: how many checkpoints stay.
    held_out: wholes of the held-out bound.  watch: wholes of relED at each check, 0 for none.
    patience: checks without a better bound before stopping, 0 for never.
    tolerate: steps in a row that may be skipped as not finite before a rollback.  rollbacks: how many are tried.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    problem: str
    settings: dict[str, Any] = {}
    data: OwnData | None = None
    preset: str = "small"
    model: ModelConfigField
    recipe: Recipe
    seed: int = 0
    threads: int = Field(1, ge=1, le=1024)
    devices: int = Field(1, ge=1, le=1024)
    accelerator: str = "cpu"
    precision: Literal["32", "64", "bf16-mixed"] = "32"
    checkpoint_every: int = Field(1000, ge=1)
    keep: int = Field(3, ge=1)
    check_every: int = Field(500, ge=1)
    held_out: int = Field(256, ge=1)
    watch: int = Field(200, ge=0, le=10_000)
    patience: int = Field(0, ge=0)
    log_every: int = Field(50, ge=1)
    tolerate: int = Field(10, ge=1)
    rollbacks: int = Field(3, ge=0)

    @model_validator(mode="after")
    def _nothing_idle(self, info: ValidationInfo) -> Self:
        if not is_stored(info):
            for name, need in self._idle().items():
                raise ValueError(f"{name} does nothing unless {need}; leave it out")
        return self

    def _idle(self) -> dict[str, str]:
        """Settings that have another value than their default though nothing reads them -> what would have to be so."""
        recipe, standard, found = self.recipe, Recipe(), {}
        if recipe.kl_until != standard.kl_until and recipe.kl_from == 1:
            found["kl_until"] = "kl_from is below 1"
        m_step = isinstance(self.model, ModelConfig) and self.model.prior.fit == "m_step"
        if recipe.m_step_from != standard.m_step_from and not m_step:
            found["m_step_from"] = "prior.fit is m_step"
        if recipe.sampled and not isinstance(self.model, ModelConfig):
            found["sampled"] = "the model is a structured one"
        if self.data is not None and self.settings:
            found["settings"] = "the problem comes with the package or is registered"
        if self.data is not None and self.watch not in (0, type(self).model_fields["watch"].default):
            found["watch"] = "the truth of the problem is known"
        return found

    def settled(self) -> RunConfig:
        """The same run, with the settings that nothing reads at their defaults."""
        standard, idle = Recipe(), self._idle()
        recipe: dict[str, Any] = {name: getattr(standard, name) for name in OF_RECIPES if name in idle}
        own: dict[str, Any] = {
            name: type(self).model_fields[name].default for name in ("settings", "watch") if name in idle
        }
        return self.model_copy(
            update={**own, "model": self.model.settled(), "recipe": self.recipe.model_copy(update=recipe)}
        )

    def make_problem(self) -> Source:
        """The problem with its settings, or the data."""
        return problems.get(self.problem, **self.settings) if self.data is None else self.data.open()


def resolve(options: Mapping[str, Any]) -> RunConfig:
    """A full configuration from what was asked for: problem, preset, steps and any field of the run or its recipe."""
    given = with_data(options)
    problem: Source
    if given.get("data") is None:
        problem = problems.get(str(given.get("problem", "")), **dict(given.get("settings") or {}))
    else:
        problem = from_plain_data(OwnData, given["data"], "data").open()
    name = str(given.get("preset") or presets.default_preset(problem))
    given["preset"] = name
    trained = presets.FIRST if name == presets.AUTO else name
    model = presets.preset(problem, trained)
    recipe = {**recipe_for(presets.family(problem), trained).model_dump(), **(given.pop("recipe", None) or {})}
    for field in Recipe.model_fields:
        if given.get(field) is not None:
            recipe[field] = given.pop(field)
    run = {
        "model": model.model_dump(mode="json"),
        **{k: v for k, v in given.items() if v is not None},
        "recipe": recipe,
    }
    return read_run(run, "options")


def with_data(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options, with the data in place of its paths where the problem is a file or a directory."""
    given = dict(options)
    name = str(given.get("problem", ""))
    if name in problems.PROBLEMS or given.get("data") is not None:
        for flag in ("profiles", "context"):
            if given.get(flag) is not None:
                raise ConfigError(f"{flag} goes with a file of meter readings, not with the problem {name}")
        return given
    try:
        there = Path(name).exists()
    except (OSError, ValueError):  # a name no file can have
        there = False
    if not name or not there:
        known = ", ".join(problems.PROBLEMS)
        raise ConfigError(f"problem {name!r} is unknown: not one of {known}, no file, no directory")
    profiles, context = given.pop("profiles", None), given.pop("context", None)
    data = own_data(name, None if profiles is None else str(profiles), None if context is None else str(context))
    return {**given, "problem": data.kind, "data": data.model_dump(mode="json")}


def read_run(data: Mapping[str, Any], where: str, stored: bool = False) -> RunConfig:
    """A run's configuration from plain data.  stored: of a file, whose idle settings are put back to their defaults."""
    if stored and isinstance(data.get("model"), Mapping):
        data = {**data, "model": without_old_settings(data["model"], where)}
    found = from_plain_data(RunConfig, data, where, stored)
    return found.settled() if stored else found


def read_options(path: Path) -> dict[str, Any]:
    """Options from a TOML file, or from the config.json of another run."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration, {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if path.suffix == ".json" and isinstance(data, dict):
        if data.get("format_version") != FORMAT_VERSION:
            raise ConfigError(f"{path}: format_version is {data.get('format_version')!r}, expected {FORMAT_VERSION}")
        data = data.get("run")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a table of options, got {type(data).__name__}")
    if path.suffix == ".json":
        with suppress(ConfigError):  # said when it is used, with the options that go before it
            return read_run(data, str(path), stored=True).model_dump(mode="json")
    return data
