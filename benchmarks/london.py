"""Homes in London that training has not seen: peaks, variance, values below zero and energy score, K = 1 to 20.

python benchmarks/london.py DIRECTORY --work runs/london --json benchmarks/results/london_landed.json
python benchmarks/london.py DIRECTORY --work runs/new --before runs/london   # beside the models of an earlier run
python benchmarks/london.py DIRECTORY --work runs/new --numbers benchmarks/results/london_landed.json   # or its numbers

DIRECTORY holds meters.parquet, homes.csv and days.csv: 100 homes of the Low Carbon London trial (UK Power Networks,
London Datastore), half-hourly, 2013; the single home of profile acorn-u is left out.  Four folds over homes (of each
profile, in the order of a hash of their names): the model is trained on the homes of three by ``compvae train
meters.parquet --profiles homes.csv --context days.csv``, and judged on groups of K homes of the fourth, on one real day
each, pooled over the folds.  ``independent``: sums of real days of the training homes, each home and its day drawn by
itself.

Standard errors: a bootstrap over the homes of each fold, with groups drawn anew from the homes of each resample.  A
home that is drawn twice counts as two homes, which widens the sums of many: of the real peaks and variances the
relative spread over resamples is used.  Told what is known of the day, a model draws 50 wholes for each group, else 200
or more for each composition; energy scores are unbiased at any number of draws.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import compvae
from compvae.batch import CountedParts
from compvae.composing.generation import drawn
from compvae.context import encode_context
from compvae.data.split import shuffled
from compvae.data.times import iso_day
from compvae.extras import need
from compvae.noise import Noise
from compvae.problems.meters import MeterGroups
from compvae.problems.own import own_data
from compvae.progress import duration

FOLDS, SIZES = 4, (1, 5, 10, 20)
LEFT_OUT = "acorn-u"
FILES = ("meters.parquet", "homes.csv", "days.csv")
MODEL, INDEPENDENT, BEFORE, KNOWN = "model", "independent", "before", ", context known"
RATIOS = ("P95 peak", "variance")
FEW = 2000  # over K: draws at least, where there are few compositions
SAME = 1e-4  # relative: energy scores of the same draws for the same groups
ROWS = 2048  # that are drawn, or compared, at once

Context = Mapping[str, object] | None

Forecaster = Callable[[Mapping[str, np.ndarray], int, Sequence[Context] | None], np.ndarray]
"""(how many homes of each profile M compositions have, (M,) each, n, what is known of the day of each or None) -> n
draws of each, (M, n, 48) kW."""
Training = Callable[[Path, Path], Forecaster]
"""(directory with the three files, directory of the run) -> the trained model."""


def by_default(data: Path, out: Path) -> Forecaster:
    """What the package does by itself; what replaces it has the same form."""
    if not (out / "model").is_dir():
        meters, homes, days = (str(data / name) for name in FILES)
        command = [sys.executable, "-m", "compvae", "train", meters, "--profiles", homes, "--context", days]
        started, before = time.perf_counter(), _waited_for()
        silence = _shown([*command, "--out", str(out), "--threads", "1", "--seed", "0"])
        took = {"processor_seconds": _waited_for() - before, "seconds": time.perf_counter() - started}
        out.with_suffix(".took.json").write_text(json.dumps({**took, "longest_silence": silence}))
    return loaded(out)


def _shown(command: list[str]) -> float:
    """Run a command on a terminal of its own, as a person does, pass on what it says; its longest silence, seconds."""
    terminal, its_end = os.openpty()
    process = subprocess.Popen(command, stdout=its_end, stderr=its_end, stdin=subprocess.DEVNULL)
    os.close(its_end)
    longest, last = 0.0, time.perf_counter()
    while said := _read(terminal):
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        os.write(2, said)
    os.close(terminal)
    if process.wait():
        raise SystemExit(f"training ended with {process.returncode}")
    return longest


def _read(terminal: int) -> bytes:
    """What came, or nothing where the other end is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def loaded(run: Path) -> Forecaster:
    """The model of a run; many compositions are drawn at once, as a tile of one composition is.  Noise: seed 0."""
    model = compvae.load(run)
    network, names = model.network, model.parts.categories

    def forecast(parts: Mapping[str, np.ndarray], n: int, contexts: Sequence[Context] | None) -> np.ndarray:
        counts = torch.from_numpy(np.stack([parts[name] for name in names], 1)).float().repeat_interleave(n, 0)
        told = None
        if contexts is not None and model.config.context:
            known = [encode_context(model.config.context, context) for context in contexts]
            told = torch.cat(known).view(len(known), -1).repeat_interleave(n, 0)
        pieces = []
        for start in range(0, len(counts), ROWS):
            rows = slice(start, min(start + ROWS, len(counts)))
            noise = Noise(0, torch.arange(rows.start, rows.stop))
            context = None if told is None else told[rows]
            pieces.append(drawn(network, CountedParts(counts[rows]), noise, context, noise=True))
        return torch.cat(pieces).view(-1, n, *model.shape).numpy()

    return forecast


