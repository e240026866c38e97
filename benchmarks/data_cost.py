"""Share of a training step of the `small` presets that goes into drawing its data, on one thread, in one process.

python benchmarks/data_cost.py
"""

from __future__ import annotations

import statistics
import time

import torch

from compvae import presets, problems
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.train.schedule import RECIPES
from compvae.train.step import optimiser_for, train_step


def shares(name: str, repeats: int) -> list[float]:
    problem, recipe = problems.get(name), RECIPES[name, "small"]
    model = CompVAE.seeded(presets.preset(problem, "small"), 0)
    optimiser, found = optimiser_for(model, recipe), []
    for step in range(repeats + 3):
        start = time.perf_counter()
        noise = Noise(0, recipe.batch, step)
        batch = problem.draw(problem.max_parts, noise)
        drawn = time.perf_counter()
        train_step(model, optimiser, recipe, batch, noise, step)
        found.append((drawn - start) / (time.perf_counter() - start))
    return found[3:]


def main() -> None:
    torch.set_num_threads(1)
    for name, repeats in (("sines", 200), ("colours", 30), ("households", 100)):
        found = shares(name, repeats)
        low, middle, high = statistics.quantiles(found, n=4)
        print(
            f"{name}: data is {middle:.2%} of a step (quartiles {low:.2%} to {high:.2%}, {repeats} steps)", flush=True
        )


if __name__ == "__main__":
    main()
