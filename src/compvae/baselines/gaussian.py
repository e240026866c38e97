"""x ~ N( sum_c n_c m_c, sum_c n_c S_c ): moments linear in the counts, by least squares on draws of the problem.

With x / sqrt(K) every draw has errors of one size:  x / sqrt(K) on n / sqrt(K) gives m_c, the products of what is left
on n / K give S_c.  Where parts share factors, Var(x) grows like K^2: there are terms K n_c too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from compvae.baselines.base import Baseline, Budget, Context, examples
from compvae.batch import Batch, Parts
from compvae.errors import ConfigError
from compvae.noise import Noise
from compvae.problems import Problem

__all__ = ["Gaussian"]

ENOUGH = 200  # batches after which the moments of 200 coordinates are known well beyond what linearity costs
RIDGE = 1e-9  # relative, for regressors that never vary


class Gaussian(Baseline):
    """A normal distribution with mean and covariance linear in the counts."""

    name: ClassVar[str] = "gaussian"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        if not self.suits(problem):
            raise ConfigError(
                f"baseline gaussian needs parts that are counted; those of {problem.name} have places, "
                "and moments of x have no form that is linear in them"
            )
        size = math.prod(problem.shape)
        self.means, self.covariances = torch.zeros(0, size), torch.zeros(0, size, size)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether a composition is its counts: what has places has no moments that are linear in them."""
        return problem.schema.countable

    def fit(self, budget: Budget) -> Self:
        """Two regressions, each on as many batches as the budget has, at most ENOUGH."""
        steps = min(ENOUGH, budget.steps or ENOUGH)

        def mean_terms(batch: Batch) -> tuple[Tensor, Tensor]:
            root = batch.parts.sizes[:, None].sqrt()
            regressors = batch.parts.counts / root
            return regressors, regressors.T @ (batch.x.flatten(1).double() / root)

        def covariance_terms(batch: Batch) -> tuple[Tensor, Tensor]:
            size = batch.parts.sizes[:, None]
            left = batch.x.flatten(1).double() - batch.parts.counts @ self.means
            regressors = self._of_covariance(batch.parts) / size
            weights = (regressors / size).unbind(1)
            return regressors, torch.stack([(left * weight[:, None]).T @ left for weight in weights])

        def batches(first: int) -> Iterator[Batch]:
            for step in range(first, first + steps):
                yield examples(self.problem, budget.seed, step)[0]
                budget.watch(f"fitting {self.name}", step + 1, 2 * steps)

        self.means = _least_squares(batches(0), mean_terms)
        self.covariances = _least_squares(batches(steps), covariance_terms)
        return self

    def sample(self, parts: object, n: int, seed: int = 0, context: Context | None = None) -> np.ndarray:
        """n wholes of one composition, float32 (n, *shape); covariates have no place in it."""
        if context:
            raise ConfigError("baseline gaussian knows counts alone, leave context out")
        return super().sample(parts, n, seed)

    def draw(self, parts: Parts, context: Tensor, noise: Noise) -> Tensor:
        """All rows of one composition.  context: (B, E), unknown -> (B, *shape)."""
        mean, covariance = self.moments(parts.rows(slice(0, 1)))
        value, vector = torch.linalg.eigh(covariance)
        root = vector * value.clamp(min=0).sqrt()  # least squares may leave a few directions below 0
        x: Tensor = mean + noise.normal("x", len(mean), dtype=torch.float64) @ root.T
        return x.view(len(noise), *self.problem.shape)

    def moments(self, parts: Parts) -> tuple[Tensor, Tensor]:
        """Mean (M,) and covariance (M, M) of one composition.  parts: one row."""
        mean: Tensor = parts.counts[0] @ self.means
        return mean, torch.einsum("p,pij->ij", self._of_covariance(parts)[0], self.covariances)

    def _of_covariance(self, parts: Parts) -> Tensor:
        """n_c, and K n_c where parts share factors, (B, P) float64."""
        shared = [parts.sizes[:, None] * parts.counts] if self.problem.shared else []
        return torch.cat([parts.counts, *shared], 1)


def _least_squares(batches: Iterable[Batch], terms: Callable[[Batch], tuple[Tensor, Tensor]]) -> Tensor:
    """argmin_A sum |target - A' regressors|^2, (P, *T) float64.

    terms: batch -> regressors (B, P), and their products with the targets summed over rows, (P, *T).
    """
    square, product = torch.zeros(()), torch.zeros(())
    for batch in batches:
        regressors, with_targets = terms(batch)
        square, product = square + regressors.T @ regressors, product + with_targets
    ridge = RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    solved: Tensor = torch.linalg.solve(square + ridge, product.flatten(1))
    return solved.view(product.shape)
