"""Real homes: a model against sums of independently drawn real profiles, and of independent draws of Faraday.

python benchmarks/homes.py runs/feeder --data runs/feeder_data            # as examples/feeder.py leaves them
python benchmarks/homes.py runs/feeder --data runs/feeder_data --faraday runs/faraday.npz   # see benchmarks/peers

On days, and in the second setting homes, that training has not seen.  There is no truth here, so there is no relED:
energy score (lower is better), coverage of 90% intervals, distance of the PIT of peaks from uniform, P95 of the peak
and variance over the real ones, P95 of the peak a home against the number of homes.  Intervals are of 95%, by a
bootstrap over homes and days.  difference: rival less model; where its interval holds 0, nobody has won.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

import compvae
from compvae.compose import Model
from compvae.measures import coverage, energy_score, pit
from compvae.problems.meters import MeterGroups
from compvae.problems.own import own_data
from compvae.problems.pools import Wholes
from resampling import Statistic, interval, weighted_quantile, weighted_variance, weights_of

FILES = ("meters.csv", "homes.csv", "days.csv")
LEVEL = 0.95
SIZES = (1, 2, 3, 5, 10, 15)


@dataclass(frozen=True)
class Finding:
    """A number of one forecaster with its interval; difference: to the model's, None for the model itself."""

    setting: str
    measure: str
    of: str
    value: float
    low: float
    high: float
    difference: tuple[float, float, float] | None = None

    def line(self) -> str:
        gap = ""
        if self.difference is not None:
            value, low, high = self.difference
            undecided = " (0 inside)" if low <= 0 <= high else ""
            gap = f"{value:+.3g} ({low:+.3g} to {high:+.3g}){undecided}"
        return (
            f"| {self.setting} | {self.measure} | {self.of} | {self.value:.4g} | {self.low:.4g} to {self.high:.4g} "
            f"| {gap} |"
        )


@dataclass(frozen=True)
class Rivals:
    """Where draws come from.  singles, faraday: single homes by profile, (n, T) kW each."""

    model: Model
    singles: dict[str, np.ndarray]
    faraday: dict[str, np.ndarray] | None

    def draws(self, real: Wholes, m: int, seed: int) -> dict[str, np.ndarray]:
        """Draws for each whole by each forecaster, (n, m, T); the model comes first."""
        known = [
            self.model.sample(p, m, seed + i, c) for i, (p, c) in enumerate(zip(real.parts, real.context, strict=True))
        ]
        blind = [self.model.sample(p, m, seed + i) for i, p in enumerate(real.parts)]
        found = {"model, day unknown": np.stack(blind), "model, day known": np.stack(known)}
        for name, pool in (("independent profiles", self.singles), ("Faraday, independent", self.faraday)):
            if pool is not None:
                random = np.random.default_rng(seed)
                found[name] = np.stack([_added(pool, parts, m, random) for parts in real.parts])
        return found


def _added(pool: dict[str, np.ndarray], parts: dict[str, int], m: int, random: np.random.Generator) -> np.ndarray:
    """m sums of single homes, each drawn on its own, (m, T)."""
    drawn = [pool[name][random.integers(len(pool[name]), size=m)] for name, n in parts.items() for _ in range(n)]
    return np.asarray(np.sum(drawn, axis=0, dtype=np.float64), np.float32)


def opened(directory: Path) -> MeterGroups:
    """The meters of a directory as compvae data citylearn writes it."""
    meters, homes, days = (str(directory / name) for name in FILES)
    source = own_data(meters, homes, days).open()
    assert isinstance(source, MeterGroups)
    return source


def training_singles(source: MeterGroups) -> dict[str, np.ndarray]:
    """Days of training homes, by profile, (n, T)."""
    record = source.pool("training", "training").record
    kind = source.profiles.of[source.days.meter[record]]
    return {name: source.days.kw[record[kind == i]] for i, name in enumerate(source.profiles.names)}


def read_faraday(path: Path, source: MeterGroups) -> dict[str, np.ndarray]:
    """What benchmarks/peers/faraday.py wrote: x (n, T) kW and profile (n,) texts."""
    with np.load(path, allow_pickle=False) as file:
        x, profile = file["x"].astype(np.float32), file["profile"]
    if x.ndim != 2 or x.shape[1:] != source.shape or set(source.profiles.names) - set(profile.tolist()):
        raise SystemExit(f"{path}: expected x (n, {source.shape[0]}) with draws of {', '.join(source.profiles.names)}")
    return {name: x[profile == name] for name in source.profiles.names}