def _waited_for() -> float:
    """Processor seconds of processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# -- folds -----------------------------------------------------------------------------------------------------------


def folds_of(profiles: Mapping[str, str]) -> dict[str, int]:
    """Which fold each home is tested in: dealt out profile by profile, in the order of a hash of their names."""
    found: dict[str, int] = {}
    for profile in sorted(set(profiles.values())):
        homes = sorted(home for home, other in profiles.items() if other == profile)
        for place in shuffled(homes, "fold", 0):
            found[homes[place]] = len(found) % FOLDS
    return found


def read_homes(directory: Path) -> dict[str, str]:
    """Profile of each home, by meter."""
    with (directory / "homes.csv").open(newline="") as file:
        return {row["meter"]: row["profile"] for row in csv.DictReader(file) if row["profile"] != LEFT_OUT}


def write_some(directory: Path, homes: Mapping[str, str], out: Path) -> Path:
    """The same three files with these homes alone."""
    if not (out / FILES[-1]).exists():
        out.mkdir(parents=True, exist_ok=True)
        arrow, parquet = need("pyarrow", "data"), need("pyarrow.parquet", "data")
        whole = parquet.read_table(directory / "meters.parquet")
        names = whole.column("meter").cast(arrow.string())
        chosen = need("pyarrow.compute", "data").is_in(names, value_set=arrow.array(sorted(homes)))
        kept = whole.set_column(whole.schema.get_field_index("meter"), "meter", names).filter(chosen)
        parquet.write_table(kept, out / "meters.parquet")
        lines = ["meter,profile", *(f"{home},{profile}" for home, profile in sorted(homes.items()))]
        (out / "homes.csv").write_text("\n".join(lines) + "\n")
        (out / "days.csv").write_bytes((directory / "days.csv").read_bytes())
    return out


# -- groups ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Groups:
    """Groups of K homes on one day each.  counts: by profile, (n, P).  day: (n,).  x: (n, 48) kW."""

    counts: np.ndarray
    day: np.ndarray
    x: np.ndarray


@dataclass(frozen=True)
class Homes:
    """Homes with their days.  kw: (H, D, 48), NaN where a day is not complete.  profile: (H,)."""

    kw: np.ndarray
    profile: np.ndarray
    names: tuple[str, ...]

    def some(self, chosen: np.ndarray) -> Homes:
        """Those homes, in that order, also several times.  chosen: (H',) positions."""
        return Homes(self.kw[chosen], self.profile[chosen], self.names)

    def groups(self, n: int, size: int, random: np.random.Generator) -> Groups:
        """n groups of different homes, each on a day on which so many of them have one; all such days alike."""
        there = ~np.isnan(self.kw[:, :, 0])
        days = np.flatnonzero(there.sum(0) >= size)
        if not len(days):
            raise SystemExit(f"no day has {size} homes")
        day = random.choice(days, n)
        order = np.where(there[:, day].T, random.random((n, len(self.kw))), 2.0).argsort(1)[:, :size]
        x = self.kw[order, day[:, None]].sum(1)
        counts = np.stack([(self.profile[order] == kind).sum(1) for kind in range(len(self.names))], 1)
        return Groups(counts, day, x)


def by_home(source: MeterGroups) -> Homes:
    """All homes of a source."""
    days = source.days
    kw = np.full((len(days.meters), len(days.dates), source.shape[0]), np.nan, np.float32)
    kw[days.meter, days.day] = days.kw
    return Homes(kw, source.profiles.of, source.profiles.names)


def independent(homes: Homes) -> Forecaster:
    """Sums of single days of these homes, each drawn by itself among all of its profile."""
    single = [homes.kw[homes.profile == kind] for kind in range(len(homes.names))]
    days = {name: kw[~np.isnan(kw[..., 0])] for name, kw in zip(homes.names, single, strict=True)}

    def one(counts: tuple[int, ...], n: int) -> np.ndarray:
        random = np.random.default_rng(sum(count * 101**place for place, count in enumerate(counts)))
        used = [(days[name], count) for name, count in zip(homes.names, counts, strict=True) if count]
        return np.asarray(sum(kw[random.integers(len(kw), size=(n, count))].sum(1) for kw, count in used))

    def forecast(parts: Mapping[str, np.ndarray], n: int, contexts: Sequence[Context] | None) -> np.ndarray:
        return np.stack(
            [one(counts, n) for counts in zip(*(parts[name].tolist() for name in homes.names), strict=True)]
        )

    return forecast


# -- measures --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """score: energy score of each group, kW, (n,).  draws: for each different composition (and day, where it is
    known), (M, m, 48) kW.  which: of these, for each group, (n,).
    """

    score: np.ndarray
    draws: np.ndarray
    which: np.ndarray


class Draws:
    """Draws of one forecaster; all groups of one composition, and day where it is known, are judged by the same ones.

    n: draws of each composition; where the day is known of each composition on each day, ``known``.
    """

    def __init__(self, forecaster: Forecaster, names: tuple[str, ...], n: int, known: int = 50) -> None:
        self.forecaster, self.names, self.n, self.known = forecaster, names, n, known

    def judged(self, groups: Groups, contexts: Sequence[Context] | None = None) -> Judged:
        """contexts: of each day, where they are told."""
        size = int(groups.counts[0].sum())
        keys = groups.counts if contexts is None else np.column_stack([groups.counts, groups.day])
        different, which = np.unique(keys, axis=0, return_inverse=True)
        parts = {name: different[:, place] for place, name in enumerate(self.names)}
        if contexts is None:
            draws = self.forecaster(parts, max(self.n, FEW // size), None)
        else:
            draws = self.forecaster(parts, self.known, [contexts[day] for day in different[:, -1]])
        which = which.reshape(-1)
        return Judged(energy_scores(draws, groups.x, which), draws, which)


def energy_scores(draws: np.ndarray, x: np.ndarray, which: np.ndarray) -> np.ndarray:
    """E|X - x| - E|X - X'| / 2 of each x, (n,).  draws: (M, m, 48).  x: (n, 48).  which: draws of each x, (n,)."""
    score = np.empty(len(x))
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(1, len(draws)))
    for one, rows in zip(draws, np.split(order, starts), strict=True):
        score[rows] = _mean_distances(x[rows], one) - _mean_distances(one, one, itself=True).mean() / 2
    return score


