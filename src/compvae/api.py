"""fit: train a model; load: a model by its name or its directory."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compvae.errors import UnknownModelError
from compvae.model import Model
from compvae.storage import WARNING
from compvae.train.observers import read_metrics
from compvae.train.runs import train_run
from compvae.verdict.verdict import Verdict

__all__ = ["Run", "fit", "load", "place_of", "shipped"]

SHIPPED = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Run:
    """A finished training run.

    metrics: the lines of metrics.jsonl.  verdict: how good the model is on what was held out, beside yardsticks; str()
    is what the command prints; None where the run was not judged (a structured model of a built-in problem).
    """

    model: Model
    metrics: list[dict[str, Any]]
    directory: Path
    verdict: Verdict | None = None


def fit(
    problem: str | os.PathLike[str],
    preset: str | None = None,
    out: str | os.PathLike[str] = "runs/mine",
    steps: int | None = None,
    seed: int = 0,
    resume: bool = False,
    minutes: float | None = None,
    show: bool = False,
    profiles: str | os.PathLike[str] | None = None,
    context: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Run:
    """Train a preset on a problem; ``options`` are fields of the run or its recipe (batch, rate, devices, ...).

    problem: a built-in or registered one by name; a file of meter readings, with profiles (a table ``meter, profile``
    or "auto:4") and context (a table ``date, ...``); or a directory of wholes and parts.
    preset: None means "small" for a built-in problem and "auto" for any other: every preset that suits is tried on a
    share of the budget, and the best on held-out wholes is trained.
    A directory that is not empty needs resume=True.  A signal saves the run, then KeyboardInterrupt is raised.
    """
    paths = {"problem": problem, "profiles": profiles, "context": context}
    named = {name: str(path) for name, path in paths.items() if path is not None}
    given = {**named, "preset": preset, "steps": steps, "seed": seed, **options}
    outcome = train_run(given, out, resume, minutes, show)
    if outcome.stopped:
        raise KeyboardInterrupt(
            f"stopped by signal {outcome.stopped} after step {outcome.steps}; resume with resume=True"
        )
    place = outcome.directory
    model = _read(place) if show else load(place)  # shown, the verdict has said what a warning would
    return Run(model, read_metrics(place / "metrics.jsonl"), place, Verdict.read(place))


def shipped() -> list[str]:
    """Names of the models that come with the package."""
    return (
        sorted(path.name for path in SHIPPED.glob("*") if (path / "config.json").exists()) if SHIPPED.exists() else []
    )


def place_of(name: str | os.PathLike[str]) -> Path:
    """The directory a model is read from: a shipped one's by its name, else the name as a path."""
    return SHIPPED / name if isinstance(name, str) and name in shipped() else Path(name)


def load(name: str | os.PathLike[str]) -> Model:
    """A shipped name first ("sines"), else a run or model directory ("./sines", "runs/mine").

    A model that lost to a Gaussian with the data's moments when its run was judged says so, in one line on stderr.
    """
    model = _read(name)
    warning = " ".join(model.provenance.notes.get(WARNING, "").split())
    if warning:
        print(f"compvae: {name}: {warning}", file=sys.stderr)
    return model


def _read(name: str | os.PathLike[str]) -> Model:
    if not isinstance(name, str | os.PathLike):
        raise UnknownModelError(f"a model is named by a text or a path, got {type(name).__name__}")
    directory = place_of(name)
    if not _is_directory(directory):
        names = ", ".join(shipped()) or "none yet"
        raise UnknownModelError(f"{str(name)!r} is neither a shipped model ({names}) nor a directory")
    return Model.load(directory / "model" if (directory / "model").is_dir() else directory)


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a directory above that may not be entered
        return False
