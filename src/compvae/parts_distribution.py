"""p(x | parts) in the form of torch.distributions: sample, log_prob, event_shape; mean and stddev by fixed draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

__all__ = ["PartsDistribution"]

MOMENT_DRAWS, MOMENT_SEED = 4096, 0


class PartsDistribution(Distribution):
    """The distribution of wholes with one composition.

    sample draws with a seed that is taken from torch's generator, so that ``torch.manual_seed`` decides it.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.real_vector

    def __init__(
        self,
        shape: tuple[int, ...],
        draw: Callable[[int, int], Tensor],
        log_prob: Callable[[Tensor], Tensor],
        batch_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> None:
        """shape: of x.  draw: (n, seed) -> (n, *shape).  log_prob: (n, *shape) -> (n,)."""
        super().__init__(batch_shape, torch.Size(shape), validate_args=False)
        self._draw, self._log_prob = draw, log_prob

    def expand(self, batch_shape: Any, _instance: Any = None) -> PartsDistribution:
        """The same distribution for a batch of independent wholes."""
        return PartsDistribution(tuple(self.event_shape), self._draw, self._log_prob, torch.Size(batch_shape))

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Wholes, (*sample_shape, *batch_shape, *event_shape)."""
        shape = torch.Size(sample_shape) + self.batch_shape
        seed = int(torch.randint(2**62, ()))
        return self._draw(max(1, shape.numel()), seed)[: shape.numel()].reshape(shape + self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Nats, (*value's batch).  value: (*batch, *event_shape)."""
        lead = value.shape[: value.dim() - len(self.event_shape)]
        return self._log_prob(value.reshape(-1, *self.event_shape)).reshape(lead)

    @property
    def mean(self) -> Tensor:
        """Mean of 4,096 draws of a fixed seed, (*batch_shape, *event_shape)."""
        return self._moments().mean(0).expand(self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Tensor:
        """Variance of 4,096 draws of a fixed seed, (*batch_shape, *event_shape)."""
        return self._moments().var(0).expand(self.batch_shape + self.event_shape)

    def _moments(self) -> Tensor:
        return self._draw(MOMENT_DRAWS, MOMENT_SEED)
