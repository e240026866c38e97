"""Figures of numbers: training curves, relED against K, live coordinates of the latents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from compvae.figures.style import INK, LINES, MODEL, TRUTH, canvas, legend_above, plain_log, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["live_coordinates", "rel_ed_by_size", "training_curves"]

LEAST = 1e-4  # of a logarithmic axis of relED: an unbiased estimate of 0 is negative half of the time
MODERATE = 1000.0  # nats, beyond which the axis of x and the total is logarithmic
Line = Mapping[str, Any]


@styled
def training_curves(lines: Sequence[Line]) -> Figure:
    """Terms of the bound along training, from the lines of metrics.jsonl: bits above, nats below, then relED.

    Bits have a logarithmic axis; x and the total change sign: where large, theirs is logarithmic on both sides of 0.
    """
    watched = [line for line in lines if line.get("rel_ed")]
    panels = 3 if watched else 2
    figure, axes = canvas(panels, 1, 0.5 + 1.55 * panels, sharex=True)
    bits, nats = axes[:2, 0]
    for name, label, colour in (("w_bits", "w", LINES[0]), ("z_bits", "z", LINES[1])):
        if any((line.get(name) or 0) > 0 for line in lines):
            _series(bits, lines, name, label, colour)
    plain_log(bits)
    bits.set_ylabel("bits per whole")
    for name, label, colour in (("x", "x", LINES[2]), ("bound", "total", LINES[4])):
        _series(nats, lines, name, label, colour)
    _series(nats, lines, "held_out", "total, held out", TRUTH, "o")
    if np.abs(nats.get_ylim()).max() > MODERATE:
        nats.set_yscale("symlog", linthresh=MODERATE / 10)
    nats.set_ylabel("nats per whole")
    if watched:
        sizes = sorted({size for line in watched for size in line["rel_ed"]}, key=int)
        for size, colour in zip(sizes, LINES, strict=False):
            seen = [{"step": line["step"], "at": line["rel_ed"].get(size)} for line in watched]
            positive = [{**line, "at": max(line["at"], LEAST)} for line in seen if line["at"] is not None]
            _series(axes[2, 0], positive, "at", f"K = {size}", colour, "o-")
        plain_log(axes[2, 0])
        axes[2, 0].set_ylabel("relED")
    for axis in axes[:, 0]:
        if axis.lines:
            legend_above(axis, 3)
    axes[-1, 0].set_xlabel("training step")
    return figure


def _series(axis: Axes, lines: Iterable[Line], name: str, label: str, colour: str, mark: str = "-") -> None:
    """One quantity over the steps at which it is known."""
    known = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
    if known:
        axis.plot(*zip(*known, strict=True), mark, color=colour, label=label, markersize=3)


@styled
def rel_ed_by_size(rows: Sequence[Line], trained: int) -> Figure:
    """relED against K with two standard errors, its floor, and baselines; sizes beyond training are shaded.

    rows: measures named relED, with "of", "K", "value", "se" and "floor".  trained: the largest K of training.
    """
    known = [row for row in rows if row["name"] == "relED" and row["K"] is not None and row["value"] is not None]
    figure, axes = canvas(1, 1, 2.9)
    axis = axes[0, 0]
    largest = max([trained, *(row["K"] for row in known)])
    if largest > trained:
        axis.axvspan(trained, largest * 1.2, color=TRUTH, alpha=0.18, linewidth=0, label="beyond training")
    floors = {row["K"]: row["floor"] for row in known if row["floor"] is not None}
    if floors:
        sizes = sorted(floors)
        values = np.maximum([floors[size] for size in sizes], LEAST)
        axis.plot(sizes, values, color=TRUTH, linestyle="--", label="floor: truth against truth")
    who = list(dict.fromkeys(row.get("of", "model") for row in known))
    for name, colour in zip(who, LINES * (1 + len(who) // len(LINES)), strict=False):
        _with_errors(axis, [row for row in known if row.get("of", "model") == name], name, colour)
    plain_log(axis)
    axis.set(xscale="log", xlabel="number of parts K", ylabel="relED (0: exact)")
    ticks = sorted({row["K"] for row in known})
    axis.set_xticks(ticks, [str(size) for size in ticks])
    axis.minorticks_off()
    legend_above(axis, 3)
    return figure


def _with_errors(axis: Axes, rows: Sequence[Line], name: str, colour: str) -> None:
    rows = sorted(rows, key=lambda row: int(row["K"]))
    values = np.maximum([row["value"] for row in rows], LEAST)
    spread = 2 * np.array([row["se"] or 0.0 for row in rows])
    below = np.minimum(spread, values - LEAST)  # a bar that would reach 0 ends at the axis
    axis.errorbar(
        [row["K"] for row in rows],
        values,
        (below, spread),
        color=colour,
        label=name,
        capsize=2,
        marker="o",
        markersize=3.5,
        linewidth=1.8 if colour == MODEL else 1.0,
    )


@styled
def live_coordinates(names: Sequence[str], bits: np.ndarray, live: float) -> Figure:
    """Bits in each latent coordinate, by the category of the part: filled where live, hollow where not.

    names: of the C categories.  bits: (C, d), NaN for categories not seen.  live: bits from which one counts as live.
    """
    figure, axes = canvas(1, 1, 2.3)
    axis = axes[0, 0]
    place = np.broadcast_to(np.arange(len(names))[:, None], bits.shape)
    shown = np.maximum(bits, live / 100)
    for chosen, face, label in ((bits > live, MODEL, "live"), (bits <= live, "none", "not used")):
        if chosen.any():
            axis.plot(
                place[chosen],
                shown[chosen],
                "o",
                markerfacecolor=face,
                markeredgecolor=MODEL,
                markersize=4,
                label=label,
            )
    axis.axhline(live, color=INK, linewidth=0.6, linestyle=":")
    counts = (np.nan_to_num(bits) > live).sum(1)
    labels = [f"{name}\n{count}" for name, count in zip(names, counts, strict=True)]
    axis.set_xticks(range(len(names)), labels)
    plain_log(axis)
    axis.set(ylabel="bits per coordinate", xlabel="category, and its number of live coordinates")
    legend_above(axis)
    return figure
