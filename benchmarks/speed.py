"""What `compvae bench --out FILE` measured, as a table in Markdown on stdout and as a figure of costs against K and n.

compvae bench --only sizes,posteriors,widths,data,processes,sampling,inference,startup --out speed.json
python benchmarks/speed.py speed.json --figure docs/figures/speed.svg
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from compvae.figures.style import LINES, TRUTH, canvas, legend_above, styled
from picture import svg_of

STEP = re.compile(r"(collapsed|graph), K (\d+), batch (\d+)")
BY_SIZE = re.compile(r"(\w+), (\d+) wholes, K (\d+)")
BY_NUMBER = re.compile(r"(\w+), K 10, (\d+) wholes")
Rows = list[dict[str, Any]]


def seconds(row: dict[str, Any]) -> float:
    return float(row["timing"]["seconds"]["median"])


def table(rows: Rows) -> str:
    """A line for each case: seconds, ratio with quartiles, what it was divided by, what was counted."""
    lines = ["| case | seconds | ratio (quartiles) | beside | counted |", "|---|---|---|---|---|"]
    for row in rows:
        ratio = row["timing"]["ratio"]
        spread = f"{ratio['median']:.3g} ({ratio['low']:.3g} to {ratio['high']:.3g})"
        counted = ", ".join(f"{name} {value:.4g}" for name, value in row["counts"].items())
        beside = "" if row["beside"] == row["case"] else row["beside"]
        lines.append(f"| {row['case']} | {seconds(row):.3g} | {spread if beside else '1'} | {beside} | {counted} |")
    return "\n".join(lines)


def plotted(axis: Axes, curves: dict[str, dict[int, float]], across: str, up: str, *limits: float) -> None:
    """Curves by name, each by what stands on the axis across.  limits: of the axis up, powers of ten."""
    for (name, curve), colour in zip(curves.items(), LINES, strict=False):
        sizes = sorted(curve)
        axis.plot(sizes, [curve[size] for size in sizes], "o-", color=colour, markersize=3, label=name)
    axis.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
    if limits:
        axis.set_ylim(*limits)
    axis.xaxis.set_major_locator(LogLocator(numticks=5))
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        one.set_minor_formatter(NullFormatter())
    axis.grid(color=TRUTH, alpha=0.25, linewidth=0.4)
    legend_above(axis)


@styled
def figure(rows: Rows) -> Figure:
    """Step and memory against K, sampling against K and n."""
    drawn, axes = canvas(2, 2, 4.4)
    step: dict[str, dict[int, float]] = {}
    memory: dict[str, dict[int, float]] = {}
    by_size: dict[str, dict[int, float]] = {}
    by_number: dict[str, dict[int, float]] = {}
    for row in rows:
        if found := STEP.fullmatch(row["case"]):
            step.setdefault(found[1], {})[int(found[2])] = seconds(row)
            if "peak MB" in row["counts"]:
                memory.setdefault(found[1], {})[int(found[2])] = row["counts"]["peak MB"]
        elif found := BY_SIZE.fullmatch(row["case"]):
            by_size.setdefault(found[1], {})[int(found[3])] = seconds(row)
        elif found := BY_NUMBER.fullmatch(row["case"]):
            by_number.setdefault(found[1], {})[int(found[2])] = int(found[2]) / seconds(row)
    plotted(axes[0, 0], step, "K", "seconds a training step", 0.01, 10)
    plotted(axes[0, 1], memory, "K", "peak memory (MB)", 100, 10_000)
    plotted(axes[1, 0], by_size, "K", "seconds for 1,000 wholes", 0.01, 1)
    plotted(axes[1, 1], by_number, "wholes in a call", "wholes a second", 10, 100_000)
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="documents of compvae bench")
    parser.add_argument("--figure", type=Path, help="SVG to write")
    args = parser.parse_args()
    rows = [row for path in args.files for row in json.loads(path.read_text())["rows"]]
    print(table(rows))
    if args.figure is not None:
        alt = "Cost of a training step and of sampling against the number of parts and of wholes."
        args.figure.write_text(svg_of(figure(rows), "speed", alt))


if __name__ == "__main__":
    main()