def _mean_distances(x: np.ndarray, others: np.ndarray, itself: bool = False) -> np.ndarray:
    """Mean distance of each x to the others, (n,): a matrix product in float32, about their mean.

    x: (n, 48).  others: (m, 48).  itself: both are one and the same, and no distance to itself counts.
    """
    centre = others.mean(0, dtype=np.float64)
    there = torch.from_numpy((others - centre).astype(np.float32))
    found = []
    for start in range(0, len(x), ROWS):
        here = torch.from_numpy((x[start : start + ROWS] - centre).astype(np.float32))
        apart = torch.cdist(here, there, compute_mode="use_mm_for_euclid_dist")
        if itself:
            apart[torch.arange(len(here)), start + torch.arange(len(here))] = 0
        found.append(apart.sum(1, dtype=torch.float64) / (len(there) - itself))
    return torch.cat(found).numpy() if found else np.empty(0)


def moments(x: np.ndarray, size: int, times: np.ndarray | None = None) -> dict[str, float]:
    """P95 of the daily peak, kW a home; Var(x / K), mean over half-hours; shares of values below 0 and at 0.

    x: (n, 48).  times: how often each counts, (n,), once if not given.
    """
    often = np.ones(len(x), int) if times is None else times
    centred = x - np.average(x, 0, often)
    return {
        "P95 peak": float(np.quantile(np.repeat(x.max(1), often), 0.95)) / size,
        "variance": float(np.average(centred**2, 0, often).mean()) / size**2,
        "below zero": float(np.average((x < 0).mean(1), weights=often)),
        "exactly zero": float(np.average((x == 0).mean(1), weights=often)),
    }


