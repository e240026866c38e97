"""Small datasets in the table form: sums of shapes, with what is hidden in each part and what wholes share."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

VALUES = 12
T = np.linspace(0, 1, VALUES)


def write_table(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def write_kinds(directory: Path, wholes: int = 60, shared: bool = True, npz: bool = True, factor: float = 1.0) -> Path:
    """Parts of two kinds; groups of three wholes share one level, which their context tells."""
    rng = np.random.default_rng(0)
    directory.mkdir(parents=True, exist_ok=True)
    level = np.repeat(rng.standard_normal(-(-wholes // 3)), 3)[:wholes]
    parts, x = [], []
    for i in range(wholes):
        count = rng.integers(0, 4, 2) + np.array([1, 0])
        parts += [[f"w{i}", kind, n] for kind, n in zip(("low", "high"), count, strict=True)]
        spread = rng.standard_normal((2, VALUES)) * 0.1 * np.sqrt(count)[:, None]
        shape = np.stack([1 + T, 3 - T]) * np.exp(0.3 * level[i])
        x.append((count[:, None] * shape + spread).sum(0) * factor)
    ids, groups = [f"w{i}" for i in range(wholes)], [f"g{i // 3}" for i in range(wholes)]
    write_table(directory / "parts.csv", ["whole_id", "kind", "count"], parts)
    if shared:
        rows = [[ids[i], groups[i], round(level[i], 4), "warm" if level[i] > 0 else "cold"] for i in range(wholes)]
        write_table(directory / "context.csv", ["whole_id", "shared_id", "level", "weather"], rows)
    if npz:
        np.savez(directory / "wholes.npz", x=np.array(x), whole_id=ids)
    else:
        rows = [[name, *row] for name, row in zip(ids, x, strict=True)]
        write_table(directory / "wholes.csv", ["whole_id", *(f"x{t}" for t in range(VALUES))], rows)
    return directory


def bump(place: float) -> np.ndarray:
    return np.exp(-0.5 * ((T - place) / 0.12) ** 2)


def write_places(directory: Path, wholes: int = 400) -> Path:
    """Parts with a place: x is the sum of a bump at each, of random height."""
    rng = np.random.default_rng(0)
    directory.mkdir(parents=True, exist_ok=True)
    parts, x = [], []
    for i in range(wholes):
        places = rng.uniform(0, 1, rng.integers(1, 5)).round(4)
        parts += [[i, place] for place in places]
        x.append(sum((1 + 0.2 * rng.standard_normal()) * bump(place) for place in places))
    write_table(directory / "parts.csv", ["whole_id", "place"], parts)
    np.savez(directory / "wholes.npz", x=np.array(x), whole_id=np.arange(wholes))
    return directory
