"""Live: wholes from parts whose latents belong to the parts, x_r = x({w_i,r}), w_i,r = f(seed, row r, part i).

With one seed, adding a part, taking one away or moving one changes in every draw what that part does and nothing else
(:mod:`compvae.composing.walks`).  The distribution is that of sampling: p(x | parts).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compvae.batch import CountedParts
from compvae.checks import allocate, at_least_one
from compvae.composing.generation import Tile, drawn
from compvae.composing.walks import Joined, PartNoise
from compvae.network import Network
from compvae.noise import Noise, NormalSource
from compvae.parts import Multiset
from compvae.transport.network import Transport

__all__ = ["Live", "Piece", "can_join", "draw_joined"]

LIVE_TILE = 32  # rows the networks see at once: few, because somebody waits for them


@dataclass(frozen=True)
class Piece:
    """LIVE_TILE rows of one composition.  counts: (1, C).  context: (1, E) or None.  source: of these rows."""

    counts: Tensor
    context: Tensor | None
    source: NormalSource


class Live:
    """p(x | parts) as a function of (seed, row, part)."""

    def __init__(
        self, network: Network, parts: Multiset, keys: Sequence[int] | None = None, context: Tensor | None = None
    ) -> None:
        """context: (1, E), None where the model takes none."""
        self._parts, self._keys = parts, keys
        self._by_kind = can_join(network)
        self._tile = Tile(network, parts, context, LIVE_TILE, by_part=True)
        self._source(0, torch.zeros(1, dtype=torch.int64))  # complains about keys now, not when it is decoded

    @property
    def parts(self) -> list[dict[str, str | float]]:
        """The parts, one dict each, in the caller's order."""
        return self._parts.dicts()

    def decode(self, n: int, seed: int = 0, noise: bool = False) -> np.ndarray:
        """n wholes, float32 (n, *shape); noise=True adds the observation noise."""
        out = allocate(at_least_one(n, "n"), *self._tile.shape)
        for rows, x in self.stream(n, seed, noise):
            out[rows] = x
        return out

    def stream(self, n: int, seed: int = 0, noise: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows of :meth:`decode` chunk by chunk: (which rows, float32 (m, *shape))."""
        for start in range(0, at_least_one(n, "n"), self._tile.height):
            rows = torch.arange(start, start + self._tile.height)
            stop = min(start + self._tile.height, n)
            yield slice(start, stop), self._tile.draw(self._source(seed, rows), noise)[: stop - start].numpy()

    def piece(self, seed: int, by_part: bool = True) -> Piece:
        """The first LIVE_TILE rows, to be drawn beside others; by_part=False: with the numbers of sampling."""
        rows = torch.arange(LIVE_TILE)
        counts = torch.tensor([self._parts.counts], dtype=torch.float64)
        source = self._source(seed, rows) if by_part else Noise(seed, rows)
        return Piece(counts, None if self._tile.context is None else self._tile.context[:1], source)

    def _source(self, seed: int, rows: Tensor) -> NormalSource:
        """The numbers of these rows.  rows: (R,) int64."""
        return PartNoise(Noise(seed, rows), self._parts, self._keys, self._by_kind)


def can_join(network: Network) -> bool:
    """Whether rows of different compositions can stand in one tile: all have one form, and nothing grows with K."""
    if isinstance(network, Transport):
        return network.config.parts.countable
    config = network.config
    return network.decoder.aggregation.plain_sum and config.latent.blocks and config.parts.countable


def draw_joined(network: Network, pieces: Sequence[Piece], noise: bool) -> list[np.ndarray]:
    """Each piece's wholes, float32 (LIVE_TILE, *shape), from one run of the networks."""
    counts = torch.cat([piece.counts.expand(LIVE_TILE, -1) for piece in pieces])
    given = [piece.context for piece in pieces]
    contexts = [context.expand(LIVE_TILE, -1) for context in given if context is not None]
    source = Joined([piece.source for piece in pieces])
    x = drawn(network, CountedParts(counts), source, torch.cat(contexts) if contexts else None, noise)
    return [piece.numpy() for piece in x.split(LIVE_TILE)]
