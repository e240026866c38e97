"""Figures for planners: the fan of a day, peaks, diversity, durations, a replacement, the worst days.

Every axis names its unit, which a :class:`Scale` knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from compvae.figures.style import INK, LINES, MODEL, OTHER, TRUTH, canvas, legend_above, styled
from compvae.planning.curves import Duration, Fan
from compvae.planning.daily import Peaks
from compvae.planning.diversity import Diversity
from compvae.planning.scales import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "before_after",
    "day_fan",
    "diversity_curve",
    "draw_bands",
    "duration_curve",
    "peak_distribution",
    "same_day",
    "worst_days",
]

PALE = 0.18  # of one band; bands lie on each other
BINS = 60


@styled
def day_fan(scale: Scale, fan: Fan, rating: float | None = None) -> Figure:
    """Quantiles of each interval: bands around the median."""
    figure, axes = canvas(1, 1, 2.6)
    axis = axes[0, 0]
    draw_bands(axis, _steps(scale), fan, MODEL)
    _rating(axis, rating, scale)
    _of_day(axis, scale)
    axis.set_ylabel(scale.up)
    legend_above(axis, 3)
    return figure


@styled
def peak_distribution(scale: Scale, found: Mapping[str, Peaks], rating: float | None = None) -> Figure:
    """Left, how often a peak falls where; right, the probability that it exceeds a load.  found: peaks by name."""
    figure, axes = canvas(1, 2, 2.4)
    left, right = axes[0]
    pooled = np.concatenate([one.values for one in found.values()])
    edges = np.linspace(pooled.min(), max(pooled.max(), pooled.min() + 1e-9), BINS)
    for (name, one), colour in zip(found.items(), (MODEL, OTHER), strict=False):
        share = np.full(len(one.values), 1 / len(one.values))
        left.hist(one.values, edges, weights=share, color=colour, alpha=0.55, label=name)
        ordered = np.sort(one.values)
        right.plot(ordered, 1 - np.arange(len(ordered)) / len(ordered), color=colour, label=name)
        for quantile in one.quantiles:
            right.plot(quantile.value, 1 - quantile.level, "o", color=colour, markersize=3)
    for axis in (left, right):
        if rating is not None:
            axis.axvline(rating, color=INK, linestyle=":", linewidth=0.8, label="rating")
        axis.set_xlabel(scale.peak)
    left.set_ylabel("share of days")
    right.set(yscale="log", ylabel="probability of exceeding it")
    legend_above(left, 3)
    right.set_title("dots: " + ", ".join(q.name for q in next(iter(found.values())).quantiles))
    return figure


@styled
def diversity_curve(scale: Scale, curve: Sequence[Diversity]) -> Figure:
    """Peak demand of a home against the number of homes, with two standard errors."""
    figure, axes = canvas(1, 1, 2.4)
    axis = axes[0, 0]
    homes, value = [one.homes for one in curve], [one.demand.value for one in curve]
    axis.errorbar(homes, value, [2 * one.demand.se for one in curve], color=MODEL, marker="o", markersize=3, capsize=2)
    axis.set(
        xscale="log", xlabel=f"number of {scale.parts}", ylabel=f"{_level(curve)} peak ({scale.unit} a {scale.part})"
    )
    axis.set_xticks(homes, [f"{size:,}" for size in homes])
    axis.minorticks_off()
    axis.set_ylim(bottom=min(0.0, *value))
    return figure


@styled
def duration_curve(scale: Scale, found: Duration) -> Figure:
    """For how long a load is reached: the median day, and a band over days."""
    figure, axes = canvas(1, 1, 2.4)
    axis = axes[0, 0]
    low, middle, high = found.values[0], found.values[len(found.values) // 2], found.values[-1]
    band = f"{found.levels[0]:.0%} to {found.levels[-1]:.0%} of days"
    axis.fill_between(found.hours, low, high, color=MODEL, alpha=2 * PALE, linewidth=0, label=band)
    axis.plot(found.hours, middle, color=MODEL, label="median day")
    axis.set(xlabel=f"reached for at least ({scale.span})", ylabel=scale.up)
    legend_above(axis)
    return figure


@styled
def before_after(scale: Scale, before: Fan, after: Fan, rating: float | None = None) -> Figure:
    """The fan before and after a replacement, on one scale."""
    figure, axes = canvas(1, 2, 2.4, sharex=True, sharey=True)
    for axis, one, colour, title in zip(axes[0], (before, after), (MODEL, OTHER), ("before", "after"), strict=True):
        draw_bands(axis, _steps(scale), one, colour)
        _rating(axis, rating, scale)
        _of_day(axis, scale)
        axis.set_title(title)
    axes[0, 0].set_ylabel(scale.up)
    return figure


@styled
def same_day(scale: Scale, observed: np.ndarray, after: Fan) -> Figure:
    """One observed day, (T,), and draws of what it would have been."""
    figure, axes = canvas(1, 1, 2.4)
    axis = axes[0, 0]
    draw_bands(axis, _steps(scale), after, OTHER)
    axis.step(*_stepped(_steps(scale), observed), where="post", color=TRUTH, linewidth=1.8, label="observed")
    _of_day(axis, scale)
    axis.set_ylabel(scale.up)
    legend_above(axis, 3)
    return figure


@styled
def worst_days(scale: Scale, extreme: np.ndarray, typical: Fan, caption: str) -> Figure:
    """Days of the tail, (m, T), over the fan of all days."""
    figure, axes = canvas(1, 1, 2.4)
    axis = axes[0, 0]
    draw_bands(axis, _steps(scale), typical, TRUTH)
    for number, day in enumerate(extreme):
        label = caption if number == 0 else None
        axis.step(*_stepped(_steps(scale), day), where="post", color=LINES[4], linewidth=0.6, alpha=0.7, label=label)
    _of_day(axis, scale)
    axis.set_ylabel(scale.up)
    legend_above(axis, 3)
    return figure


def draw_bands(axis: Axes, edges: np.ndarray, fan: Fan, colour: str) -> None:
    """Pairs of quantiles as bands, the odd one in the middle as a line.  edges: (T + 1,)."""
    pairs = len(fan.levels) // 2
    for index in range(pairs):
        low, high = (_stepped(edges, fan.values[i])[1] for i in (index, -1 - index))
        label = f"P{100 * fan.levels[index]:g} to P{100 * fan.levels[-1 - index]:g}"
        axis.fill_between(edges, low, high, step="post", color=colour, alpha=PALE, linewidth=0)
        shade = 1 - (1 - PALE) ** (index + 1)  # as it looks where it lies on the wider ones
        axis.fill_between([], [], [], color=colour, alpha=shade, linewidth=0, label=label)
    axis.step(*_stepped(edges, fan.values[pairs]), where="post", color=colour, label="median")


def _steps(scale: Scale) -> np.ndarray:
    """Edges of the intervals, (T + 1,): a value holds for a whole interval."""
    return scale.step * np.arange(scale.length + 1)


def _stepped(edges: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return edges, np.append(values, values[-1])


def _of_day(axis: Axes, scale: Scale) -> None:
    axis.set(xlabel=scale.across, xlim=(0, scale.step * scale.length))
    if scale.is_load:
        axis.set_xticks(range(0, 25, 3))


def _rating(axis: Axes, rating: float | None, scale: Scale) -> None:
    if rating is not None:
        axis.axhline(rating, color=INK, linestyle=":", linewidth=0.8, label=f"rating {rating:g} {scale.unit}")


def _level(curve: Sequence[Diversity]) -> str:
    return curve[0].demand.name if curve else ""
