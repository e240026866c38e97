"""The main job in one go: train the small 1D model, sample it, edit a curve, write a page that shows how good it is.

make demo            # or: python examples/demo.py --out runs/demo --steps 2500
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import compvae
from compvae.measures import rmse
from compvae.report import write_report

PARTS = {"3": 2, "7": 1}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("runs/demo"))
    arguments.add_argument("--steps", type=int, default=2500)
    arguments.add_argument("--seed", type=int, default=0)
    args = arguments.parse_args()
    try:
        demo(args.out, args.steps, args.seed)
    except compvae.CompVAEError as error:
        raise SystemExit(f"demo: {error}") from None


def demo(out: Path, steps: int, seed: int) -> None:
    print(f"training the small model of sines: {steps} steps", flush=True)
    resume = (out / "config.json").exists()  # a demo that was interrupted goes on, a finished one is shown again
    model = compvae.fit("sines", out=out, steps=steps, seed=seed, resume=resume, show=True).model

    x = model.sample(PARTS, n=1000, seed=seed)
    np.savez_compressed(out / "samples.npz", x=x)

    edited, exact = remove_seven(model)
    print(
        f"part 7 removed from an observed curve: off by {rmse(edited, exact):.3f} (RMS of the curve {rms(exact):.3f})"
    )

    page = write_report(str(out), out / "report.html", quick=True, seed=seed)
    print(f"\nthe model is in   {out / 'model'}\nsamples are in    {out / 'samples.npz'}")
    print(f"the page is       {page}    (open it in a browser)")
    print(f"try next          model = compvae.load('{out}'); model.sample({{'2': 1, '5': 3}}, n=10)")


def remove_seven(model: compvae.Model) -> tuple[np.ndarray, np.ndarray]:
    """An observed curve without its wave of frequency 7: by the model, and exactly, since the generator is known."""
    sines = compvae.problems.get("sines")
    hidden = sines.specifics(PARTS, 1, seed=11)
    observed, exact = sines.whole(PARTS, hidden)[0], sines.whole({"3": 2}, hidden[:, :2])[0]
    return model.infer(observed, PARTS).remove({"7": 1}).decode(), exact


def rms(x: np.ndarray) -> float:
    return rmse(x, np.zeros_like(x))


if __name__ == "__main__":
    main()
