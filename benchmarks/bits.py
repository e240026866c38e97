"""Bits in w and in z: along the training of the paper's configuration, narrowed as far as its trunks allow; of a model.

    OMP_NUM_THREADS=1 python benchmarks/bits.py sines --minutes 2
    python benchmarks/bits.py --model sines

The paper (5.1, 5.2) saw about 100 bits in w and 10 in z in 1D, 200 to 300 and 40 to 60 in 2D, with networks of 143 and
185 million parameters and 500,000 steps.  Bits are measured on 256 fresh wholes of the training range.  ``compvae
evaluate --against paper --json`` holds the same numbers.
"""

from __future__ import annotations

import argparse

import torch

import compvae
from compvae import problems
from compvae.baselines import Budget, Paper
from compvae.baselines.paper import parameters_of
from compvae.evaluation import problem_of
from compvae.measures import bits
from compvae.network import CompVAE, structured
from compvae.problems import Problem

LINES = 10  # of the table
WHOLES = 256


def trained(problem: Problem, minutes: float, seed: int) -> CompVAE:
    """The paper's configuration, with a table of its bits along training."""
    paper = Paper(problem, 0).fit(Budget(minutes=minutes, seed=seed))
    network = structured(paper.trained.network)
    print(f"{problem.name}: {parameters_of(network):,} parameters, {paper.metrics[-1]['step']} steps")
    print("| step | bits in w | bits in z | bound, nats |\n|---|---|---|---|")
    for line in paper.metrics[:: max(1, len(paper.metrics) // LINES)]:
        print(f"| {line['step']} | {line['w_bits']:.1f} | {line['z_bits']:.1f} | {line['bound']:.0f} |")
    return network


def fresh(network: CompVAE, problem: Problem, seed: int) -> None:
    """Bits in fresh wholes."""
    found = bits(network, problem, WHOLES, seed)
    print(f"fresh wholes: {found.w.value:.1f} +- {found.w.se:.1f} in w, {found.z.value:.1f} +- {found.z.se:.1f} in z")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("problem", choices=("sines", "colours"), nargs="?", help="train the paper's configuration on it")
    what.add_argument("--model", help="measure this structured one: a shipped name, a run or a model directory")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.model:
        model = compvae.load(args.model)
        fresh(structured(model.network), problem_of(model), args.seed)
    else:
        problem = problems.get(args.problem)
        fresh(trained(problem, args.minutes, args.seed), problem, args.seed)


if __name__ == "__main__":
    main()
