"""preset="auto": every preset that suits is tried for a share of the budget, and the best on unseen wholes is trained.

A trial is scored by the energy score of unseen wholes, those with few and those with many parts counting alike.  The
table is kept.  (What goes beyond the training range is decided before, by the structure: transport/structure.py.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from compvae import presets
from compvae.batch import Batch
from compvae.errors import CompVAEError
from compvae.fitting.ending import fit_prior
from compvae.network import Network
from compvae.noise import Noise
from compvae.problems.source import Source
from compvae.train.budget import step_seconds
from compvae.train.loop import Trainer
from compvae.train.schedule import recipe_for
from compvae.train.settings import RunConfig
from compvae.transport.config import TransportConfig
from compvae.transport.starting import alone, fitted_rows
from compvae.transport.structure import find_structure
from compvae.verdict.scores import Scores, scores_of

__all__ = ["Tried", "choose", "with_structure"]

SHARE = 0.06  # of the budget, for each candidate
UNSEEN = 1 << 38  # added to the seed of a run: wholes that the structure is found on
JUDGED, STRUCTURED_ON = 300, 1024  # unseen wholes
WIDE = 4096  # values of x, beyond which structured presets, which linearise each of them, do not end in their share
STEPS_SHARE = 20  # a run of so many steps tries each candidate for one

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tried:
    """A candidate and its mean energy scores: on wholes with up to half as many parts as the largest, and on others.

    difference, se: of the logarithm of both together to the best candidate's, paired over wholes.
    """

    preset: str
    steps: int
    few: float
    many: float
    difference: float = 0.0
    se: float = 0.0
    failure: str = ""


def with_structure(config: RunConfig, source: Source) -> RunConfig:
    """The same run of an invertible model, with the structure that its data shows."""
    assert isinstance(config.model, TransportConfig)
    training = source.draw(source.max_parts, Noise(config.seed + UNSEEN, fitted_rows(source.shape)))
    unseen = source.draw_held_out(Noise(config.seed + UNSEEN, STRUCTURED_ON, 1))
    found = find_structure(config.model, alone(training), alone(unseen))
    return config.model_copy(update={"model": found.config})


def choose(
    config: RunConfig, source: Source, seconds: float | None, say: Say, given: dict[str, Any]
) -> tuple[RunConfig, list[Tried]]:
    """The run with the best preset, and all that were tried, best first.

    seconds: budget of the run, None where its steps are given.  given: fields of recipes that the caller set.
    """
    unseen = source.draw_held_out(Noise(config.seed + UNSEEN, JUDGED, 2)).different()
    found: list[tuple[Tried, Scores | None, RunConfig]] = []
    names = [name for name in presets.presets_of(source) if name != "paper"]
    if math.prod(source.shape) > WIDE and presets.first_of(source) in names:
        names = [presets.first_of(source)]
    for name in sorted(names, key=lambda name: name != presets.first_of(source)):
        recipe = recipe_for(presets.family(source), name).model_copy(update=given)
        candidate = config.model_copy(update={"preset": name, "model": presets.preset(source, name), "recipe": recipe})
        if isinstance(candidate.model, TransportConfig):
            candidate = with_structure(candidate, source)
        if len(names) == 1:
            return candidate, []
        took = "" if seconds is None else f" for {SHARE * seconds:.0f} s"
        say(f"trying {name}{took} ({len(found) + 1} of {len(names)})")
        found.append((*_tried(candidate, source, unseen, seconds), candidate))
    scored = [entry for entry in found if entry[1] is not None]
    if not scored:
        return found[0][2], [entry[0] for entry in found]
    best = min(scored, key=lambda entry: _total(entry[1], source))  # type: ignore[arg-type]
    rows = [_beside(tried, scores, best[1], source) for tried, scores, _ in found]
    rows.sort(key=lambda row: (bool(row.failure), row.difference))
    return best[2], rows


def _tried(config: RunConfig, source: Source, unseen: Batch, seconds: float | None) -> tuple[Tried, Scores | None]:
    """One candidate, trained for its share and scored; what fails says why."""
    try:
        network, steps = _trained(config, source, seconds)
        scores = scores_of(network, unseen, config.seed + UNSEEN)
    except (CompVAEError, RuntimeError) as error:
        return Tried(config.preset, 0, math.inf, math.inf, failure=str(error).splitlines()[0]), None
    if not scores.finite:
        return Tried(config.preset, steps, math.inf, math.inf, failure="samples are not finite"), None
    return Tried(config.preset, steps, *_parts(scores, source)), scores


def _trained(config: RunConfig, source: Source, seconds: float | None) -> tuple[Network, int]:
    started = time.perf_counter()
    trainer = Trainer(config)
    trainer.problem = source
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


def _total(scores: Scores, source: Source) -> float:
    """Lower is better: the logarithms of both added up."""
    return sum(math.log(max(value, 1e-30)) for value in _parts(scores, source) if not math.isnan(value))


def _beside(tried: Tried, scores: Scores | None, best: Scores | None, source: Source) -> Tried:
    """With the difference to the best candidate and its error, by a first-order expansion of the logarithms."""
    if scores is None or best is None:
        return Tried(**{**asdict(tried), "difference": math.inf})
    difference, variance = 0.0, 0.0
    for rows in (_large(scores, source), ~_large(scores, source)):
        if rows.any():
            mine, other = scores.energy[rows], best.energy[rows]
            difference += math.log(max(float(mine.mean()), 1e-30) / max(float(other.mean()), 1e-30))
            paired = mine / mine.mean() - other / other.mean()
            variance += float(paired.var(unbiased=False)) / len(paired)
    return Tried(**{**asdict(tried), "difference": difference, "se": math.sqrt(variance)})
