"""Homes in London that training has not seen: peaks, variance, values below zero and energy score, K = 1 to 20.

python benchmarks/london.py DIRECTORY --work runs/london --json benchmarks/results/london_landed.json
python benchmarks/london.py DIRECTORY --work runs/new --before runs/london   # beside the models of an earlier run

DIRECTORY holds meters.parquet, homes.csv and days.csv: 100 homes of the Low Carbon London trial (UK Power Networks,
London Datastore), half-hourly, 2013; the single home of profile acorn-u is left out.  Four folds over homes (of each
profile, in the order of a hash of their names): the model is trained on the homes of three by ``compvae train
meters.parquet --profiles homes.csv --context days.csv``, and judged on groups of K homes of the fourth, on one real day
each, pooled over the folds.  ``independent``: sums of real days of the training homes, each home and its day drawn by
itself.

Standard errors: a bootstrap over the homes of each fold, with groups drawn anew from the homes of each resample.  A
home that is drawn twice counts as two homes, which widens the sums of many: of the real peaks and variances the
relative spread over resamples is used.
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
from compvae.data.split import shuffled
from compvae.data.times import iso_day
from compvae.extras import need
from compvae.problems.meters import MeterGroups
from compvae.problems.own import own_data

FOLDS, SIZES = 4, (1, 5, 10, 20)
LEFT_OUT = "acorn-u"
FILES = ("meters.parquet", "homes.csv", "days.csv")
MODEL, INDEPENDENT, BEFORE, KNOWN = "model", "independent", "before", ", context known"
RATIOS = ("P95 peak", "variance")
FEW = 2000  # over K: draws at least, where there are few compositions

Context = Mapping[str, object] | None

Forecaster = Callable[[Mapping[str, int], int, int, Context], np.ndarray]
"""(parts, n, seed, what is known of the day or None) -> (n, 48) kW."""
Training = Callable[[Path, Path], Forecaster]
"""(directory with the three files, directory of the run) -> the trained model."""


def by_default(data: Path, out: Path) -> Forecaster:
    """What the package does by itself; what replaces it has the same form."""
    if not (out / "model").is_dir():
        meters, homes, days = (str(data / name) for name in FILES)
        command = [sys.executable, "-m", "compvae", "train", meters, "--profiles", homes, "--context", days]
        started, before = time.perf_counter(), _waited_for()
        subprocess.run([*command, "--out", str(out), "--threads", "1", "--seed", "0", "--quiet"], check=True)
        took = {"processor_seconds": _waited_for() - before, "seconds": time.perf_counter() - started}
        out.with_suffix(".took.json").write_text(json.dumps(took))
    return loaded(out)


def loaded(run: Path) -> Forecaster:
    """The model of a run."""
    model = compvae.load(run)
    return lambda parts, n, seed, context: model.sample(parts, n, seed, context)


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

    def forecast(parts: Mapping[str, int], n: int, seed: int, context: Context) -> np.ndarray:
        random = np.random.default_rng(seed)
        drawn = [days[name][random.integers(len(days[name]), size=(n, count))].sum(1) for name, count in parts.items()]
        return np.asarray(sum(drawn))

    return forecast


# -- measures --------------------------------------------------------------------------------------------------------


class Draws:
    """Draws of one forecaster by composition, each made once; told nothing of the day, they depend on nothing else."""

    def __init__(self, forecaster: Forecaster, names: tuple[str, ...], n: int) -> None:
        self.forecaster, self.names, self.n = forecaster, names, n
        self._known: dict[tuple[int, ...], tuple[np.ndarray, float]] = {}

    def of(self, counts: np.ndarray, context: Context = None) -> tuple[np.ndarray, float]:
        """(n, 48) draws and half of their mean distance.  counts: (P,)."""
        key = tuple(int(count) for count in counts)
        if context is None and key in self._known:
            return self._known[key]
        parts = {name: count for name, count in zip(self.names, key, strict=True) if count}
        n = max(self.n, FEW // sum(key)) if context is None else self.n
        seed = sum(count * 101**place for place, count in enumerate(key))
        x = np.asarray(self.forecaster(parts, n, seed, context), np.float64)
        apart = torch.cdist(torch.from_numpy(x), torch.from_numpy(x))
        found = x, float(apart.sum()) / (2 * n * (n - 1))
        if context is None:
            self._known[key] = found
        return found

    def judged(self, groups: Groups, contexts: Sequence[Context] | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
        """Energy score of each group, kW, (n,), and the draws for each, (m, 48)."""
        given = contexts or [None] * len(groups.x)
        found = [self.of(counts, one) for counts, one in zip(groups.counts, given, strict=True)]
        pairs = zip(found, groups.x, strict=True)
        score = [float(np.sqrt(((drawn - x) ** 2).sum(1)).mean()) - half for (drawn, half), x in pairs]
        return np.array(score), [drawn for drawn, _ in found]


def moments(x: np.ndarray, size: int) -> dict[str, float]:
    """P95 of the daily peak, kW a home; Var(x / K), mean over half-hours; share of values below 0.  x: (n, 48)."""
    return {
        "P95 peak": float(np.quantile(x.max(1), 0.95)) / size,
        "variance": float(x.var(0).mean()) / size**2,
        "below zero": float((x < 0).mean()),
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

    def judged(self, name: str, groups: Groups) -> tuple[np.ndarray, list[np.ndarray]]:
        """Scores and draws of one of the forecasters."""
        told = [self.contexts[day] for day in groups.day] if name.endswith(KNOWN) else None
        return self.forecasters[name].judged(groups, told)


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


def judge(folds: list[Fold], size: int, effort: Effort) -> dict[str, dict[str, float]]:
    """Everything at one K, pooled over the folds."""
    random = np.random.default_rng(size)
    real = [fold.homes.groups(effort.groups, size, random) for fold in folds]
    x, errors = np.concatenate([groups.x for groups in real]), bootstrap(folds, size, effort)
    found = {"real": {**moments(x, size), "exactly zero": float((x == 0).mean())}}
    scores = {}
    for name in folds[0].forecasters:
        judged = [fold.judged(name, groups) for fold, groups in zip(folds, real, strict=True)]
        scores[name] = np.concatenate([score for score, _ in judged])
        found[name] = moments(np.concatenate([one for _, draws in judged for one in draws]), size)
        found[name]["energy score"] = float(scores[name].mean())
    for measure in RATIOS:
        found["real"][f"{measure}, se"] = errors[measure] * found["real"][measure]
        for name in scores:
            ratio = found[name][measure] / found["real"][measure]
            found[name] |= {f"{measure}, ratio": ratio, f"{measure}, ratio, se": errors[measure] * ratio}
    for name, rival in rivals_of(
        list(scores)
    ):  # paired, over the same groups; with the context known over groups alone
        gap = scores[name] - scores[rival]
        se = errors.get(f"{name} less {rival}", float(gap.std(ddof=1) / len(gap) ** 0.5))
        what = f"less {rival.removesuffix(KNOWN)}"
        found[name] |= {what: float(gap.mean()), f"{what}, se": se}
    return found


def rivals_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Who is compared with whom: all with independent sums, a model with that of an earlier run, told as much."""
    pairs = [(name, INDEPENDENT) for name in names if name != INDEPENDENT]
    return pairs + [(MODEL + told, BEFORE + told) for told in ("", KNOWN) if BEFORE + told in names]


