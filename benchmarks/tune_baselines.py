"""Settings of the baselines, each for a short budget: relED at a few K, mean over 4 compositions, n = 500.

    OMP_NUM_THREADS=1 python benchmarks/tune_baselines.py sines --minutes 0.75

The first line of each baseline is what the package has; what was seen is in
benchmarks/results/tuning.md.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

import compvae
from compvae.baselines import BASELINES, Budget
from compvae.evaluation.plan import compositions, plan_for
from compvae.measures import rel_ed
from compvae.problems import Problem

SIZES = (2, 4, 8)
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "cvae": ({}, {"width": 128, "rate": 2e-3}, {"width": 256, "rate": 1e-3}, {"width": 512, "batch": 128}),
    "matching": ({}, {"rate": 1e-3}, {"width": 384, "rate": 1e-3}, {"width": 512, "batch": 128}),
    "flow": ({}, {"width": 64, "transforms": 4, "batch": 128}, {"transforms": 3, "rate": 1e-3, "batch": 128}),
    "paper": ({}, {"rate": 1e-3}),
}


def judged(problem: Problem, sampler: Any, seed: int) -> list[float]:
    """relED at each of SIZES."""
    plan, values = plan_for(problem, compositions=4), []
    for size in SIZES:
        found = [
            rel_ed(problem.truth(parts, 500, 81_000 + i), sampler.sample(parts, 500, 82_000 + i)).value
            for i, parts in enumerate(compositions(problem, size, plan, seed + 83_000))
        ]
        values.append(float(np.mean(found)))
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="sines or colours")
    parser.add_argument("--minutes", type=float, default=0.75)
    parser.add_argument("--only", default=",".join(SETTINGS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = compvae.load(args.model)
    problem = compvae.problems.get(args.model)
    for name in args.only.split(","):
        for setting in SETTINGS[name]:
            kind: Any = type("Tuned", (type(BASELINES[name](problem, model, 0)),), setting)  # class variables
            tuned = kind(problem, 0)
            started = time.process_time()
            tuned.fit(Budget(minutes=args.minutes))
            spent = time.process_time() - started
            values = " | ".join(f"{value:.4f}" for value in judged(problem, tuned, 0))
            print(f"| {args.model} | {name} | {setting or 'as it is'} | {spent:.0f} s | {values} |", flush=True)


if __name__ == "__main__":
    main()
