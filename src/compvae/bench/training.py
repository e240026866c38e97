"""Training: a step against K, batch and width, the graph posterior beside the collapsed one; memory; two processes.

A step is everything but the drawing of its data: bound, gradient, clipping, Adam, M-step.  ``equal`` models differ in
their posterior alone: same width, same number of blocks, same decoder.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch

from compvae import presets, problems
from compvae.batch import Batch
from compvae.bench.memory import peak
from compvae.bench.rows import Row, Scope, rows_of
from compvae.bench.timing import Timing, quartiles
from compvae.config import CollapsedConfig, GraphConfig, LinkedConfig, ModelConfig
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.problems import Problem
from compvae.train.loop import Trainer
from compvae.train.needs import operations
from compvae.train.observers import read_metrics
from compvae.train.runs import train_run
from compvae.train.schedule import RECIPES
from compvae.train.settings import resolve
from compvae.train.step import optimiser_for, train_step

__all__ = [
    "configured", "data", "mixed", "paper", "posteriors", "processes", "sized", "sizes", "stepper", "training",
    "widths",
]  # fmt: skip

Kind = Literal["graph", "collapsed"]
SECTION, PAPER = "training", "paper"
LATE = 2000  # a step after all warming up
JOINT = LinkedConfig(features=128, width=256, blocks=2, floor=0.02)  # theory note, section 7


def configured(kind: Kind, preset: str = "small", width: int = 256) -> ModelConfig:
    """The preset of `sines` with this posterior; at ``small`` with the joint link, as wide as the posterior."""
    config = presets.structured_preset(problems.get("sines"), preset)
    if preset == "paper":
        if kind == "graph":
            return config
        own = config.posterior
        assert isinstance(own, GraphConfig)
        same = {name: getattr(own, name) for name in ("trunk", "channels", "width", "blocks", "z_network")}
        return config.model_copy(update={"posterior": CollapsedConfig(**same)})
    posterior = {"graph": GraphConfig(width=width), "collapsed": CollapsedConfig(width=width)}[kind]
    decoder = JOINT.model_copy(update={"width": width, "features": width // 2})
    return config.model_copy(update={"posterior": posterior, "decoder": decoder})


def sized(problem: Problem, size: int, rows: int, seed: int) -> Batch:
    """Wholes of exactly K parts, as counts where that says all."""
    noise = Noise(seed, rows)
    parts = problem.draw_parts(torch.full((rows,), size), noise)
    x = problem.combine(parts, problem.draw_specifics(parts, noise))
    return Batch(x, parts.counted() if problem.schema.countable else parts)


def mixed(problem: Problem, rows: int, seed: int) -> Batch:
    """Wholes as in training, K uniform up to the largest."""
    return problem.draw(problem.max_parts, Noise(seed, rows))


def stepper(config: ModelConfig, batch: Batch, seed: int) -> Callable[[], object]:
    """A training step of a model of its own on this batch, over and over."""
    model = CompVAE.seeded(config, seed)
    recipe = RECIPES["sines", "small"].model_copy(update={"batch": len(batch)})
    optimiser, noise = optimiser_for(model, recipe), Noise(seed, len(batch), 1)
    return lambda: train_step(model, optimiser, recipe, batch, noise, LATE)


def training(scope: Scope) -> list[Row]:
    """All comparisons of the small model, and two processes against one."""
    found = [*sizes(scope), *posteriors(scope), *widths(scope), *data(scope)]
    return found if scope.quick else [*found, *processes(scope)]


def paper(scope: Scope) -> list[Row]:
    """A step of the paper's widths (143M parameters, seconds a step), graph beside collapsed, against K and batch."""
    problem, rounds = problems.get("sines"), 1 if scope.quick else min(3, scope.rounds)
    plans = [(8, 2)] if scope.quick else [(64, 1), (64, 4), (64, 16), (64, 64), (16, 16)]
    found: list[Row] = []
    for rows, size in plans:
        batch = sized(problem, size, rows, scope.seed)
        cases = {
            f"{kind}, K {size}, batch {rows}": stepper(configured(kind, "paper"), batch, scope.seed)
            for kind in ("collapsed", "graph")
        }
        counts = {name: {"operations": operations(run)} for name, run in cases.items()}
        found += rows_of(PAPER, cases, next(iter(cases)), rounds, counts)
    return found


