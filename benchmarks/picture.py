"""The picture of the README: samples beside the truth, and an edit beside the exact counterfactual.

python benchmarks/picture.py                       # writes docs/figures/demo.svg from the shipped `sines`
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import compvae
from compvae.figures import inline_svg
from compvae.figures.style import LINES, MODEL, TRUTH, canvas, legend_above, styled

PARTS = {"3": 2, "7": 1}
SHOWN = 10  # curves in a panel
GREY = "#7d8590"  # of the text: readable on white and on black
OPENING = f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" color="{GREY}" '


@styled
def picture(time: np.ndarray, drawn: dict[str, np.ndarray], observed: np.ndarray, edited: np.ndarray) -> Figure:
    """drawn: curves (n, T) by who drew them.  observed: (T,).  edited: by the model and exactly, (2, T)."""
    figure, axes = canvas(2, 2, 3.6, sharex=True)
    for axis, (name, curves), colour in zip(axes[0], drawn.items(), (TRUTH, MODEL), strict=True):
        axis.plot(time, curves.T, color=colour, linewidth=0.7, alpha=0.7)
        axis.set_title(name)
    axes[0, 1].sharey(axes[0, 0])
    before, after = axes[1]
    before.plot(time, observed, color=LINES[1])
    before.set_title("an observed curve of parts 3, 3 and 7")
    after.plot(time, edited[1], color=TRUTH, linewidth=2.6, alpha=0.6, label="exact")
    after.plot(time, edited[0], color=MODEL, label="model")
    after.set_title("part 7 taken out")
    after.sharey(before)
    legend_above(after)
    for axis in axes[1]:
        axis.set_xlabel("t (periods)")
    return figure


def svg_of(figure: Figure, name: str, alt: str) -> str:
    """A file that stands alone, readable on light and on dark."""
    return inline_svg(figure, name, alt).replace("<svg ", OPENING, 1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/demo.svg"))
    args = parser.parse_args()
    model, sines = compvae.load("sines"), compvae.problems.get("sines")
    hidden = sines.specifics(PARTS, 1, seed=11)
    observed, exact = sines.whole(PARTS, hidden)[0], sines.whole({"3": 2}, hidden[:, :2])[0]
    edited = model.infer(observed, PARTS).remove({"7": 1}).decode()
    drawn = {
        "exact generator, parts 3, 3 and 7": sines.truth(PARTS, SHOWN, seed=0),
        "model, the same parts": model.sample(PARTS, SHOWN, seed=0, noise=False),
    }
    figure = picture(np.arange(len(observed)) / 100, drawn, observed, np.stack([edited, exact]))
    alt = "Samples of the model beside exact ones; an observed curve, and the same without one part, beside the truth."
    text = svg_of(figure, "demo", alt)
    args.out.write_text(text, encoding="utf-8")
    print(f"{args.out}: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
