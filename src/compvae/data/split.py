"""Which names are held out: the fifth of them with the smallest hash of (seed, kind, name).

A function of the names alone, so that it can be found again, and nothing is chosen by looking at the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

__all__ = ["SHARE", "held_out", "shuffled"]

SHARE = 0.2


def held_out(names: Sequence[str], kind: str, seed: int, share: float = SHARE) -> np.ndarray:
    """True for those that are held out, (N,) bool: a share of them, rounded; of a single one none."""
    chosen = np.zeros(len(names), bool)
    chosen[shuffled(names, kind, seed)[: round(share * len(names))]] = True
    return chosen


def shuffled(names: Sequence[str], kind: str, seed: int) -> np.ndarray:
    """Positions of the names in an order that has nothing to do with them, (N,) int64."""
    return np.array(sorted(range(len(names)), key=lambda i: _digest(names[i], kind, seed)), np.int64)


def _digest(name: str, kind: str, seed: int) -> bytes:
    return hashlib.blake2b(repr((seed, kind, name)).encode(), digest_size=16).digest()
