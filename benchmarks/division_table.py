"""The rows that benchmarks/division.py wrote, as a table and as a figure.

python benchmarks/division_table.py benchmarks/results/division             # the table, as in docs/experiments.md, 24
python benchmarks/division_table.py benchmarks/results/division --figure docs/figures/division.svg
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from compvae.figures.style import LINES, TRUTH, canvas, plain_log, styled
from compvae.files import write_atomic
from picture import svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
LEAST = 0.5  # bits, where the axes begin
BASELINE = "baseline"
ALT = (
    "Bits in w and in z against the training step on a logarithmic axis, a panel for each change to the baseline; the "
    "curves of the baseline are grey in every panel."
)


def rows_of(directory: Path, problem: str) -> list[dict[str, Any]]:
    """The documents of a problem, the baseline first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json"))]
    mine = [row for row in found if row.get("problem", "sines") == problem]
    return sorted(mine, key=lambda row: (row["row"] != BASELINE, row["row"], row["seed"]))


def table(rows: list[dict[str, Any]]) -> str:
    """Bits at the end with one standard error, the held-out bound, relED and edit ratios, seconds."""
    sizes, edited = list(rows[0]["relED"]), list(rows[0]["edit"])
    lines = [
        f"| row | seed | bits in w | bits in z | held-out bound, nats | relED at K = {', '.join(sizes)} "
        f"| edit ratio at K = {', '.join(edited)} | seconds |",
        "|---" * 8 + "|",
    ]
    for row in rows:
        last, name = row["curve"][-1], f"{row['row']}: {row['says']}".replace("|", "\\|")
        lines.append(
            f"| {name} | {row['seed']} | {_with_error(last, 'w')} | {_with_error(last, 'z')} "
            f"| {_with_error(last, 'held_out', 0)} | {_list(row['relED'], 3)} | {_list(row['edit'], 2)} "
            f"| {row['seconds']:.0f} |"
        )
    return "\n".join(lines)


def _with_error(point: dict[str, float], name: str, digits: int = 1) -> str:
    return f"{point[name]:.{digits}f} ± {point[f'{name}_se']:.{digits}f}"


def _list(values: dict[str, float], digits: int) -> str:
    return " ".join(f"{value:.{digits}f}" for value in values.values())


@styled
def figure(rows: list[dict[str, Any]]) -> Figure:
    """A panel for each row: bits in w and z with two standard errors, those of the baseline in grey."""
    baseline, others = rows[0], rows[1:] or rows
    lines = math.ceil(len(others) / COLUMNS)
    drawn, axes = canvas(lines, COLUMNS, 0.45 + 1.45 * lines, sharex=True, sharey=True)
    for axis, row in zip(axes.flat, others, strict=False):
        for name, style in (("w", "-"), ("z", "--")):
            _curve(axis, baseline, name, style, TRUTH, "")
        for name, style, colour in (("w", "-", LINES[0]), ("z", "--", LINES[1])):
            _curve(axis, row, name, style, colour, f"bits in {name}")
        axis.set_title(row["row"])
        plain_log(axis)
    for axis in list(axes.flat)[len(others) :]:
        axis.set_axis_off()
    axes[0, 0].set_ylim(bottom=LEAST)
    axes[0, 0].legend(loc="lower right")
    for axis in axes.flat[max(0, len(others) - COLUMNS) : len(others)]:  # the lowest of each column
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("training step")
    return drawn


def _curve(axis: Axes, row: dict[str, Any], name: str, style: str, colour: str, label: str) -> None:
    points = row["curve"][1:]  # before the first step the KL is that of chance
    steps, value = [point["step"] for point in points], np.array([point[name] for point in points])
    error = 2 * np.array([point[f"{name}_se"] for point in points])
    axis.plot(steps, np.maximum(value, LEAST), style, color=colour, label=label or None)
    axis.fill_between(
        steps, np.maximum(value - error, LEAST), np.maximum(value + error, LEAST), color=colour, alpha=0.2, linewidth=0
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--problem", choices=("sines", "colours"), default="sines")
    parser.add_argument("--figure", type=Path, help="draw the curves there in place of printing the table")
    args = parser.parse_args()
    rows = rows_of(args.directory, args.problem)
    if args.figure is None:
        print(table(rows))
        return
    write_atomic(args.figure, svg_of(figure(rows), "division", ALT).encode())


if __name__ == "__main__":
    main()
