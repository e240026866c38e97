"""What the commands share: options, the model they name, and how they tell what they did."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compvae.errors import ConfigError

if TYPE_CHECKING:
    from compvae.model import Model
    from compvae.parts import Multiset
    from compvae.texts import Compositions

__all__ = [
    "FORMS", "AddedText", "AsJson", "ContextText", "DataFile", "Imported", "ModelName", "MovedText", "MovedToText",
    "NoSeed", "Noise", "OutFile", "PartsText", "RemovedText", "Seed", "ShowProgress", "context_of", "import_modules",
    "load_model", "parts_json", "parts_of", "tell",
]  # fmt: skip

FORMS = "name:count,..., JSON, or a .csv or .json file"
MAX_SEED = 2**63 - 1


def _checked_seed(seed: int) -> int:
    if abs(seed) > MAX_SEED:
        raise typer.BadParameter(f"a seed has at most 63 bits, from {-MAX_SEED} to {MAX_SEED}")
    return seed


AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]
ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A shipped model, or a run or model directory.")]
PartsText = Annotated[str, typer.Option("--parts", help=f"The parts of a whole: {FORMS}.")]
RemovedText = Annotated[str | None, typer.Option("--remove", help=f"Parts to take away: {FORMS}.")]
AddedText = Annotated[str | None, typer.Option("--add", help=f"Parts to put in: {FORMS}.")]
MovedText = Annotated[str | None, typer.Option("--move", help=f"Parts to give other attributes, by --to: {FORMS}.")]
MovedToText = Annotated[str | None, typer.Option("--to", help="The parts of --move as they shall be, in their order.")]
ContextText = Annotated[str | None, typer.Option("--context", help="covariate=value,...; others are unknown.")]
DataFile = Annotated[Path, typer.Option("--data", help="Observed wholes: .npz (array x), .csv or .parquet.")]
OutFile = Annotated[Path | None, typer.Option("--out", help="File to write: .npz, .csv or .parquet.")]
Noise = Annotated[bool, typer.Option("--noise/--no-noise", help="With or without the observation noise.")]
Seed = Annotated[int, typer.Option(callback=_checked_seed, help="Decides everything random.")]
NoSeed = Annotated[int, typer.Option("--seed", callback=_checked_seed, help="As every command has it; not used here.")]
ShowProgress = Annotated[bool, typer.Option("--progress", help="Tell how far it is, also without a terminal.")]

Imported = Annotated[
    list[str] | None, typer.Option("--import", metavar="MODULE", help="Python module that registers a problem.")
]


def import_modules(names: list[str] | None) -> None:
    """Import the modules that register problems; they are found as ``python`` finds them, also in this directory."""
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.insert(0, here)
    for name in names or ():
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigError(f"--import {name}: {error}; modules are found here and by PYTHONPATH") from None


def load_model(name: str, out: Path | None) -> Model:
    """The model of this name, once it is sure that a result could be written."""
    from compvae.api import load
    from compvae.results import check_ending

    if out is not None:
        check_ending(out)
    return load(name)


def parts_of(model: Model, text: str, flag: str) -> Compositions:
    """The compositions of a flag."""
    from compvae.texts import read_parts_text

    return read_parts_text(text, model.parts, flag)


def context_of(model: Model, text: str | None) -> dict[str, str | float] | None:
    """The covariates of --context."""
    from compvae.texts import read_context_text

    return None if text is None else read_context_text(text, model.config.context, "--context")


def parts_json(compositions: Iterable[Multiset]) -> str:
    """Compositions as a result keeps them: a list of parts with their counts, or such a list for each row."""
    listed = [composition.counted() for composition in compositions]
    return json.dumps(listed[0] if len(listed) == 1 else listed)


def tell(found: dict[str, Any], text: str, as_json: bool) -> None:
    """Say what was done: for people, or as one JSON document."""
    if os.environ.get("RANK", "0") == "0":  # of the processes torchrun starts, one speaks
        print(json.dumps(found) if as_json else text)
