"""What a summary says about wholes that are never in memory together: moments, range, quantiles of the peak."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["Tally"]

QUANTILES = (0.05, 0.5, 0.95)


class Tally:
    """Adds up chunks of x as they pass."""

    def __init__(self) -> None:
        self.values = 0
        self.total = self.square = 0.0
        self.low, self.high = np.inf, -np.inf
        self.peaks: list[np.ndarray] = []

    def counting(self, chunks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The same chunks, (m, *shape) each, counted."""
        for chunk in chunks:
            wide = chunk.astype(np.float64)
            self.values += chunk.size
            self.total += float(wide.sum())
            self.square += float((wide**2).sum())
            self.low, self.high = min(self.low, float(chunk.min())), max(self.high, float(chunk.max()))
            self.peaks.append(chunk.reshape(len(chunk), -1).max(1))
            yield chunk

    def summary(self) -> dict[str, Any]:
        """Mean, standard deviation and range over all values; quantiles of the largest value of a whole."""
        mean = self.total / self.values
        peak = np.quantile(np.concatenate(self.peaks), QUANTILES)
        return {
            "mean": mean,
            "std": max(self.square / self.values - mean**2, 0.0) ** 0.5,
            "min": self.low,
            "max": self.high,
            "peak": {str(level): float(value) for level, value in zip(QUANTILES, peak, strict=True)},
        }

    def text(self) -> str:
        """The summary for people."""
        found = self.summary()
        peak = ", ".join(f"{float(level):.0%} {value:.4g}" for level, value in found["peak"].items())
        return (
            f"x has mean {found['mean']:.4g}, deviation {found['std']:.4g}, range {found['min']:.4g} to "
            f"{found['max']:.4g}; quantiles of the peak: {peak}"
        )
