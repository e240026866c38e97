"""Edit an observed image: take a site away, put another in, compare with the exact counterfactual.

python examples/edit_image.py --out edit.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import compvae

SITES = [
    {"colour": "red", "x": -0.5, "y": -0.4},
    {"colour": "green", "x": 0.5, "y": -0.2},
    {"colour": "blue", "x": 0.1, "y": 0.6},
]
ADDED = {"colour": "white", "x": -0.2, "y": 0.2}


def main(out: Path, n: int = 50, seed: int = 0) -> dict[str, float]:
    """Edit one image n ways; errors beside the exact generator, in units of full brightness."""
    model, colours = compvae.load("colours"), compvae.problems.get("colours")
    sharpness = colours.specifics(SITES, 1, seed=seed)  # hidden: the model never sees it
    observed = colours.whole(SITES, sharpness)[0]
    posterior = model.infer(observed, SITES)

    without_red = posterior.remove([SITES[0]])
    exact = colours.whole(SITES[1:], sharpness[:, 1:])[0]
    edited = without_red.decode()
    with_white = without_red.add([ADDED]).decode(n=n, seed=seed)  # a new site has a sharpness of its own in each draw
    np.savez_compressed(out, observed=observed, edited=edited, exact=exact, with_white=with_white)

    found = {
        "error of the edit": compvae.measures.rmse(edited, exact),
        "change it stands for": compvae.measures.rmse(observed, exact),
    }
    for name, value in found.items():
        print(f"{name}: {value:.4f}")
    print(f"the images are in {out}: observed, edited, exact (3, 32, 32), with_white {with_white.shape}")
    return found


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=Path("edit.npz"))
    main(arguments.parse_args().out)
