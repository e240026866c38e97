"""relED of samples against the exact truth, during training: bound and edits can look good while samples are wrong.

Inside the training range, at its end and beyond it (theory, section 5).  The compositions and draws are those of a seed
of their own; nothing is chosen by them.  A check never ends a run: samples that are not finite are reported as such,
and only a model that still gives them when training is done is refused (:func:`require_finite_samples`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from compvae.batch import PaddedParts, Parts
from compvae.composing.generation import drawn, generate
from compvae.errors import DivergenceError
from compvae.fitting.calibration import calibratable, calibrate
from compvae.measures import rel_ed
from compvae.network import CompVAE, Network
from compvae.noise import Noise
from compvae.problems import Problem
from compvae.problems.source import Source

__all__ = ["Watched", "require_finite_samples", "watch"]

SEED = 1 << 41  # added to the run's seed
COMPOSITIONS = 2
CHUNK = 50  # wholes at once
CALIBRATION_BATCHES = 3


@dataclass(frozen=True)
class Watched:
    """What a check saw of the samples.

    rel_ed: K -> relED, NaN where samples were not finite or the truth hardly varies.
    not_finite: the K at which some sample held NaN or an infinite value.
    """

    rel_ed: dict[str, float] = field(default_factory=dict)
    not_finite: tuple[str, ...] = ()


@torch.no_grad()
def watch(model: Network, problem: Problem, seed: int, wholes: int, fitted: bool = False) -> Watched:
    """relED by K, the mean over a few compositions of ``wholes`` samples each, the prior calibrated as in the end.

    fitted: it is already.
    """
    model = copy.deepcopy(model).float().cpu().eval()
    sizes = _sizes(problem)
    if isinstance(model, CompVAE) and calibratable(model) and not fitted:
        try:
            calibrate(
                model, lambda noise: problem.draw(problem.max_parts, noise), seed + SEED, CALIBRATION_BATCHES, rounds=1
            )
        except DivergenceError:
            return Watched(dict.fromkeys(map(str, sizes), float("nan")), tuple(map(str, sizes)))
    found = {str(size): _mean_rel_ed(model, problem, size, seed + SEED, wholes) for size in sizes}
    return Watched(
        {size: float("nan") if value is None else value for size, value in found.items()},
        tuple(size for size, value in found.items() if value is None),
    )


@torch.no_grad()
def require_finite_samples(model: Network, problem: Source, seed: int, wholes: int) -> None:
    """Raise a DivergenceError that says at which K, and from which network on, samples are not finite.

    Args:
        model: as it would be saved.
        problem: where its truth is known, samples are those of the checks; else compositions are drawn as in training.
        seed: of the run.
        wholes: samples of each composition that a check draws.
    """
    places: dict[str, str] = {}
    for size, place in _faults(model, problem, seed + SEED, max(wholes, CHUNK)):
        if place:
            places.setdefault(size, place)
    if places:
        at = ", ".join(f"{size} ({place})" for size, place in places.items())
        raise DivergenceError(f"training diverged: samples of the trained model are not finite at K = {at}")


def _faults(model: Network, problem: Source, seed: int, wholes: int) -> Iterator[tuple[str, str]]:
    """K, and where samples of that size stop being finite, or nothing."""
    if not isinstance(problem, Problem):
        for rows in _chunks(wholes):
            noise = Noise(seed, rows, 0)
            parts, source = problem.draw(problem.max_parts, noise).parts, noise.fold(1)
            yield f"1 to {problem.max_parts}", _first_not_finite(model, parts, source)
        return
    for size in _sizes(problem):
        for number in range(COMPOSITIONS):
            parts = _composition(problem, size, seed, number)
            for rows in _chunks(wholes):
                source = Noise(seed, rows, 0).fold(1)
                yield str(size), _first_not_finite(model, _repeated(parts, rows), source)


def _first_not_finite(model: Network, parts: Parts, source: Noise) -> str:
    """Where NaN or infinity comes in first, or nothing."""
    stages: dict[str, Tensor | None] = {}
    if isinstance(model, CompVAE):
        made = generate(model, parts, source)
        stages = {"w": made.code, "z": made.z, "mean of x": made.x.mean, "noise of x": made.x.variance}
    stages["x"] = drawn(model, parts, source, None, noise=True)
    return next((name for name, at in stages.items() if at is not None and not torch.isfinite(at).all()), "")


def _sizes(problem: Problem) -> list[int]:
    return sorted({min(2, problem.max_parts), problem.max_parts, 4 * problem.max_parts})


def _composition(problem: Problem, size: int, seed: int, number: int) -> PaddedParts:
    return problem.draw_parts(torch.full((1,), size), Noise(seed, 1, size, number))


def _mean_rel_ed(model: Network, problem: Problem, size: int, seed: int, wholes: int) -> float | None:
    """None where a sample is not finite."""
    values = []
    for number in range(COMPOSITIONS):
        parts = _composition(problem, size, seed, number)
        true, made = zip(*(_pair(model, problem, parts, rows, seed) for rows in _chunks(wholes)), strict=True)
        x = torch.cat(made)
        if not torch.isfinite(x).all():
            return None
        values.append(rel_ed(torch.cat(true).numpy(), x.numpy()).value)
    return float(torch.tensor(values).nanmean())  # NaN where the truth hardly varies, as with one colour


def _chunks(wholes: int) -> tuple[Tensor, ...]:
    chunks: tuple[Tensor, ...] = torch.arange(wholes).split(CHUNK)
    return chunks


def _repeated(parts: PaddedParts, rows: Tensor) -> PaddedParts:
    """One composition for each of the rows.  rows: (R,) int64."""
    return parts.rows(torch.zeros(len(rows), dtype=torch.int64))


def _pair(model: Network, problem: Problem, parts: PaddedParts, rows: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Wholes of the truth and of the model for these rows, (R, *shape) each.  rows: (R,) int64."""
    noise = Noise(seed, rows, 0)
    same = _repeated(parts, rows)
    factors = problem.draw_factors(noise) if problem.shared else None
    true = problem.combine(same, problem.draw_specifics(same, noise), factors)
    source = noise.fold(1)
    return true, drawn(model, same, source, None, noise=True)
