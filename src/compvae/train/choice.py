"""preset="auto": every preset that suits is tried for a share of the budget, and the best on unseen wholes is trained.

A trial sees wholes with up to half as many parts as the largest, where there are enough of them, and is scored by the
energy score of unseen wholes: those with as few parts and those with more count alike.  So a preset that holds only
for the sizes it has seen does not win, and the invertible model wins a tie.  The table is kept, and the runner-up
becomes a yardstick of the verdict.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from compvae import presets
from compvae.batch import Batch, Shared
from compvae.errors import CompVAEError
from compvae.fitting.calibration import fit_prior
from compvae.network import Network
from compvae.noise import Noise
from compvae.problems.source import Source
from compvae.train.budget import step_seconds
from compvae.train.loop import Trainer
from compvae.train.schedule import recipe_for
from compvae.train.settings import RunConfig
from compvae.transport.config import TransportConfig
from compvae.transport.places import find_places
from compvae.transport.starting import alone, fitted_rows
from compvae.transport.structure import find_structure
from compvae.verdict.judge import RunnerUp, held_out_wholes
from compvae.verdict.scores import Scores, scores_of

__all__ = ["Choice", "Tried", "choose", "with_structure"]

SHARE = 0.06  # of the budget, for each candidate
UNSEEN = 1 << 38  # added to the seed of a run: wholes that the structure is found on
JUDGED, STRUCTURED_ON = 300, 1024  # unseen wholes
STRUCTURED_BY = 8192  # training wholes at most: several bases are fitted to them
WIDE = 4096  # values of x, beyond which structured presets, which linearise each of them, do not end in their share
STEPS_SHARE = 20  # a run of so many steps tries each candidate for one
BEYOND_DOUBT = 2.0  # standard errors
FEWEST_SMALL, FEWEST_LARGE = 200, 20  # wholes to train a trial on, and larger ones to score it on

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tried:
    """A candidate and its mean energy scores: up to half of the largest K, and beyond.

    trained_to: the largest K that its trial saw.
    difference, se: of the logarithm of both together to the chosen candidate's, paired over wholes.
    """

    preset: str
    steps: int
    few: float
    many: float
    trained_to: int
    difference: float = 0.0
    se: float = 0.0
    failure: str = ""


def with_structure(config: RunConfig, source: Source) -> RunConfig:
    """The same run of an invertible model, with the structure that its data shows."""
    assert isinstance(config.model, TransportConfig)
    rows = min(STRUCTURED_BY, fitted_rows(source.shape))
    training = source.draw(source.max_parts, Noise(config.seed + UNSEEN, rows))
    unseen = source.draw_held_out(Noise(config.seed + UNSEEN, STRUCTURED_ON, 1))
    if config.model.places is not None:
        return config.model_copy(update={"model": find_places(config.model, alone(training))})
    found = find_structure(config.model, alone(training), alone(unseen))
    return config.model_copy(update={"model": found.config})


@dataclass(frozen=True)
class Choice:
    """config: the run with its preset.  tried: all that were, the chosen one first.  runner_up: the next, if any."""

    config: RunConfig
    tried: tuple[Tried, ...] = ()
    runner_up: RunnerUp | None = None


@dataclass(frozen=True)
class _Trial:
    """A candidate after its trial; scores and network are None where it failed."""

    config: RunConfig
    tried: Tried
    scores: Scores | None = None
    network: Network | None = None


def choose(config: RunConfig, source: Source, seconds: float | None, say: Say, given: dict[str, Any]) -> Choice:
    """Try every preset that suits.

    seconds: budget of the run, None where its steps are given.  given: fields of recipes that the caller set.
    """
    unseen = source.draw_held_out(Noise(config.seed + UNSEEN, JUDGED, 2)).different()
    names = [name for name in presets.presets_of(source) if not name.startswith("paper")]
    if math.prod(source.shape) > WIDE or not source.schema.countable:
        names = [presets.FIRST]  # small is far off where attributes are continuous (docs/experiments.md, 19)
    found: list[_Trial] = []
    for name in sorted(names, key=lambda name: name != presets.FIRST):
        recipe = recipe_for(presets.family(source), name).model_copy(update=given)
        candidate = config.model_copy(update={"preset": name, "model": presets.preset(source, name), "recipe": recipe})
        if isinstance(candidate.model, TransportConfig):
            candidate = with_structure(candidate, source)
        if len(names) == 1:
            return Choice(candidate)
        took = "" if seconds is None else f" for {SHARE * seconds:.0f} s"
        say(f"trying {name}{took} ({len(found) + 1} of {len(names)})")
        found.append(_tried(candidate, source, unseen, seconds))
    ranked = _ranked(found, source)
    best = ranked[0]
    rows = tuple(_beside(trial, best, source) for trial in ranked)
    return Choice(best.config, rows, _runner_up(ranked[1], source))


def _ranked(found: list[_Trial], source: Source) -> list[_Trial]:
    """Best first; the preset that a choice starts from comes first unless another is better beyond doubt.

    A trial is short and the invertible model gains most from what comes after it, so that a tie is its win.
    """
    ranked = sorted(found, key=lambda trial: _total(trial.scores, source))
    first = next(trial for trial in found if trial.config.preset == presets.FIRST)
    beside = _beside(first, ranked[0], source)
    if beside.difference <= BEYOND_DOUBT * beside.se:
        ranked.remove(first)
        ranked.insert(0, first)
    return ranked


def _runner_up(trial: _Trial, source: Source) -> RunnerUp | None:
    """The second best as a yardstick: scored on the wholes that the verdict is made of."""
    if trial.network is None:
        return None
    seed = trial.config.seed
    return RunnerUp(trial.config.preset, scores_of(trial.network, held_out_wholes(source, seed), seed))


def _tried(config: RunConfig, source: Source, unseen: Batch, seconds: float | None) -> _Trial:
    """One candidate, trained for its share and scored; what fails says why."""
    most = _trial_size(config, source, unseen)
    try:
        network, steps = _trained(config, source, seconds, most)
        scores = scores_of(network, unseen, config.seed + UNSEEN)
    except (CompVAEError, RuntimeError) as error:
        return _Trial(config, Tried(config.preset, 0, math.inf, math.inf, most, failure=str(error).splitlines()[0]))
    if not scores.finite:
        failed = Tried(config.preset, steps, math.inf, math.inf, most, failure="samples are not finite")
        return _Trial(config, failed)
    return _Trial(config, Tried(config.preset, steps, *_parts(scores, source), most), scores, network)


def _trial_size(config: RunConfig, source: Source, unseen: Batch) -> int:
    """The largest K that a trial sees: half of the largest, where there are wholes on both sides of it."""
    half, rows = source.max_parts // 2, min(STRUCTURED_BY, fitted_rows(source.shape))
    training = source.draw(source.max_parts, Noise(config.seed + UNSEEN, rows, 3)).different()
    enough = int((training.parts.sizes <= half).sum()) >= FEWEST_SMALL
    return half if enough and int((unseen.parts.sizes > half).sum()) >= FEWEST_LARGE else source.max_parts


class _SmallWholes(Trainer):
    """A trial's training: on wholes with up to ``most`` parts."""

    def __init__(self, config: RunConfig, source: Source, most: int) -> None:
        self.most = most
        super().__init__(config)
        self.problem = source  # read once for all trials

    def _wholes(self) -> Batch:
        wholes = super()._wholes()
        return _rows_of(wholes, self._small(wholes))

    def batch(self, step: int) -> tuple[Batch, Noise]:
        """The rows of a step that are small enough."""
        batch, noise = super().batch(step)
        rows = self._small(batch)
        return _rows_of(batch, rows), noise.at(rows)

    def _small(self, batch: Batch) -> torch.Tensor:
        rows = (batch.parts.sizes <= self.most).nonzero()[:, 0]
        return rows if len(rows) else torch.arange(len(batch))


