"""The feeder: x(t) = L(t) + 5% L(t)^2 / R, with L = sum_i load_i, the rating R = 2.5 kW for each of its K homes.

Losses make the whole more than the sum, and the homes of a day share its weather, its match and its type: given the
day they are independent, not given it they are not, and Var(x) grows like K^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compvae.batch import Batch, PaddedParts, Shared
from compvae.checks import allocate, at_least_one
from compvae.noise import Noise
from compvae.parts import Attribute, Categorical, PartsSchema
from compvae.problems.base import Problem
from compvae.problems.blocks import BLOCK, log_uniform, neighbours, partly_told
from compvae.problems.households.day import CONTEXT, SHARED, Effects, draw_days
from compvae.problems.households.homes import HALF_HOURS, SPECIFICS, Homes
from compvae.problems.households.profiles import PROFILES

__all__ = ["Households"]

RATING = 2.5  # kW a home
LOSSES = 0.05  # of the load, at the rating
HOMES_AT_ONCE = 2**15  # bounds the memory of exact samples
STRIDE = 2**20  # numbers of homes between one whole and the next, more than can be listed


class Households(Problem):
    """Homes on one feeder, on one day."""

    name: ClassVar[str] = "households"
    summary: ClassVar[str] = (
        "the load of a feeder made of homes of eight profiles, which share the day's weather, in kW"
    )
    specific_names: ClassVar[tuple[str, ...]] = SPECIFICS
    shared: ClassVar[tuple[Attribute, ...]] = SHARED
    context: ClassVar[tuple[Attribute, ...]] = CONTEXT
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 50
    rows_together: ClassVar[int] = BLOCK

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.schema = PartsSchema(attributes=(Categorical(name="profile", categories=tuple(PROFILES)),))
        self.shape = (HALF_HOURS,)
        self._homes = Homes()

    # -- tensors -------------------------------------------------------------------------------------------------

    def draw_parts(self, sizes: Tensor, noise: Noise) -> PaddedParts:
        """Profiles with shares of their own in each whole: from even mixtures to feeders of one kind.

        Shares are proportional to e^v, e exponential, v uniform on 0..3 and common to a whole.  sizes: (B,) int64.
        """
        width = int(sizes.max())
        mask = torch.arange(width) < sizes[:, None]
        exponential, power = -noise.uniform("shares", len(PROFILES)).log_(), 3 * noise.uniform("evenness", 1)
        shares = (exponential**power).cumsum(1)
        drawn = noise.uniform("kind", width) * shares[:, -1:]
        kind = torch.searchsorted(shares, drawn).clamp_(max=len(PROFILES) - 1).masked_fill_(~mask, 0)
        return PaddedParts(kind, torch.zeros(len(sizes), width, 0), mask, len(PROFILES))

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """SPECIFICS of each home, (B, K, S), 0 where padded."""
        whole, position = parts.mask.nonzero(as_tuple=True)
        out = torch.zeros(*parts.kind.shape, len(SPECIFICS))
        out[whole, position] = self._homes.draw(parts.kind[whole, position], _of_homes(noise, whole, position))
        return out

    def draw_factors(self, noise: Noise) -> Tensor:
        """A day for each whole, (B, 4)."""
        return draw_days(noise)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, S), factors: (B, 4) -> x (B, 48)."""
        assert factors is not None, "the homes of a feeder need a day"
        whole, position = parts.mask.nonzero(as_tuple=True)
        load = self._homes.load(parts.kind[whole, position], specifics[whole, position], whole, Effects.of(factors))
        return _with_losses(load, parts.sizes[:, None])

    def draw(self, max_parts: int, noise: Noise, min_parts: int = 1) -> Batch:
        """One feeder for each row of noise, K log-uniform, one to four neighbouring rows on the same day.

        Days, and which covariates are known, come from the noise of a day's first row: rows of a block of four can
        be drawn without the other blocks.
        """
        first = neighbours(noise).first
        day = noise.of_rows(first)
        factors = self.draw_factors(day)
        parts = self.draw_parts(log_uniform(noise, min_parts, max_parts), noise)
        x = self.combine(parts, self.draw_specifics(parts, noise), factors)
        seen = factors[:, [SHARED.index(covariate) for covariate in CONTEXT]]
        context, told = partly_told(CONTEXT, seen, torch.ones_like(seen, dtype=torch.bool), day)
        return Batch(x, parts.counted(), context, Shared.of(first), told=told)

    # -- arrays --------------------------------------------------------------------------------------------------

    def truth(
        self,
        parts: object,
        n: int,
        seed: int = 0,
        context: Mapping[str, object] | None = None,
        factors: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Exact samples of p(x | parts), float32 (n, 48), kW; homes are added up in chunks, however many there are."""
        composition, _ = self._canonical(parts)
        kind = torch.arange(len(PROFILES)).repeat_interleave(torch.tensor(composition.counts))
        n = at_least_one(n, "n")
        days = self._held(n, seed, context, factors)
        out = allocate(n, *self.shape)
        height = max(1, min(256, HOMES_AT_ONCE // len(kind)))
        for start in range(0, n, height):
            rows = torch.arange(start, start + height)  # always a whole tile, so that n never changes a row
            load = self._feeder(kind, Noise(seed, rows), Effects.of(days[rows.clamp(max=n - 1)]))
            x = _with_losses(load, torch.tensor(float(len(kind))))
            out[start : start + height] = x[: n - start].numpy()
        return out

    def _feeder(self, kind: Tensor, noise: Noise, effects: Effects) -> Tensor:
        """The load of fresh homes on each of B days, (B, 48) float64.  kind: (K,), noise: B rows."""
        load = torch.zeros(len(noise), HALF_HOURS, dtype=torch.float64)
        step = max(1, HOMES_AT_ONCE // len(noise))
        for start in range(0, len(kind), step):
            some = kind[start : start + step]
            whole = torch.arange(len(noise)).repeat_interleave(len(some))
            position = torch.arange(start, start + len(some)).repeat(len(noise))
            specifics = self._homes.draw(some.repeat(len(noise)), _of_homes(noise, whole, position))
            load += self._homes.load(some.repeat(len(noise)), specifics, whole, effects)
        return load


def _with_losses(load: Tensor, size: Tensor) -> Tensor:
    """L + LOSSES L^2 / (RATING K), float32.  load: (B, 48), size: (B, 1) or ()."""
    return (load + LOSSES / (RATING * size) * load.square()).float()


def _of_homes(noise: Noise, whole: Tensor, position: Tensor) -> Noise:
    """Noise with a row for each home, whatever homes stand beside it.  whole: rows of noise, position: in it, (P,)."""
    return noise.of_rows(noise.rows[whole] * STRIDE + position)
