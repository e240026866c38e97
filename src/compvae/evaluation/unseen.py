"""Own data has no truth, so there is no relED: draws are judged on what was held out, one forecast for each whole.

Energy score (lower is better), coverage of 90% intervals, Kolmogorov distance of the PIT of peaks from uniform, P95 of
the peak and variance over the real ones, P95 of the peak a part.  Intervals of 95% by a bootstrap over days and homes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from compvae.baselines.base import Watch, unwatched
from compvae.checks import at_least_one
from compvae.errors import ConfigError, DataError
from compvae.evaluation.rows import MODEL, Comparison, Evaluation, Row
from compvae.measures import coverage, energy_score, pit
from compvae.measures.resampling import Statistic, interval, resampled, weighted_quantile, weighted_variance, weights_of
from compvae.model import Model
from compvae.problems.meters import MeterGroups
from compvae.problems.source import OwnSource, Wholes
from compvae.problems.tables import TableWholes

__all__ = [
    "INDEPENDENT",
    "KNOWN",
    "REAL",
    "UNSEEN_HOMES",
    "Effort",
    "Forecast",
    "Setting",
    "by_model",
    "effort_for",
    "evaluate_own",
    "peaks_of",
    "settings_of",
    "sums_of",
]

LEVEL, INSIDE = 0.95, 0.9
KNOWN, INDEPENDENT, REAL = "model, context known", "independent", "real"
UNSEEN_HOMES = ", unseen homes"  # behind a measure's name; without it the homes are any, the days unseen
PEAK = "P95 peak a part"
LEAST_WHOLES = 20  # of one size in tables, to be judged by themselves
MOST_SIZES = 6
LEAST_RATIO = 1e-6  # of a forecast that does not vary
SCORE, COVERAGE, RANKS = "energy score", "coverage of 90%", "PIT of the peak"
PEAKS, VARIANCE = "P95 peak, ratio", "variance, ratio"

Forecast = Callable[[Wholes, int, int], np.ndarray]
"""(real, m, seed) -> m draws for each whole, (n, m, *shape)."""


@dataclass(frozen=True)
class Effort:
    """wholes: held-out ones of each setting.  draws: for each of them.  sizes: K, as far as there are so many homes."""

    wholes: int = 200
    draws: int = 200
    resamples: int = 1000
    sizes: tuple[int, ...] | None = None


def effort_for(quick: bool, wholes: int | None, draws: int | None, sizes: tuple[int, ...] | None) -> Effort:
    """What was asked for in place of the defaults."""
    effort = Effort(40, 60, 200) if quick else Effort()
    if wholes is not None:
        effort = replace(effort, wholes=at_least_one(wholes, "compositions"))
    if draws is not None:
        effort = replace(effort, draws=at_least_one(draws, "n"))
    if effort.draws < 20:
        raise ConfigError(f"n must be at least 20: a 90% interval needs so many draws, got {effort.draws}")
    return replace(effort, sizes=sizes)


@dataclass(frozen=True)
class Setting:
    """Held-out wholes of one kind.  size: K, None where it differs.  kind: behind the name of every measure."""

    size: int | None
    kind: str
    real: Wholes


def settings_of(source: OwnSource, effort: Effort, seed: int = 0) -> Iterator[Setting]:
    """What is judged: groups of any homes on unseen days at several K, then of unseen homes; or unseen wholes."""
    if isinstance(source, MeterGroups):
        yield from _groups(source, effort, seed)
    elif isinstance(source, TableWholes):
        yield from _tables(source, effort, seed)
    else:
        raise ConfigError(f"{source.name} keeps nothing held out to judge a model by")


def _groups(source: MeterGroups, effort: Effort, seed: int) -> Iterator[Setting]:
    for homes, kind in (("all", ""), ("held_out", UNSEEN_HOMES)):
        largest = int(source.pool(homes).count.max(initial=0))
        if not largest and not kind:
            raise DataError("no day is held out, there is nothing to judge the model by; it needs days enough for that")
        usual = (1, 2, 3, 5, 10, 15, 30, 50, 100) if not kind else (1, largest)
        for size in sorted({size for size in effort.sizes or usual if size <= largest}):
            yield Setting(size, kind, source.held_out(effort.wholes, size, seed, homes))


def _tables(source: TableWholes, effort: Effort, seed: int) -> Iterator[Setting]:
    yield Setting(None, "", source.held_out(effort.wholes, seed=seed))
    found, count = np.unique(source.held_sizes, return_counts=True)
    frequent = found[np.argsort(-count, kind="stable")][:MOST_SIZES]
    enough = [int(size) for size in np.sort(frequent) if count[found == size][0] >= LEAST_WHOLES]
    if len(found) > 1:
        for size in enough if effort.sizes is None else [size for size in effort.sizes if size in found]:
            yield Setting(size, "", source.held_out(effort.wholes, size, seed))


# -- forecasts ---------------------------------------------------------------------------------------------------


def by_model(model: Model, known: bool) -> Forecast:
    """Draws of the model for the parts of each whole, given what is known of it or nothing."""

    def forecast(real: Wholes, m: int, seed: int) -> np.ndarray:
        context = real.context if known else [None] * len(real.parts)
        draws = zip(real.parts, context, strict=True)
        return np.stack([model.sample(parts, m, seed + i, given) for i, (parts, given) in enumerate(draws)])

    return forecast


def sums_of(singles: Mapping[str, np.ndarray]) -> Forecast:
    """Sums of single homes, each drawn on its own.  singles: by profile, (n, T)."""

    def forecast(real: Wholes, m: int, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        found = np.zeros((len(real.parts), m, real.x.shape[1]), np.float32)
        for row, parts in enumerate(real.parts):
            for name, count in parts.items():
                for _ in range(count):
                    found[row] += singles[name][random.integers(len(singles[name]), size=m)]
        return found

    return forecast


def _forecasts(model: Model, source: OwnSource) -> dict[str, Forecast]:
    """Who is judged; the model, which is told nothing of the day, comes first."""
    found = {MODEL: by_model(model, known=False)}
    if source.context:
        found[KNOWN] = by_model(model, known=True)
    if isinstance(source, MeterGroups):
        found[INDEPENDENT] = sums_of(source.singles())
    return found


# -- measures ----------------------------------------------------------------------------------------------------


def _measures(real: Wholes, drawn: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Every measure of one forecast, of the data and of every resample, (B + 1,) each.

    drawn: (n, m, *shape).  weights: (B + 1, n).
    """
    rows = [slice(i, i + 1) for i in range(len(real.x))]
    score = np.array([energy_score(drawn[row], real.x[row]).value for row in rows])
    inside = np.array([coverage(drawn[row], real.x[row], INSIDE).value for row in rows])
    peak, peaks = peaks_of(real.x), peaks_of(drawn, 2)
    ranks = pit(peaks, peak)
    real_p95, own_p95 = weighted_quantile(peak[:, None], LEVEL), weighted_quantile(peaks, LEVEL)
    x, y = real.x.reshape(len(rows), 1, -1), drawn.reshape(*drawn.shape[:2], -1)
    real_var, own_var = weighted_variance(x), weighted_variance(y)
    found: dict[str, Statistic] = {
        SCORE: lambda w: float(w @ score / w.sum()),
        COVERAGE: lambda w: float(w @ inside / w.sum()),
        RANKS: lambda w: _distance(ranks, w),
        PEAKS: lambda w: _ratio(own_p95(w), real_p95(w)),
        VARIANCE: lambda w: _ratio(own_var(w), real_var(w)),
    }
    return {name: resampled(statistic, weights) for name, statistic in found.items()}


