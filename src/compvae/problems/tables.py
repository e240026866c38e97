"""Own wholes in tables: rows are drawn from what is there, those with a common ``shared_id`` beside each other.

A fifth of the wholes (of the shared ids, where there are any) is never trained on.  Whether x grows with K is measured:
it does where the RMS of x rises faster than K^(1/4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compvae.batch import Batch, Shared, collate
from compvae.context import describe_values
from compvae.data.dataset import Dataset
from compvae.data.split import SHARE, held_out
from compvae.errors import DataError
from compvae.noise import Noise
from compvae.parts import Attribute
from compvae.problems.blocks import BLOCK, neighbours, partly_told
from compvae.problems.source import Wholes

__all__ = ["TableWholes"]

GROWTH = 0.25
MAX_PADDED = 2**28  # numbers: wholes times the largest K


class TableWholes:
    """Wholes of a dataset."""

    def __init__(self, data: Dataset, split_seed: int = 0) -> None:
        self.data, self.split_seed = data, split_seed
        self.name = "tables" if data.schema.countable else "places"  # which preset and recipe
        self.schema, self.shape = data.schema, tuple(data.x.shape[1:])
        self.context: tuple[Attribute, ...] = data.context.attributes
        self.shares = data.shared is not None
        self.rows_together = BLOCK if self.shares else 1
        if self.shares and not self.schema.countable:
            names = ", ".join(attribute.name for attribute in self.schema.continuous)
            raise DataError(
                f"shared_id needs parts whose attributes are all categorical, {names} is continuous; give classes in "
                f"its place, or leave shared_id out"
            )
        self._sizes = np.array([parts.size for parts in data.parts])
        if not self.schema.countable and len(data.parts) * int(self._sizes.max()) > MAX_PADDED:
            raise DataError(f"{len(data.parts)} wholes with up to {self._sizes.max()} parts do not fit into memory")
        self._x, self._parts = torch.from_numpy(data.x), collate(data.parts)
        values, known = data.context.rows(data.ids)
        self._values, self._known = torch.from_numpy(values), torch.from_numpy(known)
        keys = data.ids if data.shared is None else data.shared
        self.held = self._split(keys)
        self._training, self._held = (_Groups.of(np.flatnonzero(m), keys) for m in (~self.held, self.held))
        if not len(self._training.start):
            raise DataError("the dataset is too small: nothing is left to train on")
        if self.shares:
            self._check_context(keys)
        self.extensive = _grows(data.x, self._sizes)
        self.max_parts = int(self._sizes.max())
        self.unit = _unit(data.x[~self.held], self._sizes[~self.held], self.extensive)

    def _split(self, keys: list[str]) -> np.ndarray:
        """Which wholes are held out, (N,) bool: all with the same shared id, or none."""
        names = sorted(set(keys))
        chosen = dict(zip(names, held_out(names, "whole", self.split_seed), strict=True))
        return np.array([chosen[key] for key in keys], bool)

    def _check_context(self, keys: list[str]) -> None:
        """What wholes share, they share with its context."""
        first: dict[str, int] = {}
        for row, key in enumerate(keys):
            other = first.setdefault(key, row)
            if not (torch.equal(self._values[row], self._values[other])
                    and torch.equal(self._known[row], self._known[other])):  # fmt: skip
                raise DataError(
                    f"wholes {self.data.ids[other]} and {self.data.ids[row]} have the same shared_id but another "
                    f"context; what they share must be the same for both"
                )

    # -- drawing -------------------------------------------------------------------------------------------------

    def draw(self, max_parts: int, noise: Noise) -> Batch:
        """A training whole for each row of noise, whatever its K: the wholes are what they are."""
        return self._batch(self._training, noise)

    def draw_held_out(self, noise: Noise) -> Batch:
        """A held-out whole for each row; a training one where none is held out."""
        return self._batch(self._held if len(self._held.start) else self._training, noise)

    def _batch(self, groups: _Groups, noise: Noise) -> Batch:
        if self.shares:
            whole, first = groups.neighbouring(noise)
        else:
            whole, first = groups.one_by_one(noise), noise.rows
        common = noise.of_rows(first)
        context, told = partly_told(self.context, self._values[whole], self._known[whole], common)
        shared = Shared.of(first) if self.shares else None
        return Batch(self._x[whole], self._parts.rows(whole), context, shared, whole, told)

    @property
    def held_sizes(self) -> np.ndarray:
        """K of the held-out wholes, (n,)."""
        return np.asarray(self._sizes[self.held])

    def held_out(self, n: int, size: int | None = None, seed: int = 0) -> Wholes:
        """At most n of the held-out wholes, of ``size`` parts where it is given, in a random order."""
        rows = np.flatnonzero(self.held & ((self._sizes == size) | (size is None)))
        rows = np.random.default_rng(seed).permutation(rows)[:n]
        if not len(rows):
            raise DataError("no whole is held out" if size is None else f"no whole of {size} parts is held out")
        keys = self.data.ids if self.data.shared is None else self.data.shared
        return Wholes(
            self.data.x[rows],
            [self.data.parts[i] for i in rows],
            [describe_values(self.context, self._values[i], self._known[i]) for i in rows],
            [keys[i] for i in rows],
            [[] for _ in rows],
        )

    # -- what was read -------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Counts and the split: what the run's data.json records."""
        return {
            "kind": "tables",
            "wholes": len(self.data.ids),
            "shape": list(self.shape),
            "attributes": [attribute.model_dump() for attribute in self.schema.attributes],
            "context": [attribute.model_dump() for attribute in self.context],
            "grows_with_parts": self.extensive,
            "max_parts": self.max_parts,
            "unit": self.unit,
            "split": {
                "seed": self.split_seed,
                "share": SHARE,
                "held_out": [self.data.ids[i] for i in np.flatnonzero(self.held)],
            },
        }

    def notes(self) -> dict[str, str]:
        """For the model's card."""
        return {"data": self.summary()}

    def summary(self) -> str:
        """What was read, for people."""
        grows = "grows with K" if self.extensive else "does not grow with K"
        shared = f" with {len(self._training.start) + len(self._held.start):,} shared ids" if self.shares else ""
        return (
            f"{len(self.data.ids):,} wholes{shared} of shape {self.shape}, K up to {self.max_parts}, x {grows}; "
            f"training on {int((~self.held).sum()):,} of them, {int(self.held.sum()):,} are held out"
        )