# -- the comparison --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effort:
    """groups: real ones of each fold and K.  draws: for each composition.  resamples: of the homes."""

    groups: int = 400
    draws: int = 200
    resamples: int = 200


@dataclass(frozen=True)
class Fold:
    """What is tested in a fold, and who forecasts it, by name.  contexts: of each day."""

    homes: Homes
    contexts: list[Context]
    forecasters: dict[str, Draws]

    def judged(self, name: str, groups: Groups) -> Judged:
        """Scores and draws of one of the forecasters."""
        return self.forecasters[name].judged(groups, self.contexts if name.endswith(KNOWN) else None)


def prepared(
    directory: Path,
    work: Path,
    train: Training,
    effort: Effort,
    chosen: Sequence[int] = range(FOLDS),
    before: Path | None = None,
) -> Iterator[Fold]:
    """Train each fold in turn, or some of them.  before: the ``work`` of an earlier run."""
    homes = read_homes(directory)
    fold_of = folds_of(homes)
    meters, profiles, days = (str(write_some(directory, homes, work / "all") / name) for name in FILES)
    source = own_data(meters, profiles, days).open()
    assert isinstance(source, MeterGroups)
    everyone, number = by_home(source), np.array([fold_of[meter] for meter in source.days.meters])
    known = read_days(directory)
    contexts = [known.get(iso_day(day)) for day in source.days.dates]
    for fold in chosen:
        others = {home: profile for home, profile in homes.items() if fold_of[home] != fold}
        model = train(write_some(directory, others, work / f"fold{fold}"), work / f"run{fold}")
        rival = independent(everyone.some(np.flatnonzero(number != fold)))
        by = {MODEL: model, MODEL + KNOWN: model, INDEPENDENT: rival}
        if before is not None:
            by[BEFORE] = by[BEFORE + KNOWN] = loaded(before / f"run{fold}")
        draws = {name: Draws(one, everyone.names, effort.draws) for name, one in by.items()}
        yield Fold(everyone.some(np.flatnonzero(number == fold)), contexts, draws)