def bootstrap(folds: list[Fold], size: int, effort: Effort) -> dict[str, float]:
    """Standard errors over homes: relative ones of the real moments, plain ones of one's score less another's.

    With the context known draws differ from day to day, which would take too long: left out.
    """
    random = np.random.default_rng(1000 + size)
    scored = [name for name in folds[0].forecasters if not name.endswith(KNOWN)]
    compared = rivals_of(scored)
    values: dict[str, list[float]] = {name: [] for name in (*RATIOS, *(f"{a} less {b}" for a, b in compared))}
    for _ in range(effort.resamples):
        again = [fold.homes.some(random.integers(len(fold.homes.kw), size=len(fold.homes.kw))) for fold in folds]
        groups = [homes.groups(effort.groups, size, random) for homes in again]
        found = moments(np.concatenate([one.x for one in groups]), size)
        pairs = list(zip(folds, groups, strict=True))
        score = {name: np.concatenate([fold.judged(name, one)[0] for fold, one in pairs]) for name in scored}
        found |= {f"{a} less {b}": float((score[a] - score[b]).mean()) for a, b in compared}
        for name in values:
            values[name].append(found[name])
    return {name: float(np.std(v) / (np.mean(v) if name in RATIOS else 1)) for name, v in values.items()}


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


def main(train: Training = by_default) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="meters.parquet, homes.csv, days.csv")
    parser.add_argument("--work", type=Path, default=Path("runs/london"), help="files of the folds, and runs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(FOLDS)), help="all four if not given")
    parser.add_argument("--before", type=Path, help="the --work of an earlier run, whose models are judged too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    folds = list(prepared(args.directory, args.work, train, Effort(), args.folds, args.before))
    found = {size: judge(folds, size, Effort()) for size in SIZES}
    took = [json.loads(path.read_text()) for path in sorted(args.work.glob("run*.took.json"))]
    if args.json:
        about = {"version": compvae.__version__, "torch": torch.__version__, "folds": args.folds, "trainings": took}
        args.json.write_text(json.dumps({**about, "found": found}, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
