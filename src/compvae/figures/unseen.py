"""Figures of own data: a measure against K with its interval, ranks of peaks, held-out days beside draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from compvae.figures.loads import draw_bands
from compvae.figures.style import INK, LINES, MODEL, TRUTH, canvas, legend_above, styled
from compvae.planning.curves import Fan
from compvae.planning.scales import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["by_size", "rank_histogram", "real_days"]

BINS = 10


@styled
def by_size(rows: Sequence[Mapping[str, Any]], across: str, up: str, perfect: float | None = None) -> Figure:
    """A measure against K, a line for everyone judged, bars from low to high.

    rows: with "of", "K", "value", "low" and "high".  perfect: what a perfect model would get.
    """
    figure, axes = canvas(1, 1, 2.6)
    axis = axes[0, 0]
    if perfect is not None:
        axis.axhline(perfect, color=INK, linestyle=":", linewidth=0.8, label=f"perfect: {perfect:g}")
    who = list(dict.fromkeys(row["of"] for row in rows))
    colours = iter(LINES)
    for number, name in enumerate(who):
        some = sorted((row for row in rows if row["of"] == name), key=lambda row: int(row["K"]))
        value = np.array([row["value"] for row in some])
        bars = np.abs(np.array([[row["low"], row["high"]] for row in some]).T - value)
        place = np.array([row["K"] for row in some]) * 1.03 ** (number - (len(who) - 1) / 2)  # bars beside each other
        colour = TRUTH if name == "real" else next(colours)
        axis.errorbar(place, value, bars, color=colour, label=name, capsize=2, marker="o", markersize=3.5)
    sizes = sorted({int(row["K"]) for row in rows})
    axis.set(xscale="log", xlabel=across, ylabel=up)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
    legend_above(axis, 4)
    return figure


@styled
def rank_histogram(ranks: Mapping[str, np.ndarray]) -> Figure:
    """Where what was observed falls among its draws: flat where a forecast is calibrated.  ranks: by name, (n,)."""
    figure, axes = canvas(1, len(ranks), 2.1, sharey=True)
    for axis, (name, values), colour in zip(axes[0], ranks.items(), LINES, strict=False):
        share = np.full(len(values), 1 / len(values))
        axis.hist(values, np.linspace(0, 1, BINS + 1), weights=share, color=colour, alpha=0.7)
        axis.axhline(1 / BINS, color=INK, linestyle=":", linewidth=0.8)
        axis.set(title=name, xlabel="share of draws below")
    axes[0, 0].set_ylabel("share of held-out wholes")
    return figure


@styled
def real_days(scale: Scale, days: Sequence[tuple[str, np.ndarray, Fan]]) -> Figure:
    """Held-out wholes, each over the fan of draws for its parts.  days: title, x (T,), fan."""
    rows = (len(days) + 1) // 2
    figure, axes = canvas(rows, 2, 0.4 + 1.9 * rows, sharex=True)
    edges = scale.step * np.arange(scale.length + 1)
    for axis, (title, x, fan) in zip(axes.flat, days, strict=False):
        draw_bands(axis, edges, fan, MODEL)
        axis.step(edges, np.append(x, x[-1]), where="post", color=INK, linewidth=1.3, label="observed")
        axis.set_title(title)
        axis.set_xlim(0, edges[-1])
        if scale.is_load:
            axis.set_xticks(range(0, 25, 6))
    for axis in axes[-1]:
        axis.set_xlabel(scale.across)
    for axis in axes[:, 0]:
        axis.set_ylabel(scale.up)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure
