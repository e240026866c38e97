"""A baseline: another p(x | parts), fitted to the same draws of a problem in the same time, then judged beside ours.

Like ours, a baseline sees a multiset: the order of parts is gone before it looks.  Row r of what it samples depends on
(seed, r) alone.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from compvae.batch import Batch, Parts, collate, repeat
from compvae.checks import allocate, at_least_one
from compvae.context import encode_context
from compvae.errors import ConfigError
from compvae.noise import Noise
from compvae.parts import Multiset
from compvae.problems import Problem

__all__ = ["Baseline", "Budget", "Context", "Sampler", "Watch", "examples", "unit_of", "unwatched"]

TILE = 256  # rows made at once, always as many, so that n never changes a row
BATCH = 256
MEASURED_STEPS = 15

Context = Mapping[str, object]
Watch = Callable[[str, int, int], None]
"""Hears what is being done, how much of it is done, and of how much; may raise KeyboardInterrupt."""


def unwatched(what: str, done: int, total: int) -> None:
    """Let nobody know."""


class Sampler(Protocol):
    """Whatever draws wholes of a composition: a model, a baseline, the truth."""

    def sample(self, parts: object, n: int, seed: int, context: Context | None = None) -> np.ndarray:
        """-> (n, *shape) float32."""


@dataclass(frozen=True)
class Budget:
    """How long a baseline may be fitted: minutes, turned into steps by a short measurement, or steps.

    Minutes are those of this process's processor time, whatever else the machine does.  watch: called after every step.
    """

    minutes: float | None = None
    steps: int | None = None
    seed: int = 0
    watch: Watch = unwatched

    def __post_init__(self) -> None:
        if (self.minutes is None) == (self.steps is None):
            raise ConfigError("a baseline is fitted for a number of minutes or of steps; give one of them")
        if self.steps is not None:
            at_least_one(self.steps, "steps")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ConfigError(f"minutes must be a positive number, got {self.minutes}")

    def number_of(self, step: Callable[[], None]) -> int:
        """Steps that fit into the budget, by the median of the processor time of a few."""
        if self.steps is not None:
            return self.steps
        assert self.minutes is not None
        times = []
        for _ in range(MEASURED_STEPS):
            started = time.process_time()
            step()
            times.append(time.process_time() - started)
        return max(1, int(60 * self.minutes / sorted(times)[MEASURED_STEPS // 2]))


def examples(problem: Problem, seed: int, step: int, rows: int = BATCH) -> tuple[Batch, Noise]:
    """The draws of a step, K over the whole training range, as our training draws them; and their noise."""
    noise = Noise(seed, rows, step)
    return problem.draw(problem.max_parts, noise), noise


def unit_of(problem: Problem, parts: Parts) -> Tensor:
    """What x is measured in: K where x grows with it, 1 otherwise, (B, 1) float64."""
    sizes = parts.sizes if problem.extensive else torch.ones_like(parts.sizes)
    return sizes[:, None]


class Baseline(ABC):
    """p(x | parts) of another kind."""

    name: ClassVar[str]

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @abstractmethod
    def fit(self, budget: Budget) -> Self:
        """Learn from draws of the problem."""

    @abstractmethod
    def draw(self, parts: Parts, context: Tensor, noise: Noise) -> Tensor:
        """One whole for each row, (B, *shape).  context: (B, E)."""

    def sample(self, parts: object, n: int, seed: int = 0, context: Context | None = None) -> np.ndarray:
        """n wholes of one composition, float32 (n, *shape)."""
        out = allocate(at_least_one(n, "n"), *self.problem.shape)
        composition: Multiset = self.problem.schema.parse(parts).canonical()
        tile = repeat(collate([composition]), TILE)
        known = encode_context(self.problem.context, context).expand(TILE, -1)
        for start in range(0, n, TILE):
            with torch.no_grad():
                x = self.draw(tile, known, Noise(seed, torch.arange(start, start + TILE)))
            out[start : start + TILE] = x[: n - start].float().numpy()
        return out
