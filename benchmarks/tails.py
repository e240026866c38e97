"""Tail estimates against brute force: P(peak >= t | parts) at 1e-2 and 1e-3, by each method, over many seeds.

python benchmarks/tails.py runs/sines
python benchmarks/tails.py runs/sines --draws 100000 --seeds 5 --no-openturns

t is where brute force of the model puts the probability.  Beside it stands what the true process gives at the same t:
that is the model's error, the others are Monte-Carlo errors.  OpenTURNS (pip install openturns) runs its own subset
simulation on the first composition.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import compvae
from compvae.composing.generation import Tile
from compvae.errors import TailError
from compvae.model import Model
from compvae.tails import EVENTS, Whitened

COMPOSITIONS: list[dict[str, int]] = [
    {"3": 2, "7": 1},
    {"1": 1, "5": 1},
    {"4": 8},
    {"2": 4, "6": 2, "9": 2},
    {str(frequency): 2 for frequency in range(1, 9)},
]
PROBABILITIES = (1e-2, 1e-3)
METHODS = {1e-2: ("rejection", "subset", "importance"), 1e-3: ("subset", "importance")}  # where each is meant for
BRUTE_SEED, CHUNK = 10**6, 50_000
peak = EVENTS["peak"]


@dataclass(frozen=True)
class Score:
    """Estimates of one method over the seeds, relative to brute force."""

    ratios: np.ndarray
    deviations: np.ndarray
    refused: int

    def line(self, brute_cv: float) -> str:
        """Mean ratio, spread, mean of the reported deviations, how many within 3 of them."""
        if not len(self.ratios):
            return f"- | - | - | 0 of {self.refused} | {self.refused}"
        # brute force is itself uncertain by brute_cv, which no estimate can know of
        allowed = 3 * np.hypot(self.ratios * self.deviations, brute_cv)
        within = int((np.abs(self.ratios - 1) <= allowed).sum())
        spread = self.ratios.std(ddof=1) if len(self.ratios) > 1 else math.nan
        return (
            f"{self.ratios.mean():.3f} | {spread:.3f} | {self.deviations.mean():.3f} | "
            f"{within} of {len(self.ratios)} | {self.refused}"
        )


def brute_model(model: Model, parts: dict[str, int], draws: int) -> np.ndarray:
    """Peaks of independent wholes of the model, (draws,)."""
    return np.concatenate([peak(x) for _, x in model.stream(parts, draws, seed=BRUTE_SEED)])


def brute_truth(model: Model, parts: dict[str, int], draws: int) -> np.ndarray:
    """Peaks of independent wholes of the true process, (draws,)."""
    assert model.provenance.problem is not None
    problem = compvae.problems.get(model.provenance.problem, **model.provenance.settings)
    sizes = [min(CHUNK, draws - start) for start in range(0, draws, CHUNK)]
    return np.concatenate(
        [peak(problem.truth(parts, size, seed=BRUTE_SEED + chunk)) for chunk, size in enumerate(sizes)]
    )


def score(model: Model, parts: dict[str, int], threshold: float, p: float, method: str, seeds: int) -> Score:
    ratios, deviations, refused = [], [], 0
    for seed in range(seeds):
        try:
            found = model.tail(parts, "peak", threshold=threshold, seed=seed, method=method)
        except TailError:
            refused += 1
            continue
        ratios.append(found.probability / p)
        deviations.append(found.cv)
    return Score(np.array(ratios), np.array(deviations), refused)


def openturns_subset(model: Model, parts: dict[str, int], threshold: float, seeds: int) -> list[float]:
    """Probabilities by OpenTURNS, with as many states a level as ours."""
    ot: Any = importlib.import_module("openturns")  # needed here alone, and without types

    simulator = Whitened(Tile(model.network, model.parts.parse(parts)))
    size = sum(math.prod(shape) for shape in simulator.layout.values())

    def values(u: Any) -> np.ndarray:
        given = torch.from_numpy(np.array(u, dtype=np.float32))
        tiles = given.split(simulator.height)
        padded = [torch.cat([t, t.new_zeros(simulator.height - len(t), size)]) for t in tiles]
        return np.concatenate([peak(simulator(p).numpy()) for p in padded])[: len(given), None]

    function = ot.PythonFunction(size, 1, func_sample=values)
    vector = ot.CompositeRandomVector(function, ot.RandomVector(ot.Normal(size)))
    found = []
    for seed in range(seeds):
        ot.RandomGenerator.SetSeed(seed)
        algorithm = ot.SubsetSampling(ot.ThresholdEvent(vector, ot.GreaterOrEqual(), threshold))
        algorithm.setMaximumOuterSampling(10)
        algorithm.setBlockSize(256)
        algorithm.run()
        found.append(algorithm.getResult().getProbabilityEstimate())
    return found


def mean_and_error(values: np.ndarray) -> str:
    return f"{values.mean():.3g} +- {values.std(ddof=1) / math.sqrt(len(values)):.1g}"


def compare_openturns(model: Model, parts: dict[str, int], threshold: float, p: float, seeds: int) -> None:
    theirs = np.array(openturns_subset(model, parts, threshold, seeds))
    ours = np.array([model.tail(parts, threshold=threshold, seed=s, method="subset").probability for s in range(seeds)])
    print(
        f"\nOpenTURNS, {json.dumps(parts)}, brute force {p:.3g}, {seeds} seeds, mean +- its error: "
        f"theirs {mean_and_error(theirs)}, ours {mean_and_error(ours)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a shipped name, a run or a model directory")
    parser.add_argument("--parts", nargs="*", type=json.loads, default=COMPOSITIONS, help="compositions, JSON each")
    parser.add_argument("--draws", type=int, default=1_000_000, help="of brute force")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", nargs="*", choices=("rejection", "subset", "importance"))
    parser.add_argument("--openturns", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = compvae.load(args.model)
    print("| parts | p | t | p of the truth | method | mean / brute | spread | reported cv | within 3 | refused |")
    print("|---" * 10 + "|", flush=True)
    rarest: list[tuple[float, float]] = []  # threshold and probability of each composition
    for parts in args.parts:
        own, true = brute_model(model, parts, args.draws), brute_truth(model, parts, args.draws)
        for wanted in PROBABILITIES:
            threshold = float(np.quantile(own, 1 - wanted))
            p, p_true = float((own >= threshold).mean()), float((true >= threshold).mean())
            head = f"| {json.dumps(parts)} | {p:.3g} | {threshold:.3f} | {p_true:.3g}"
            for method in args.methods or METHODS[wanted]:
                result = score(model, parts, threshold, p, method, args.seeds)
                print(f"{head} | {method} | {result.line(math.sqrt((1 - p) / p / args.draws))} |", flush=True)
        rarest.append((threshold, p))
    if args.openturns:
        compare_openturns(model, args.parts[0], *rarest[0], args.seeds)


if __name__ == "__main__":
    main()
