"""The shared day: is it in what is inferred, does an edit hold it, is a what-if on it right?

Sections of benchmarks/households.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from compvae.batch import Batch, collate, repeat
from compvae.context import flag_columns
from compvae.extras import need
from compvae.measures import rel_ed
from compvae.model import Model
from compvae.problems.base import Problem
from compvae.transport.observing import observe
from households_totals import Effort, invertible, unknown
from judged import Row, blocks

Parts = dict[str, int]
STREETS: dict[str, Parts] = {
    "76 flats, 24 heat pumps": {"flat": 76, "heat_pump": 24},
    "12 or 13 of each": dict(zip(("flat", "family", "retired", "home_office", "heat_pump", "electric_car",
                                  "night_worker", "solar"), (12, 12, 12, 12, 13, 13, 13, 13), strict=True)),
}  # fmt: skip
HERE: Parts = {"flat": 40, "heat_pump": 12}
GONE, COME, THEN = {"flat": 10}, {"heat_pump": 10}, {"flat": 30, "heat_pump": 22}
TILE = 200
RIDGE = 1.0


@torch.no_grad()
def means_of_z(model: Model, x: np.ndarray, parts: Parts) -> np.ndarray:
    """What a whole on its own shows of its day, (n, E' + Z): posterior means of the context and of z, none known."""
    network, found = invertible(model), []
    one, covariates = collate([model.parts.parse(parts).canonical()]), model.config.context
    values = sorted(set(range(len(flag_columns(covariates)))) - set(flag_columns(covariates)))
    for start in range(0, len(x), TILE):
        some = torch.from_numpy(x[start : start + TILE])
        parts_of_all = repeat(one, len(some))
        seen = observe(network, Batch(some, parts_of_all, unknown(model, len(some))))
        assert seen.contexts is not None
        context = (seen.contexts * seen.weights[..., None]).sum(1)[:, values]
        z = network.given(parts_of_all, seen.at(0)).gaussian.posterior_mean(seen.deviation(0)).z
        found.append(torch.cat([context.double(), z], 1))
    return torch.cat(found).numpy()


def factor(model: Model, problem: Problem, effort: Effort) -> Iterator[Row]:
    """Temperature (R^2) and match (AUC) from what is inferred of the day, by quadratic readers fitted on the
    first half of the days.

    Under an edit: it is inferred again from the edited whole and its new parts, and read by the same readers.
    """
    n, half = effort.wholes, effort.wholes // 2
    for at, parts in STREETS.items():
        x, days = problem.truth(parts, n, seed=40), problem.factors(n, seed=40)
        z = means_of_z(model, x, parts)
        heat, match = days["temperature"].astype(np.float64), days["match"] > 0.5
        linear = need("sklearn.linear_model", "eval")
        warm = _reader(linear.Ridge(RIDGE)).fit(z[:half], heat[:half])
        playing = _reader(linear.LogisticRegression(max_iter=2000)).fit(z[:half], match[:half])
        yield from _read(at, "z", z[half:], heat[half:], match[half:], warm.predict, playing.decision_function)
        rows = slice(half, half + min(half, effort.n))
        edited = model.infer(x[rows], parts).replace(GONE, COME).decode(1, noise=True)[0]
        new = {**parts, "flat": parts["flat"] - 10, "heat_pump": parts["heat_pump"] + 10}
        again = means_of_z(model, edited, new)
        yield from _read(at, "z after an edit", again, heat[rows], match[rows], warm.predict, playing.decision_function)


def _reader(last: Any) -> Any:
    """A linear reader of the squares and products of z."""
    shape, join = need("sklearn.preprocessing", "eval"), need("sklearn.pipeline", "eval").make_pipeline
    return join(shape.StandardScaler(), shape.PolynomialFeatures(2, include_bias=False), shape.StandardScaler(), last)


def _read(
    at: str,
    what: str,
    z: np.ndarray,
    heat: np.ndarray,
    match: np.ndarray,
    warm: Callable[[np.ndarray], np.ndarray],
    playing: Callable[[np.ndarray], np.ndarray],
) -> Iterator[Row]:
    """z: (n, Z).  heat: (n,).  match: (n,) bool."""
    r2, r2_se = blocks(_explained, heat, warm(z))
    yield Row("factor", f"R^2 of temperature from {what}", at, r2, r2_se, len(z), ">= 0.95", r2 >= 0.95)
    if 0 < match.sum() < len(match):
        auc, auc_se = blocks(_auc, match, playing(z))
        yield Row("factor", f"AUC of match from {what}", at, auc, auc_se, len(z), ">= 0.99", auc >= 0.99)


def _explained(true: np.ndarray, guess: np.ndarray) -> float:
    return 1 - float(((true - guess) ** 2).sum() / ((true - true.mean()) ** 2).sum())


def _auc(match: np.ndarray, score: np.ndarray) -> float:
    """P(a day with a match scores higher than one without), ties half."""
    rank = need("scipy.stats", "eval").rankdata(score)
    with_one = int(match.sum())
    if not 0 < with_one < len(match):
        return math.nan
    return float((rank[match].sum() - with_one * (with_one + 1) / 2) / (with_one * (len(match) - with_one)))


def counterfactuals(problem: Problem, day: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """An observed day, (48,), and n exact days on which ten of its flats have heat pumps, (n, 48).

    The day and the homes that stay are held.  Which ten flats go is drawn anew each time, for x does not tell it.
    """
    homes, factors = problem.specifics(HERE, 1, seed=6000 + day), problem.factors(1, seed=6000 + day)
    x = problem.whole(HERE, homes, factors)[0]
    random = np.random.default_rng(day)
    flats = np.stack([random.permutation(40)[:30] for _ in range(n)])
    kept = np.concatenate([homes[0][flats], np.broadcast_to(homes[:, 40:], (n, 12, homes.shape[2]))], 1)
    new = problem.specifics(COME, n, seed=8000 + day)
    held = {name: np.broadcast_to(value, n) for name, value in factors.items()}
    return x, problem.whole(THEN, np.concatenate([kept, new], 1), held)


def what_if(model: Model, problem: Problem, effort: Effort) -> Iterator[Row]:
    """Ten of forty flats get heat pumps on the same observed day: draws against exact counterfactuals, over days.

    error: RMSE of the mean curve, over that of a fresh draw of day and homes; beside: of the mean of fresh draws.
    """
    n, named = effort.n, {False: "latents drawn", True: "with observation noise"}
    distance: dict[bool, list[float]] = {False: [], True: []}
    squares: dict[bool, list[float]] = {False: [], True: []}
    fresh, forgotten = [], []
    for day in range(effort.days):
        x, true = counterfactuals(problem, day, n)
        middle = true.mean(0, dtype=np.float64)
        other = problem.truth(THEN, n, seed=9000 + day)
        fresh.append(float(((other - middle) ** 2).mean()))
        forgotten.append(float(((other.mean(0, dtype=np.float64) - middle) ** 2).mean()))
        edited = model.infer(x, HERE).replace(GONE, COME)
        for noise in (False, True):
            drawn = edited.decode(n, seed=day, noise=noise)
            distance[noise].append(rel_ed(true, drawn).value)
            squares[noise].append(float(((drawn.mean(0, dtype=np.float64) - middle) ** 2).mean()))
    at = f"{effort.days} days"
    for noise, words in named.items():
        mean, se = float(np.mean(distance[noise])), float(np.std(distance[noise]) / math.sqrt(effort.days))
        yield Row("what_if", f"relED, {words}", at, mean, se, n, "<= 0.06", mean <= 0.06, max(distance[noise]))
        ratio, ratio_se = blocks(_root_ratio, np.array(squares[noise]), np.array(fresh))
        beside = _root_ratio(np.array(squares[noise]), np.array(forgotten))
        yield Row(
            "what_if", f"error over a fresh draw, {words}", at, ratio, ratio_se, n, "<= 0.2", ratio <= 0.2, beside
        )


def _root_ratio(a: np.ndarray, b: np.ndarray) -> float:
    return math.sqrt(float(a.mean() / b.mean()))
