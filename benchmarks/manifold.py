"""How far noise-free samples of a `sines` model are from any curve the true process can make.

    python benchmarks/manifold.py sines

Period violation and off-manifold residual of `noise=False` samples, as shares of the curve's RMS, with the observation
noise beside them; 8 compositions for each K, seeds that training never uses.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch

import compvae
from compvae.measures import off_manifold, period_violation, recover_phasors, rmse
from compvae.noise import Noise
from compvae.problems.sines import Sines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("-n", type=int, default=250)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, problem = compvae.load(args.model), Sines()
    for size in (1, 2, 4, 8, 16, 30):
        rows = []
        for number in range(8):
            parts = problem.draw_parts(torch.tensor([size]), Noise(95_000 + size, torch.tensor([number])))
            counts = {str(kind + 1): int(n) for kind, n in enumerate(parts.counts[0].tolist()) if n}
            x = model.sample(counts, n=args.n, seed=number, noise=False)
            noisy = model.sample(counts, n=args.n, seed=number)
            scale = float(np.sqrt(np.mean(x**2)))
            reachable = recover_phasors(problem, counts, x).reachable
            rows.append([period_violation(x, 100), off_manifold(x, reachable).value, rmse(noisy, x) / scale])
        period, residual, noise = np.mean(rows, 0)
        print(
            json.dumps(
                {"K": size, "period": round(period, 4), "off-manifold": round(residual, 4), "noise": round(noise, 4)}
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