def _off(name: str, values: np.ndarray) -> np.ndarray:
    """How far values of a measure are from perfect, lower being better; ratios on a logarithmic scale."""
    if name in (PEAKS, VARIANCE):
        return np.asarray(np.abs(np.log(np.maximum(values, LEAST_RATIO))))
    return np.abs(values - INSIDE) if name == COVERAGE else values


def peaks_of(x: np.ndarray, axis: int = 1) -> np.ndarray:
    """The largest value of each whole.  x: (n, *shape), or (n, m, *shape) with axis 2."""
    return np.asarray(x.reshape(*x.shape[:axis], -1).max(axis))


def _distance(ranks: np.ndarray, weights: np.ndarray) -> float:
    """Kolmogorov distance of weighted values from uniform.  ranks, weights: (n,)."""
    order = np.argsort(ranks)
    reached = np.cumsum(weights[order]) / weights.sum()
    before = np.concatenate([[0.0], reached[:-1]])
    return float(np.maximum(reached - ranks[order], ranks[order] - before).max())


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else 0.0


# -- the evaluation ----------------------------------------------------------------------------------------------


def evaluate_own(
    model: Model,
    source: OwnSource,
    effort: Effort,
    seed: int = 0,
    watch: Watch = unwatched,
    into: Evaluation | None = None,
    rivals: Mapping[str, Forecast] | None = None,
) -> Evaluation:
    """All measures of the model, of sums of independent homes and of rivals, with paired differences.

    into: collects the rows as they come.
    """
    result = Evaluation() if into is None else into
    forecasts = {**_forecasts(model, source), **(rivals or {})}
    settings = list(settings_of(source, effort, seed))
    total, done = len(settings) * len(forecasts), 0
    for setting in settings:
        real = setting.real
        weights = weights_of(real.dates, real.homes, effort.resamples, seed)
        ours: dict[str, np.ndarray] = {}
        if setting.size is not None:
            peak = weighted_quantile(peaks_of(real.x)[:, None] / setting.size, LEVEL)
            result.measures.append(_row(REAL, PEAK, setting, resampled(peak, weights)))
        for name, forecast in forecasts.items():
            watch(f"K = {setting.size or 'any'}{setting.kind}, {name}", done, total)
            drawn = forecast(real, effort.draws, seed)
            found = _measures(real, drawn, weights)
            result.measures += [_row(name, key, setting, values) for key, values in found.items()]
            if setting.size is not None:
                peak = weighted_quantile(peaks_of(drawn, 2) / setting.size, LEVEL)
                result.measures.append(_row(name, PEAK, setting, resampled(peak, weights)))
            ours = ours or found
            if name != MODEL and setting.size is not None:
                gaps = {key: _off(key, ours[key]) - _off(key, values) for key, values in found.items()}
                result.comparisons += [_compared(name, key, setting.size, setting, gap) for key, gap in gaps.items()]
            done += 1
    watch("judged on what was held out", total, total)
    return result


def _row(of: str, name: str, setting: Setting, values: np.ndarray) -> Row:
    value, low, high, se = interval(values)
    name, n = f"{name}{setting.kind}", len(setting.real.x)
    return Row(of=of, name=name, K=setting.size, value=value, se=se, n=n, low=low, high=high)


def _compared(against: str, name: str, size: int, setting: Setting, gaps: np.ndarray) -> Comparison:
    """Ours minus theirs, in the distance of each from perfect; a tie where its interval holds 0.  gaps: (B + 1,)."""
    value, low, high, se = interval(gaps)
    verdict = "win" if high < 0 else "loss" if low > 0 else "tie"
    name, n = f"{name}{setting.kind}", len(setting.real.x)
    return Comparison(against=against, name=name, K=size, value=value, se=se, n=n, verdict=verdict, low=low, high=high)