def sizes(scope: Scope) -> list[Row]:
    """Both posteriors against K, beside the collapsed one at K = 4."""
    problem = problems.get("sines")
    plan = (1, 4, 16) if scope.quick else (1, 4, 16, 64, 200)
    rows = 16 if scope.quick else 64
    cases: dict[str, Callable[[], object]] = {}
    counts: dict[str, dict[str, float]] = {}
    for kind in ("collapsed", "graph"):
        for size in plan:
            batch, name = sized(problem, size, rows, scope.seed), f"{kind}, K {size}, batch {rows}"
            cases[name] = stepper(configured(kind), batch, scope.seed)
            counts[name] = {"operations": operations(cases[name])}
            if not scope.quick:
                counts[name]["peak MB"] = peak(_some_steps, kind, 256, size, rows)
    return rows_of(SECTION, cases, f"collapsed, K 4, batch {rows}", scope.turns, counts)


def posteriors(scope: Scope) -> list[Row]:
    """Graph over collapsed with K mixed in 1..16, against the batch."""
    problem, found = problems.get("sines"), list[Row]()
    for rows in (16,) if scope.quick else (16, 64, 256):
        batch = mixed(problem, rows, scope.seed)
        cases = {
            f"{kind}, K 1..16, batch {rows}": stepper(configured(kind), batch, scope.seed)
            for kind in ("collapsed", "graph")
        }
        counts = {name: {"operations": operations(run)} for name, run in cases.items()}
        found += rows_of(SECTION, cases, f"collapsed, K 1..16, batch {rows}", scope.turns, counts)
    return found


def widths(scope: Scope) -> list[Row]:
    """Graph over collapsed against the width of the networks."""
    problem, found = problems.get("sines"), list[Row]()
    for width in (64,) if scope.quick else (64, 256, 512):
        batch = mixed(problem, 64, scope.seed)
        cases = {
            f"{kind}, width {width}, batch 64": stepper(configured(kind, width=width), batch, scope.seed)
            for kind in ("collapsed", "graph")
        }
        counts = {} if scope.quick else {f"{kind}, width {width}, batch 64": {"peak MB": peak(_some_steps, kind, width)}
                                         for kind in ("collapsed", "graph")}  # fmt: skip
        found += rows_of(SECTION, cases, f"collapsed, width {width}, batch 64", scope.turns, counts)
    return found


def _some_steps(kind: Kind, width: int = 256, size: int = 0, rows: int = 64) -> None:
    """What a fresh process does to show its peak memory.  size: K, 0 for mixed."""
    problem = problems.get("sines")
    batch = sized(problem, size, rows, 0) if size else mixed(problem, rows, 0)
    step = stepper(configured(kind, width=width), batch, 0)
    for _ in range(3):
        step()


def data(scope: Scope) -> list[Row]:
    """Drawing the data of a step beside the whole step, for the small presets."""
    found: list[Row] = []
    for name in ("sines",) if scope.quick else ("sines", "colours", "households"):
        trainer = Trainer(resolve({"problem": name, "seed": scope.seed}))
        trainer.state.step = trainer.config.recipe.steps - 1

        def draw(trainer: Trainer = trainer) -> object:
            return trainer.batch(trainer.state.step)

        def whole(trainer: Trainer = trainer) -> object:
            trainer.state.step = trainer.config.recipe.steps - 1
            return trainer.advance()

        cases = {f"{name}, small: step with its data": whole, f"{name}, small: data alone": draw}
        found += rows_of(SECTION, cases, f"{name}, small: step with its data", scope.turns)
    return found


def processes(scope: Scope) -> list[Row]:
    """The same steps in two processes and in one; the clock on the wall, since the work is done by children."""

    def seconds(devices: int) -> float:
        options: dict[str, Any] = {"problem": "sines", "devices": devices, "batch": 256, "steps": 20, "threads": 1,
                                   "watch": 0, "log_every": 1, "check_every": 10**6, "seed": scope.seed}  # fmt: skip
        with tempfile.TemporaryDirectory() as place:
            train_run(options, Path(place) / "run")
            return _step_seconds(Path(place) / "run" / "metrics.jsonl")

    rounds = [(seconds(1), seconds(2)) for _ in range(3)]
    alone = quartiles([a for a, _ in rounds])
    case, beside = "two processes, batch 256 (wall clock)", "one process, batch 256 (wall clock)"
    both = Timing(quartiles([b for _, b in rounds]), quartiles([b / a for a, b in rounds]), len(rounds))
    return [Row(SECTION, beside, beside, Timing(alone, quartiles([1.0]), len(rounds))),
            Row(SECTION, case, beside, both)]  # fmt: skip


def _step_seconds(metrics: Path) -> float:
    """Median time from one step to the next."""
    times = [float(row["seconds"]) for row in read_metrics(metrics)]
    return statistics.median(b - a for a, b in pairwise(times))
