"""Own meters: x = sum of the loads of K homes on the SAME day, so that what homes share stays in.

Random groups of homes; one to four neighbouring rows of a batch are disjoint groups on one day (theory, section 5, "The
shared factor").  A fifth of the homes and a fifth of the days are never trained on: they are kept for evaluation.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import torch

from compvae.batch import Batch, CountedParts, Shared
from compvae.context import describe_values
from compvae.data.covariates import Covariates
from compvae.data.homes import Bands, Profiles
from compvae.data.meter_days import MeterDays
from compvae.data.split import SHARE, held_out, shuffled
from compvae.data.times import iso_day
from compvae.errors import DataError
from compvae.noise import Noise
from compvae.parts import Attribute, Categorical, PartsSchema
from compvae.problems.blocks import BLOCK, neighbours, partly_told
from compvae.problems.pools import Pool
from compvae.problems.source import Wholes

__all__ = ["MeterGroups"]

MAX_PARTS = 100


class MeterGroups:
    """Groups of homes, drawn from complete days of meters."""

    name = "meters"
    extensive = True
    rows_together = BLOCK

    def __init__(
        self,
        days: MeterDays,
        profiles: Profiles | int,
        context: Covariates | None = None,
        split_seed: int = 0,
    ) -> None:
        """profiles: of the meters of days, or into how many size bands they are put."""
        self.days, self.split_seed, self.covariates = days, split_seed, context or Covariates()
        dates = [iso_day(day) for day in days.dates]
        self.held_days = held_out(dates, "day", split_seed)
        self.bands: Bands | None = None
        if isinstance(profiles, int):
            self.held_homes = held_out(days.meters, "home", split_seed)
            self.bands, profiles = self._banded(profiles)
        else:
            self.held_homes = self._held_homes(profiles)
        self.profiles = profiles
        self.schema = PartsSchema(attributes=(Categorical(name="profile", categories=profiles.names),))
        self.context: tuple[Attribute, ...] = self.covariates.attributes
        self.shape = (days.kw.shape[1],)
        values, known = self.covariates.rows([int(day) for day in days.dates])
        self._values, self._known = torch.from_numpy(values), torch.from_numpy(known)
        self._order = np.argsort(shuffled(days.meters, "order", split_seed))
        self._training = self.pool("training", "training", BLOCK)
        self._check()
        self.max_parts = min(MAX_PARTS, int(np.median(self._training.count)))
        self.unit = float(days.kw[self._training.record].std(dtype=np.float64)) or 1.0

    def _held_homes(self, profiles: Profiles) -> np.ndarray:
        """A fifth of the homes of each profile, (H,) bool."""
        chosen = np.zeros(len(self.days.meters), bool)
        for kind in range(len(profiles.names)):
            homes = np.flatnonzero(profiles.of == kind)
            chosen[homes] = held_out([self.days.meters[i] for i in homes], "home", self.split_seed)
        return chosen

    def _banded(self, count: int) -> tuple[Bands, Profiles]:
        """Size bands from the training homes on the training days; the others are sorted into them."""
        days, kwh = self.days, self.days.daily_kwh
        seen = ~self.held_days[days.day]
        homes = len(days.meters)
        number = np.bincount(days.meter[seen], minlength=homes)
        mean = np.bincount(days.meter[seen], kwh[seen], homes) / np.maximum(number, 1)
        bands = Bands.of(mean[~self.held_homes & (number > 0)], count)
        all_days = np.bincount(days.meter, kwh, homes) / np.bincount(days.meter, minlength=homes)
        return bands, Profiles(bands.names, bands.index(np.where(number > 0, mean, all_days)))

    def _check(self) -> None:
        """Complain where no training day has homes enough for a group."""
        most = int(np.bincount(self.days.day[~self.held_homes[self.days.meter]]).max(initial=0))
        if not len(self._training.days):
            raise DataError(
                f"groups of homes need days on which {BLOCK} training homes or more have complete readings; of "
                f"{int((~self.held_homes).sum())} training homes {most} at most have one on the same day"
            )

    # -- training ------------------------------------------------------------------------------------------------

    def draw(self, max_parts: int, noise: Noise) -> Batch:
        """One group of training homes for each row of noise, K log-uniform, on training days."""
        return self._batch(self._training, max_parts, noise)

    def draw_held_out(self, noise: Noise) -> Batch:
        """Groups of held-out homes on held-out days; of training homes where too few are held out."""
        return self._batch(self._held, self.max_parts, noise)

    def _batch(self, pool: Pool, max_parts: int, noise: Noise) -> Batch:
        rows = neighbours(noise)
        common = rows.noise(noise)
        day, whole, record = pool.groups(rows, max_parts, noise, common)
        kw = torch.from_numpy(self.days.kw[record.numpy()]).double()
        x = torch.zeros(len(noise), *self.shape, dtype=torch.float64).index_add_(0, whole, kw)
        counts = torch.zeros(len(noise), len(self.profiles.names), dtype=torch.float64)
        counts.index_put_((whole, pool.kind[record]), torch.ones(len(whole), dtype=torch.float64), accumulate=True)
        context, told = partly_told(self.context, self._values[day], self._known[day], common)
        return Batch(x.float(), CountedParts(counts), context, Shared.of(rows.first), told=told)

    # -- evaluation ----------------------------------------------------------------------------------------------

    def pool(self, homes: str = "held_out", days: str = "held_out", at_least: int = 1) -> Pool:
        """The days of these homes: each of the two is "training", "held_out" or "all".

        at_least: homes a day must have.
        """
        mask = _chosen(self.held_homes, homes, "homes")[self.days.meter]
        mask &= _chosen(self.held_days, days, "days")[self.days.day]
        return Pool.of(self.days, mask, self._order, self.profiles.of, at_least)

    def held_out(
        self, n: int, size: int, seed: int = 0, homes: str = "held_out", days: str = "held_out", together: bool = True
    ) -> Wholes:
        """n wholes of ``size`` homes that training has not seen, each whole on a day of its own choice.

        homes, days: "held_out", "training" or "all", where held-out homes are too few for a large group.
        together=False puts each home on a day of its own, all else the same: sums of independently drawn profiles.
        """
        pool = self.pool(homes, days, size)
        day, home, record = pool.sets(n, size, seed, self.days, together)
        x = self.days.kw[record].sum(1, dtype=np.float64).astype(np.float32)
        counts = np.stack([np.bincount(row, minlength=len(self.profiles.names)) for row in self.profiles.of[home]])
        parts = [dict(zip(self.profiles.names, map(int, row), strict=True)) for row in counts]
        names = [iso_day(self.days.dates[d]) for d in day]
        context = [self._described(int(d)) if together else None for d in day]
        return Wholes(x, parts, context, names, [[self.days.meters[i] for i in row] for row in home])

    def singles(self) -> dict[str, np.ndarray]:
        """Days of single training homes on training days, by profile, (n, V) kW: what independent sums are made of."""
        record = self.pool("training", "training").record
        kind = self.profiles.of[self.days.meter[record]]
        return {name: self.days.kw[record[kind == i]] for i, name in enumerate(self.profiles.names)}

    def mean_kwh(self) -> dict[str, float]:
        """Mean energy of a home's day, by profile."""
        kind, energy = self.profiles.of[self.days.meter], self.days.daily_kwh
        return {name: float(energy[kind == i].mean()) for i, name in enumerate(self.profiles.names)}

    @cached_property
    def _held(self) -> Pool:
        pool = self.pool()
        return pool if len(pool.days) else self.pool("all", "held_out" if self.held_days.any() else "all")

    def _described(self, day: int) -> dict[str, object] | None:
        """What is known of a day, as a caller would give it."""
        return describe_values(self.context, self._values[day], self._known[day])

    # -- what was read -------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Counts, the split, the bands: what the run's data.json records."""
        homes, days = self.days.meters, self.days.dates
        return {
            "kind": self.name,
            "reading": asdict(self.days.report),
            "homes": len(homes),
            "dates": [iso_day(days[0]), iso_day(days[-1])],
            "profiles": {name: int((self.profiles.of == i).sum()) for i, name in enumerate(self.profiles.names)},
            "band_limits_kwh_a_day": None if self.bands is None else list(self.bands.limits),
            "context": [attribute.model_dump() for attribute in self.context],
            "days_without_context": int((~self._known.any(1)).sum()) if self.context else 0,
            "split": {
                "seed": self.split_seed,
                "share": SHARE,
                "held_out_homes": [homes[i] for i in np.flatnonzero(self.held_homes)],
                "held_out_days": [iso_day(days[i]) for i in np.flatnonzero(self.held_days)],
                "training_days": len(self._training.days),
            },
            "max_parts": self.max_parts,
            "unit_kw": self.unit,
        }

    def notes(self) -> dict[str, str]:
        """For the model's card."""
        found = {"data": self.summary(), "x is": f"kW, mean of {self.days.minutes} minutes, from midnight on"}
        if self.bands is not None:
            limits = ", ".join(f"{limit:.4g}" for limit in self.bands.limits)
            found["limits of the bands"] = f"{limits} kWh a day"
        return found

    def summary(self) -> str:
        """What was read and left out, for people."""
        report, training = self.days.report, int((~self.held_homes).sum())
        left = [
            f"{report.days_with_gaps:,} with gaps",
            f"{report.days_with_conflicts:,} with two readings at one time",
            f"{report.days_of_clock_changes:,} on {len(report.clock_changes)} days of a clock change",
        ]
        return (
            f"{len(self.days.meters):,} meters, {report.minutes} minutes, {report.days_kept:,} complete days of "
            f"{report.days_found:,} (left out: {', '.join(left)}; {report.filled_readings:,} readings filled in, "
            f"{report.repeated:,} repeated, {report.blank:,} blank); training on {training:,} homes and "
            f"{len(self._training.days):,} days, K up to {self.max_parts}; {int(self.held_homes.sum()):,} homes and "
            f"{int(self.held_days.sum()):,} days are held out"
        )


def _chosen(held: np.ndarray, which: str, what: str) -> np.ndarray:
    """True for those that are asked for, (N,) bool.  held: which are held out, (N,) bool.  what: for messages."""
    if which not in ("training", "held_out", "all"):
        raise DataError(f"{what} must be training, held_out or all, got {which!r}")
    return np.ones_like(held) if which == "all" else held if which == "held_out" else ~held
