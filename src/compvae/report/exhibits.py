"""The figures of a report: parts, seeds and rows are fixed beforehand, nothing is chosen by its looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compvae.baselines import Paper
from compvae.evaluation.rows import Evaluation, Row, named
from compvae.figures import live_coordinates, rel_ed_by_size, training_curves
from compvae.measures import bits
from compvae.measures.information import LIVE
from compvae.model import Model
from compvae.network import CompVAE
from compvae.problems import Problem
from compvae.problems.colours import Colours
from compvae.problems.source import Source
from compvae.report.curves import curve_exhibits
from compvae.report.exhibit import Exhibit
from compvae.report.images import image_exhibits
from compvae.report.loads import load_exhibits

__all__ = ["exhibits", "live_exhibit", "training_exhibit"]

INFORMED = 64  # wholes behind the bits of each coordinate


def exhibits(
    model: Model, problem: Problem, found: Evaluation, lines: Sequence[Mapping[str, Any]], seed: int = 0
) -> Iterator[Exhibit]:
    """All figures.  lines: of metrics.jsonl, where the model comes from a run."""
    if named(found.measures, "relED"):
        yield _by_size(found.measures, problem)
    if isinstance(problem, Colours):
        yield from image_exhibits(model, problem, seed)
    elif len(problem.shape) == 1:
        yield from curve_exhibits(model, problem, seed)
    if len(problem.shape) == 1 and problem.schema.countable:
        yield from load_exhibits(model, seed)
    if isinstance(model.network, CompVAE):
        yield live_exhibit(model.network, problem, seed)
    if any(line.get("bound") is not None for line in lines):
        yield training_exhibit(lines)
    if any(line.get("bound") is not None for line in found.training.get(Paper.name, [])):
        yield _labour(found.training[Paper.name])


def _by_size(rows: Sequence[Row], problem: Problem) -> Exhibit:
    summed = (
        " independent: parts that the model draws alone, put together." if named(rows, "relED", "independent") else ""
    )
    return Exhibit(
        "relED",
        "Distance to the truth against the number of parts",
        "relED against K on logarithmic axes: the model, what it is compared with, and the floor.",
        "relED, the relative energy distance of samples to exact ones, with two standard errors; the floor is the 95% "
        "quantile of what exact samples give against each other. Training saw at most "
        f"K = {problem.max_parts}. Values below 0.0001, which an unbiased estimate of 0 often is, are drawn there."
        f"{summed}",
        rel_ed_by_size([row.model_dump() for row in rows], problem.max_parts),
    )


def live_exhibit(network: CompVAE, problem: Source, seed: int) -> Exhibit:
    """Which coordinates of the latents hold something."""
    found = bits(network, problem, INFORMED, seed).by_coordinate
    kinds = problem.schema.categorical
    names = kinds[0].categories if len(kinds) == 1 else [f"kind {i + 1}" for i in range(problem.schema.n_kinds)]
    if len(found) != len(names) or not kinds:
        names = ("all parts",)
    return Exhibit(
        "live",
        "Live coordinates of the latents",
        "Bits in each coordinate of the latent code, by category.",
        f"Information in each coordinate, mean over {INFORMED} fresh wholes; one that holds more than {LIVE:g} bits "
        "counts as live, the others cost nothing.",
        live_coordinates(names, found, LIVE),
    )


def training_exhibit(lines: Sequence[Mapping[str, Any]]) -> Exhibit:
    """The bound along training.  lines: of metrics.jsonl."""
    watched = "; relED where it was watched" if any(line.get("rel_ed") for line in lines) else ""
    return Exhibit(
        "training",
        "Training",
        "Terms of the bound against the training step, on logarithmic axes.",
        "total = x - w - z, each a mean over the wholes of a batch: bits in the latents above, nats of x and of the "
        f"total below, on logarithmic axes where they span decades{watched}.",
        training_curves(lines),
    )


def _labour(lines: Sequence[Mapping[str, Any]]) -> Exhibit:
    return Exhibit(
        "labour",
        "Division of labour in the paper's configuration",
        "Bits in w and in z of the paper's configuration against its training step, and the terms of its bound.",
        "The paper's own configuration, narrowed, trained beside this model as a baseline: bits in w and in z for each "
        "whole along its training, and below the terms of its bound in nats. The paper saw about 100 bits in w and 10 "
        "in z for curves, 200 to 300 and 40 to 60 for images.",
        training_curves(lines),
    )
