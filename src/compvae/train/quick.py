"""Short trainings without a directory: candidates that are tried, and yardsticks."""

from __future__ import annotations

import time

from compvae.network import Network
from compvae.noise import Noise
from compvae.problems.source import Source
from compvae.train.schedule import Recipe, recipe_for
from compvae.train.step import optimiser_for, train_step

__all__ = ["descend"]

MEASURED = 3  # steps whose time decides how many there are


def descend(network: Network, source: Source, seed: int, seconds: float | None, steps: int | None) -> int:
    """Train in place for so many steps, or for about so many seconds; returns the steps done."""
    recipe: Recipe = recipe_for("tables", "transport")
    optimiser = optimiser_for(network, recipe)

    def step(number: int, of: int) -> None:
        noise = Noise(seed, recipe.batch, number)
        batch = source.draw(source.max_parts, noise)
        train_step(network, optimiser, recipe.model_copy(update={"steps": of}), batch, noise, number)

    if steps is None:
        assert seconds is not None
        started = time.perf_counter()
        for number in range(MEASURED):
            step(number, 10**9)  # at the lowest rate of the warm-up
        steps = max(1, int(seconds * MEASURED / (time.perf_counter() - started)) - MEASURED)
    for number in range(steps):
        step(number, steps)
    network.eval()
    return steps
