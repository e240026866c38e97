"""Bits in w and in z along the training of the paper's configuration, narrowed as far as its trunks allow.

    OMP_NUM_THREADS=1 python benchmarks/bits.py sines --minutes 2

The paper (5.1, 5.2) saw about 100 bits in w and 10 in z in 1D, 200 to 300 and 40 to 60 in 2D, with networks of 143 and
185 million parameters and 500,000 steps.  At the end the bits are measured on 256 fresh wholes of the training range.
"""

from __future__ import annotations

import argparse

import torch

from compvae import problems
from compvae.baselines import Budget, Paper
from compvae.baselines.paper import parameters_of
from compvae.measures import bits

LINES = 10  # of the table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=("sines", "colours"))
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    problem = problems.get(args.problem)
    paper = Paper(problem, 0).fit(Budget(minutes=args.minutes, seed=args.seed))
    assert paper.model is not None
    print(f"{args.problem}: {parameters_of(paper.model.network):,} parameters, {paper.metrics[-1]['step']} steps")
    print("| step | bits in w | bits in z | bound, nats |\n|---|---|---|---|")
    for line in paper.metrics[:: max(1, len(paper.metrics) // LINES)]:
        print(f"| {line['step']} | {line['w_bits']:.1f} | {line['z_bits']:.1f} | {line['bound']:.0f} |")
    found = bits(paper.model.network, problem, 256, args.seed)
    print(f"fresh wholes: {found.w.value:.1f} +- {found.w.se:.1f} in w, {found.z.value:.1f} +- {found.z.se:.1f} in z")


if __name__ == "__main__":
    main()
