"""Data sets that a stranger may bring and nobody can model well, each as a directory of wholes and parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dataset_files import write_table

KINDS = ("low", "high")


def _written(directory: Path, x: np.ndarray, counts: np.ndarray, kinds: tuple[str, ...] = KINDS) -> Path:
    """x: (N, T).  counts: (N, C)."""
    directory.mkdir(parents=True)
    rows = [[i, kind, n] for i, row in enumerate(counts.tolist()) for kind, n in zip(kinds, row, strict=True) if n]
    write_table(directory / "parts.csv", ["whole_id", "kind", "count"], rows)
    np.savez(directory / "wholes.npz", x=x, whole_id=np.arange(len(x)))
    return directory


def _counts(random: np.random.Generator, wholes: int, most: int = 3) -> np.ndarray:
    counts = random.integers(0, most + 1, (wholes, len(KINDS)))
    counts[counts.sum(1) == 0, 0] = 1
    return counts


def _sums(random: np.random.Generator, counts: np.ndarray, values: int = 6) -> np.ndarray:
    shapes = np.stack([1 + np.linspace(0, 1, values), 3 - np.linspace(0, 1, values)])
    noise = random.standard_normal((len(counts), values)) * np.sqrt(counts.sum(1, keepdims=True))
    return counts @ shapes + 0.2 * noise


def one_whole(directory: Path) -> Path:
    return _written(directory, np.ones((1, 6)), np.array([[1, 1]]))


def all_alike(directory: Path) -> Path:
    return _written(directory, np.tile(np.arange(6.0), (60, 1)), np.tile([[1, 2]], (60, 1)))


def a_kind_that_hardly_occurs(directory: Path) -> Path:
    """In one whole of 60: what is held out, or what is trained on, has none of it."""
    random = np.random.default_rng(1)
    counts = _counts(random, 60)
    x = _sums(random, counts)
    return _written(directory, x, np.column_stack([counts, np.arange(60) == 7]).astype(int), (*KINDS, "rare"))


def constant_in_places(directory: Path) -> Path:
    random = np.random.default_rng(2)
    counts = _counts(random, 60)
    x = _sums(random, counts)
    x[:, 2] = 4.0
    x[:, 3] = 0.0
    return _written(directory, x, counts)


def not_a_number(directory: Path) -> Path:
    random = np.random.default_rng(3)
    counts = _counts(random, 60)
    x = _sums(random, counts)
    x[11, 4] = np.nan
    return _written(directory, x, counts)


def five_wide_wholes(directory: Path) -> Path:
    random = np.random.default_rng(4)
    counts = _counts(random, 5)
    return _written(directory, _sums(random, counts, 10_000), counts)


def from_one_to_ten_thousand_parts(directory: Path) -> Path:
    random = np.random.default_rng(5)
    size = np.exp(random.uniform(0, np.log(10_000), 200)).astype(int)
    first = random.binomial(size, 0.5)
    counts = np.column_stack([first, size - first])
    return _written(directory, _sums(random, counts), counts)


def heavy_tail(directory: Path) -> Path:
    random = np.random.default_rng(6)
    counts = _counts(random, 200)
    return _written(directory, _sums(random, counts) + random.standard_cauchy((200, 6)), counts)


def integers(directory: Path) -> Path:
    random = np.random.default_rng(7)
    counts = _counts(random, 120)
    return _written(directory, random.poisson(np.maximum(_sums(random, counts), 0)).astype(float), counts)


def two_equal_columns(directory: Path) -> Path:
    random = np.random.default_rng(8)
    counts = _counts(random, 60)
    x = _sums(random, counts)
    x[:, 1] = x[:, 0]
    return _written(directory, x, counts)


HOPELESS: tuple[Callable[[Path], Path], ...] = (
    one_whole, all_alike, a_kind_that_hardly_occurs, constant_in_places, not_a_number, five_wide_wholes,
    from_one_to_ten_thousand_parts, heavy_tail, integers, two_equal_columns,
)  # fmt: skip
