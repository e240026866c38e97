"""Totals of homes by the model against the exact feeder: relED, peaks, variance, correlation, cold and mild days.

Sections of benchmarks/households.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from compvae.batch import Batch, collate
from compvae.context import encode_context
from compvae.measures import rel_ed
from compvae.model import Model
from compvae.noise import Noise
from compvae.planning import daily_peaks, quantile
from compvae.problems.base import Problem
from compvae.transport.correlating import drawn_together
from compvae.transport.network import Transport
from judged import Row, blocks

SIZES = (1, 5, 20, 50, 100, 1000)
REL_ED = {1: math.nan, 5: 0.01, 20: 0.01, 50: 0.01, 100: 0.01, 1000: 0.03}  # wanted at most
LEVELS = (0.5, 0.95, 0.99)
LARGE, FEWER = 100, 10  # beyond LARGE homes, so many times fewer draws
SINGLES = 20_000  # single homes on days of their own behind an independent sum
CHUNK = 5000  # draws of the truth at a time
CLOSE = 0.1  # in correlation, of the true one
PAIRS = (("flat", "flat"), ("flat", "heat_pump"), ("heat_pump", "heat_pump"), ("solar", "solar"), ("family", "flat"))
ASKED = ("heat_pump", "solar")  # two of these go together by the weather, two others hardly do
PLACES = ({"flat": 40, "heat_pump": 12}, dict.fromkeys(("flat", "family", "retired", "heat_pump", "solar"), 10))


@dataclass(frozen=True)
class Effort:
    """draws: for quantiles and variances.  n: for relED.  compositions: for each K.  days: observed, of a what-if."""

    draws: int = 100_000
    n: int = 1000
    compositions: int = 8
    days: int = 10
    wholes: int = 4000
    sizes: tuple[int, ...] = SIZES

    def draws_of(self, size: int) -> int:
        """At so many homes."""
        return self.draws if size <= LARGE else max(200, self.draws // FEWER)


def unknown(model: Model, rows: int) -> torch.Tensor:
    """Context of days of which nothing is known, (rows, E)."""
    return encode_context(model.config.context, None).expand(rows, -1)


def composition(problem: Problem, size: int, index: int) -> dict[str, int]:
    """Number ``index`` of the compositions of a size, which no training step sees (as benchmarks/train_small.py)."""
    parts = problem.draw_parts(torch.tensor([size]), Noise(90_000 + size, torch.tensor([index])))
    counts = torch.bincount(parts.kind[0], minlength=problem.schema.n_kinds)
    return {name: int(n) for name, n in zip(problem.schema.categories, counts, strict=True) if n}


def seed_of(size: int, index: int) -> int:
    return 91_000_000 + 1000 * size + index


def exact(problem: Problem, parts: dict[str, int], n: int, seed: int) -> np.ndarray:
    """Exact days in chunks whose memory is bounded, (n, 48)."""
    sizes = [min(CHUNK, n - start) for start in range(0, n, CHUNK)]
    return np.concatenate([problem.truth(parts, size, seed=seed + 10**9 * i) for i, size in enumerate(sizes)])


def generation(model: Model, problem: Problem, effort: Effort) -> Iterator[Row]:
    """relED of n samples against n exact ones, mean over compositions."""
    for size in effort.sizes:
        values = []
        for index in range(effort.compositions):
            parts, seed = composition(problem, size, index), seed_of(size, index)
            values.append(rel_ed(problem.truth(parts, effort.n, seed), model.sample(parts, effort.n, seed + 500)).value)
        mean, se = float(np.mean(values)), float(np.std(values) / math.sqrt(len(values)))
        limit = REL_ED.get(size, math.nan)
        wanted, met = ("", None) if math.isnan(limit) else (f"<= {limit:g}", mean <= limit)
        yield Row("relED", "relED", f"K={size}", mean, se, effort.n, wanted, met, max(values))


def peaks(model: Model, problem: Problem, effort: Effort) -> Iterator[Row]:
    """Quantiles of the daily peak and variance, model over truth; beside: homes each on a day of its own, over truth.

    Of the compositions of a size, the one that is furthest off counts; its Monte-Carlo error stands beside it.
    """
    alone = {
        name: exact(problem, {name: 1}, min(SINGLES, effort.draws), 17 + i)
        for i, name in enumerate(problem.schema.categories)
    }
    for size in effort.sizes:
        n, found = effort.draws_of(size), []
        for index in range(effort.compositions):
            parts, seed = composition(problem, size, index), seed_of(size, index)
            true, drawn = exact(problem, parts, n, seed), model.sample(parts, n, seed + 500)
            apart = independent(alone, parts, max(100, min(SINGLES, n, 2_000_000 // size)), seed)
            found.append(compared(true, drawn, apart))
        for name, limit in (*((f"P{100 * q:g} peak, ratio", 0.02) for q in LEVELS), ("variance, ratio", 0.05)):
            ratios = [one[name] for one in found]
            value, se, beside = max(ratios, key=lambda ratio: abs(ratio[0] - 1))
            mean = float(np.mean([ratio[0] for ratio in ratios]))
            met = abs(value - 1) <= limit
            yield Row("peaks", f"{name}, worst", f"K={size}", value, se, n, f"1 +- {limit:g}", met, beside)
            yield Row("peaks", f"{name}, mean", f"K={size}", mean, _mean_se(ratios), n)


def _mean_se(ratios: list[tuple[float, float, float]]) -> float:
    return math.sqrt(sum(se**2 for _, se, _ in ratios)) / len(ratios)


def compared(true: np.ndarray, drawn: np.ndarray, apart: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """(model over truth, its standard error, independent sum over truth) of each quantity.  (n, 48) each."""
    found = {}
    for level in LEVELS:
        a, b, c = (quantile(daily_peaks(x), level) for x in (true, drawn, apart))
        ratio = b.value / a.value
        found[f"P{100 * level:g} peak, ratio"] = (
            ratio,
            abs(ratio) * math.hypot(a.se / a.value, b.se / b.value),
            c.value / a.value,
        )
    (v_true, se_true), (v_drawn, se_drawn) = (blocks(spread, x) for x in (true, drawn))
    ratio = v_drawn / v_true
    se = ratio * math.hypot(se_true / v_true, se_drawn / v_drawn)
    found["variance, ratio"] = (ratio, se, spread(apart) / v_true)
    return found


def spread(x: np.ndarray) -> float:
    """Variance summed over half-hours.  x: (n, 48)."""
    return float(x.var(0, dtype=np.float64).sum())


def independent(alone: dict[str, np.ndarray], parts: dict[str, int], n: int, seed: int) -> np.ndarray:
    """n sums of homes, each on a day of its own: what adding up single profiles gives, (n, 48)."""
    random, total = np.random.default_rng(seed), np.zeros((n, 48))
    for name, count in parts.items():
        pool = alone[name]
        for _ in range(count):
            total += pool[random.integers(len(pool), size=n)]
    return total


def correlation(model: Model, problem: Problem, effort: Effort) -> Iterator[Row]:
    """Correlation of the loads of two homes on one day: sum_t Cov / sqrt(sum_t Var sum_t Var), of model less truth."""
    n = min(effort.draws, 50_000)
    days = problem.factors(n, seed=5)
    for first, second in PAIRS:
        true = [problem.truth({name: 1}, n, seed=70 + i, factors=days) for i, name in enumerate((first, second))]
        drawn = two_homes(model, first, second, n)
        (a, se_a), (b, se_b) = (blocks(together, *pair) for pair in (true, drawn))
        at = f"{first}, {second}"
        yield Row("correlation", "of two homes, truth", at, a, se_a, n)
        yield Row("correlation", "of two homes, model", at, b, se_b, n)
        gap, se = b - a, math.hypot(se_a, se_b)
        asked = first == second and first in ASKED
        wanted, met = (f"0 within {CLOSE:.0%} of the truth", abs(gap) <= CLOSE * a) if asked else ("", None)
        yield Row("correlation", "model less truth", at, gap, se, n, wanted, met)


def together(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of whole curves.  a, b: (n, 48)."""
    a, b = (x.astype(np.float64) - x.mean(0, dtype=np.float64) for x in (a, b))
    return float((a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum()))


