"""Figures of the problem whose whole is an image.  Images are (3, H, W) with values from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from compvae.figures.curves import histogram
from compvae.figures.style import INK, WIDTH, canvas, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Site", "grid", "growing", "tail"]

Site = tuple[str, float, float]
"""Colour, column and row of a site, both in [-1, 1]."""

LABEL = 0.9  # inches left of a grid
TITLE = 0.35  # inches above it


@styled
def grid(rows: Sequence[str], columns: Sequence[str], images: np.ndarray) -> Figure:
    """Images in rows and columns that have names.  images: (R, C, 3, H, W)."""
    figure, axes = _grid(rows, columns)
    for line, row in zip(axes, images, strict=True):
        for axis, image in zip(line, row, strict=True):
            _show(axis, image)
    return figure


@styled
def growing(sites: Sequence[Site], truth: np.ndarray, realisations: np.ndarray) -> Figure:
    """Column i: sites 1..i, their exact image, and several images by the model.

    truth: (K, 3, H, W).  realisations: (R, K, 3, H, W).
    """
    rows = ["sites", "exact", *(f"model, {number + 1}" for number in range(len(realisations)))]
    figure, axes = _grid(rows, [f"K = {size + 1}" for size in range(len(sites))])
    for size, axis in enumerate(axes[0], 1):
        _place(axis, sites[:size])
    for line, images in zip(axes[1:], (truth, *realisations), strict=True):
        for axis, image in zip(line, images, strict=True):
            _show(axis, image)
    return figure


@styled
def tail(typical: np.ndarray, extreme: np.ndarray, scores: np.ndarray, threshold: float, event: str) -> Figure:
    """Typical images, images of the tail, and where the tail begins.

    typical, extreme: (n, 3, H, W).  scores: the event of typical draws, (N,).
    """
    figure, axes = canvas(1, 3, 2.1, width_ratios=(1, 1, 1.2))
    for axis, images, title in zip(axes[0], (typical, extreme), ("typical", "highest 1%"), strict=False):
        _bare(axis)
        _show(axis, _tiled(images))
        axis.set_title(title)
    histogram(axes[0, 2], scores, threshold, event)
    return figure


def _tiled(images: np.ndarray) -> np.ndarray:
    """A square number of images side by side with a white pixel between.  images: (n, 3, H, W) -> (3, H', W')."""
    side = int(np.sqrt(len(images)))
    framed = np.pad(images[: side * side], ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=1.0)
    square = framed.reshape(side, side, *framed.shape[1:]).transpose(2, 0, 3, 1, 4)
    return np.asarray(square.reshape(3, side * framed.shape[2], side * framed.shape[3])[:, :-1, :-1])


def _grid(rows: Sequence[str], columns: Sequence[str]) -> tuple[Figure, np.ndarray]:
    side = min(1.1, (WIDTH - LABEL) / len(columns))
    figure, axes = canvas(len(rows), len(columns), TITLE + side * len(rows))
    for axis in axes.flat:
        _bare(axis)
    for axis, name in zip(axes[0], columns, strict=True):
        axis.set_title(name)
    for axis, name in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(name, rotation=0, ha="right", va="center")
    return figure, axes


def _bare(axis: Axes) -> None:
    """No ticks, and a frame: a white image is seen on a white page, a black one on a black page."""
    axis.set(xticks=[], yticks=[], aspect="equal")
    axis.spines[:].set(visible=True, linewidth=0.4)


def _show(axis: Axes, image: np.ndarray) -> None:
    """image: (3, H, W)."""
    axis.imshow(np.clip(image.transpose(1, 2, 0), 0.0, 1.0))


def _place(axis: Axes, sites: Sequence[Site]) -> None:
    axis.set(xlim=(-1, 1), ylim=(1, -1))  # rows count downward
    for colour, column, row in sites:
        face = {"green": "lime"}.get(colour, colour)  # (0, 1, 0), which matplotlib knows by another name
        axis.plot(column, row, "o", markersize=7, markerfacecolor=face, markeredgecolor=INK, markeredgewidth=0.6)
