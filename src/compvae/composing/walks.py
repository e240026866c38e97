"""Noise that belongs to parts: W_c(n) = n m_c + p_c B_c(n), B_c(n) = eps_1 + .. + eps_n a random walk for each kind c.

The j-th part of a kind has its own eps_j, so that one more part adds its own draw and leaves the others as they are.
B(n) costs O(log n): the first steps are drawn one by one, later ones by blocks of double size, and inside a block by
the Brownian bridge, half given whole ~ N(whole / 2, size / 4).  Parts that the caller gave a key, and parts with a
place, have their numbers by key: then eps_j is that of the j-th key, and the cost is O(n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from compvae.errors import PartsError
from compvae.noise import Noise, NormalSource
from compvae.parts import Multiset

__all__ = ["MAX_KEYS", "Joined", "PartNoise"]

FIRST = 64  # steps of a walk that are drawn one by one; the blocks behind them have 64, 128, 256, ... steps
MAX_KEYS = 100_000  # a key is an index: numbers are drawn up to the largest


class PartNoise:
    """Standard normal numbers in which those of the latents ("w") belong to parts; all others are the noise's own.

    keys: one for each part in the order of the composition's listing; None: the place among the parts of its kind.
    by_kind: "w" is asked for kind by kind, (C, d), not part by part, (K, d).
    """

    def __init__(self, noise: Noise, composition: Multiset, keys: Sequence[int] | None, by_kind: bool) -> None:
        self.noise = noise
        self.counts = composition.counts
        self.keys: Tensor | None = None
        self.keys_by_kind: list[list[int]] | None = None
        if not by_kind:
            self.keys = torch.tensor([key for _, key in _canonical_keys(composition, keys)])
        elif keys is not None:
            self.keys_by_kind = [[] for _ in self.counts]
            for kind, key in _canonical_keys(composition, keys):
                self.keys_by_kind[kind].append(key)

    def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> (B, *shape), standard normal."""
        if name != "w":
            return self.noise.normal(name, *shape, dtype=dtype)
        if self.keys_by_kind is not None:
            return self._keyed_sums(self.keys_by_kind, shape[1]).to(dtype)
        if self.keys is None:
            return self._walks(shape[1]).to(dtype)
        numbers = self.noise.normal("w/key", int(self.keys.max()) + 1, shape[1], dtype=dtype)
        return numbers[:, self.keys]

    def _keyed_sums(self, keys: Sequence[Sequence[int]], width: int) -> Tensor:
        """B_c(n_c) / sqrt(n_c) with the steps of these keys, 0 for kinds without parts, (B, C, width) float64."""
        sums = torch.zeros(len(self.noise), len(keys), width, dtype=torch.float64)
        for kind, of_kind in enumerate(keys):
            for key in of_kind:
                sums[:, kind] += self.noise.normal(f"w/key/{key}", width, dtype=torch.float64)
        return sums / torch.tensor(self.counts, dtype=torch.float64).clamp(min=1).sqrt()[:, None]

    def _walks(self, width: int) -> Tensor:
        """B_c(n_c) / sqrt(n_c) of every kind, 0 for kinds without parts, (B, C, width) float64."""
        kinds = len(self.counts)
        early = [min(count, FIRST) for count in self.counts]
        steps = self.noise.normal("w/step", max(early), kinds, width, dtype=torch.float64)
        taken = torch.arange(max(early))[:, None] < torch.tensor(early)
        walks = (steps * taken[..., None]).sum(1)
        for kind, count in enumerate(self.counts):
            if count > FIRST:
                walks[:, kind] += self._later(kind, count - FIRST, width)
        return walks / torch.tensor(self.counts, dtype=torch.float64).clamp(min=1).sqrt()[:, None]

    def _later(self, kind: int, left: int, width: int) -> Tensor:
        """The walk over the first ``left`` steps behind the early ones, (B, width) float64."""
        total, start, size = torch.zeros(len(self.noise), width, dtype=torch.float64), 0, FIRST
        while left:
            block = math.sqrt(size) * self._number(kind, start, size, width)
            if left >= size:
                total, left = total + block, left - size
            else:
                total, left = total + self._inside(kind, start, size, left, block), 0
            start, size = start + size, 2 * size
        return total

    def _inside(self, kind: int, start: int, size: int, left: int, whole: Tensor) -> Tensor:
        """The walk over the first ``left`` steps of a block whose sum is known.  whole: (B, width)."""
        total = torch.zeros_like(whole)
        while left:
            if left == size:
                return total + whole
            half = size // 2
            first = whole / 2 + math.sqrt(size) / 2 * self._number(kind, start, half, whole.shape[1])
            if left >= half:
                total, whole, start, left = total + first, whole - first, start + half, left - half
            else:
                whole = first
            size = half
        return total

    def _number(self, kind: int, start: int, size: int, width: int) -> Tensor:
        """A number for each block and for each half of one, (B, width)."""
        return self.noise.normal(f"w/block/{kind}/{start}/{size}", width, dtype=torch.float64)


class Joined:
    """Several sources, their rows one after the other: what requests that are run together draw from."""

    def __init__(self, sources: Sequence[NormalSource]) -> None:
        self.sources = sources

    def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> (sum of rows, *shape), standard normal."""
        return torch.cat([source.normal(name, *shape, dtype=dtype) for source in self.sources])


def _canonical_keys(composition: Multiset, keys: Sequence[int] | None) -> list[tuple[int, int]]:
    """(kind, key) of the parts in canonical order."""
    numbers = None if keys is None else _checked_keys(keys, composition.size)
    parts = composition.listed()
    if numbers is None:
        seen: dict[int, int] = {}
        numbers = []
        for part in parts:
            seen[part.kind] = seen.get(part.kind, -1) + 1
            numbers.append(seen[part.kind] * composition.schema.n_kinds + part.kind)
        _check_range(numbers)
    return [(part.kind, key) for part, key in sorted(zip(parts, numbers, strict=True))]


def _checked_keys(keys: object, size: int) -> list[int]:
    """What the caller gave as keys: ``size`` different numbers."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence | np.ndarray):
        raise PartsError(f"keys must be a list of {size} different numbers, one for each part, got {keys!r:.40}")
    numbers: list[int] = []
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, int | np.integer):
            raise PartsError(f"keys must be whole numbers, one for each part, got {key!r:.40}")
        numbers.append(int(key))
    if len(numbers) != size or len(set(numbers)) != size:
        same = "" if len(numbers) != size else ", some of them equal"
        raise PartsError(f"keys must be {size} different numbers, one for each part, got {len(numbers)}{same}")
    _check_range(numbers)
    return numbers


def _check_range(keys: Sequence[int]) -> None:
    if min(keys) < 0 or max(keys) >= MAX_KEYS:
        raise PartsError(f"keys must lie between 0 and {MAX_KEYS - 1}, got {min(keys)} to {max(keys)}")
