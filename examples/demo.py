"""The main job in one go: train the small 1D model, sample it, edit a curve, write a page that shows how good it is.

make demo            # or: python examples/demo.py --out runs/demo --steps 3000
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

import compvae
from compvae import problems
from compvae.batch import Batch, collate
from compvae.compose import Model
from compvae.inference import infer
from compvae.measures import edit_ratio, rel_ed, rel_ed_floor
from compvae.noise import Noise
from compvae.problems import Problem

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

PARTS = {"3": 2, "7": 1}
SIZES = (1, 2, 4, 8, 16, 30)
TRAINED = 16
FLOOR_PAIRS = 20
TRUE, OURS, OBSERVED = "#777777", "#1f77b4", "#d98c5f"

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>compvae demo</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
figure {{ margin: 1.5rem 0; background: #fff; border-radius: 6px; padding: .5rem }}
figure svg {{ width: 100%; height: auto; display: block }}
figcaption {{ color: #333; font-size: .9rem; padding: 0 .5rem .3rem }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem .8rem; text-align: right }}
</style>
<h1>A small model of curves made of sine waves</h1>
<p>{summary}</p>
<figure>{overview}<figcaption>Above: twelve draws each for two waves of frequency 3 and one of 7, by the exact generator
and by the model. Below: an observed curve, and the same curve after its wave of frequency 7 is removed, by the model
and exactly. Over 500 curves the error of the removal is {ratio:.3f} of that of forgetting the curve and drawing
anew.</figcaption></figure>
<h2>How far samples are from the truth</h2>
<p>relED, the relative energy distance, against the number of parts K (trained on K up to {trained}), one random
composition for each K, n = 1000; the floor is the 95% quantile of what two sets of true samples give
({pairs} pairs).</p>
<table><tr><th>K</th><th>relED</th><th>floor</th></tr>{rows}</table>
</html>
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("runs/demo"))
    arguments.add_argument("--steps", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=0)
    args = arguments.parse_args()

    problem = problems.get("sines")
    print(f"training the small model of {problem.name}: {args.steps} steps", flush=True)
    resume = (args.out / "config.json").exists()  # a demo that was interrupted goes on, a finished one is shown again
    try:
        run = compvae.fit("sines", out=args.out, steps=args.steps, seed=args.seed, resume=resume, show=True)
    except compvae.CompVAEError as error:
        raise SystemExit(f"demo: {error}") from None
    model, seconds = run.model, run.metrics[-1]["seconds"]
    x = model.sample(PARTS, n=1000, seed=args.seed)
    np.savez_compressed(args.out / "samples.npz", x=x)

    print("measuring", flush=True)
    overview = as_svg(overview_figure(model, problem))
    (args.out / "overview.svg").write_text(overview, encoding="utf-8")
    page = PAGE.format(
        summary=f"Trained for {args.steps} steps in {seconds:.0f} s, seed {args.seed}.",
        overview=overview,
        ratio=removal_ratio(model, problem),
        trained=TRAINED,
        pairs=FLOOR_PAIRS,
        rows="".join(table_row(model, problem, size) for size in SIZES),
    )
    (args.out / "report.html").write_text(page, encoding="utf-8")
    print(f"\nthe model is in   {args.out / 'model'}\nsamples are in    {args.out / 'samples.npz'}")
    print(f"the page is       {args.out / 'report.html'}")
    print(f"try next          model = compvae.load('{args.out / 'model'}'); model.sample({{'2': 1, '5': 3}}, n=10)")


def table_row(model: Model, problem: Problem, size: int) -> str:
    """relED and its floor for one random composition of this size."""
    counts = np.bincount(np.random.default_rng(size).integers(0, 10, size), minlength=10)
    parts = {name: int(count) for name, count in zip(model.parts.categories, counts, strict=True)}
    value = rel_ed(problem.truth(parts, 1000, seed=7), model.sample(parts, 1000, seed=7)).value
    floor = rel_ed_floor(lambda seed: problem.truth(parts, 1000, seed=1000 + seed), pairs=FLOOR_PAIRS)
    print(f"K {size:3d}  relED {value:.4f}  floor {floor:.4f}", flush=True)
    return f"<tr><td>{size}</td><td>{value:.4f}</td><td>{floor:.4f}</td></tr>"


@torch.no_grad()
def without_seven(model: Model, x: np.ndarray) -> np.ndarray:
    """Remove the part of frequency 7: its block of W is its own, so leaving the block out is exact in the latents."""
    whole, rest = (collate([model.parts.parse(p)] * len(x)) for p in (PARTS, {"3": 2}))
    code = infer(model.network, Batch(torch.from_numpy(x), whole), Noise(0, len(x))).q.mean.clone()
    code[:, model.parts.categories.index("7")] = 0.0
    edited: torch.Tensor = model.network.decoder(code, rest, None, None).mean
    return edited.numpy()


def removal_ratio(model: Model, problem: Problem, n: int = 500) -> float:
    """Error of the removal over that of drawing the remaining parts anew."""
    hidden = problem.specifics(PARTS, n, seed=5)
    exact = problem.whole({"3": 2}, hidden[:, :2])
    return edit_ratio(without_seven(model, problem.whole(PARTS, hidden)), exact, problem.truth({"3": 2}, n, seed=6))


def overview_figure(model: Model, problem: Problem) -> Figure:
    """Samples beside the truth, and an edit beside the exact counterfactual."""
    hidden = problem.specifics(PARTS, 1, seed=11)
    observed, exact = problem.whole(PARTS, hidden), problem.whole({"3": 2}, hidden[:, :2])
    figure, ((truth, ours), (before, after)) = plt.subplots(2, 2, figsize=(9, 5), sharex=True, sharey=True)
    truth.plot(problem.truth(PARTS, 12, seed=1).T, color=TRUE, alpha=0.6, linewidth=0.9)
    ours.plot(model.sample(PARTS, 12, seed=1).T, color=OURS, alpha=0.6, linewidth=0.9)
    before.plot(observed[0], color=OBSERVED)
    after.plot(exact[0], color=TRUE, linewidth=3, alpha=0.6, label="exact")
    after.plot(without_seven(model, observed)[0], color=OURS, linewidth=1.2, label="model")
    after.legend(frameon=False, loc="upper right")
    titles = (
        "the truth, parts 3, 3 and 7",
        "the model, same parts, with its noise",
        "an observed curve of 3, 3 and 7",
        "its part 7 removed",
    )
    for axis, title in zip((truth, ours, before, after), titles, strict=True):
        axis.set_title(title, fontsize=10)
    for axis in (before, after):
        axis.set_xlabel("t")
    for axis in (truth, before):
        axis.set_ylabel("x(t)")
    return figure


def as_svg(figure: Figure) -> str:
    """The figure as an SVG element to stand in a page."""
    buffer = io.StringIO()
    figure.tight_layout()
    figure.savefig(buffer, format="svg")
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


if __name__ == "__main__":
    main()
