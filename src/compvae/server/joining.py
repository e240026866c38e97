"""Requests in one tile: rows of different compositions side by side in one run of the networks.

A row's bytes must not hang on the rows beside it.  Matrix products of one shape treat all rows alike, but no library
promises that; so it is tried out on this machine when the server starts, at every place of a tile and every height that
will be used, and where a single byte differs, requests are run alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compvae.composing.live import LIVE_TILE, Piece, can_join, draw_joined
from compvae.model import Model
from compvae.parts import Part

__all__ = ["may_join", "run_joined"]


def run_joined(model: Model, pieces: Sequence[Piece], noise: bool) -> list[np.ndarray]:
    """Each piece's wholes, (LIVE_TILE, *shape)."""
    filled = [*pieces, *[pieces[0]] * (_height(len(pieces)) - len(pieces))]
    return draw_joined(model.network, filled, noise)[: len(pieces)]


def may_join(model: Model, most: int) -> bool:
    """Whether up to so many requests can be run together with the bytes of each run alone."""
    if not can_join(model.network):
        return False
    probes = [model.compose(_some_parts(model, place)) for place in range(most)]
    alone = [probe.decode(LIVE_TILE, seed, noise=True) for seed, probe in enumerate(probes)]
    pieces = [probe.piece(seed) for seed, probe in enumerate(probes)]
    sizes = [size for size in range(1, most + 1) if size == _height(size)]
    return all(
        np.array_equal(x, alone[first + place])
        for size in sizes
        for first in (0, most - size)
        for place, x in enumerate(run_joined(model, pieces[first : first + size], noise=True))
    )


def _some_parts(model: Model, number: int) -> list[dict[str, str | float]]:
    """Parts to try out with, of one or two kinds, others for each number."""
    kinds = number % model.parts.n_kinds, (3 * number + 1) % model.parts.n_kinds
    return [{**model.parts.describe(Part(kind)), "count": number % 5 + 1} for kind in kinds]


def _height(pieces: int) -> int:
    """Pieces of a tile: the next power of two, so that few heights occur and each of them was tried out."""
    return 1 << (pieces - 1).bit_length()
