"""What training draws from: a problem whose truth is known, or a user's own data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from compvae.batch import Batch
from compvae.noise import Noise
from compvae.parts import Attribute, PartsSchema

__all__ = ["OwnSource", "Source", "Wholes"]


@dataclass(frozen=True)
class Wholes:
    """Wholes that were observed, for evaluation.

    x: (n, *shape) float32.  parts: of each, in a form that models take.  context: what is known of each, or None.
    dates: what a whole shares with others: its day (of its first home where each has a day of its own), its shared id.
    homes: meters of each; empty where parts have no names.
    """

    x: np.ndarray
    parts: list[Any]
    context: list[dict[str, object] | None]
    dates: list[str]
    homes: list[list[str]]


class Source(Protocol):
    """Wholes with their parts; row r of a draw depends on (seed, r) alone, but for rows that stand together."""

    @property
    def name(self) -> str:
        """By which presets and recipes are found."""

    @property
    def schema(self) -> PartsSchema:
        """What a part is."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of x."""

    @property
    def context(self) -> tuple[Attribute, ...]:
        """What is observed about a whole."""

    @property
    def extensive(self) -> bool:
        """True where x grows with K, as sums do."""

    @property
    def unit(self) -> float:
        """What x is measured in inside a model."""

    @property
    def max_parts(self) -> int:
        """K of the training range."""

    @property
    def rows_together(self) -> int:
        """Factors are shared within blocks of so many rows of ``draw``."""

    def draw(self, max_parts: int, noise: Noise) -> Batch:
        """One example for each row of noise, with at most so many parts."""

    def draw_held_out(self, noise: Noise) -> Batch:
        """The same of what no step trains on, over the whole training range."""


@runtime_checkable
class OwnSource(Source, Protocol):
    """A user's own data: it can tell what was read, and what was done about it."""

    def about(self) -> dict[str, Any]:
        """All that is worth recording, as plain data: counts, rules that applied, what is held out."""

    def notes(self) -> dict[str, str]:
        """What a model's card says about it."""

    def summary(self) -> str:
        """The same in a few lines for people."""