def read_days(directory: Path) -> dict[str, Context]:
    """What is known of each date."""
    with (directory / "days.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["date"]: {"temperature": float(row["temperature"]), "day_type": row["day_type"]} for row in rows}


Say = Callable[[str], None]


def judge(folds: list[Fold], size: int, effort: Effort, say: Say = lambda text: None) -> dict[str, dict[str, float]]:
    """Everything at one K, pooled over the folds."""
    random = np.random.default_rng(size)
    real = [fold.homes.groups(effort.groups, size, random) for fold in folds]
    say(f"K = {size}: resampling homes")
    again = resampled(folds, size, effort)
    found = {"real": moments(np.concatenate([groups.x for groups in real]), size)}
    scores, resampled_scores = {}, {}
    for name in folds[0].forecasters:
        say(f"K = {size}: {name}")
        found[name], scores[name], resampled_scores[name] = judged_by(name, folds, real, again, size)
    errors = relative_errors(
        [moments(np.concatenate([one.x for one in groups]), size) for groups in zip(*again, strict=True)]
    )
    for measure in RATIOS:
        found["real"][f"{measure}, se"] = errors[measure] * found["real"][measure]
        for name in scores:
            ratio = found[name][measure] / found["real"][measure]
            found[name] |= {f"{measure}, ratio": ratio, f"{measure}, ratio, se": errors[measure] * ratio}
    for name, rival in rivals_of(list(scores)):  # paired, over the same groups
        gap, over_homes = scores[name] - scores[rival], resampled_scores[name] - resampled_scores[rival]
        known = name.endswith(KNOWN)  # of whom there are no draws for each resample
        se = float(gap.std(ddof=1) / len(gap) ** 0.5) if known else float(over_homes.std())
        what = f"less {rival.removesuffix(KNOWN)}"
        found[name] |= {what: float(gap.mean()), f"{what}, se": se}
    return found


def judged_by(
    name: str, folds: list[Fold], real: list[Groups], again: list[list[Groups]], size: int
) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """Moments of one forecaster, its score of each real group, (n,), and its mean score in each resample, (R,).

    again: of each fold, groups of each resample; with the context known draws differ from day to day, which would take
    too long: then only real groups are judged, and the last is NaN.
    """
    draws, times, scores, means = [], [], [], []
    for fold, groups, others in zip(folds, real, again, strict=True):
        here = len(groups.x)
        judged = fold.judged(name, groups if name.endswith(KNOWN) else joined([groups, *others]))
        draws.append(judged.draws)
        times.append(np.bincount(judged.which[:here], minlength=len(judged.draws)))
        scores.append(judged.score[:here])
        rest = judged.score[here:].reshape(-1, here)
        means.append(rest.mean(1) if len(rest) else np.full(len(others), np.nan))
    often = np.concatenate(times).repeat(draws[0].shape[1])
    found = moments(np.concatenate(draws).reshape(len(often), -1), size, often)
    found["energy score"] = float(np.concatenate(scores).mean())
    return found, np.concatenate(scores), np.mean(means, 0)


def joined(several: Sequence[Groups]) -> Groups:
    """One after another."""
    return Groups(*(np.concatenate([getattr(one, name) for one in several]) for name in ("counts", "day", "x")))


def rivals_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Who is compared with whom: all with independent sums, a model with that of an earlier run, told as much."""
    pairs = [(name, INDEPENDENT) for name in names if name != INDEPENDENT]
    return pairs + [(MODEL + told, BEFORE + told) for told in ("", KNOWN) if BEFORE + told in names]


def resampled(folds: list[Fold], size: int, effort: Effort) -> list[list[Groups]]:
    """Of each fold, groups of each resample of its homes: the bootstrap over homes."""
    random = np.random.default_rng(1000 + size)
    found: list[list[Groups]] = [[] for _ in folds]
    for _ in range(effort.resamples):
        again = [fold.homes.some(random.integers(len(fold.homes.kw), size=len(fold.homes.kw))) for fold in folds]
        for homes, groups in zip(again, found, strict=True):
            groups.append(homes.groups(effort.groups, size, random))
    return found


def relative_errors(resamples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Standard errors of the real moments over their means."""
    values = {name: [one[name] for one in resamples] for name in RATIOS}
    return {name: float(np.std(some) / np.mean(some)) for name, some in values.items()}


def beside_numbers(found: Mapping[int, Mapping[str, Mapping[str, float]]], path: Path) -> dict[str, dict[str, float]]:
    """Mean energy score of each less that of an earlier file's model, told as much, by K: paired, as both judged the
    same groups, which the score of independent sums shows; of the pairs nothing is known, so no errors.
    """
    earlier = json.loads(path.read_text())["found"]
    gaps: dict[str, dict[str, float]] = {}
    for size, rows in found.items():
        before, score = earlier[str(size)], "energy score"
        if abs(rows[INDEPENDENT][score] / before[INDEPENDENT][score] - 1) > SAME:
            raise SystemExit(f"{path}: judged on other groups at K = {size}")
        gaps[str(size)] = {name: rows[name][score] - before[name][score] for name in (MODEL, MODEL + KNOWN)}
    return gaps


def table(found: Mapping[int, Mapping[str, Mapping[str, float]]]) -> str:
    """All K as Markdown."""
    head = ["K", "of", "P95 peak, kW a home", "over real", "Var(x/K)", "over real", "below 0"]
    gaps = [f"less {name}" for name in (INDEPENDENT, BEFORE) if any(name in rows for rows in found.values())]
    lines = [f"| {' | '.join([*head, 'energy score, kW', *gaps])} |", "|---" * (8 + len(gaps)) + "|"]
    for size, rows in found.items():
        for name, row in rows.items():
            cells = [f"{size}", name, f"{row['P95 peak']:.3f}", _with(row, "P95 peak, ratio"), f"{row['variance']:.4f}"]
            cells += [_with(row, "variance, ratio"), f"{100 * row['below zero']:.3g}%"]
            cells += [
                f"{row['energy score']:.4f}" if "energy score" in row else "",
                *(_with(row, gap, 4) for gap in gaps),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _with(row: Mapping[str, float], name: str, digits: int = 2) -> str:
    """A number and its error, or nothing."""
    return f"{row[name]:.{digits}f} ± {row[f'{name}, se']:.{digits}f}" if name in row else ""


def progress(pieces: int) -> Say:
    """Says what begins, how long it took so far and about how long it takes still, on stderr."""
    started, done = time.perf_counter(), 0

    def say(text: str) -> None:
        nonlocal done
        spent = time.perf_counter() - started
        left = f", about {duration(spent / done * (pieces - done))} left" if done else ""
        print(f"{text} ({done + 1} of {pieces}, {duration(spent)}{left})", file=sys.stderr, flush=True)
        done += 1

    return say


def main(train: Training = by_default) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="meters.parquet, homes.csv, days.csv")
    parser.add_argument("--work", type=Path, default=Path("runs/london"), help="files of the folds, and runs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(FOLDS)), help="all four if not given")
    parser.add_argument("--before", type=Path, help="the --work of an earlier run, whose models are judged too")
    parser.add_argument("--numbers", type=Path, help="the --json of an earlier run, whose energy scores are compared")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    folds = list(prepared(args.directory, args.work, train, Effort(), args.folds, args.before))
    say = progress(len(SIZES) * (1 + len(folds[0].forecasters)))
    found = {size: judge(folds, size, Effort(), say) for size in SIZES}
    took = [json.loads(path.read_text()) for path in sorted(args.work.glob("run*.took.json"))]
    less = beside_numbers(found, args.numbers) if args.numbers else {}
    if args.json:
        about = {"version": compvae.__version__, "torch": torch.__version__, "folds": args.folds, "trainings": took}
        args.json.write_text(json.dumps({**about, "found": found, "less_numbers": less}, indent=1) + "\n")
    print(table(found))
    for size, gaps in less.items():
        print(f"K = {size}, energy score less the earlier one's: {', '.join(f'{k} {v:+.4f}' for k, v in gaps.items())}")


if __name__ == "__main__":
    main()
