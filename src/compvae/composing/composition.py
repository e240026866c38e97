"""Composition: what an observed whole is made of, by the model; take parts away, put parts in, decode.

    (W, z) ~ q(W, z | x, {l_i})  ->  edits of {w_i}, z held  ->  x' ~ p(x | z, W')          (theory, sections 4 and 5)

Immutable: every edit returns a new composition.  Latents travel with their parts: two compositions of one lineage
decoded with the same seed have the same latents where they have the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from compvae.batch import Batch, PaddedParts, Parts, collate, pad_present
from compvae.checks import allocate, at_least_one
from compvae.composing.editing import Group, Known
from compvae.composing.history import History
from compvae.composing.wholes import wholes_after
from compvae.errors import ConfigError, DataError, PartsError
from compvae.network import CompVAE, Network
from compvae.noise import Noise, Still
from compvae.parts import Multiset, PartsBatch
from compvae.transport.network import Transport

__all__ = ["Composition"]

TILE_WHOLES = 32  # wholes the networks see at once
TILE_DRAWS = 8  # draws of each of them
TILE_DRAWS_OF_ONE = 32  # the same where there is one whole
ROW_STRIDE = 2**32  # between the noise of one whole and of the next

Described = list[dict[str, str | float]]


@dataclass(frozen=True)
class Observed:
    """The wholes a lineage of compositions began with.

    batch: parts in canonical order.  single: x had no row axis.  seed: of the lineage.
    known: what was found last that depends on no draw; all edits of a lineage start from it.
    """

    network: Network
    batch: Batch
    single: bool
    seed: int
    known: Known = field(default_factory=dict)

    def tile(self, wholes: Tensor) -> Batch:
        """Some of the wholes; all of them, where they share factors.  wholes: (R,) int64."""
        return replace(self.batch.rows(wholes), shared=self.batch.shared)


class Composition:
    """The posterior of the parts of one or several observed wholes, and edits of it."""

    def __init__(self, observed: Observed, histories: tuple[History, ...], step: int = 0) -> None:
        self._observed, self._histories, self._step = observed, histories, step

    @classmethod
    def of(
        cls, network: Network, batch: Batch, compositions: Sequence[Multiset], single: bool, seed: int = 0
    ) -> Composition:
        """batch: wholes, their parts in canonical order.  compositions: the parts of each row in the caller's order."""
        return cls(Observed(network, batch, single, seed), tuple(History.observed(parts) for parts in compositions))

    @property
    def parts(self) -> Described | list[Described]:
        """The parts now, one dict each, in the caller's order; such a list for each row where x had a row axis."""
        listed = [history.now.dicts() for history in self._histories]
        return listed[0] if self._observed.single else listed

    @property
    def untouched(self) -> tuple[Multiset, ...]:
        """Of each row the observed parts that are still there, in the caller's order; none, perhaps."""
        return tuple(history.of_step(0) for history in self._histories)

    @property
    def multisets(self) -> tuple[Multiset, ...]:
        """The parts of each row now, as runs of alike ones, in the caller's order."""
        return tuple(history.now for history in self._histories)

    def remove(self, parts: object) -> Composition:
        """Take parts away: of n alike ones a draw of their joint posterior goes, in the mean its expectation.

        Parts that were added last go first.
        """
        step, rows = self._step + 1, self._rows(parts, "remove")
        changed = [h.remove(gone, step, self._where("remove", row)) for row, (h, gone) in self._beside(rows)]
        return Composition(self._observed, tuple(changed), step)

    def add(self, parts: object) -> Composition:
        """Put parts in, drawn from the prior given the shared factor."""
        step, rows = self._step + 1, self._rows(parts, "add")
        return Composition(self._observed, tuple(h.add(new, step) for _, (h, new) in self._beside(rows)), step)

    def replace(self, parts: object, by: object) -> Composition:
        """Put other parts, drawn from the prior given the shared factor, in the place of some or all."""
        step, rows, new = self._step + 1, self._rows(parts, "replace"), self._rows(by, "replace by")
        changed = [
            h.replace(gone, new[row], step, self._where("replace", row)) for row, (h, gone) in self._beside(rows)
        ]
        return Composition(self._observed, tuple(changed), step)

    def move(self, parts: object, to: object) -> Composition:
        """Give parts other continuous attributes, such as another place: their hidden values stay as they are.

        Args:
            parts: which, in any form of parts; one of n alike ones is any of them.
            to: the same parts as they shall be, in the same order and of the same kinds.
        """
        network = self._observed.network
        if not (isinstance(network, Transport) and network.config.places is not None):
            raise ConfigError(
                "move needs an invertible model of parts with continuous attributes (preset transport); use replace, "
                "which draws hidden values anew"
            )
        step, rows, new = self._step + 1, self._rows(parts, "move"), self._rows(to, "move to")
        moved = [h.move(old, new[row], self._where("move", row)) for row, (h, old) in self._beside(rows)]
        return Composition(self._observed, tuple(moved), step)

    def part(self, index: int | Sequence[int], n: int | None = None, seed: int = 0, noise: bool = False) -> np.ndarray:
        """x of the part at this place of :attr:`parts`, alone, by the model: at the means, or n draws as in decode.

        index: a place, or one for each row.
        """
        histories, step = self._histories, self._step + 1
        places = list(index) if isinstance(index, Sequence) else [index] * len(histories)
        if len(places) != len(histories):
            raise DataError(f"part: {len(places)} places for {len(histories)} rows; give one place, or one for each")
        alone = tuple(h.only(_place(at, h.now.size), step) for h, at in zip(histories, places, strict=True))
        return Composition(self._observed, alone, step).decode(n, seed, noise)

    def decode(self, n: int | None = None, seed: int = 0, noise: bool = False) -> np.ndarray:
        """The whole of these parts: the decoder's mean at the latents' means, (*shape) or (rows, *shape) as x came.

        With n, that many draws of the latents, (n, *shape) or (n, rows, *shape); noise=True adds the observation noise.
        Where that is noise of parts, or of values that parts have shares of, what was observed stays as far as its
        parts do (held.py): with no edit, that gives x back.
        """
        if n is None and noise:
            raise DataError("noise=True needs n: the mean has no noise; give n=1 for one draw")
        out = allocate(
            1 if n is None else at_least_one(n, "n"), len(self._histories), *self._observed.batch.x.shape[1:]
        )
        if n is None:
            for rows, tile in self._tiles():
                out[0, rows] = self._whole(tile, 1, Still(len(tile)), noise)[: len(rows)]
        else:
            for drawn, rows, x in self.pieces(n, seed, noise):
                out[drawn, rows] = x
        if self._observed.single:
            out = out[:, 0]
        return out[0] if n is None else out

    def pieces(self, n: int, seed: int = 0, noise: bool = False) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """The draws of :meth:`decode` piece by piece, so that whoever waits can stop between two of them.

        Each piece is (which draws, which rows of x (R,), float32 (m, R, *shape)).
        """
        for rows, tile in self._tiles():
            for start, draws in self._draws(n):
                identity = (draws[:, None] + tile * ROW_STRIDE).flatten()
                x = self._whole(tile, len(draws), Noise(seed, identity, self._observed.seed), noise)
                x = x.reshape(len(draws), len(tile), *x.shape[1:])[: n - start, : len(rows)]
                yield slice(start, start + len(x)), rows, x

    def _rows(self, parts: object, verb: str) -> list[Multiset]:
        """What an edit was given, for each row."""
        schema, rows = self._histories[0].schema, len(self._histories)
        if not isinstance(parts, PartsBatch):
            return [schema.parse(parts, verb)] * rows
        if len(parts) != rows:
            raise DataError(f"{verb} has {len(parts)} compositions but x has {rows} rows; each row needs one")
        return parts.parse(schema)

    def _beside(self, rows: list[Multiset]) -> Iterator[tuple[int, tuple[History, Multiset]]]:
        return enumerate(zip(self._histories, rows, strict=True))

    def _where(self, verb: str, row: int) -> str:
        return verb if self._observed.single else f"{verb}, row {row}"

    def _tiles(self) -> Iterator[tuple[np.ndarray, Tensor]]:
        """(rows of x, the same filled up to a fixed number with the last); wholes that share a z stand in one tile."""
        rows = len(self._histories)
        height = rows if self._observed.batch.shared is not None else 1 if rows == 1 else TILE_WHOLES
        for start in range(0, rows, height):
            yield np.arange(start, min(start + height, rows)), torch.arange(start, start + height).clamp(max=rows - 1)

    def _draws(self, n: int) -> Iterator[tuple[int, Tensor]]:
        """(first draw, numbers of the draws) of chunks whose size does not depend on n."""
        size = TILE_DRAWS_OF_ONE if len(self._histories) == 1 else TILE_DRAWS
        for start in range(0, n, size):
            yield start, torch.arange(start, start + size)

    def _whole(self, wholes: Tensor, draws: int, noise: Noise, noisy: bool) -> np.ndarray:
        """x of these wholes in every draw, each with its own noise, (draws x R, *shape).  wholes: (R,) int64."""
        observed = self._observed
        groups, now = [group.rows(wholes) for group in self._groups], self._now.rows(wholes)
        x = wholes_after(
            observed.network, observed.tile(wholes), groups, now, noise, draws, noisy, observed.known, int(wholes[0])
        )
        return x.float().numpy()

    @cached_property
    def _now(self) -> Parts:
        return collate([history.now.canonical() for history in self._histories])

    @cached_property
    def _groups(self) -> list[Group]:
        return [self._group(origin) for origin in self._histories[0].groups]

    def _group(self, origin: int) -> Group:
        """Parts that came together, in all rows; a row in which nothing was taken at some step stays as it was."""
        rows = [dict(history.groups[origin]) for history in self._histories]
        steps = sorted(set().union(*rows))
        stages = []
        left = [row[origin] for row in rows]
        for step in steps:
            left = [row.get(step, before) for row, before in zip(rows, left, strict=True)]
            stages.append(collate(left))
        kept = None
        network = self._observed.network
        if isinstance(network, CompVAE) and not network.posterior.of_sum:
            kept = _kept([row[origin] for row in rows], left)
        gone = not any(parts.runs for parts in left)
        now = None
        if isinstance(network, Transport) and network.config.places is not None:
            now = _pad_now(self._histories, origin)
        return Group(tuple(stages), tuple(steps), kept, gone, now)


def _place(index: object, size: int) -> int:
    """Where a part stands, from 0; negative ones count from the end."""
    if isinstance(index, bool) or not isinstance(index, int | np.integer) or not -size <= index < size:
        raise PartsError(f"part: there is no part {index!r}, the parts are 0 to {size - 1}")
    return int(index) % size


def _pad_now(histories: Sequence[History], origin: int) -> PaddedParts:
    """What became of the parts that one step brought, those that went masked."""
    return pad_present([history.places_of(origin) for history in histories], histories[0].schema)


def _kept(first: Sequence[Multiset], left: Sequence[Multiset]) -> Tensor:
    """Which parts are left of those there were, in canonical order, (B, K) bool: of alike ones the last go."""
    kept = torch.zeros(len(first), max(parts.size for parts in first), dtype=torch.bool)
    for row, (before, after) in enumerate(zip(first, left, strict=True)):
        remaining, position = dict(after.runs), 0
        for part, count in before.runs:
            kept[row, position : position + remaining.get(part, 0)] = True
            position += count
    return kept
