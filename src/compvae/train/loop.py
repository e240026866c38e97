"""The loop: data of step s from (seed, s), a step, and whoever wants to know about it.

Everything random in step s is a function of (seed, s, example), never of a stream: a run is a function of its seed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from compvae.config import ModelConfig
from compvae.model import CompVAE
from compvae.noise import Noise
from compvae.problems import Problem
from compvae.train.schedule import Recipe, largest_size
from compvae.train.step import Step, optimiser_for, train_step

__all__ = ["Progress", "say", "train"]


@dataclass(frozen=True)
class Progress:
    """What an observer is told after a step.

    seconds: since the start.  drawing: of these, how many went into data.  size: K at most.
    """

    step: int
    steps: int
    seconds: float
    drawing: float
    size: int
    result: Step


def train(
    problem: Problem,
    config: ModelConfig,
    recipe: Recipe,
    seed: int = 0,
    observe: Callable[[Progress], None] | None = None,
) -> CompVAE:
    """A model of this configuration, trained on fresh examples of the problem."""
    model = CompVAE.seeded(config, seed)
    optimiser, start, drawing = optimiser_for(model, recipe), time.perf_counter(), 0.0
    for step in range(recipe.steps):
        before = time.perf_counter()
        noise = Noise(seed, recipe.batch, step)
        size = largest_size(recipe, step, problem.max_parts)
        batch = problem.draw(size, noise)
        drawing += time.perf_counter() - before
        result = train_step(model, optimiser, recipe, batch, noise, step)
        if observe is not None:
            observe(Progress(step + 1, recipe.steps, time.perf_counter() - start, drawing, size, result))
    return model.eval()


def say(every: int) -> Callable[[Progress], None]:
    """An observer that writes a line to stderr now and then: where it stands, rate, time left."""

    def observe(progress: Progress) -> None:
        if progress.step % every and progress.step != progress.steps:
            return
        rate, bound = progress.step / progress.seconds, progress.result.bound
        bits, total = float(bound.w.detach().mean()) / math.log(2), float(bound.total.detach().mean())
        left = (progress.steps - progress.step) / rate
        print(
            f"step {progress.step}/{progress.steps}, K <= {progress.size}, w {bits:.1f} bits, bound {total:.1f} nats, "
            f"{rate:.1f} steps/s, data {progress.drawing / progress.seconds:.1%} of the time, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

    return observe
