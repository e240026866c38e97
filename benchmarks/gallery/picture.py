"""docs/figures/transport.svg: wholes drawn beside true ones, and a substance taken out of an observed whole.

python -m gallery.picture --out ../docs/figures/transport.svg        (from benchmarks/; trains spectra for 3 minutes)
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import compvae
import gallery
from compvae.problems import Problem, get

PARTS, GONE = {"A": 1, "C": 1, "E": 1}, {"C": 1}
SHOWN = 12


def draw(problem: Problem, model: compvae.Model, out: Path) -> None:
    """Three panels: the truth, the model, an edit."""
    figure, (true, drawn, edited) = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True, layout="constrained")
    true.plot(problem.truth(PARTS, SHOWN, seed=1).T, color="0.4", lw=0.8)
    true.set_title("true spectra of A, C and E")
    drawn.plot(model.sample(PARTS, SHOWN, seed=2).T, color="C0", lw=0.8)
    drawn.set_title("samples of the model")
    hidden, held = problem.specifics(PARTS, 1, seed=3), problem.factors(1, seed=3)
    seen = problem.whole(PARTS, hidden, held)[0]
    exact = problem.whole({"A": 1, "E": 1}, hidden[:, [0, 2]], held)[0]
    found = model.infer(seen, PARTS).remove(GONE)
    spread = np.quantile(found.decode(n=200, seed=4), [0.05, 0.95], axis=0)
    edited.plot(seen, color="0.6", lw=1, label="observed")
    edited.plot(exact, color="black", lw=1, label="exact, without C")
    edited.fill_between(range(len(seen)), *spread, color="C0", alpha=0.3, lw=0, label="90% of draws")
    edited.plot(found.decode(), color="C0", lw=1, ls="--", label="model, without C")
    edited.set_title("C taken out of one spectrum")
    edited.set_ylim(None, 1.25)
    edited.legend(frameon=False, fontsize=7, ncols=2, loc="upper center")
    for axes in (true, drawn, edited):
        axes.set_xlabel("place in the spectrum")
    true.set_ylabel("absorbed share")
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--run", type=Path, help="a run of spectra that is there already")
    args = parser.parse_args()
    torch.set_num_threads(1)
    problem = get("spectra")
    assert isinstance(problem, Problem)
    with tempfile.TemporaryDirectory() as made:
        if args.run:
            model = compvae.load(args.run)
        else:
            model = compvae.fit("spectra", out=Path(made) / "run", minutes=args.minutes, seed=0, threads=1).model
        plt.rcParams["svg.hashsalt"] = "compvae"
        draw(problem, model, args.out)


if __name__ == "__main__":
    assert gallery.__file__
    main()
