"""One style for all figures, and figures as SVG that stands inside a page.

Text and axes have the colour of the text around them (``currentColor``), the ground is transparent, so one drawing
reads well on light and on dark.  Data colours are those of Okabe and Ito, told apart by colour-blind readers.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from compvae.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "INK",
    "LINES",
    "MODEL",
    "OTHER",
    "TRUTH",
    "WIDTH",
    "Frame",
    "canvas",
    "frame_axes",
    "inline_svg",
    "legend_above",
    "plain_log",
    "styled",
]

WIDTH = 6.4  # inches, of every figure
TRUTH, MODEL, OTHER = "#8a8a8a", "#2a8fce", "#d55e00"
LINES = (MODEL, "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b5a82f")
INK = "#010203"  # stands for the colour of the text until the drawing is in a page

STYLE: dict[str, Any] = {
    "font.family": "sans-serif", "font.size": 8, "axes.titlesize": 8.5, "axes.labelsize": 8, "legend.fontsize": 7.5,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.frameon": False, "lines.linewidth": 1.2,
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
    "axes.linewidth": 0.6, "axes.axisbelow": True,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "axes.titlecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "image.interpolation": "none", "svg.fonttype": "none", "axes.unicode_minus": False,
}  # fmt: skip

P = ParamSpec("P")


@dataclass(frozen=True)
class Frame:
    """What the axes of a curve say.  time: where its points lie, (T,), in the unit of the label."""

    time: np.ndarray
    across: str
    up: str


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A figure function that draws in our style and leaves matplotlib's settings as they were."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with need("matplotlib", "report").rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def canvas(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, np.ndarray]:
    """An empty figure of so many inches in height, without pyplot, and its axes, (rows, columns) of Axes."""
    figure: Figure = need("matplotlib.figure", "report").Figure(figsize=(WIDTH, height), layout="constrained")
    axes: np.ndarray = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def frame_axes(axes: np.ndarray, frame: Frame) -> None:
    """Labels on the outer axes of a grid that shares them.  axes: (rows, columns) of Axes."""
    axis: Axes
    for axis in axes[-1]:
        axis.set_xlabel(frame.across)
    for axis in axes[:, 0]:
        axis.set_ylabel(frame.up)


def legend_above(axis: Axes, columns: int = 2) -> None:
    """A legend that never lies on the data: above the axes, on the right."""
    axis.legend(ncols=columns, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderpad=0.2)


def plain_log(axis: Axes) -> None:
    """A logarithmic y axis with plain numbers; within one decade the ticks between have numbers too."""
    ticker = need("matplotlib.ticker", "report")
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    plain = ticker.FuncFormatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_minor_formatter(plain if high < 10 * low else ticker.NullFormatter())


def inline_svg(figure: Figure, name: str, alt: str) -> str:
    """The figure as an SVG element for a page.  name: sets its ids apart from other figures'.  alt: what it shows."""
    buffer = io.StringIO()
    with need("matplotlib", "report").rc_context({**STYLE, "svg.hashsalt": name}):  # the same bytes every time
        figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.S)
    opening, inside = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', opening)
    assert box is not None
    inside = re.sub(r'(<(?:g|image)\b[^>]*?) id="[^"]*"', r"\1", inside)  # names that nobody refers to, not unique
    inside = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), inside)
    inside = re.sub(r"\s*\n\s*", "\n", inside).replace(INK, "currentColor")
    return f'<svg {box[0]} role="img" aria-label="{_escaped(alt)}">{inside.strip()}'


def _escaped(text: str) -> str:
    for plain, safe in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, safe)
    return text
