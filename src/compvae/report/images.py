"""Exhibits of the problem whose whole is an image."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from compvae.evaluation.observed import Described, Observation, shown_parts
from compvae.figures import images
from compvae.model import Model
from compvae.problems import Problem
from compvae.report.exhibit import Exhibit, draws_of_both, last_removed

__all__ = ["image_exhibits"]

DRAWS = 5
SITES = 3  # of the five, where a few are enough
REALISATIONS = 4
TILED = 9  # images of a kind in the figure of the tail
QUANTILE = 0.99
MAGNIFIED = 10  # the difference of an edited image to the exact one


def image_exhibits(model: Model, problem: Problem, seed: int) -> Iterator[Exhibit]:
    """All figures of a model of images."""
    parts = shown_parts(problem)
    seen = Observation(problem, parts, 1, seed)
    yield _aggregation(seen)
    yield _variance(model, seen)
    yield _growing(model, seen, seed)
    yield _edit(model, seen)
    yield _tail(model, parts[:SITES], seed)


def _aggregation(seen: Observation) -> Exhibit:
    alone = [seen.only([i])[0] for i in range(len(seen.parts))]
    names = [f"{part['colour']} alone" for part in seen.parts]
    shown = np.stack([*alone, np.mean(alone, 0), seen.x[0]])
    return Exhibit(
        "aggregation",
        "The whole is not the mean of its parts",
        "Plain images of single sites, their mean, which is one plain colour, and the whole, which is not.",
        "One draw of the exact generator: each site alone fills the image; together they share it.",
        images.grid([""], [*names, "their mean", "the whole"], shown[None]),
    )


def _variance(model: Model, seen: Observation) -> Exhibit:
    drawn = draws_of_both(model, seen, seen.parts[:SITES], DRAWS)
    return Exhibit(
        "variance",
        "Intrinsic variance of parts",
        "Two rows of images of the same three sites, by the exact generator and by the model; borders differ.",
        f"{DRAWS} draws of {SITES} sites that stay where they are: what is hidden in them moves the borders.",
        images.grid(["exact", "model"], [f"draw {i + 1}" for i in range(DRAWS)], np.stack(drawn)),
    )


def _growing(model: Model, seen: Observation, seed: int) -> Exhibit:
    sizes = range(1, len(seen.parts) + 1)
    truth = np.stack([seen.only(list(range(size)))[0] for size in sizes])
    drawn = np.stack([model.sample(seen.parts[:size], REALISATIONS, seed, noise=False) for size in sizes], 1)
    sites = [(str(part["colour"]), float(part["x"]), float(part["y"])) for part in seen.parts]
    return Exhibit(
        "growing",
        "A composition grows",
        "A grid of images: each column has one site more; rows are the sites, the exact image, and model samples.",
        "Sites are added from left to right: where they are, an exact image, and several samples of the model.",
        images.growing(sites, truth, drawn),
    )


def _edit(model: Model, seen: Observation) -> Exhibit:
    edited, exact = last_removed(model, seen)
    off = np.abs(edited - exact)
    shown = np.stack([seen.x[0], edited, exact, MAGNIFIED * off])
    name = seen.parts[-1]["colour"]
    return Exhibit(
        "edit",
        "An edit and its exact counterfactual",
        "Four images: observed, edited by the model, the exact answer, and the difference of the last two.",
        f"The {name} site is removed from an observed image. Largest difference {off.max():.2f}, "
        f"mean {off.mean():.3f}, of values from 0 to 1; drawn {MAGNIFIED} times as large.",
        images.grid([""], ["observed", "model", "exact", f"difference, x {MAGNIFIED}"], shown[None]),
    )


def _tail(model: Model, parts: Described, seed: int) -> Exhibit:
    """Rejection from as many draws as nine of the highest percent need: ``Model.tail`` would draw many more."""
    x = model.sample(parts, round(TILED / (1 - QUANTILE)), seed)
    scores = x.reshape(len(x), -1).mean(1, dtype=np.float64)
    threshold = float(np.quantile(scores, QUANTILE))
    return Exhibit(
        "tail",
        "Sampling the tail",
        "Typical images, the brightest percent of them, and the distribution of the brightness.",
        f"{len(x)} images of three sites by the model: typical ones, and the brightest 1%.",
        images.tail(x[:TILED], x[scores >= threshold][:TILED], scores, threshold, "mean brightness"),
    )
