"""How near a sampler comes to the truth of a problem: relED, edit ratios, outliers, energy score; seeds are fixed.

relED        6 compositions for each K (seeds c = 100 K + 0..5), 800 exact wholes (seed 10 c + 1) against 800 draws
             (seed 10 c + 3); floor: 800 other exact ones (seed 10 c + 2) in the place of the draws.
edit ratio   200 wholes of K parts of different kinds (of different places, where parts have them), the first of which
             is removed: RMSE to the exact counterfactual, with factors and specifics held, over that of a fresh whole
             of the parts that stay.
largest      max |x| of 10,000 draws (20 compositions, 500 each) over that of as many exact wholes, for each K of the
             training range.
energy       mean energy score of 500 held-out wholes, 100 draws each, beside that of exact draws for the same wholes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from compvae.batch import unpad
from compvae.measures import energy_score, rel_ed
from compvae.measures.measured import Measured, mean_of, paired, root_ratio
from compvae.model import Model
from compvae.noise import Noise
from compvae.parts import Multiset, PartsBatch
from compvae.problems import Problem, get

Described = list[dict[str, str | float]]
Sampler = Callable[[Described, int, int], np.ndarray]
"""(parts, n, seed) -> (n, *shape)."""
Editor = Callable[[np.ndarray, Sequence[Described], Sequence[Described]], np.ndarray]
"""(x (n, *shape), parts of each, parts to be removed from each) -> what is left, (n, *shape)."""

COMPOSITIONS, DRAWS = 6, 800
EDITED, EDIT_SIZES = 200, (2, 3, 4, 5)
OUTLIER_COMPOSITIONS, OUTLIER_DRAWS = 20, 500
SCORED, FORECAST = 500, 100


@dataclass(frozen=True)
class Effort:
    """How much is measured; the defaults are those of the tables."""

    compositions: int = COMPOSITIONS
    draws: int = DRAWS
    edited: int = EDITED
    outliers: tuple[int, int] = (OUTLIER_COMPOSITIONS, OUTLIER_DRAWS)
    scored: int = SCORED
    forecast: int = FORECAST


def of_model(model: Model) -> tuple[Sampler, Editor]:
    """A model of the package as a sampler and an editor."""

    def sample(parts: Described, n: int, seed: int) -> np.ndarray:
        return model.sample(parts, n, seed)

    def remove(x: np.ndarray, parts: Sequence[Described], gone: Sequence[Described]) -> np.ndarray:
        return model.infer(x, PartsBatch(parts)).remove(PartsBatch(gone)).decode()

    return sample, remove


def exact(problem: Problem) -> Sampler:
    """The truth as a sampler."""
    return lambda parts, n, seed: problem.truth(parts, n, seed)


def sizes_of(problem: Problem) -> list[int]:
    """K = 1, 2, middle, largest, twice the largest, without those the problem never draws."""
    fewest, most = fewest_parts(problem), problem.max_parts
    return sorted({size for size in (1, 2, (fewest + most) // 2, most, 2 * most) if size >= fewest})


def fewest_parts(problem: Problem) -> int:
    """The smallest K of the training range."""
    return int(problem.draw(problem.max_parts, Noise(0, 256)).parts.sizes.min())


def composition(problem: Problem, size: int, seed: int) -> Multiset:
    """One of ``size`` parts, drawn as the problem draws them."""
    return unpad(problem.draw_parts(torch.tensor([size]), Noise(seed, 1)), problem.schema)[0]


def distances(problem: Problem, sample: Sampler, size: int, effort: Effort) -> dict[str, Any]:
    """relED at one K: mean over compositions, its standard error over them, and the floor."""
    found, floors = [], []
    for number in range(effort.compositions):
        seed = 100 * size + number
        parts = composition(problem, size, seed).dicts()
        true, again = (problem.truth(parts, effort.draws, 10 * seed + i) for i in (1, 2))
        found.append(finite(lambda t, y: rel_ed(t, y).value, true, sample(parts, effort.draws, 10 * seed + 3)))
        floors.append(abs(rel_ed(true, again).value))
    mean = mean_of(np.array(found)) if np.isfinite(found).all() else Measured(math.inf, math.nan, len(found))
    return {**shown(mean), "floor": float(np.mean(floors)), "each": found}


def finite(measure: Callable[[np.ndarray, np.ndarray], float], true: np.ndarray, drawn: np.ndarray) -> float:
    """The measure, infinite where draws are not finite."""
    return measure(true, drawn) if np.isfinite(drawn).all() else math.inf


def shown(measured: Measured) -> dict[str, float]:
    """A number and its error as plain data."""
    found = asdict(measured)
    return {name: found[name] for name in ("value", "se")}


# -- edits -----------------------------------------------------------------------------------------------------------


def distinct(problem: Problem, size: int, random: np.random.Generator) -> Described:
    """Parts of different kinds; parts with places as the problem draws them, which makes each the only one there."""
    if problem.schema.countable:
        names = random.permutation(problem.schema.categories)[:size]
        return [{problem.schema.attributes[0].name: str(name)} for name in names]
    return composition(problem, size, int(random.integers(2**31))).dicts()


def edits(problem: Problem, remove: Editor, size: int, effort: Effort) -> dict[str, float]:
    """The edit ratio at one K."""
    random = np.random.default_rng(size)
    before = [distinct(problem, size, random) for _ in range(effort.edited)]
    seen, left, fresh = [], [], []
    for row, parts in enumerate(before):
        hidden, held = problem.specifics(parts, 1, 10_000 + row), problem.factors(1, 10_000 + row)
        seen.append(problem.whole(parts, hidden, held)[0])
        left.append(problem.whole(parts[1:], hidden[:, 1:], held)[0])
        fresh.append(problem.truth(parts[1:], 1, 20_000 + row)[0])
    edited = remove(np.stack(seen), before, [parts[:1] for parts in before])
    if not np.isfinite(edited).all():
        return {"value": math.inf, "se": math.nan}
    off, base = (((a - np.stack(left)).reshape(len(before), -1) ** 2).mean(1) for a in (edited, np.stack(fresh)))
    return shown(root_ratio(off, base))


# -- outliers and scores ---------------------------------------------------------------------------------------------


def largest(problem: Problem, sample: Sampler, size: int, effort: Effort) -> float:
    """max |x| of draws over that of exact wholes, at one K."""
    number, n = effort.outliers
    listed = [composition(problem, size, 100 * size + 50 + i).dicts() for i in range(number)]
    drawn, true = (max(float(np.abs(s(parts, n, 5)).max()) for parts in listed) for s in (sample, exact(problem)))
    return drawn / true


def scores(problem: Problem, sampler: Sampler, size: int | None, effort: Effort) -> np.ndarray:
    """Energy score of each of the held-out wholes, of one K or of the training range.  -> (n,)."""
    noise = Noise(7, effort.scored, 0 if size is None else size)
    batch = problem.draw(size or problem.max_parts, noise, size or fewest_parts(problem))
    listed = [parts.dicts() for parts in unpad(batch.parts.padded(), problem.schema)]
    found = []
    for row, (parts, x) in enumerate(zip(listed, batch.x.numpy(), strict=True)):
        drawn = sampler(parts, effort.forecast, 30_000 + row)
        found.append(finite(lambda t, y: energy_score(y[None], t).value, x[None], drawn))
    return np.array(found)


def scored(held_out: Problem, rival: Problem, sample: Sampler, size: int | None, effort: Effort) -> dict[str, Any]:
    """Mean score of draws on wholes of ``held_out``, that of exact draws of ``rival``, and their paired difference."""
    ours, theirs = (scores(held_out, sampler, size, effort) for sampler in (sample, exact(rival)))
    if not np.isfinite(ours).all():
        return {"value": math.inf, "exact": float(theirs.mean())}
    return {**shown(mean_of(ours)), "exact": float(theirs.mean()), "difference": shown(paired(ours, theirs))}


def judge(problem: Problem, sample: Sampler, remove: Editor | None, effort: Effort) -> dict[str, Any]:
    """All numbers of one sampler, as plain data."""
    sizes = sizes_of(problem)
    found: dict[str, Any] = {"relED": {size: distances(problem, sample, size, effort) for size in sizes}}
    if problem.name == "balls":
        corner = get("balls", places="corner")
        found["relED in the missing corner"] = {size: distances(corner, sample, size, effort) for size in sizes}
    if remove is not None:
        most = len(problem.schema.categories) if problem.schema.countable else max(EDIT_SIZES)
        found["edit"] = {size: edits(problem, remove, size, effort) for size in EDIT_SIZES if size <= most}
    within = range(fewest_parts(problem), problem.max_parts + 1)
    found["largest"] = {size: largest(problem, sample, size, effort) for size in within}
    held_out = get("appliances", half="held-out") if problem.name == "appliances" else problem
    found["energy"] = scored(held_out, problem, sample, None, effort)
    if problem.name == "appliances":  # whose truth is known only as far as the other half shows it
        found["energy by K"] = {size: scored(held_out, problem, sample, size, effort) for size in sizes}
    return found
