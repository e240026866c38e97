"""Variants of the `small` recipe of `sines` at one budget of steps: held-out bound and relED of each.

python benchmarks/recipes.py --steps 2500
python benchmarks/recipes.py --steps 8000 --only "rate 4e-3"
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import compvae
from graph_vs_collapsed import SIZES, measure

VARIANTS: dict[str, dict[str, Any]] = {
    "rate 2e-3, batch 256": {"rate": 2e-3},
    "rate 1e-3": {"rate": 1e-3},
    "rate 4e-3": {"rate": 4e-3},
    "rate 8e-3": {"rate": 8e-3},
    "average .998": {"average": 0.998},
    "batch 128, twice the steps": {"batch": 128},
    "KL warmed up from .02 over half the run": {"kl_from": 0.02},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), help="some of the variants")
    args = parser.parse_args()
    heads = " | ".join(f"relED K={size}" for size in SIZES)
    print(f"| recipe | held-out bound, nats | {heads} |")
    print("|---" * (2 + len(SIZES)) + "|", flush=True)
    for name in args.only or VARIANTS:
        options = VARIANTS[name]
        steps = args.steps * (256 // options.get("batch", 256))
        out = Path(tempfile.mkdtemp()) / "run"
        run = compvae.fit("sines", out=out, steps=steps, seed=args.seed, threads=1, **options)
        values = " | ".join(f"{value:.4f}" for value in measure(run.model))
        print(f"| {name} | {run.metrics[-1]['held_out']:.1f} | {values} |", flush=True)


if __name__ == "__main__":
    main()
