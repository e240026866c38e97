"""Graph posterior against collapsed posterior at equal widths: same steps, and same minutes; three seeds each.

    python benchmarks/graph_vs_collapsed.py --minutes 1.5 --batch 64

Everything else is the `small` preset of `sines`: category-owned blocks, linked decoder, M-step prior.  The steps of the
comparison at equal steps are those the paper's graph posterior did in its minutes with the same seed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import compvae
from compvae import presets, problems
from compvae.config import CollapsedConfig, GraphConfig, ModelConfig
from compvae.measures import rel_ed

SIZES = (1, 4, 16, 30)
POSTERIORS = {
    "graph, paper's family": GraphConfig(family="paper", width=256, blocks=3),
    "graph, sum-controlled": GraphConfig(family="sum_controlled", width=256, blocks=3),
    "collapsed": CollapsedConfig(width=256, blocks=3),
}


def config_of(name: str) -> ModelConfig:
    small = presets.structured_preset(problems.get("sines"), "small")
    return small.model_copy(update={"posterior": POSTERIORS[name]})


def measure(model: compvae.Model) -> list[float]:
    """relED at each K, mean over 4 compositions that training never saw as such."""
    truth, values = problems.get("sines"), []
    for size in SIZES:
        dice, found = np.random.default_rng(70_000 + size), []
        for index in range(4):
            counts = np.bincount(dice.integers(0, 10, size), minlength=10)
            parts = {str(f + 1): int(c) for f, c in enumerate(counts)}
            pair = (truth.truth(parts, 1000, seed=71_000 + index), model.sample(parts, 1000, seed=72_000 + index))
            found.append(rel_ed(*pair).value)
        values.append(float(np.mean(found)))
    return values


def one(name: str, seed: int, batch: int, minutes: float | None, steps: int | None) -> int:
    """Train, print a row of the table, return the steps done."""
    out = Path(tempfile.mkdtemp()) / "run"
    model = config_of(name).model_dump(mode="json")
    options: dict[str, Any] = {"batch": batch, "threads": 1, "model": model}
    options |= {"check_every": 10**6, "checkpoint_every": 10**6}
    run = compvae.fit("sines", out=out, steps=steps, minutes=minutes, seed=seed, **options)
    last = run.metrics[-1]
    each = last["seconds"] / last["step"] * 1000
    values = " | ".join(f"{value:.4f}" for value in measure(run.model))
    budget = f"{minutes} min" if minutes else f"{steps} steps"
    print(
        f"| {name} | {budget} | {seed} | {last['step']} | {each:.1f} | {last['held_out']:.1f} | {values} |", flush=True
    )
    return int(last["step"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    heads = " | ".join(f"relED K={size}" for size in SIZES)
    print(f"| posterior | budget | seed | steps | ms a step | held-out bound, nats | {heads} |")
    print("|---" * (6 + len(SIZES)) + "|", flush=True)
    for seed in range(args.seeds):
        steps = one("graph, paper's family", seed, args.batch, args.minutes, None)
        one("graph, sum-controlled", seed, args.batch, None, steps)
        one("collapsed", seed, args.batch, None, steps)
        one("collapsed", seed, args.batch, args.minutes, None)


if __name__ == "__main__":
    main()