def _rows_of(batch: Batch, rows: torch.Tensor) -> Batch:
    """Some wholes of a batch; those with one z keep it.  rows: (R,) int64."""
    shared = None if batch.shared is None else Shared.of(batch.shared.group[rows])
    records = None if batch.records is None else batch.records[rows]
    return replace(batch.rows(rows), shared=shared, records=records)


def _trained(config: RunConfig, source: Source, seconds: float | None, most: int) -> tuple[Network, int]:
    started = time.perf_counter()
    trainer = _SmallWholes(config, source, most)
    if seconds is None:
        steps = max(1, config.recipe.steps // STEPS_SHARE)
    else:
        each, _ = step_seconds(Trainer(config, measured_only=True))
        steps = max(5, int((SHARE * seconds - (time.perf_counter() - started)) / each))
    trainer.config = config.model_copy(update={"recipe": config.recipe.model_copy(update={"steps": steps})})
    for _ in range(steps):
        trainer.advance()
    model = trainer.finished().float().cpu()
    fit_prior(model, lambda noise: source.draw(source.max_parts, noise), config.seed + UNSEEN, min(steps, 99))
    return model.eval(), steps


def _large(scores: Scores, source: Source) -> torch.Tensor:
    return scores.sizes > source.max_parts / 2


def _parts(scores: Scores, source: Source) -> tuple[float, float]:
    """Mean energy score of small and of large wholes; NaN where there are none."""
    large = _large(scores, source)
    return float(scores.energy[~large].mean()), float(scores.energy[large].mean())


def _total(scores: Scores | None, source: Source) -> float:
    """Lower is better: the logarithms of both added up; infinite where a trial failed."""
    if scores is None:
        return math.inf
    return sum(math.log(max(value, 1e-30)) for value in _parts(scores, source) if not math.isnan(value))


def _beside(trial: _Trial, best: _Trial, source: Source) -> Tried:
    """With the difference to another candidate and its error, by a first-order expansion of the logarithms."""
    if trial.scores is None or best.scores is None:
        return replace(trial.tried, difference=math.inf)
    difference, variance = 0.0, 0.0
    for rows in (_large(trial.scores, source), ~_large(trial.scores, source)):
        if rows.any():
            mine, other = trial.scores.energy[rows], best.scores.energy[rows]
            difference += math.log(max(float(mine.mean()), 1e-30) / max(float(other.mean()), 1e-30))
            paired = mine / mine.mean() - other / other.mean()
            variance += float(paired.var(unbiased=False)) / len(paired)
    return replace(trial.tried, difference=difference, se=math.sqrt(variance))
