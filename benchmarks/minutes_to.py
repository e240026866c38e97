"""Minutes of processor time until relED (worst over K = 1 2 4 8 16) is below a goal, ours and the baselines.

    python benchmarks/minutes_to.py --only ours,matching --out minutes.json

A schedule depends on its number of steps, so every rung of the ladder is a training of its own, each --factor times as
long as the one before; the first that reaches the goal counts.  Time is that of the processor for the whole fit,
preparations and calibration included, on one thread.  relED: mean over compositions that no training saw, n samples.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import compvae
from compvae import problems
from compvae.baselines import BASELINES, Budget, Sampler
from compvae.evaluation.plan import compositions, derived, plan_for
from compvae.measures import rel_ed

FIRST = {"ours": 50, "gaussian": 50, "cvae": 500, "flow": 250, "matching": 500, "paper": 250}  # steps of the first rung
SIZES = (1, 2, 4, 8, 16)


def ours(steps: int, seed: int) -> Sampler:
    with tempfile.TemporaryDirectory() as place:
        run = compvae.fit("sines", out=Path(place) / "run", steps=steps, seed=seed, threads=1, watch=0)
    return run.model


def baseline(name: str, steps: int, seed: int) -> Sampler:
    problem = problems.get("sines")
    return BASELINES[name](problem, compvae.load("sines"), seed).fit(Budget(steps=steps, seed=seed))


def judged(sampler: Sampler, number: int, n: int, seed: int) -> dict[str, float]:
    """relED by K, mean over compositions."""
    problem = problems.get("sines")
    plan, found = plan_for(problem, n=n, compositions=number, sizes=SIZES), {}
    for size in SIZES:
        values = []
        for index, parts in enumerate(compositions(problem, size, plan, seed)):
            truth = problem.truth(parts, n, derived(seed, size, index, 0))
            values.append(rel_ed(truth, sampler.sample(parts, n, derived(seed, size, index, 1))).value)
        found[str(size)] = float(np.mean(values))
    return found


def rung(name: str, steps: int, args: argparse.Namespace) -> dict[str, Any]:
    """One training and what it gives."""
    started, wall = time.process_time(), time.perf_counter()
    sampler = ours(steps, args.seed) if name == "ours" else baseline(name, steps, args.seed)
    minutes = (time.process_time() - started) / 60
    found = {"steps": steps, "minutes": minutes, "wall": (time.perf_counter() - wall) / 60}
    values = judged(sampler, args.compositions, args.n, args.seed + 1)
    return {**found, "relED": values, "worst": max(values.values())}


def climb(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rungs until the goal is reached, or the next would take longer than is allowed."""
    steps, rungs = float(args.first or FIRST[name]), list[dict[str, Any]]()
    while True:
        rungs.append(rung(name, round(steps), args))
        row = rungs[-1]
        print(f"{name}: {row['steps']} steps, {row['minutes']:.2f} minutes, worst relED {row['worst']:.4f}", flush=True)
        if row["worst"] <= args.goal or row["minutes"] * args.factor > args.most:
            break
        steps *= args.factor
    reached = row["worst"] <= args.goal
    return {"name": name, "reached": row["minutes"] if reached else None, "rungs": rungs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(FIRST), help="names, separated by commas")
    parser.add_argument("--goal", type=float, default=0.01)
    parser.add_argument("--most", type=float, default=4.0, help="minutes of a rung, at most")
    parser.add_argument("--factor", type=float, default=2.0, help="from rung to rung")
    parser.add_argument("--first", type=int, help="steps of the first rung, where not the default")
    parser.add_argument("--compositions", type=int, default=8)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = [climb(name, args) for name in args.only.split(",")]
    text = json.dumps({"goal": args.goal, "seed": args.seed, "found": found})
    if args.out is None:
        print(text)
    else:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
