"""What replacing parts does: x of the parts before and after, on fresh days, or on one observed day.

Fresh days: both are drawn with the same seed, so that day i is the same day before and after, z_i = z'_i.
An observed day: z and what is left of the homes come from q(w, z | x), new homes from p(w | l, z).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compvae.composing.history import History
from compvae.measures.measured import Measured, mean_of
from compvae.model import Model
from compvae.parts import Multiset
from compvae.planning.daily import LEVELS, daily_peaks
from compvae.planning.quantities import quantile_change

__all__ = ["Change", "Effect", "effect", "on_fresh_days", "on_observed_day", "replaced"]


@dataclass(frozen=True)
class Change:
    """Draws before and after, (n, T) each; row i of both is the same day.  parts: what there is after."""

    parts: Multiset
    before: np.ndarray
    after: np.ndarray


@dataclass(frozen=True)
class Effect:
    """What a change does.  energy: to the mean energy of a day.  peaks: to quantiles of the daily peak, by level."""

    energy: Measured
    peaks: dict[float, Measured]


def replaced(parts: Multiset, gone: Multiset, by: Multiset) -> Multiset:
    """The composition in which some parts are replaced; taking away what is absent is an error."""
    return History.observed(parts).replace(gone, by, 1, "replace").now.canonical()


def on_fresh_days(
    model: Model,
    parts: Multiset,
    gone: Multiset,
    by: Multiset,
    n: int = 10_000,
    seed: int = 0,
    context: Mapping[str, object] | None = None,
) -> Change:
    """The same n days with the parts before and with those after."""
    after = replaced(parts, gone, by)
    return Change(after, model.sample(parts, n, seed, context), model.sample(after, n, seed, context))


def on_observed_day(
    model: Model,
    x: np.ndarray,
    parts: Multiset,
    gone: Multiset,
    by: Multiset,
    n: int = 1000,
    seed: int = 0,
    context: Mapping[str, object] | None = None,
) -> Change:
    """One day as it was, and n draws of what it would have been.  x: (T,); it stands in every row before."""
    seen = model.infer(x, parts, context)
    edited = seen.replace(gone, by)
    drawn = edited.decode(n, seed, noise=True)
    return Change(edited.multisets[0].canonical(), np.broadcast_to(np.asarray(x, np.float32), drawn.shape), drawn)


def effect(change: Change, hours: float, levels: tuple[float, ...] = LEVELS) -> Effect:
    """The change in energy and peaks, with the error of paired days.  hours: of one interval."""
    before, after = daily_peaks(change.before), daily_peaks(change.after)
    energy = hours * (change.after.astype(np.float64) - change.before).sum(1)
    return Effect(mean_of(energy), {level: quantile_change(before, after, level) for level in levels})
