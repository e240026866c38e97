"""Compose curves from sine waves: sample, judge, infer the parts, edit, look at the extremes.

python examples/compose_sines.py --out sines.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import compvae

PARTS = {"3": 2, "7": 1}  # two waves of frequency 3, one of frequency 7


def loudness(x: np.ndarray) -> np.ndarray:
    return (x**2).mean(1)


def main(out: Path, n: int = 1000, seed: int = 0) -> dict[str, float]:
    """Draw n curves into a file; what was measured on the way."""
    model, sines = compvae.load("sines"), compvae.problems.get("sines")
    drawn, true = model.sample(PARTS, n, seed=seed), sines.truth(PARTS, n, seed=seed + 1)
    np.savez_compressed(out, x=drawn)
    found = {"relED": compvae.measures.rel_ed(true, drawn).value}

    # what part 7 contributes to an observed curve is known here, because the generator is known
    hidden = sines.specifics(PARTS, n, seed=seed + 2)
    posterior = model.infer(sines.whole(PARTS, hidden), PARTS)
    exact = sines.whole({"3": 2}, hidden[:, :2])
    forgotten = sines.truth({"3": 2}, n, seed=seed + 3)  # the same parts without a look at the observed curve
    found["edit ratio"] = compvae.measures.edit_ratio(posterior.remove({"7": 1}).decode(), exact, forgotten)

    top = model.tail(PARTS, event=loudness, quantile=0.99, n=n // 5, seed=seed)  # any function (n, 200) -> (n,)
    found["loudness of the top 1%, over the mean"] = float(loudness(top.x).mean() / loudness(drawn).mean())
    for name, value in found.items():
        print(f"{name}: {value:.4f}")
    print(f"{n} curves are in {out}")
    return found


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("sines.npz"))
    main(arguments.parse_args().out)
