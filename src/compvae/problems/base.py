"""A problem: x = whole({l_i}, {s_i}, f), with hidden specifics s_i of each part, and factors f that all parts share.

The true process is known for the built-in problems, so that samples can be judged against the exact p(x | {l_i}), and
edits against exact counterfactuals: hold the factors and the specifics of the parts that stay, leave out or redraw the
others.  Most problems have no shared factors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from compvae.batch import Batch, PaddedParts, pad, repeat
from compvae.checks import allocate, at_least_one, describe_invalid, number_array
from compvae.context import read_context
from compvae.errors import ConfigError, DataError, PartsError
from compvae.noise import Noise
from compvae.parts import Attribute, Categorical, Multiset, PartsSchema

__all__ = ["Problem", "Settings"]

TILE_ELEMENTS = 2**22  # bounds the memory of one chunk of exact samples


class Settings(BaseModel):
    """What can be chosen about a problem."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Problem(ABC):
    """Draws wholes with their parts, and knows the truth."""

    name: ClassVar[str]
    summary: ClassVar[str]
    specific_names: ClassVar[tuple[str, ...]]  # what is hidden in each part
    shared: ClassVar[tuple[Attribute, ...]] = ()  # the factors: what is drawn once for all parts of a whole
    context: ClassVar[tuple[Attribute, ...]] = ()  # those of the factors that can be observed
    extensive: ClassVar[bool]  # True where x grows with K, as sums do
    max_parts: ClassVar[int]  # K of the training range
    rows_together: ClassVar[int] = 1  # factors are shared within blocks of so many rows of ``draw``
    unit: ClassVar[float] = 1.0  # of x inside a model
    drawn_within: ClassVar[float] = 1.0  # places of parts are drawn within +-drawn_within, of the scaled range [-1, 1]
    settings_class: ClassVar[type[Settings]] = Settings  # what can be chosen; nothing, unless a problem says otherwise
    schema: PartsSchema
    shape: tuple[int, ...]

    def __init__(self, **settings: object) -> None:
        try:
            self.settings = self.settings_class.model_validate(settings)
        except ValidationError as error:
            raise ConfigError(f"problem {self.name}, setting {describe_invalid(error)}") from None

    # -- tensors: what training and evaluation use ---------------------------------------------------------------

    def draw_parts(self, sizes: Tensor, noise: Noise) -> PaddedParts:
        """Random compositions: kinds and places uniform, unless a problem says otherwise.

        sizes: K of each, (B,) int64.
        """
        width, kinds = int(sizes.max()), self.schema.n_kinds
        mask = torch.arange(width) < sizes[:, None]
        kind = noise.integers("kind", 0, kinds - 1, width).masked_fill_(~mask, 0)
        place = (noise.uniform("place", width, self.schema.n_features) * 2 - 1) * self.drawn_within
        return PaddedParts(kind, place * mask[..., None], mask, kinds)

    @abstractmethod
    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """The hidden specifics of each part, (B, K, S)."""

    def draw_factors(self, noise: Noise) -> Tensor:
        """What the parts of each whole share, (B, Q): nothing, unless a problem says otherwise."""
        return torch.zeros(len(noise), 0)

    @abstractmethod
    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """The whole, exactly.  specifics: (B, K, S), factors: (B, Q), where there are any -> (B, *shape)."""

    def draw(self, max_parts: int, noise: Noise, min_parts: int = 1) -> Batch:
        """One example for each row of noise, K uniform on min_parts..max_parts (paper, section 4.3)."""
        sizes = noise.integers("sizes", min_parts, max_parts)
        parts = self.draw_parts(sizes, noise)
        factors = self.draw_factors(noise) if self.shared else None
        x = self.combine(parts, self.draw_specifics(parts, noise), factors)
        return Batch(x, parts.counted() if self.schema.countable else parts)

    def draw_held_out(self, noise: Noise) -> Batch:
        """Wholes of the whole training range; of noise that no step has, so that no step trains on them."""
        return self.draw(self.max_parts, noise)

    # -- arrays: what users call ---------------------------------------------------------------------------------

    def truth(
        self,
        parts: object,
        n: int,
        seed: int = 0,
        context: Mapping[str, object] | None = None,
        factors: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Exact samples of p(x | parts, context), float32 (n, *shape).

        factors: as :meth:`factors` gives them; holds what the parts share and redraws the parts alone.
        """
        held = self._held(at_least_one(n, "n"), seed, context, factors)
        return self._whole(parts, self.specifics(parts, n, seed), held)

    def specifics(self, parts: object, n: int, seed: int = 0) -> np.ndarray:
        """n draws of the hidden specifics, float32 (n, K, S), parts in the caller's order."""
        composition, order = self._canonical(parts)
        n = at_least_one(n, "n")
        out = allocate(n, len(order), len(self.specific_names))
        for rows, tile in self._tiles(composition, n):
            noise = Noise(seed, torch.arange(rows.start, rows.start + len(tile)))
            out[rows] = self.draw_specifics(tile, noise)[: rows.stop - rows.start].numpy()
        return out[:, np.argsort(order)]

    def factors(self, n: int, seed: int = 0, context: Mapping[str, object] | None = None) -> dict[str, np.ndarray]:
        """n draws of what the parts of a whole share, by name, float32 (n,) each; a category is its index.

        context: covariates that are known; their factors have these values, the others are drawn.
        """
        if context and not self.context:
            raise PartsError(f"context: problem {self.name} has no covariates, leave context out")
        given = read_context(self.context, context)
        drawn = self.draw_factors(Noise(seed, at_least_one(n, "n"))).numpy()
        values = {factor.name: drawn[:, column].copy() for column, factor in enumerate(self.shared)}
        for covariate, value in zip(self.context, given, strict=True):
            if value is not None:
                values[covariate.name][:] = value
        return values

    def whole(
        self, parts: object, specifics: np.ndarray, factors: Mapping[str, np.ndarray] | None = None
    ) -> np.ndarray:
        """x of these parts with these specifics, float32 (n, *shape).

        specifics: (n, K, S), caller's order.  factors: what the parts share, a number or (n,) each.
        """
        specifics = number_array(specifics, "specifics")
        return self._whole(parts, specifics, self._read_factors(factors or {}, len(np.atleast_1d(specifics))))

    def _whole(self, parts: object, specifics: np.ndarray, factors: Tensor) -> np.ndarray:
        """specifics: (n, K, S), caller's order.  factors: (n, Q)."""
        composition, order = self._canonical(parts)
        expected = (len(order), len(self.specific_names))
        if specifics.ndim != 3 or specifics.shape[1:] != expected:
            raise DataError(f"specifics must have shape (n, {expected[0]}, {expected[1]}), got {specifics.shape}")
        out = allocate(len(specifics), *self.shape)
        for rows, tile in self._tiles(composition, len(specifics)):
            hidden, shared = torch.zeros(len(tile), *expected), torch.zeros(len(tile), factors.shape[1])
            hidden[: rows.stop - rows.start] = torch.from_numpy(specifics[rows][:, order])
            shared[: rows.stop - rows.start] = factors[rows]
            out[rows] = self.combine(tile, hidden, shared)[: rows.stop - rows.start].numpy()
        return out

    def _held(
        self, n: int, seed: int, context: Mapping[str, object] | None, factors: Mapping[str, np.ndarray] | None
    ) -> Tensor:
        """The factors of n wholes, (n, Q): as given, or drawn."""
        if factors is not None and context:
            raise DataError("give context or factors, not both: factors hold the covariates too")
        return self._read_factors(self.factors(n, seed, context) if factors is None else factors, n)

    def _read_factors(self, factors: Mapping[str, np.ndarray], n: int) -> Tensor:
        """Factors by name as one tensor, (n, Q) float32."""
        names = [factor.name for factor in self.shared]
        if not isinstance(factors, Mapping) or set(factors) != set(names):
            needed = ", ".join(names) or "none"
            raise DataError(
                f"factors must be a mapping with the factors of {self.name} ({needed}), got {factors!r:.60}"
            )
        columns = [_read_factor(factor, factors[factor.name], n) for factor in self.shared]
        return torch.from_numpy(np.stack(columns, 1) if columns else np.zeros((n, 0), np.float32))

    def _canonical(self, parts: object) -> tuple[Multiset, np.ndarray]:
        """The composition in canonical order, and the caller's position of each of its parts."""
        composition = self.schema.parse(parts)
        listed = composition.listed()
        order = np.array(sorted(range(len(listed)), key=listed.__getitem__))
        return composition.canonical(), order

    def _tiles(self, composition: Multiset, n: int) -> list[tuple[slice, PaddedParts]]:
        """Chunks of rows; the size of a chunk depends on K alone, so that n never changes a row."""
        height = max(1, min(256, TILE_ELEMENTS // (composition.size * max(1, int(np.prod(self.shape)) // 8))))
        tile = repeat(pad([composition]), height)
        return [(slice(start, min(start + height, n)), tile) for start in range(0, n, height)]


def _read_factor(factor: Attribute, values: object, n: int) -> np.ndarray:
    """The values of one factor, a number or (n,), as (n,) float32; a category is its index."""
    column = number_array(values, f"factor {factor.name}")
    if column.shape not in ((), (n,)):
        raise DataError(f"factor {factor.name} must be a number or have shape ({n},), got {column.shape}")
    if isinstance(factor, Categorical):
        allowed, within = f"0..{len(factor.categories) - 1}", np.isin(column, range(len(factor.categories)))
    else:
        allowed, within = f"in [{factor.low:g}, {factor.high:g}]", (factor.low <= column) & (column <= factor.high)
    if not within.all():
        raise DataError(f"factor {factor.name} must be {allowed}, got {column[~within].ravel()[0]:g}")
    return np.broadcast_to(column, n)
