"""relED of samples against the exact truth, during training: bound and edits can look good while samples are wrong.

Inside the training range, at its end and beyond it (theory, section 5).  The compositions and draws are those of a seed
of their own; nothing is chosen by them.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from compvae.batch import PaddedParts
from compvae.composing.generation import generate
from compvae.fitting.calibration import calibratable, calibrate
from compvae.measures import rel_ed
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.problems import Problem

__all__ = ["watch"]

SEED = 1 << 41  # added to the run's seed
COMPOSITIONS = 2
CHUNK = 50  # wholes at once
CALIBRATION_BATCHES = 3


@torch.no_grad()
def watch(model: CompVAE, problem: Problem, seed: int, wholes: int) -> dict[str, float]:
    """K -> relED, the mean over a few compositions of ``wholes`` samples each, the prior calibrated as in the end."""
    model = copy.deepcopy(model).float().cpu().eval()
    if calibratable(model):
        calibrate(
            model, lambda noise: problem.draw(problem.max_parts, noise), seed + SEED, CALIBRATION_BATCHES, rounds=1
        )
    sizes = (min(2, problem.max_parts), problem.max_parts, 4 * problem.max_parts)
    return {str(size): _mean_rel_ed(model, problem, size, seed + SEED, wholes) for size in sorted(set(sizes))}


def _mean_rel_ed(model: CompVAE, problem: Problem, size: int, seed: int, wholes: int) -> float:
    values = []
    for number in range(COMPOSITIONS):
        parts = problem.draw_parts(torch.full((1,), size), Noise(seed, 1, size, number))
        true, drawn = zip(*(_pair(model, problem, parts, rows, seed) for rows in _chunks(wholes)), strict=True)
        values.append(rel_ed(torch.cat(true).numpy(), torch.cat(drawn).numpy()).value)
    return float(torch.tensor(values).nanmean())  # NaN where the truth hardly varies, as with one colour


def _chunks(wholes: int) -> tuple[Tensor, ...]:
    chunks: tuple[Tensor, ...] = torch.arange(wholes).split(CHUNK)
    return chunks


def _pair(model: CompVAE, problem: Problem, parts: PaddedParts, rows: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Wholes of the truth and of the model for these rows, (R, *shape) each.  rows: (R,) int64."""
    noise = Noise(seed, rows, 0)
    same = parts.rows(torch.zeros(len(rows), dtype=torch.int64))
    factors = problem.draw_factors(noise) if problem.shared else None
    true = problem.combine(same, problem.draw_specifics(same, noise), factors)
    source = noise.fold(1)
    return true, generate(model, same, source).x.rsample(source, "x")