def statistics(x: np.ndarray, drawn: np.ndarray) -> dict[str, Statistic]:
    """Every measure as a function of the weights of wholes.  x: (n, T).  drawn: (n, m, T)."""
    rows = [slice(i, i + 1) for i in range(len(x))]
    score = np.array([energy_score(drawn[row], x[row]).value for row in rows])
    inside = np.array([coverage(drawn[row], x[row], 0.9).value for row in rows])
    peak, peaks = x.max(1), drawn.max(2)
    ranks = pit(peaks, peak)
    real_p95, own_p95 = weighted_quantile(peak[:, None], LEVEL), weighted_quantile(peaks, LEVEL)
    real_var, own_var = weighted_variance(x[:, None]), weighted_variance(drawn)
    return {
        "energy score, kW": lambda w: float(w @ score / w.sum()),
        "coverage of 90%": lambda w: float(w @ inside / w.sum()),
        "PIT of the peak, KS distance": lambda w: _distance(ranks, w),
        "P95 peak over the real one": lambda w: own_p95(w) / real_p95(w),
        "variance over the real one": lambda w: own_var(w) / real_var(w),
    }


def _distance(ranks: np.ndarray, weights: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of weighted values from uniform.  ranks, weights: (n,)."""
    order = np.argsort(ranks)
    reached = np.cumsum(weights[order]) / weights.sum()
    before = np.concatenate([[0.0], reached[:-1]])
    return float(np.maximum(reached - ranks[order], ranks[order] - before).max())


def judge(source: MeterGroups, rivals: Rivals, args: argparse.Namespace) -> Iterator[Finding]:
    held = int(source.held_homes.sum())
    for homes, size in (("all", min(10, source.max_parts)), ("held_out", min(3, held))):
        if size < 1:
            continue
        real = source.held_out(args.groups, size, args.seed, homes)
        setting = f"{size} {'unseen' if homes == 'held_out' else 'of all'} homes, unseen days"
        weights = weights_of(real.dates, real.homes, args.resamples, args.seed)
        found = {who: statistics(real.x, x) for who, x in rivals.draws(real, args.draws, args.seed).items()}
        yield from _findings(setting, found, weights)
    yield from diversity(source, rivals, args)


def _findings(setting: str, found: dict[str, dict[str, Statistic]], weights: np.ndarray) -> Iterator[Finding]:
    first, *others = found
    for measure, own in found[first].items():
        yield Finding(setting, measure, first, *interval(own, weights))
        for who in others:
            other = found[who][measure]
            gap = interval(lambda w, a=other, b=own: a(w) - b(w), weights)  # type: ignore[misc]
            yield Finding(setting, measure, who, *interval(other, weights), gap)


def diversity(source: MeterGroups, rivals: Rivals, args: argparse.Namespace) -> Iterator[Finding]:
    """P95 of the peak a home, real and by each forecaster, on unseen days."""
    for size in (size for size in SIZES if size <= len(source.days.meters)):
        real = source.held_out(args.groups, size, args.seed, "all")
        weights = weights_of(real.dates, real.homes, args.resamples, args.seed)
        setting, measure = f"{size} homes", "P95 peak, kW a home"
        yield Finding(
            setting, measure, "real", *interval(weighted_quantile(real.x.max(1)[:, None] / size, LEVEL), weights)
        )
        found = {
            who: {measure: weighted_quantile(x.max(2) / size, LEVEL)}
            for who, x in rivals.draws(real, args.draws, args.seed).items()
        }
        yield from _findings(setting, found, weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a run or model directory, trained on these meters")
    parser.add_argument("--data", type=Path, required=True, help="directory with meters.csv, homes.csv and days.csv")
    parser.add_argument("--faraday", type=Path, help="single homes drawn by Faraday (.npz)")
    parser.add_argument("--groups", type=int, default=200, help="real wholes of each setting")
    parser.add_argument("--draws", type=int, default=200, help="of each forecaster for each whole, 40 or more")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    source = opened(args.data)
    faraday = None if args.faraday is None else read_faraday(args.faraday, source)
    rivals = Rivals(compvae.load(args.model), training_singles(source), faraday)
    findings = []
    if not args.json:
        print("| setting | measure | of | value | 95% | difference to the model, day unknown (95%) |")
        print("|---" * 6 + "|", flush=True)
    for finding in judge(source, rivals, args):
        findings.append(finding)
        if not args.json:
            print(finding.line(), flush=True)
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings]))


if __name__ == "__main__":
    main()
