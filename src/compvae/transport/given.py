"""What is known of wholes beside x, and W given it: from counts of kinds, or part by part.

One interface for the model: E W, its spread, draws, densities, and what the velocity field is told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from compvae.batch import PaddedParts, Parts, Shared
from compvae.noise import NormalSource
from compvae.transport.base import Base
from compvae.transport.gaussian import LinearGaussian
from compvae.transport.placed import EVERYWHERE, PartTerms, PlacedBase

__all__ = ["CountedGiven", "Given", "PlacedGiven"]

DRAWN_NUMBERS = 2**22  # loadings of parts that are held at once in a draw


class Given(ABC):
    """Composition and context of each whole.

    counts: n_c, (B, C).  sizes: K, (B, 1).  context: (B, E), zeros where unknown.
    """

    def __init__(self, parts: Parts, context: Tensor | None, covariates: int, dtype: torch.dtype) -> None:
        self.counts = parts.counts.to(dtype)
        self.sizes = self.counts.sum(1, keepdim=True)
        self.context = self.counts.new_zeros(len(parts), covariates) if context is None else context.to(dtype)

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """E W, (B, T)."""

    @property
    @abstractmethod
    def spread(self) -> Tensor:
        """Standard deviation of each value of W, (B, T)."""

    @property
    @abstractmethod
    def gaussian(self) -> LinearGaussian:
        """W - E W as terms that add up."""

    @abstractmethod
    def draw(self, source: NormalSource, z: Tensor | None = None) -> Tensor:
        """W - E W, (B, T).  z: (B, Z), drawn where it is not given."""

    @abstractmethod
    def condition(self) -> Tensor:
        """What the field is told, (D, ..): of each different composition."""

    @property
    @abstractmethod
    def rows(self) -> Tensor:
        """Which of the different compositions each whole has, (B,) int64."""

    def log_prob(self, deviation: Tensor, groups: Shared | None = None) -> Tensor:
        """ln p(W), nats (B,).  deviation: W - E W, (B, T).  groups: which wholes have one z."""
        return self.gaussian.log_prob(deviation, groups)


class CountedGiven(Given):
    """Parts as numbers of each kind: nothing grows with K."""

    def __init__(self, base: Base, parts: Parts, context: Tensor | None, covariates: int, dtype: torch.dtype) -> None:
        super().__init__(parts, context, covariates, dtype)
        self.base = base

    @cached_property
    def mean(self) -> Tensor:
        """E W, (B, T)."""
        return self.base.mean(self.counts, self.context)

    @cached_property
    def spread(self) -> Tensor:
        """Standard deviation of each value of W, (B, T)."""
        return self.base.spread(self.counts, self.context)

    @property
    def gaussian(self) -> LinearGaussian:
        """W - E W as terms of the kinds."""
        return self.base.factorised(self.counts, self.context)

    def draw(self, source: NormalSource, z: Tensor | None = None) -> Tensor:
        """W - E W, (B, T).  z: (B, Z), drawn where it is not given."""
        return self.base.draw(self.counts, self.context, source, z)

    def condition(self) -> Tensor:
        """(B, 2 C + 1 + E): bounded however many parts there are."""
        share = self.counts / self.sizes
        return torch.cat([share, share.sqrt() / 2, self.sizes.rsqrt(), self.context], 1)

    @property
    def rows(self) -> Tensor:
        """Each whole on its own."""
        return torch.arange(len(self.counts))


class PlacedGiven(Given):
    """Parts one by one.  What is the same for neighbouring wholes, draws of one composition, is computed once."""

    def __init__(
        self, base: PlacedBase, parts: PaddedParts, context: Tensor | None, covariates: int, dtype: torch.dtype,
        at: Tensor | slice = EVERYWHERE,
    ) -> None:  # fmt: skip
        """at: places that are looked at, (S',) int64; all, but for the fit of the base."""
        super().__init__(parts, context, covariates, dtype)
        self.base, first = base, _different(parts, self.context)
        self._rows = first.cumsum(0) - 1
        own = base.heads.weight.dtype
        told = self.context[first]
        terms = base.part_terms(parts.rows(first.nonzero()[:, 0]), told.to(own), at)
        self.terms = PartTerms(*(value.to(dtype) for value in vars(terms).values()))
        self._mean, self._gaussian = base.given(self.terms, told, at)
        self._spread = self._gaussian.spread()
        self._told = told

    @property
    def rows(self) -> Tensor:
        """Which of the different compositions each whole has, (B,) int64."""
        return self._rows

    @property
    def mean(self) -> Tensor:
        """E W, (B, T)."""
        return self._mean[self._rows]

    @property
    def spread(self) -> Tensor:
        """Standard deviation of each value of W, (B, T)."""
        return self._spread[self._rows]

    @property
    def gaussian(self) -> LinearGaussian:
        """W - E W as terms of the parts."""
        return self._gaussian.rows(self._rows)

    def draw(self, source: NormalSource, z: Tensor | None = None) -> Tensor:
        """W - E W, (B, T).  z: (B, Z), drawn where it is not given."""
        noise = self.base.noise_of(self._gaussian, source, z)
        size = max(1, DRAWN_NUMBERS // self._gaussian.loadings[0].numel())
        return torch.cat(
            [self.base.deviation(self._gaussian.rows(self._rows[rows]), noise.rows(rows)) for rows in self.chunks(size)]
        )

    def chunks(self, size: int) -> Iterator[slice]:
        """Rows a few at a time."""
        return (slice(start, start + size) for start in range(0, len(self._rows), size))

    def condition(self) -> Tensor:
        """Features of the parts at each place, moments of W there, and context, (D, N, S)."""
        rows, channels = len(self._mean), self.base.channels
        moments = (self._mean, self._spread.log(), self._gaussian.factor)
        local = [value.view(rows, channels, -1) for value in moments]
        told = self._told[..., None].expand(-1, -1, local[0].shape[2])
        return torch.cat([self.terms.hidden, *local, told], 1)


def _different(parts: PaddedParts, context: Tensor) -> Tensor:
    """True for wholes whose composition or context differs from that of the whole before, (B,) bool."""
    known = torch.cat([parts.kind, parts.mask, parts.features.flatten(1), context], 1)
    return torch.cat([known.new_ones(1).bool(), (known[1:] != known[:-1]).any(1)])
