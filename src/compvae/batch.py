"""Ragged batches: B wholes x, each with its own K parts, in two views of {l_i}.

* :class:`PaddedParts`: kind, features and mask of shape (B, K): works for every schema.
* :class:`CountedParts`: n_c of shape (B, C): where parts have no continuous attribute, this is all there is to know,
  and its size does not depend on K.

Both offer ``counts`` and ``sizes``; the paper's one K a batch is not needed (errata, "K in a batch").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import torch
from torch import Tensor

from compvae.errors import DataError, PartsError
from compvae.parts import Multiset, Part, PartsSchema

__all__ = [
    "Batch",
    "CountedParts",
    "PaddedParts",
    "Parts",
    "Shared",
    "collate",
    "pad",
    "pad_present",
    "repeat",
    "unpad",
]


@dataclass(frozen=True)
class PaddedParts:
    """The parts one by one.

    kind: (B, K) int64, 0 where padded.  features: (B, K, F), scaled to [-1, 1], 0 where padded.
    mask: (B, K) bool, True for a part.  n_kinds: C.
    """

    kind: Tensor
    features: Tensor
    mask: Tensor
    n_kinds: int

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def counts(self) -> Tensor:
        """n_c, (B, C) float64."""
        totals = torch.zeros(len(self), self.n_kinds, dtype=torch.float64, device=self.kind.device)
        return totals.scatter_add_(1, self.kind, self.mask.double())

    @property
    def sizes(self) -> Tensor:
        """K, (B,) float64."""
        return self.mask.sum(1).double()

    def rows(self, rows: Tensor | slice) -> PaddedParts:
        """The parts of some of the wholes."""
        return replace(self, kind=self.kind[rows], features=self.features[rows], mask=self.mask[rows])

    def to(self, device: torch.device) -> PaddedParts:
        """The same parts on another device."""
        kind, features, mask = (t.to(device) for t in (self.kind, self.features, self.mask))
        return PaddedParts(kind, features, mask, self.n_kinds)

    def counted(self) -> CountedParts:
        """The same compositions as counts; continuous attributes have no counted form."""
        if self.features.shape[-1]:
            raise PartsError("parts with continuous attributes cannot be given as counts of kinds")
        return CountedParts(self.counts)

    def padded(self) -> PaddedParts:
        """This view itself."""
        return self


@dataclass(frozen=True)
class CountedParts:
    """The parts as numbers of each kind.  counts: n_c, (B, C) float64."""

    counts: Tensor

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def n_kinds(self) -> int:
        """C."""
        return self.counts.shape[1]

    @property
    def sizes(self) -> Tensor:
        """K, (B,) float64."""
        return self.counts.sum(1)

    def rows(self, rows: Tensor | slice) -> CountedParts:
        """The parts of some of the wholes."""
        return CountedParts(self.counts[rows])

    def to(self, device: torch.device) -> CountedParts:
        """The same parts on another device."""
        return CountedParts(self.counts.to(device))

    def counted(self) -> CountedParts:
        """This view itself."""
        return self

    def padded(self) -> PaddedParts:
        """The same compositions part by part, kinds ascending."""
        last = self.counts.long().cumsum(1)
        position = torch.arange(int(last.max()), device=last.device).expand(len(self), -1).contiguous()
        mask = position < last[:, -1:]
        kind = torch.searchsorted(last, position, right=True).masked_fill(~mask, 0)
        return PaddedParts(kind, torch.zeros(*kind.shape, 0, device=last.device), mask, self.n_kinds)


Parts = PaddedParts | CountedParts


@dataclass(frozen=True)
class Shared:
    """Which wholes share one external factor: rows with equal ids have one z (theory, section 5).

    group: (B,) int64, 0..G-1.  size: G.
    """

    group: Tensor
    size: int

    @classmethod
    def of(cls, ids: Tensor) -> Shared:
        """Number the groups.  ids: (B,) integers, any values."""
        values, group = ids.unique(return_inverse=True)
        return cls(group, len(values))

    @property
    def members(self) -> Tensor:
        """How many wholes each group has, (G,) int64."""
        return torch.bincount(self.group, minlength=self.size)

    @property
    def first(self) -> Tensor:
        """Row of the first whole of each group, (G,) int64."""
        rows = torch.arange(len(self.group), device=self.group.device)
        start = torch.full((self.size,), len(self.group), device=self.group.device)
        return start.scatter_reduce_(0, self.group, rows, "amin")

    def repeated(self, draws: int) -> Shared:
        """The groups of the same wholes once for each draw, draw by draw; each draw has a z of its own."""
        offsets = torch.arange(draws, device=self.group.device)[:, None] * self.size
        return Shared((self.group + offsets).flatten(), draws * self.size)

    def total(self, value: Tensor) -> Tensor:
        """Sum over the wholes of each group.  value: (B, D) -> (G, D)."""
        return value.new_zeros(self.size, *value.shape[1:]).index_add_(0, self.group, value)


@dataclass(frozen=True)
class Batch:
    """Wholes with their parts.

    x: (B, *shape).  parts: either view.  context: (B, E) encoded covariates, or None where the model has none.
    shared: which wholes have a common z, or None where each has its own.
    records: which whole of some data each of them is, (B,) int64, or None where they were made for the batch.
    told: context with all that is known, where ``context`` hides some of it in training, (B, E); None: as ``context``.
    """

    x: Tensor
    parts: Parts
    context: Tensor | None = None
    shared: Shared | None = None
    records: Tensor | None = None
    told: Tensor | None = None

    def __post_init__(self) -> None:
        for name, rows in (
            ("parts", len(self.parts)),
            ("context", None if self.context is None else len(self.context)),
            ("shared", None if self.shared is None else len(self.shared.group)),
        ):
            if rows is not None and rows != len(self.x):
                raise DataError(f"{name} has {rows} rows but x has {len(self.x)}; each whole needs one")

    def __len__(self) -> int:
        return len(self.x)

    @property
    def all_told(self) -> Tensor | None:
        """Context with all that is known, (B, E)."""
        return self.context if self.told is None else self.told

    def rows(self, rows: Tensor) -> Batch:
        """Some of the wholes, each on its own: who shares a factor with whom is left out.  rows: (R,) int64."""
        context, told = (None if each is None else each[rows] for each in (self.context, self.told))
        return Batch(self.x[rows], self.parts.rows(rows), context, told=told)

    def different(self) -> Batch:
        """Each whole of the data once, on its own: of few wholes, draws hold the same ones again and again."""
        if self.records is None:
            return self
        first: dict[int, int] = {}
        for row, record in enumerate(self.records.tolist()):
            first.setdefault(record, row)
        return self.rows(torch.tensor(list(first.values())))

    def to(self, device: torch.device, dtype: torch.dtype) -> Batch:
        """The same batch elsewhere, x and context as floating-point numbers of this type."""
        context, told = (None if each is None else each.to(device, dtype) for each in (self.context, self.told))
        shared = None if self.shared is None else replace(self.shared, group=self.shared.group.to(device))
        return Batch(self.x.to(device, dtype), self.parts.to(device), context, shared, told=told)


def collate(compositions: Sequence[Multiset], dtype: torch.dtype = torch.float32) -> Parts:
    """Compositions as tensors: counted where the schema allows it, padded otherwise.  Each keeps its order."""
    schema = compositions[0].schema
    if schema.countable:
        return CountedParts(torch.tensor([m.counts for m in compositions], dtype=torch.float64))
    return pad(compositions, dtype)


def pad(compositions: Sequence[Multiset], dtype: torch.dtype = torch.float32) -> PaddedParts:
    """Compositions as padded tensors, parts in the order in which they stand."""
    return pad_present([composition.listed() for composition in compositions], compositions[0].schema, dtype)


def pad_present(
    rows: Sequence[Sequence[Part | None]], schema: PartsSchema, dtype: torch.dtype = torch.float32
) -> PaddedParts:
    """Lists of parts as padded tensors; the place of a part that is None stays, masked."""
    width = max(len(parts) for parts in rows)
    kind = torch.zeros(len(rows), width, dtype=torch.int64)
    features = torch.zeros(len(rows), width, schema.n_features, dtype=dtype)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, parts in enumerate(rows):
        there = [place for place, part in enumerate(parts) if part is not None]
        present = [part for part in parts if part is not None]
        scaled = [[a.scaled(v) for a, v in zip(schema.continuous, part.features, strict=True)] for part in present]
        kind[row, there] = torch.tensor([part.kind for part in present], dtype=torch.int64)
        features[row, there] = torch.tensor(scaled, dtype=dtype).view(len(present), schema.n_features)
        mask[row, there] = True
    return PaddedParts(kind, features, mask, schema.n_kinds)


def unpad(parts: PaddedParts, schema: PartsSchema) -> list[Multiset]:
    """The compositions of a batch, the inverse of :func:`pad` up to the rounding of continuous attributes."""
    rows = zip(parts.kind.tolist(), parts.features.tolist(), parts.mask.sum(1).tolist(), strict=True)
    return [
        Multiset(
            schema,
            tuple(
                (Part(kind, tuple(a.unscaled(v) for a, v in zip(schema.continuous, place, strict=True))), 1)
                for kind, place in zip(kinds[:size], places[:size], strict=True)
            ),
        )
        for kinds, places, size in rows
    ]


@overload
def repeat(parts: PaddedParts, rows: int) -> PaddedParts: ...


@overload
def repeat(parts: CountedParts, rows: int) -> CountedParts: ...


def repeat(parts: Parts, rows: int) -> Parts:
    """One composition as a batch of many rows, without a copy.  parts: of a single row."""
    if isinstance(parts, CountedParts):
        return CountedParts(parts.counts.expand(rows, -1))
    return PaddedParts(
        parts.kind.expand(rows, -1), parts.features.expand(rows, -1, -1), parts.mask.expand(rows, -1), parts.n_kinds
    )
