"""The measures a report needs, for a model that nobody has evaluated yet: few compositions, the main measures.

``compvae evaluate`` measures more, and beside baselines; its rows go into a report by --measures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compvae import problems
from compvae.compose import Model
from compvae.measures import (
    Measured,
    bits,
    measured_edit_ratio,
    measured_period_violation,
    moment_errors,
    off_manifold,
    recover_phasors,
    recover_sharpness,
    rel_ed,
    rel_ed_floor,
)
from compvae.measures.measured import root_ratio
from compvae.noise import Noise
from compvae.problems import Problem
from compvae.problems.colours import SHARPNESS, Colours
from compvae.problems.sines import Sines
from compvae.report.cases import Described, Observation, draw_cases, shown_parts
from compvae.report.rows import Row, row_of

__all__ = ["Effort", "departure_rows", "measure", "order_row"]

SIZES = {"sines": (1, 2, 4, 8, 16, 30, 100), "colours": (2, 4, 8, 16), "households": (5, 20, 50, 100)}
EDITED = {"sines": (2, 4, 8), "colours": (3, 4, 8), "households": (5, 20)}
MOST_SUMMED = 16  # parts drawn one by one for the sum of the parts
STRENGTHS = (1.0, 3.0, 10.0)  # values of C
INDEPENDENT = "independent"


@dataclass(frozen=True)
class Effort:
    """How much is measured.  n: samples of each composition.  pairs: behind each floor.  recovered: solved for."""

    compositions: int = 2
    n: int = 1000
    pairs: int = 20
    recovered: int = 200
    edited: int = 64
    informed: int = 256

    @classmethod
    def of(cls, quick: bool) -> Effort:
        """As usual, or little of everything."""
        return cls(1, 200, 40, 40, 16, 64) if quick else cls()


def measure(model: Model, problem: Problem, effort: Effort, seed: int = 0) -> list[Row]:
    """Rows of relED, moments, off-manifold residual, period violation, edits and bits, under the evaluation's names."""
    rows = [row for size in SIZES[problem.name] for row in _sampled(model, problem, size, effort, seed)]
    rows += [_edited(model, problem, size, effort, seed) for size in EDITED[problem.name]]
    information = bits(model.network, problem, effort.informed, seed)
    return [*rows, row_of("bits in w", None, [information.w]), row_of("bits in z", None, [information.z])]


def order_row(model: Model, problem: Problem, seed: int = 0) -> Row:
    """Largest difference between samples of one composition given in two orders."""
    parts = shown_parts(problem)
    forth, back = (model.sample(given, 32, seed) for given in (parts, parts[::-1]))
    return Row(name="order", K=len(parts), value=float(np.abs(forth - back).max()), se=0.0, n=32)


def departure_rows(problem: Problem, n: int = 200, seed: int = 0) -> list[Row]:
    """RMS(whole - sum of its parts) / RMS(whole) by the exact generator; for sines at several strengths C.

    Where x does not grow with K, the mean stands for the sum.
    """
    if not isinstance(problem, Sines):
        return [_departure(problem, "departure from the sum", n, seed)]
    settings = problem.settings.model_dump()
    return [
        _departure(problems.get("sines", **{**settings, "C": C}), f"departure from the sum, C = {C:g}", n, seed)
        for C in STRENGTHS
    ]


def _departure(problem: Problem, name: str, n: int, seed: int) -> Row:
    seen = Observation.of(problem, shown_parts(problem), n, seed)
    each = sum(seen.only([i]).astype(np.float64) for i in range(len(seen.parts)))
    gap = seen.x - (each if problem.extensive else each / len(seen.parts))
    top, bottom = ((values.reshape(n, -1) ** 2).mean(1) for values in (gap, seen.x.astype(np.float64)))
    return row_of(name, len(seen.parts), [root_ratio(top, bottom)], of="truth")


def _sampled(model: Model, problem: Problem, size: int, effort: Effort, seed: int) -> Iterator[Row]:
    """Samples of several compositions of one size against the truth."""
    ours: dict[str, list[Measured]] = defaultdict(list)
    summed = []
    for index, parts in enumerate(draw_cases(problem, size, effort.compositions, seed)):
        own = _seed(seed, size, index)
        truth, x = problem.truth(parts, effort.n, own), model.sample(parts, effort.n, own + 1)
        floor = _floor(problem, parts, effort, own + 2)
        ours["relED"].append(rel_ed(truth, x).measured(floor))
        moments = moment_errors(truth, x)
        ours["moment mean"].append(moments.mean)
        ours["moment std"].append(moments.std)
        for name, found in _hidden(problem, parts, x[: effort.recovered]):
            ours[name].append(found)
        if 1 < size <= MOST_SUMMED:
            summed.append(rel_ed(truth, _sum_of_parts(model, problem, parts, effort.n, own)).measured(floor))
    yield from (row_of(name, size, cases) for name, cases in ours.items())
    if summed:
        yield row_of("relED", size, summed, INDEPENDENT)


def _floor(problem: Problem, parts: Described, effort: Effort, seed: int) -> float:
    return rel_ed_floor(lambda number: problem.truth(parts, effort.n, seed + number), effort.pairs)


def _hidden(problem: Problem, parts: Described, x: np.ndarray) -> Iterator[tuple[str, Measured]]:
    """What can be said of generated wholes by the true generator's shape.  x: (n, *shape)."""
    if isinstance(problem, Sines):
        yield "off-manifold", off_manifold(x, recover_phasors(problem, parts, x).reachable)
        if problem.settings.resolution < problem.settings.timesteps:
            yield "period", measured_period_violation(x, problem.settings.resolution)
    elif isinstance(problem, Colours):
        yield "off-manifold", off_manifold(x, recover_sharpness(problem, parts, x, SHARPNESS).reachable)


def _sum_of_parts(model: Model, problem: Problem, parts: Described, n: int, seed: int) -> np.ndarray:
    """x = sum_i x_i, x_i ~ p(x | l_i) of the model, each part alone; the mean for images.  -> (n, *shape)."""
    total = sum(model.sample([part], n, _seed(seed, index)).astype(np.float64) for index, part in enumerate(parts))
    return np.asarray(total if problem.extensive else total / len(parts))


def _edited(model: Model, problem: Problem, size: int, effort: Effort, seed: int) -> Row:
    """Take the last part away and compare with the exact counterfactual."""
    found = []
    for index, parts in enumerate(draw_cases(problem, size, effort.compositions, seed, single_last=True)):
        seen = Observation.of(problem, parts, effort.edited, _seed(seed, size, index))
        edited = model.infer(seen.x, parts).remove(parts[-1:]).decode()
        resampled = problem.truth(parts[:-1], effort.edited, _seed(seed, size, index, 1))
        found.append(measured_edit_ratio(edited, seen.only(list(range(size - 1))), resampled))
    return row_of("edit remove", size, found)


def _seed(seed: int, *keys: int) -> int:
    """A seed of its own for each purpose."""
    return int(Noise(seed, 1, *keys).integers("seed", 0, 2**31 - 2))
