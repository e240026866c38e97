"""Exhibits of problems whose whole is a curve: sines and loads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compvae import problems
from compvae.evaluation.observed import Described, Observation, shown_parts
from compvae.evaluation.plan import power
from compvae.evaluation.properties import STRENGTHS
from compvae.figures import Frame, curves
from compvae.model import Model
from compvae.problems import Problem
from compvae.problems.sines import Sines
from compvae.report.exhibit import Exhibit, draws_of_both, last_removed
from compvae.tails.events import EVENTS, Event

__all__ = ["curve_exhibits"]

DRAWS = 15  # curves in a bundle
BEYOND = 30  # parts, as in the paper (5.1)
TYPICAL = 1000  # draws behind a histogram


@dataclass(frozen=True)
class Shown:
    """How curves of a problem are shown.  event: what makes one extreme, in the words of ``measured``."""

    frame: Frame
    event: Event
    measured: str


def curve_exhibits(model: Model, problem: Problem, seed: int) -> Iterator[Exhibit]:
    """All figures of a model of curves."""
    about, parts = _shown(problem), shown_parts(problem)
    seen = Observation(problem, parts, 1, seed)
    yield _aggregation(about, seen)
    if isinstance(problem, Sines):
        yield _impact(about, problem, parts, seed)
    yield _variance(about, model, seen)
    if isinstance(problem, Sines):
        yield _recomposed(about, model, parts, seed)
        yield _beyond(about, model, problem, seed)
    yield _growing(about, model, seen)
    yield _edit(about, model, seen)
    yield _tail(about, model, parts, seed)


def _shown(problem: Problem) -> Shown:
    if isinstance(problem, Sines):
        time = np.arange(problem.settings.timesteps) / problem.settings.resolution
        return Shown(Frame(time, "t (periods)", "x(t)"), power, "mean square of x")
    if problem.name != "households":
        return Shown(Frame(np.arange(problem.shape[0]), "place along x", "x"), EVENTS["peak"], "highest x")
    hours = np.arange(problem.shape[0]) * 24 / problem.shape[0]
    return Shown(Frame(hours, "hour of the day", "load (kW)"), EVENTS["peak"], "peak (kW)")


def _names(parts: Described) -> list[str]:
    return [str(next(iter(part.values()))) for part in parts]


def _aggregation(about: Shown, seen: Observation) -> Exhibit:
    alone = np.stack([seen.only([i])[0] for i in range(len(seen.parts))])
    return Exhibit(
        "aggregation",
        "The whole is not the sum of its parts",
        "Left, curves of single parts. Right, their sum and the whole they make, which differ.",
        "One draw of the exact generator: each part alone, and all of them together beside the sum.",
        curves.aggregation(about.frame, _names(seen.parts), alone, seen.x[0]),
    )


def _impact(about: Shown, problem: Sines, parts: Described, seed: int) -> Exhibit:
    hidden, settings = problem.specifics(parts, 1, seed), problem.settings.model_dump()
    shown = {}
    for C in STRENGTHS:
        shown[f"C = {C:g}"] = problems.get("sines", **{**settings, "C": C}).whole(parts, hidden)[0]
    faint = STRENGTHS[0] / 1000  # tanh is linear there
    shown["plain sum"] = problems.get("sines", **{**settings, "C": faint}).whole(parts, hidden)[0] / faint
    return Exhibit(
        "impact",
        "Impact of C",
        "One whole at several values of C: the larger C, the flatter its tops; the plain sum is not bounded.",
        "The same waves under the exact generator at several strengths C of its saturation. Training uses "
        f"C = {problem.settings.C:g}.",
        curves.impact(about.frame, shown),
    )


def _variance(about: Shown, model: Model, seen: Observation) -> Exhibit:
    part = seen.parts[:1]
    return Exhibit(
        "variance",
        "Intrinsic variance of a part",
        "Two bundles of curves of one category, by the exact generator and by the model.",
        f"{DRAWS} draws of one part of category {_names(part)[0]}: what the category leaves open.",
        curves.beside_truth(about.frame, *draws_of_both(model, seen, part, DRAWS)),
    )


def _recomposed(about: Shown, model: Model, parts: Described, seed: int) -> Exhibit:
    """The paper's figure of a growing whole: parts are drawn, and enter the whole one after another."""
    keys = range(len(parts))
    alone = np.concatenate([model.compose(parts[i : i + 1], keys[i : i + 1]).decode(1, seed) for i in keys])
    wholes = np.concatenate([model.compose(parts[:i], keys[:i]).decode(1, seed) for i in range(1, len(parts) + 1)])
    return Exhibit(
        "recomposed",
        "Drawn parts make a whole",
        "Rows of two panels: a part alone, and the whole of it and all parts above, all by the model.",
        "Parts drawn by the model, each with a latent of its own that it keeps: alone on the left, and gradually put "
        "together on the right, as in the paper. Nothing is observed here, so that there is no exact answer.",
        curves.growing(about.frame, _names(parts), alone, wholes),
    )


