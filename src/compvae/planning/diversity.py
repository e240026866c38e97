"""After-diversity maximum demand: ADMD(N) = P95 of the daily peak of N homes / N, kW a home.

The more homes, the less their own peaks coincide; what they share, a cold day, keeps the curve above 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compvae.checks import at_least_one
from compvae.model import Model
from compvae.parts import Multiset
from compvae.planning.daily import daily_peaks
from compvae.planning.quantities import Quantile, quantile

__all__ = ["SIZES", "Diversity", "after_diversity", "demand_a_home", "scaled"]

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
LEVEL = 0.95


@dataclass(frozen=True)
class Diversity:
    """Peak demand of a home among ``homes`` of one mix.  demand: a quantile of the daily peak, divided by homes."""

    homes: int
    demand: Quantile


def scaled(mix: Multiset, homes: int) -> Multiset:
    """A composition of so many parts in the proportions of the mix, by largest remainders."""
    merged, homes = mix.canonical(), at_least_one(homes, "homes")
    exact = [count * homes / merged.size for _, count in merged.runs]
    counts = [int(share) for share in exact]
    rest = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in rest[: homes - sum(counts)]:
        counts[i] += 1
    return Multiset(mix.schema, tuple((part, n) for (part, _), n in zip(merged.runs, counts, strict=True) if n))


def demand_a_home(x: np.ndarray, homes: int, level: float = LEVEL) -> Diversity:
    """From the load of so many homes together.  x: (n, T)."""
    return Diversity(homes, quantile(daily_peaks(x) / at_least_one(homes, "homes"), level))


def after_diversity(
    model: Model,
    mix: Multiset,
    n: int = 2000,
    seed: int = 0,
    context: Mapping[str, object] | None = None,
    sizes: Sequence[int] = SIZES,
    level: float = LEVEL,
) -> list[Diversity]:
    """The curve of a mix; numbers of homes too small to hold every kind of the mix are left out."""
    kinds = len(mix.canonical().runs)
    chosen = [(homes, scaled(mix, homes)) for homes in sizes]
    return [
        demand_a_home(model.sample(parts, n, seed, context), homes, level)
        for homes, parts in chosen
        if len(parts.runs) == kinds
    ]
