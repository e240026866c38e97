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

from compvae.batch import PaddedParts
from compvae.composing.generation import Generated, generate
from compvae.errors import DivergenceError
from compvae.fitting.calibration import calibratable, calibrate
from compvae.measures import rel_ed
from compvae.network import CompVAE
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
def watch(model: CompVAE, problem: Problem, seed: int, wholes: int) -> Watched:
    """relED by K, the mean over a few compositions of ``wholes`` samples each, the prior calibrated as in the end."""
    model = copy.deepcopy(model).float().cpu().eval()
    sizes = _sizes(problem)
    if calibratable(model):
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
def require_finite_samples(model: CompVAE, problem: Source, seed: int, wholes: int) -> None:
    """Raise a DivergenceError that says at which K, and from which network on, samples are not finite.

    Args:
        model: as it would be saved.
        problem: where its truth is known, samples are those of the checks; else compositions are drawn as in training.
        seed: of the run.
        wholes: samples of each composition that a check draws.
    """
    places: dict[str, str] = {}
    for size, drawn, source in _generated(model, problem, seed + SEED, max(wholes, CHUNK)):
        place = _first_not_finite(drawn, drawn.x.rsample(source, "x"))
        if place:
            places.setdefault(size, place)
    if places:
        at = ", ".join(f"{size} ({place})" for size, place in places.items())
        raise DivergenceError(f"training diverged: samples of the trained model are not finite at K = {at}")


def _generated(model: CompVAE, problem: Source, seed: int, wholes: int) -> Iterator[tuple[str, Generated, Noise]]:
    """K, what the model draws there, and the noise that its observation noise comes from."""
    if not isinstance(problem, Problem):
        for rows in _chunks(wholes):
            noise = Noise(seed, rows, 0)
            parts, source = problem.draw(problem.max_parts, noise).parts, noise.fold(1)
            yield f"1 to {problem.max_parts}", generate(model, parts, source), source
        return
    for size in _sizes(problem):
        for number in range(COMPOSITIONS):
            parts = _composition(problem, size, seed, number)
            for rows in _chunks(wholes):
                source = Noise(seed, rows, 0).fold(1)
                yield str(size), generate(model, _repeated(parts, rows), source), source


def _first_not_finite(drawn: Generated, x: Tensor) -> str:
    """Where NaN or infinity comes in first, or nothing.  x: a draw of the whole, (B, *shape)."""
    stages = {"w": drawn.code, "z": drawn.z, "mean of x": drawn.x.mean, "noise of x": drawn.x.variance, "x": x}
    return next((name for name, at in stages.items() if at is not None and not torch.isfinite(at).all()), "")


def _sizes(problem: Problem) -> list[int]:
    return sorted({min(2, problem.max_parts), problem.max_parts, 4 * problem.max_parts})


def _composition(problem: Problem, size: int, seed: int, number: int) -> PaddedParts:
    return problem.draw_parts(torch.full((1,), size), Noise(seed, 1, size, number))


def _mean_rel_ed(model: CompVAE, problem: Problem, size: int, seed: int, wholes: int) -> float | None:
    """None where a sample is not finite."""
    values = []
    for number in range(COMPOSITIONS):
        parts = _composition(problem, size, seed, number)
        true, drawn = zip(*(_pair(model, problem, parts, rows, seed) for rows in _chunks(wholes)), strict=True)
        x = torch.cat(drawn)
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


def _pair(model: CompVAE, problem: Problem, parts: PaddedParts, rows: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Wholes of the truth and of the model for these rows, (R, *shape) each.  rows: (R,) int64."""
    noise = Noise(seed, rows, 0)
    same = _repeated(parts, rows)
    factors = problem.draw_factors(noise) if problem.shared else None
    true = problem.combine(same, problem.draw_specifics(same, noise), factors)
    source = noise.fold(1)
    return true, generate(model, same, source).x.rsample(source, "x")
