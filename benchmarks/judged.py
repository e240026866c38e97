"""Rows of a benchmark: a number with its standard error, beside what was asked for; printed as a table, or as JSON."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import numpy as np

__all__ = ["Row", "blocks", "show"]

BLOCKS = 20


@dataclass(frozen=True)
class Row:
    """One finding.  at: where (K, a pair, a day).  target: in words.  met: None where nothing was asked for.

    beside: the same number of something else, such as an independent sum; None where there is none.
    """

    section: str
    name: str
    at: str
    value: float
    se: float
    n: int
    target: str = ""
    met: bool | None = None
    beside: float | None = None

    def line(self) -> str:
        """One line of a table."""
        verdict = "" if self.met is None else ("yes" if self.met else "NO")
        beside = "" if self.beside is None else f"{self.beside:.4g}"
        return (
            f"| {self.section} | {self.name} | {self.at} | {self.value:.4g} | {self.se:.2g} | {beside} | "
            f"{self.target} | {verdict} | {self.n:,} |"
        )


HEAD = "| section | measure | at | value | se | beside | wanted | met | n |"


def show(rows: Iterable[Row], as_json: bool) -> list[Row]:
    """Print each row when it is there, so that an interrupted run has told what it found."""
    done = []
    if not as_json:
        print(HEAD)
        print("|---" * HEAD.count(" | ") + "|---|", flush=True)
    for row in rows:
        done.append(row)
        if not as_json:
            print(row.line(), flush=True)
    if as_json:
        print(json.dumps([asdict(row) for row in done]))
    return done


def blocks(statistic: Callable[..., float], *arrays: np.ndarray, count: int = BLOCKS) -> tuple[float, float]:
    """A statistic of paired rows and its standard error by leaving out one block of rows at a time.

    arrays: (n, ..) each, row i of all of them belonging together.
    """
    n = len(arrays[0])
    count = min(count, n)
    edges = np.linspace(0, n, count + 1).astype(int)
    kept = [np.r_[0:a, b:n] for a, b in itertools.pairwise(edges)]
    left = np.array([statistic(*(array[rows] for array in arrays)) for rows in kept])
    spread = (count - 1) / count * ((left - left.mean()) ** 2).sum()
    return statistic(*arrays), math.sqrt(float(spread))
