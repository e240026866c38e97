"""x ~ N( sum_c n_c m_c, sum_c n_c S_c ): moments linear in the counts, by least squares on draws of the problem.

With x / sqrt(K) every draw has errors of one size:  x / sqrt(K) on n / sqrt(K) gives m_c, the products of what is left
on n / K give S_c.  Where parts share factors, the variance has a term K^2 S_0 too, and m_c is linear in the context.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Self

import torch
from torch import Tensor

from compvae.baselines.base import Baseline, Budget, examples
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
        if not problem.schema.countable:
            raise ConfigError(
                f"baseline gaussian needs parts that are counted; those of {problem.name} have places, "
                "and moments of x have no form that is linear in them"
            )
        size = math.prod(problem.shape)
        self.means, self.covariances = torch.zeros(0, size), torch.zeros(0, size, size)

    def fit(self, budget: Budget) -> Self:
        """Two regressions, each on as many batches as the budget has, at most ENOUGH."""
        steps = min(ENOUGH, budget.steps or ENOUGH)

        def mean_terms(batch: Batch) -> tuple[Tensor, Tensor]:
            root = batch.parts.sizes[:, None].sqrt()
            regressors = self._of_mean(batch.parts, _context(batch)) / root
            return regressors, regressors.T @ (batch.x.flatten(1).double() / root)

        def covariance_terms(batch: Batch) -> tuple[Tensor, Tensor]:
            size = batch.parts.sizes[:, None]
            left = batch.x.flatten(1).double() - self._of_mean(batch.parts, _context(batch)) @ self.means
            regressors = self._of_covariance(batch.parts) / size
            weights = (regressors / size).unbind(1)
            return regressors, torch.stack([(left * weight[:, None]).T @ left for weight in weights])

        def batches(first: int) -> Iterator[Batch]:
            for step in range(steps):
                yield examples(self.problem, budget.seed, step + first)[0]
                budget.watch(f"fitting {self.name}", step + 1 + first, 2 * steps)

        self.means = _least_squares(batches(0), mean_terms)
        self.covariances = _least_squares(batches(steps), covariance_terms)
        return self

    def draw(self, parts: Parts, context: Tensor, noise: Noise) -> Tensor:
        """All rows of one composition.  context: (B, E) -> (B, *shape)."""
        mean, covariance = self.moments(parts.rows(slice(0, 1)), context[:1])
        value, vector = torch.linalg.eigh(covariance)
        root = vector * value.clamp(min=0).sqrt()  # least squares may leave a few directions below 0
        x = mean + noise.normal("x", len(mean), dtype=torch.float64) @ root.T
        out: Tensor = x.view(len(noise), *self.problem.shape)
        return out

    def moments(self, parts: Parts, context: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (M,) and covariance (M, M) of one composition.  context: (1, E)."""
        mean = self._of_mean(parts, context)[0] @ self.means
        return mean, torch.einsum("p,pij->ij", self._of_covariance(parts)[0], self.covariances)

    def _of_mean(self, parts: Parts, context: Tensor) -> Tensor:
        """n_c times (1, context), (B, C (1 + E)) float64."""
        beside = torch.cat([torch.ones(len(parts), 1), context], 1).double()
        return (parts.counts[:, :, None] * beside[:, None]).flatten(1)

    def _of_covariance(self, parts: Parts) -> Tensor:
        """n_c, and K^2 where parts share factors, (B, P) float64."""
        squared = [parts.sizes[:, None] ** 2] if self.problem.shared else []
        return torch.cat([parts.counts, *squared], 1)


def _context(batch: Batch) -> Tensor:
    return torch.zeros(len(batch), 0) if batch.context is None else batch.context


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
