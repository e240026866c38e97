"""Figures of problems whose whole is a curve: sines and loads.  Arrays in, a Figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from compvae.figures.style import LINES, MODEL, OTHER, TRUTH, Frame, canvas, frame_axes, legend_above, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["aggregation", "beside_truth", "edit", "growing", "impact", "tail"]

PALE = 0.55


@styled
def aggregation(frame: Frame, names: Sequence[str], parts: np.ndarray, whole: np.ndarray) -> Figure:
    """Parts alone on the left, their whole and their sum on the right.  parts: (K, T), named.  whole: (T,)."""
    figure, axes = canvas(1, 2, 2.2)
    left, right = axes[0]
    for name, part, colour in zip(names, parts, _colours(len(parts)), strict=True):
        left.plot(frame.time, part, color=colour, label=f"part {name}")
    legend_above(left)
    right.plot(frame.time, whole, color=TRUTH, linewidth=2.4, alpha=PALE, label="the whole")
    right.plot(frame.time, parts.sum(0), color=OTHER, linestyle="--", label="sum of the parts")
    legend_above(right)
    frame_axes(axes, frame)
    return figure


@styled
def beside_truth(frame: Frame, truth: np.ndarray, model: np.ndarray) -> Figure:
    """Draws of one composition by the exact generator and by the model.  truth: (n, T).  model: (m, T)."""
    figure, axes = canvas(1, 2, 2.2, sharex=True, sharey=True)
    for axis, curves, colour, title in zip(
        axes[0], (truth, model), (TRUTH, MODEL), ("exact generator", "model"), strict=True
    ):
        _bundle(axis, frame, curves, colour)
        axis.set_title(title)
    frame_axes(axes, frame)
    return figure


@styled
def growing(
    frame: Frame, names: Sequence[str], parts: np.ndarray, wholes: np.ndarray, exact: np.ndarray | None = None
) -> Figure:
    """Row i: part i alone by the model, left; the whole of parts 1..i by the model, and exactly where known, right.

    parts, wholes, exact: (K, T).
    """
    figure, axes = canvas(len(names), 2, 0.5 + 1.1 * len(names), sharex=True)
    for row, (name, part, whole) in enumerate(zip(names, parts, wholes, strict=True)):
        left, right = axes[row]
        left.plot(frame.time, part, color=LINES[1])
        left.set_title(f"part {name}")
        if exact is not None:
            right.plot(frame.time, exact[row], color=TRUTH, linewidth=2.4, alpha=PALE, label="exact")
        right.plot(frame.time, whole, color=MODEL, label="model")
        right.set_title(f"whole of {row + 1}" + (" part" if row == 0 else " parts"))
    legend_above(axes[0, 1])
    frame_axes(axes, frame)
    return figure


@styled
def impact(frame: Frame, curves: Mapping[str, np.ndarray]) -> Figure:
    """One whole under several strengths of the non-linearity, each named.  curves: (T,) each."""
    figure, axes = canvas(1, 1, 2.4)
    for (name, curve), colour in zip(curves.items(), _colours(len(curves)), strict=True):
        axes[0, 0].plot(frame.time, curve, color=colour, label=name)
    legend_above(axes[0, 0], len(curves))
    frame_axes(axes, frame)
    return figure


@styled
def edit(frame: Frame, observed: np.ndarray, edited: np.ndarray, exact: np.ndarray, done: str) -> Figure:
    """An observed whole, and what the model makes of it under an edit beside the exact answer.  All three: (T,)."""
    figure, axes = canvas(1, 2, 2.2, sharex=True, sharey=True)
    before, after = axes[0]
    before.plot(frame.time, observed, color=LINES[1])
    before.set_title("observed")
    after.plot(frame.time, exact, color=TRUTH, linewidth=2.4, alpha=PALE, label="exact")
    after.plot(frame.time, edited, color=MODEL, label="model")
    after.set_title(done)
    figure.legend(*after.get_legend_handles_labels(), ncols=2, loc="outside upper right")  # beside no title
    frame_axes(axes, frame)
    return figure


@styled
def tail(
    frame: Frame, typical: np.ndarray, extreme: np.ndarray, scores: np.ndarray, threshold: float, event: str
) -> Figure:
    """Typical draws, draws of the tail, and where the tail begins.

    typical, extreme: (n, T), (m, T).  scores: the event of typical draws, (N,).  threshold: where the tail begins.
    """
    figure, axes = canvas(1, 3, 2.1)
    for axis, curves, colour, title in zip(
        axes[0, :2], (typical, extreme), (MODEL, OTHER), ("typical", "highest 1%"), strict=True
    ):
        _bundle(axis, frame, curves, colour)
        axis.set(title=title, xlabel=frame.across)
    axes[0, 1].sharey(axes[0, 0])
    axes[0, 0].set_ylabel(frame.up)
    histogram(axes[0, 2], scores, threshold, event)
    return figure


def histogram(axis: Axes, scores: np.ndarray, threshold: float, event: str) -> None:
    """Scores of typical draws, (N,), and where the tail begins."""
    axis.hist(scores, bins=40, color=MODEL, density=True)
    axis.axvline(threshold, color=OTHER, linestyle="--")
    axis.set(xlabel=event, ylabel="density", title="dashed: 99% quantile")


def _bundle(axis: Axes, frame: Frame, curves: np.ndarray, colour: str) -> None:
    """curves: (n, T)."""
    axis.plot(frame.time, curves.T, color=colour, linewidth=0.7, alpha=0.6)


def _colours(number: int) -> list[str]:
    return [LINES[index % len(LINES)] for index in range(number)]
