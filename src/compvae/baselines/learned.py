"""Baselines that are networks of (y, condition): one loop of Adam with a cosine, drawing the data as it goes."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from compvae.baselines.base import Baseline, Budget, examples, unit_of
from compvae.baselines.inputs import Coordinates, condition_for
from compvae.batch import Parts
from compvae.noise import Noise
from compvae.problems import Problem

__all__ = ["Learned"]

WARM = 50  # steps over which the rate rises
CLIP = 10.0  # norm of the gradient


class Learned(Baseline):
    """A baseline that climbs an objective step by step.

    width: of its networks.  rate: of Adam.  batch: wholes of a step.
    """

    width: ClassVar[int] = 256
    rate: ClassVar[float] = 3e-3
    batch: ClassVar[int] = 256

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        super().__init__(problem)
        self.coordinates = Coordinates.of(problem, seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.condition = condition_for(problem, self.width)
            self.network = self.build(self.coordinates.basis.shape[1], self.condition.size)

    @abstractmethod
    def build(self, values: int, given: int) -> nn.Module:
        """The networks.  values: D, coordinates of y.  given: N, length of the condition."""

    @abstractmethod
    def loss(self, y: Tensor, given: Tensor, noise: Noise, progress: float) -> Tensor:
        """What is made small, ().  y: (B, D).  given: (B, N).  progress: share of the budget that is spent."""

    @abstractmethod
    def draw_coordinates(self, given: Tensor, noise: Noise) -> Tensor:
        """y ~ p(y | given), (B, D).  given: (B, N)."""

    def parameters(self) -> list[nn.Parameter]:
        """All that is learned."""
        return [*self.condition.parameters(), *self.network.parameters()]

    def fit(self, budget: Budget) -> Self:
        """Adam, the rate warmed up, then along a cosine to 0."""
        start = [value.detach().clone() for value in self.parameters()]
        trial = self._optimiser()
        steps = budget.number_of(lambda: self._step(trial, budget.seed, 0, 0.0))
        with torch.no_grad():  # the steps that were measured leave no trace
            for value, first in zip(self.parameters(), start, strict=True):
                value.copy_(first)
        optimiser = self._optimiser()
        for step in range(steps):
            rate = self.rate * min(1.0, (step + 1) / WARM) * 0.5 * (1 + math.cos(math.pi * step / steps))
            optimiser.param_groups[0]["lr"] = rate
            self._step(optimiser, budget.seed, step, step / steps)
            budget.watch(f"fitting {self.name}", step + 1, steps)
        return self

    def _optimiser(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), self.rate, betas=(0.9, 0.99))

    def _step(self, optimiser: torch.optim.Optimizer, seed: int, step: int, progress: float) -> None:
        batch, noise = examples(self.problem, seed, step, self.batch)
        context = batch.x.new_zeros(len(batch), 0) if batch.context is None else batch.context
        y = self.coordinates.of_x(batch.x, unit_of(self.problem, batch.parts))
        loss = self.loss(y, self.condition(batch.parts, context), noise, progress)
        optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters(), CLIP)
        if torch.isfinite(norm):  # a batch that overflowed teaches nothing
            optimiser.step()

    def draw(self, parts: Parts, context: Tensor, noise: Noise) -> Tensor:
        """context: (B, E) -> (B, *shape)."""
        y = self.draw_coordinates(self.condition(parts, context), noise)
        return self.coordinates.to_x(y, unit_of(self.problem, parts)).view(len(y), *self.problem.shape)