@dataclass(frozen=True)
class _Groups:
    """Wholes by what they share.  whole: (N,) int64, those of a group together.  start, count: of each group, (G,)."""

    whole: Tensor
    start: Tensor
    count: Tensor

    @classmethod
    def of(cls, wholes: np.ndarray, keys: list[str]) -> _Groups:
        """wholes: positions, (N,).  keys: of all wholes."""
        names = np.array([keys[i] for i in wholes], dtype=object).astype(str)
        _, group = np.unique(names, return_inverse=True)
        order = np.argsort(group, kind="stable")
        count = np.bincount(group) if len(group) else np.zeros(0, np.int64)
        return cls(*(torch.from_numpy(a) for a in (wholes[order], np.cumsum(count) - count, count)))

    def one_by_one(self, noise: Noise) -> Tensor:
        """A whole for each row, (B,) int64."""
        return self.whole[noise.integers("whole", 0, len(self.whole) - 1)]

    def neighbouring(self, noise: Noise) -> tuple[Tensor, Tensor]:
        """A whole for each row, and the row with which its group begins, (B,) int64 each.

        Neighbours are different wholes of one group; a row for which its group has none left begins one of its own.
        """
        rows = neighbours(noise)
        common = rows.noise(noise)
        group = common.integers("group", 0, len(self.start) - 1)
        alone = rows.position >= self.count[group]
        first = torch.where(alone, noise.rows, rows.first)
        own = noise.of_rows(first)
        group = own.integers("group", 0, len(self.start) - 1)
        begin = (own.uniform("member", dtype=torch.float64) * self.count[group]).long()
        position = torch.where(alone, 0, rows.position)
        return self.whole[self.start[group] + (begin + position) % self.count[group]], first


def _grows(x: np.ndarray, sizes: np.ndarray) -> bool:
    """True where the RMS of x rises with K, by the slope of its logarithm.  x: (N, *shape), sizes: (N,)."""
    rms = np.sqrt((x.reshape(len(x), -1).astype(np.float64) ** 2).mean(1))
    seen = rms > 0
    if len(set(sizes[seen].tolist())) < 2:
        return True
    return bool(np.polyfit(np.log(sizes[seen]), np.log(rms[seen]), 1)[0] > GROWTH)


def _unit(x: np.ndarray, sizes: np.ndarray, extensive: bool) -> float:
    """Spread of what one part brings: of x over sqrt(K) about its mean where x grows, else of x.  x: (N, *shape)."""
    flat = x.reshape(len(x), -1).astype(np.float64)
    if extensive:
        size = sizes[:, None].astype(np.float64)
        flat = (flat - size * (flat.sum(0) / size.sum())) / np.sqrt(size)
    found = float(flat.std())
    return found if np.isfinite(found) and found > 0 else 1.0
