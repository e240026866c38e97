"""How close a what-if can come at all: p(y | x) learned from exact pairs, against the same exact counterfactuals.

python benchmarks/households_limit.py                          # 40,000 pairs, 10 days; about 10 minutes of one core
python benchmarks/households_limit.py --told temperature day_type
python benchmarks/households_limit.py --told temperature cloud match day_type    # the whole day known

x is an observed day of 40 flats and 12 heat pumps, y the same day with ten of the flats on heat pumps: the target of
benchmarks/households.py, which holds the day and the homes that stay.  x does not tell them, so draws of the exact
p(y | x) are not draws of the counterfactual.  Here a network learns E[y | x, what is told] from pairs of the exact
feeder, and its residuals on other pairs are added to it: no compvae model in it.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
import torch
from torch import Tensor, nn

from compvae import problems
from compvae.measures import rel_ed
from compvae.nn.residual import mlp
from compvae.problems.base import Problem
from households_day import COME, HERE, THEN, counterfactuals

CHUNK, HELD_OUT = 2000, 0.2
STEPS, BATCH, RATE = 4000, 256, 2e-3


def pairs(problem: Problem, n: int, told: list[str], seed: int) -> tuple[Tensor, Tensor]:
    """n observed days with what is told of them, (n, 48 + E), and one counterfactual of each, (n, 48)."""
    seen, then = [], []
    for start in range(0, n, CHUNK):
        days, homes = problem.factors(CHUNK, seed=start + seed), problem.specifics(HERE, CHUNK, seed=start + seed)
        x = problem.whole(HERE, homes, days)
        new = problem.specifics(COME, CHUNK, seed=start + seed + 1)
        # homes are exchangeable, so the first ten flats are as good as any ten
        y = problem.whole(THEN, np.concatenate([homes[:, 10:], new], 1), days)
        seen.append(np.concatenate([x, *(days[name][:, None] for name in told)], 1))
        then.append(y)
    return torch.tensor(np.concatenate(seen)[:n]).float(), torch.tensor(np.concatenate(then)[:n]).float()


class Regression(nn.Module):
    """E[y | x, told], a line and a network beside it, in units of the spread."""

    def __init__(self, seen: Tensor, then: Tensor) -> None:
        super().__init__()
        self.centre, self.scale = seen.mean(0), seen.std(0).clamp(min=1e-6)
        self.middle, self.unit = then.mean(0), then.std()
        sizes = seen.shape[1], then.shape[1]
        self.line = nn.Linear(*sizes)
        self.bend = mlp(sizes[0], 256, 256, sizes[1])

    def forward(self, seen: Tensor) -> Tensor:
        """seen: (B, 48 + E) -> (B, 48)."""
        h = (seen - self.centre) / self.scale
        out: Tensor = self.middle + self.unit * (self.line(h) + self.bend(h))
        return out


def learn(seen: Tensor, then: Tensor) -> tuple[Regression, Tensor]:
    """The regression, and its residuals on pairs that it has not seen, (N, 48)."""
    torch.manual_seed(0)
    first = int((1 - HELD_OUT) * len(seen))
    model = Regression(seen[:first], then[:first])
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-2)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * (0.5 * (1 + math.cos(math.pi * step / STEPS)) + 0.001)
        rows = torch.randint(first, (BATCH,))
        loss = ((model(seen[rows]) - then[rows]) ** 2).mean() / model.unit**2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        left = then[first:] - model(seen[first:])
        print(f"unexplained: {float(left.var(0).sum() / then.var(0).sum()):.4f} of the variance of y", file=sys.stderr)
    return model, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40_000)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--told", nargs="*", default=[], choices=["temperature", "cloud", "match", "day_type"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    problem = problems.get("households")
    model, left = learn(*pairs(problem, args.pairs, args.told, seed=77_000_000))
    found = []
    for day in range(args.days):
        x, true = counterfactuals(problem, day, args.n)
        factors = problem.factors(1, seed=6000 + day)
        seen = torch.tensor(np.concatenate([x, *(factors[name] for name in args.told)])).float()[None]
        with torch.no_grad():
            drawn = model(seen) + left[torch.randperm(len(left))[: args.n]]
        found.append(rel_ed(true, drawn.numpy()).value)
    se = float(np.std(found) / math.sqrt(len(found)))
    told = ", ".join(args.told) or "nothing"
    print(f"told {told}: relED {np.mean(found):.4f} +- {se:.4f} over {args.days} days, worst {max(found):.4f}")


if __name__ == "__main__":
    main()
