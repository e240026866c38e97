"""Two wholes that share z, one z drawn for both: do they go together as in truth?

python benchmarks/together.py --minutes 3 --json benchmarks/results/together.json

For each problem and each pair of compositions: the correlation of the two wholes' means over their values, in truth
(factors drawn once for both, 20,000 pairs) and in the model (z drawn once, 4,000 pairs).  spectra is trained on wholes
of which some are known to share a path (``together``), households on feeders of which some are known to share a day.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

import compvae
import gallery
from compvae.batch import Batch, collate
from compvae.context import context_size
from compvae.problems import Problem, get
from compvae.transport.correlating import drawn_together
from compvae.transport.network import Transport

EXACT, DRAWN = 20_000, 4_000
PAIRS: dict[str, list[tuple[dict[str, int], dict[str, int]]]] = {
    "spectra": [
        ({"A": 1, "B": 1, "C": 1}, {"D": 1, "E": 1, "F": 1}),
        ({"A": 2, "C": 1, "E": 2}, {"B": 1, "D": 2, "F": 2}),
        ({"A": 1, "B": 1}, {"C": 3, "F": 2}),
    ],
    "households": [({"flat": n}, {"flat": n}) for n in (5, 20, 50)]
    + [({"heat_pump": 5}, {"heat_pump": 10}), ({"flat": 20}, {"family": 10, "retired": 5})],
}
SETTINGS: dict[str, dict[str, Any]] = {"spectra": {"together": True}, "households": {}}


def in_truth(problem: Problem, one: Any, other: Any) -> float:
    """The exact correlation, up to its 20,000 pairs."""
    factors = problem.factors(EXACT, 11)
    drawn = [problem.truth(parts, EXACT, seed, factors=factors) for seed, parts in enumerate((one, other))]
    one_mean, other_mean = (x.reshape(EXACT, -1).mean(1) for x in drawn)
    return float(np.corrcoef(one_mean, other_mean)[0, 1])


@torch.no_grad()
def in_model(network: Transport, problem: Problem, one: Any, other: Any) -> float:
    """The model's, z drawn once for both."""
    empty = torch.zeros(1, *problem.shape)
    wholes = [Batch(empty, collate([problem.schema.parse(parts)]), told(network)) for parts in (one, other)]
    drawn = drawn_together(network, wholes[0], wholes[1], DRAWN, 5)
    one_mean, other_mean = (x[0].mean(1).numpy() for x in drawn)
    return float(np.corrcoef(one_mean, other_mean)[0, 1])


def told(network: Transport) -> torch.Tensor | None:
    """No context: nothing is known of the day."""
    covariates = context_size(network.config.context)
    return torch.zeros(1, covariates) if covariates else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PAIRS))
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in args.problems.split(","):
        problem = get(name, **SETTINGS[name])
        assert isinstance(problem, Problem)
        started = time.process_time()
        with tempfile.TemporaryDirectory() as out:
            run = compvae.fit(
                name, preset="transport", settings=SETTINGS[name], out=Path(out) / "run", minutes=args.minutes,
                seed=args.seed, threads=1,
            )  # fmt: skip
        network = run.model.network
        assert isinstance(network, Transport)
        for one, other in PAIRS[name]:
            row = {
                "problem": name, "one": one, "other": other, "truth": in_truth(problem, one, other),
                "model": in_model(network, problem, one, other), "seed": args.seed, "minutes": args.minutes,
                "processor_seconds": time.process_time() - started,
            }  # fmt: skip
            rows.append(row)
            print(f"{name} {one} {other}: truth {row['truth']:.3f}, model {row['model']:.3f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"version": compvae.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    assert gallery.__file__
    main()
