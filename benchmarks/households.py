"""A model of households against the exact feeder: all that was promised of it, each number with its standard error.

python benchmarks/households.py households                        # everything; about an hour of one core
python benchmarks/households.py runs/mine --sections relED what_if
python benchmarks/households.py runs/mine --draws 200 -n 50 --compositions 1 --days 2 --wholes 200   # does it run?

relED: n samples, 8 compositions for each K; beside: the largest.  peaks: ratio model / truth from --draws draws (a
tenth at K = 1,000), beside: homes that are each on a day of their own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch

import compvae
from compvae import problems
from compvae.model import Model
from compvae.problems.base import Problem
from households_day import factor, what_if
from households_totals import SIZES, Effort, context, correlation, generation, peaks
from judged import Row, show

Section = Callable[[Model, Problem, Effort], Iterator[Row]]
SECTIONS: dict[str, Section] = {
    "relED": generation,
    "peaks": peaks,
    "correlation": correlation,
    "factor": factor,
    "what_if": what_if,
    "context": context,
}


def judge(model: Model, sections: list[str], effort: Effort) -> Iterator[Row]:
    """The rows of these sections."""
    problem = problems.get("households")
    for name in sections:
        yield from SECTIONS[name](model, problem, effort)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a shipped name, a run or a model directory")
    parser.add_argument("--sections", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--draws", type=int, default=100_000, help="for quantiles and variances")
    parser.add_argument("-n", type=int, default=1000, help="samples for relED, draws of a what-if")
    parser.add_argument("--compositions", type=int, default=8, help="for each K")
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES), help="K")
    parser.add_argument("--days", type=int, default=10, help="observed days of the what-if")
    parser.add_argument("--wholes", type=int, default=4000, help="from which z is read")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of a table")
    parser.add_argument("--out", type=Path, help="JSON file with the rows and the command")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    effort = Effort(args.draws, args.n, args.compositions, args.days, args.wholes, tuple(args.sizes))
    rows = show(judge(compvae.load(args.model), args.sections, effort), args.json)
    if args.out is not None:
        command = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items()}
        args.out.write_text(json.dumps({"command": command, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
