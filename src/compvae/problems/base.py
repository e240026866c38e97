"""A problem: x = whole({l_i}, {s_i}), with hidden specifics s_i drawn for each part.

The true process is known for the built-in problems, so that samples can be judged against the exact p(x | {l_i}), and
edits against exact counterfactuals: hold the specifics of the parts that stay, leave out or redraw the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from compvae.batch import Batch, PaddedParts, pad
from compvae.checks import allocate, at_least_one, describe_invalid, number_array
from compvae.errors import ConfigError, DataError, PartsError
from compvae.noise import Noise
from compvae.parts import Multiset, PartsSchema

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
    extensive: ClassVar[bool]  # True where x grows with K, as sums do
    max_parts: ClassVar[int]  # K of the training range
    settings_class: ClassVar[type[Settings]]
    schema: PartsSchema
    shape: tuple[int, ...]

    def __init__(self, **settings: object) -> None:
        try:
            self.settings = self.settings_class.model_validate(settings)
        except ValidationError as error:
            raise ConfigError(f"problem {self.name}, setting {describe_invalid(error)}") from None

    # -- tensors: what training and evaluation use ---------------------------------------------------------------

    @abstractmethod
    def draw_parts(self, sizes: Tensor, noise: Noise) -> PaddedParts:
        """Random compositions.  sizes: K of each, (B,) int64."""

    @abstractmethod
    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """The hidden specifics of each part, (B, K, S)."""

    @abstractmethod
    def combine(self, parts: PaddedParts, specifics: Tensor) -> Tensor:
        """The whole, exactly.  specifics: (B, K, S) -> (B, *shape)."""

    def draw(self, max_parts: int, noise: Noise, min_parts: int = 1) -> Batch:
        """One example for each row of noise, K uniform on min_parts..max_parts (paper, section 4.3)."""
        sizes = noise.integers("sizes", min_parts, max_parts)
        parts = self.draw_parts(sizes, noise)
        x = self.combine(parts, self.draw_specifics(parts, noise))
        return Batch(x, parts.counted() if self.schema.countable else parts)

    # -- arrays: what users call ---------------------------------------------------------------------------------

    def truth(self, parts: object, n: int, seed: int = 0, context: Mapping[str, object] | None = None) -> np.ndarray:
        """Exact samples of p(x | parts), float32 (n, *shape)."""
        return self.whole(parts, self.specifics(parts, n, seed, context))

    def specifics(
        self, parts: object, n: int, seed: int = 0, context: Mapping[str, object] | None = None
    ) -> np.ndarray:
        """n draws of the hidden specifics, float32 (n, K, S), parts in the caller's order."""
        if context:
            raise PartsError(f"context: problem {self.name} has no covariates, leave context out")
        composition, order = self._canonical(parts)
        n = at_least_one(n, "n")
        out = allocate(n, len(order), len(self.specific_names))
        for rows, tile in self._tiles(composition, n):
            noise = Noise(seed, torch.arange(rows.start, rows.start + len(tile)))
            out[rows] = self.draw_specifics(tile, noise)[: rows.stop - rows.start].numpy()
        return out[:, np.argsort(order)]

    def whole(self, parts: object, specifics: np.ndarray) -> np.ndarray:
        """x of these parts with these specifics, float32 (n, *shape).  specifics: (n, K, S), caller's order."""
        composition, order = self._canonical(parts)
        expected = (len(order), len(self.specific_names))
        specifics = number_array(specifics, "specifics")
        if specifics.ndim != 3 or specifics.shape[1:] != expected:
            raise DataError(f"specifics must have shape (n, {expected[0]}, {expected[1]}), got {specifics.shape}")
        out = allocate(len(specifics), *self.shape)
        for rows, tile in self._tiles(composition, len(specifics)):
            hidden = torch.zeros(len(tile), *expected)
            hidden[: rows.stop - rows.start] = torch.from_numpy(specifics[rows][:, order])
            out[rows] = self.combine(tile, hidden)[: rows.stop - rows.start].numpy()
        return out

    def _canonical(self, parts: object) -> tuple[Multiset, np.ndarray]:
        """The composition in canonical order, and the caller's position of each of its parts."""
        composition = self.schema.parse(parts)
        listed = composition.listed()
        order = np.array(sorted(range(len(listed)), key=listed.__getitem__))
        return composition.canonical(), order

    def _tiles(self, composition: Multiset, n: int) -> list[tuple[slice, PaddedParts]]:
        """Chunks of rows; the size of a chunk depends on K alone, so that n never changes a row."""
        one = pad([composition])
        height = max(1, min(256, TILE_ELEMENTS // (composition.size * max(1, int(np.prod(self.shape)) // 8))))
        tile = PaddedParts(
            one.kind.expand(height, -1), one.features.expand(height, -1, -1), one.mask.expand(height, -1), one.n_kinds
        )
        return [(slice(start, min(start + height, n)), tile) for start in range(0, n, height)]
