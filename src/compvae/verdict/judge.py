"""Judging a trained network: held-out wholes, yardsticks within their share of the budget, the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from compvae.batch import Batch
from compvae.errors import DivergenceError
from compvae.network import Network
from compvae.noise import Noise
from compvae.parts import Part, PartsSchema
from compvae.problems.source import Source
from compvae.transport.network import Transport
from compvae.transport.observing import whitened_square
from compvae.transport.starting import fitted_rows
from compvae.transport.structure import undetermined_kinds
from compvae.verdict.scores import Scores, scores_of
from compvae.verdict.verdict import FLOW, GAUSSIAN, Verdict, make_verdict, out_of_range
from compvae.verdict.yardsticks import counts_flow, moment_gaussian

__all__ = ["YARDSTICKS_SHARE", "RunnerUp", "held_out_wholes", "judge"]

YARDSTICKS_SHARE = 0.15  # of a run's budget, for fitting yardsticks and scoring everything
FLOW_SHARE = 0.6  # of that, for the flow on the counts
JUDGED = 400  # held-out wholes
JUDGED_PLACED, PLACED_NUMBERS = 250, 2**15  # where parts have places, whose draws take longer; values of x of them all
SEED = 1 << 43  # added to the seed of a run

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunnerUp:
    """The second best of what was tried, after its trial.  scores: on the wholes of the verdict."""

    preset: str
    scores: Scores


def held_out_wholes(source: Source, seed: int) -> Batch:
    """The wholes that a verdict is made of, each once: one that comes twice would make errors look small."""
    wholes = JUDGED
    if not source.schema.countable:
        wholes = max(1, min(JUDGED_PLACED, PLACED_NUMBERS // math.prod(source.shape)))
    return source.draw_held_out(Noise(seed + SEED, wholes)).different()


def judge(
    network: Network,
    source: Source,
    seed: int,
    seconds: float | None,
    steps: int,
    choice: Sequence[Mapping[str, Any]] = (),
    runner_up: RunnerUp | None = None,
    say: Say = lambda text: None,
) -> Verdict:
    """The verdict on a network.

    Args:
        network: as it is saved.
        source: what it was trained on.
        seed: of the run.
        seconds: the run's budget, None where only its steps are known.
        steps: that the run had.
        choice: what was tried before, best first.
        runner_up: the second best of it.
        say: told what is being done.

    Raises:
        DivergenceError: samples are not finite, or run out of ten times the data's range.
    """
    unseen = held_out_wholes(source, seed)
    wholes = source.draw(source.max_parts, Noise(seed + SEED, fitted_rows(source.shape), 1))
    say("scoring the model on held-out wholes")
    scores: dict[str, Scores] = {"this model": scores_of(network, unseen, seed)}
    _check(scores["this model"], wholes)
    say("fitting the Gaussian yardstick")
    scores[GAUSSIAN] = scores_of(moment_gaussian(source, wholes, seed), unseen, seed)
    share = None if seconds is None else seconds * YARDSTICKS_SHARE * FLOW_SHARE
    say("training the flow on the counts" + ("" if share is None else f" for {share:.0f} s"))
    flow = counts_flow(source, wholes, seed, share, None if seconds else max(1, steps // 10))
    scores[FLOW] = scores_of(flow, unseen, seed)
    if runner_up is not None and len(runner_up.scores.energy) == len(unseen):
        scores[f"runner-up ({runner_up.preset}, a trial)"] = runner_up.scores
    kinds = kind_names(source.schema)
    undetermined = undetermined_kinds(kinds, wholes.parts.counts, source.rows_together > 1)
    return make_verdict(scores, undetermined, _whitened(network, unseen), choice)


def kind_names(schema: PartsSchema) -> list[str]:
    """A name for each kind of part."""
    places = tuple(attribute.low for attribute in schema.continuous)
    named = [schema.describe(Part(kind, places)) for kind in range(schema.n_kinds)]
    return [" ".join(str(one[a.name]) for a in schema.categorical) or "part" for one in named]


def _check(scores: Scores, wholes: Batch) -> None:
    if not scores.finite:
        raise DivergenceError("training diverged: samples for held-out wholes are not finite")
    if out_of_range(scores.largest, wholes.x):
        times = scores.largest / float(wholes.x.abs().max())
        raise DivergenceError(
            f"training diverged: samples for held-out wholes reach {times:.0f} times the largest value of the data"
        )


@torch.no_grad()
def _whitened(network: Network, unseen: Batch) -> float | None:
    """Mean |u|^2 / T of held-out wholes taken back to the base and whitened by its covariance."""
    if not isinstance(network, Transport):
        return None
    rows = unseen.rows(torch.arange(min(len(unseen), 100)))
    return whitened_square(network, rows)