def _beyond(about: Shown, model: Model, problem: Problem, seed: int) -> Exhibit:
    kind = problem.schema.attributes[0].name
    many: Described = [
        {kind: name} for name in problem.schema.categories for _ in range(BEYOND // len(problem.schema.categories))
    ]
    drawn = problem.truth(many, DRAWS, seed), model.sample(many, DRAWS, seed, noise=False)
    return Exhibit(
        "beyond",
        f"{len(many)} parts",
        f"Two bundles of curves of {len(many)} parts, by the exact generator and by the model.",
        f"{DRAWS} draws of {len(many)} parts, as many of each category, with a model that was trained on at most "
        f"{problem.max_parts}: the paper used its model up to {BEYOND} and left these results out.",
        curves.beside_truth(about.frame, *drawn),
    )


def _growing(about: Shown, model: Model, seen: Observation) -> Exhibit:
    inferred, size = model.infer(seen.x[0], seen.parts), len(seen.parts)
    alone = np.stack([inferred.part(i) for i in range(size)])
    wholes = [inferred.remove(seen.parts[i:]).decode() for i in range(1, size)]
    exact = np.stack([seen.only(list(range(i)))[0] for i in range(1, size + 1)])
    return Exhibit(
        "growing",
        "A composition grows",
        "Rows of two panels: a part alone, and the whole of it and all parts above, by the model and exactly.",
        f"An observed whole of {size} parts, taken apart by the model and put together again, part by part. "
        "Grey: the exact answer, which the generator knows and the model does not.",
        curves.growing(about.frame, _names(seen.parts), alone, np.stack([*wholes, inferred.decode()]), exact),
    )


def _edit(about: Shown, model: Model, seen: Observation) -> Exhibit:
    edited, exact = last_removed(model, seen)
    name = _names(seen.parts)[-1]
    return Exhibit(
        "edit",
        "An edit and its exact counterfactual",
        "Left, an observed curve. Right, the curve without one part, by the model and exactly.",
        f"The part of category {name} is removed from an observed curve. "
        "The exact counterfactual holds what is hidden in the other parts.",
        curves.edit(about.frame, seen.x[0], edited, exact, f"part {name} removed"),
    )


def _tail(about: Shown, model: Model, parts: Described, seed: int) -> Exhibit:
    scores = about.event(model.sample(parts, TYPICAL, seed))
    found = model.tail(parts, about.event, quantile=0.99, n=DRAWS, seed=seed)
    return Exhibit(
        "tail",
        "Sampling the tail",
        f"Typical curves, curves of the highest percent by {about.measured}, and the distribution of it.",
        f"Wholes of {len(parts)} parts by the model: typical ones, and those whose {about.measured} is among the "
        f"highest 1% (method: {found.method}, threshold {found.threshold:.3g}).",
        curves.tail(about.frame, model.sample(parts, DRAWS, seed), found.x, scores, found.threshold, about.measured),
    )