def two_homes(model: Model, first: str, second: str, n: int) -> list[np.ndarray]:
    """Two homes of the model on one day, (n, 48) each: z and what is unknown of the day are drawn once for both."""
    network = invertible(model)
    empty = torch.zeros(1, *model.shape)
    homes = [Batch(empty, collate([model.parts.parse({name: 1})]), unknown(model, 1)) for name in (first, second)]
    sizes = [min(CHUNK, n - start) for start in range(0, n, CHUNK)]
    drawn = [drawn_together(network, homes[0], homes[1], size, 23 + i) for i, size in enumerate(sizes)]
    return [torch.cat([pair[number][0] for pair in drawn]).numpy() for number in (0, 1)]


def invertible(model: Model) -> Transport:
    """The network of a model of the feeder."""
    assert isinstance(model.network, Transport), "this benchmark is about the invertible model of the feeder"
    return model.network


def context(model: Model, problem: Problem, effort: Effort) -> Iterator[Row]:
    """P95 of the peak on cold and mild days, the temperature given: model over truth."""
    for parts in PLACES:
        for temperature in (-5.0, 15.0):
            given = {"temperature": temperature}
            n = effort.draws_of(sum(parts.values()))
            true = np.concatenate(
                [daily_peaks(problem.truth(parts, min(CHUNK, n - start), start, given)) for start in range(0, n, CHUNK)]
            )
            a, b = quantile(true, 0.95), quantile(daily_peaks(model.sample(parts, n, 1, given)), 0.95)
            ratio = b.value / a.value
            se = ratio * math.hypot(a.se / a.value, b.se / b.value)
            at = f"{temperature:g} C, {', '.join(f'{k}:{v}' for k, v in parts.items())}"
            yield Row("context", "P95 peak, ratio", at, ratio, se, n, "1 +- 0.03", abs(ratio - 1) <= 0.03)
