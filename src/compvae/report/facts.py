"""What a model is and where it comes from, as rows of two: for people who have only the page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import compvae
from compvae.api import load, place_of
from compvae.config import ModelConfig
from compvae.evaluation.harness import problem_of
from compvae.evaluation.rows import Evaluation, Row, named, split
from compvae.model import Model
from compvae.problems import Problem
from compvae.report.claims import number
from compvae.storage import VERDICT, WARNING
from compvae.train.observers import read_metrics
from compvae.transport.config import TransportConfig

__all__ = [
    "Headline",
    "Subject",
    "facts",
    "headlines",
    "model_facts",
    "report_commands",
    "reproduction",
    "training_command",
]

AGAIN = "runs/again"


@dataclass(frozen=True)
class Subject:
    """The model a report is about.  name: as the caller gave it.  lines: of metrics.jsonl, where there is one."""

    name: str
    model: Model
    problem: Problem
    lines: list[dict[str, Any]]

    @classmethod
    def of(cls, name: str, model: Model | None = None) -> Subject:
        """A shipped model by name, a run, or a model directory (also the one inside a run)."""
        model = load(name) if model is None else model
        path = place_of(name)
        metrics = [place / "metrics.jsonl" for place in (path, path.parent) if (place / "model").is_dir()]
        lines = read_metrics(metrics[0] if metrics else path / "metrics.jsonl")  # of a shipped one, beside its weights
        return cls(name, model, problem_of(model), lines)

    @property
    def kind(self) -> str:
        """By what evaluations know the problem."""
        return self.problem.name


@dataclass(frozen=True)
class Headline:
    """A number to begin with.  good: what a perfect model would get."""

    label: str
    value: str
    good: str


def facts(subject: Subject) -> list[tuple[str, str]]:
    """Name and value of what there is to know."""
    about, problem = subject.model.provenance, subject.problem
    attributes = ", ".join(a.name for a in subject.model.config.parts.attributes)
    settings = ", ".join(f"{key} = {value}" for key, value in about.settings.items())
    return [
        ("problem", f"{problem.name}: {problem.summary}"),
        ("settings of the problem", settings or "as the problem has them"),
        ("a part", f"{attributes}; hidden in it: {', '.join(problem.specific_names)}"),
        *model_facts(subject.model, problem.max_parts, subject.lines),
    ]


def model_facts(model: Model, trained: int, lines: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What is known of any model.  trained: largest K of training.  lines: of metrics.jsonl."""
    config = model.config
    parameters = sum(tensor.numel() for tensor in model.network.parameters())
    seconds = lines[-1].get("seconds") if lines else None
    found = [
        ("x", " x ".join(map(str, config.shape)) + " numbers"),
        ("trained on", f"K up to {trained}"),
        *(_transport_facts(config) if isinstance(config, TransportConfig) else _structured_facts(config)),
        ("parameters", f"{parameters:,}"),
        *((name, note) for name, note in model.provenance.notes.items() if name not in (VERDICT, WARNING)),
        ("training time", "" if seconds is None else f"{seconds:.0f} s"),
        ("compvae", compvae.__version__),
    ]  # fmt: skip
    return [(name, value) for name, value in found if value]


def _structured_facts(config: ModelConfig) -> list[tuple[str, str]]:
    latent = config.latent
    blocks = ", a block for each category" if latent.blocks else ""
    shared = f"; z {latent.z}, {latent.z_place}" if latent.z else "; no z"
    return [
        ("posterior, decoder", f"{config.posterior.kind}, {config.decoder.kind}"),
        ("latents", f"w {latent.w}{blocks}{shared}"),
    ]


def _transport_facts(config: TransportConfig) -> list[tuple[str, str]]:
    """What was found in the data when the run began (transport/structure.py), and the size of the map."""
    limits = [("no value below", config.lower), ("no value above", config.upper)]
    return [
        ("kind of model", "transport: an invertible map from a Gaussian with one term for each kind of part"),
        ("units in which parts add up", config.link),
        ("growth", "x grows with K" if config.extensive else "x does not grow with K"),
        ("factors", f"{config.rank} of each kind of part, {config.factors} that parts share"),
        ("values", ", ".join([f"{text} {end:g}" for text, end in limits if end is not None]
         + [f"never below 0 where all parts are of {len(config.nonnegative)} kinds"] * bool(config.nonnegative)
         + ["whole numbers"] * config.integers)),
        ("map", f"{config.steps} steps of a network of width {config.width} and depth {config.depth}"),
    ]  # fmt: skip


def headlines(rows: Sequence[Row], problem: Problem) -> list[Headline]:
    """The worst relED within and beyond the training range, and the worst edit."""
    inside, outside = split(named(rows, "relED"), problem.max_parts)
    chosen = (
        ("largest relED within the training range", inside),
        ("largest relED beyond it", outside),
        ("largest edit ratio", named(rows, "edit remove")),
    )
    found = []
    for label, some in chosen:
        if some:
            worst = max(some, key=lambda row: row.value or 0.0)
            good = f"floor {worst.floor:.2g}: what the truth gets" if worst.floor else "0 is exact, 1 is a fresh draw"
            found.append(Headline(f"{label} (K = {worst.K})", number(worst), good))
    return found


def reproduction(
    subject: Subject, quick: bool, seed: int, evaluation: Path | None = None, found: Evaluation | None = None
) -> list[str]:
    """Commands that make this model and this page, where they are known."""
    model, name = subject.model, subject.name
    trained = [] if model.provenance.settings else training_command(model, subject.problem.name)
    return [*trained, *report_commands(AGAIN if trained else name, quick, seed, evaluation, found)]


def training_command(model: Model, what: str) -> list[str]:
    """The command that trains this model again, where it is known.  what: a problem, or files with their flags."""
    notes = model.provenance.notes
    steps = notes.get("steps", "").split(" of ")[-1]
    if not {"preset", "seed"} <= set(notes) or not steps.isdigit():
        return []
    preset, seed = shlex.quote(notes["preset"]), shlex.quote(notes["seed"])
    return [f"compvae train {what} --preset {preset} --steps {steps} --seed {seed} --out {AGAIN}"]


def report_commands(
    name: str, quick: bool, seed: int, evaluation: Path | None, found: Evaluation | None = None
) -> list[str]:
    """The commands that make a report: that of its evaluation first, where one was read."""
    options, commands = f" --seed {seed}" + (" --quick" if quick else ""), []
    if evaluation is not None:
        measured = "" if found is None else found.about.get("options", "")
        commands.append(f"compvae evaluate {shlex.quote(name)} {measured} --json > {shlex.quote(str(evaluation))}")
        options += f" --evaluation {shlex.quote(str(evaluation))}"
    return [*commands, f"compvae report {shlex.quote(name)}{options} --out report.html"]
