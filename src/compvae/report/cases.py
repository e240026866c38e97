"""Compositions to judge and to show, and wholes whose hidden specifics are known, so that every edit has an answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from compvae.errors import ConfigError
from compvae.noise import Noise
from compvae.parts import Part
from compvae.problems import Problem

__all__ = ["Described", "Observation", "draw_cases", "shown_parts"]

Described = list[dict[str, str | float]]

JUDGED = -3  # the fold of these compositions: no training step has this number
CANDIDATES = 64  # drawn for each that is wanted
SITES = (
    ("red", -0.5, -0.5), ("green", 0.5, -0.4), ("blue", 0.0, 0.15), ("white", -0.45, 0.6), ("black", 0.6, 0.6),
)  # fmt: skip


@dataclass(frozen=True)
class Observation:
    """n wholes of one composition with all that is hidden in them.  x: (n, *shape).  specifics: (n, K, S)."""

    problem: Problem
    parts: Described
    x: np.ndarray
    specifics: np.ndarray
    factors: dict[str, np.ndarray]

    @classmethod
    def of(cls, problem: Problem, parts: Described, n: int, seed: int) -> Observation:
        """Draw the wholes."""
        specifics, factors = problem.specifics(parts, n, seed), problem.factors(n, seed)
        return cls(problem, parts, problem.whole(parts, specifics, factors), specifics, factors)

    def only(self, kept: list[int]) -> np.ndarray:
        """Exactly what x would be with these parts alone, (n, *shape).  kept: their places."""
        return self.problem.whole([self.parts[i] for i in kept], self.specifics[:, kept], self.factors)


def shown_parts(problem: Problem) -> Described:
    """A few different parts, for figures."""
    if problem.name == "colours":
        return [{"colour": colour, "x": x, "y": y} for colour, x, y in SITES]
    attribute = problem.schema.categorical[0]
    return [{attribute.name: name} for name in attribute.categories[::2][:4]]


def draw_cases(problem: Problem, size: int, number: int, seed: int, single_last: bool = False) -> list[Described]:
    """Compositions of that size as the problem draws them, of at least two kinds where there are two parts.

    single_last: the last part is the only one of its kind, so that taking it away has one exact answer.
    """
    rows = CANDIDATES * number
    drawn = problem.draw_parts(torch.full((rows,), size), Noise(seed, rows, JUDGED, size))
    found: list[Described] = []
    for kinds, features in zip(drawn.kind.tolist(), drawn.features.tolist(), strict=True):
        last = kinds[-1]
        if size > 1 and (len(set(kinds)) == 1 or (single_last and kinds.count(last) > 1)):
            continue
        found.append([problem.schema.describe(_part(problem, k, f)) for k, f in zip(kinds, features, strict=True)])
        if len(found) == number:
            return found
    raise ConfigError(f"{problem.name} hardly has compositions of {size} parts as they are needed here")


def _part(problem: Problem, kind: int, scaled: list[float]) -> Part:
    """A part from tensors, whose features are scaled from their range to [-1, 1]."""
    ranges = problem.schema.continuous
    values = (a.low + (a.high - a.low) * (v + 1) / 2 for a, v in zip(ranges, scaled, strict=True))
    return Part(kind, tuple(values))
