"""Days of meters: x (V,) in kW for each meter and day that is complete, by rules that are stated and counted.

* resolution: the commonest distance between times; a day has V = 24 h / resolution values;
* a reading that stands twice counts once; two different ones at one time, and the day of that meter is left out;
* gaps of up to an hour, two hours in a day, inside of the day: filled by a straight line; else the day is left out;
* days on which clocks are changed (23 or 25 hours): left out for all meters.

docs/meters.md says the same for people.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from compvae.data.clocks import changed_by_hours, changed_by_offsets
from compvae.data.readings import Readings
from compvae.data.text import show
from compvae.data.times import DAY, iso_day
from compvae.errors import DataFileError

__all__ = ["DayReport", "MeterDays", "complete_days"]

LONGEST_STEP = 720  # minutes
STRAY = 0.01  # share of readings that may stand beside the grid of times
LONGEST_GAP, MOST_FILLED = 60, 120  # minutes
MAX_CELLS = 2**27  # meters times days
UNLIKE = 500  # a meter that reads so many times the median is in another unit
LEAST_COUNTED = 3  # days on which a meter must only rise to be taken for a counter
AT_ONCE = 2**20  # readings or days that are worked on together


@dataclass
class DayReport:
    """What was found and what was done about it.  Days are days of single meters, but for ``clock_changes``.

    readings: all, of which blank are empty, beside_grid at odd times, repeated there already, conflicting there already
    with another value; filled_readings were put into gaps.  minutes: between readings.
    clock_changes, meters_without_a_day: dates and names, for the run's data.json and its report.
    """

    readings: int = 0
    blank: int = 0
    beside_grid: int = 0
    repeated: int = 0
    conflicting: int = 0
    minutes: int = 0
    filled_readings: int = 0
    filled_days: int = 0
    days_found: int = 0
    days_kept: int = 0
    days_with_conflicts: int = 0
    days_of_clock_changes: int = 0
    days_with_gaps: int = 0
    clock_changes: list[str] = field(default_factory=list)
    meters_without_a_day: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MeterDays:
    """Complete days, ordered by day, then meter.

    meters: names.  dates: days since 1970-01-01, (D,) ascending.  meter, day: positions in these, (N,).
    kw: (N, V) float32, mean power.  minutes: between readings.
    """

    meters: list[str]
    dates: np.ndarray
    meter: np.ndarray
    day: np.ndarray
    kw: np.ndarray
    minutes: int
    report: DayReport

    @property
    def daily_kwh(self) -> np.ndarray:
        """Energy of each day of a meter, (N,) float64."""
        energy: np.ndarray = self.kw.sum(1, dtype=np.float64) * self.minutes / 60
        return energy


def complete_days(readings: Readings) -> MeterDays:
    """The days of meters that can be used.  readings: those beside the grid of times are taken out of it."""
    report = DayReport(readings=len(readings.value) + readings.blank, blank=readings.blank)
    report.minutes = _resolution(readings)
    _drop_strays(readings, report)
    grid = _Grid(readings, report.minutes)
    kept = grid.fill(readings, report)
    clock = changed_by_offsets(readings) | changed_by_hours(grid.dates, grid.present, grid.seen, report.minutes)
    report.clock_changes = [iso_day(day) for day in sorted(clock)]
    on_clock = np.isin(grid.dates[grid.day], sorted(clock))
    report.days_of_clock_changes = int(on_clock.sum())
    report.days_with_conflicts = int((~kept & ~on_clock).sum())
    kept &= ~on_clock
    whole = _fill_gaps(grid.x, kept, report)
    report.days_with_gaps = int((kept & ~whole).sum())
    return _collect(readings, grid, kept & whole, report)


def _resolution(readings: Readings) -> int:
    """Minutes between readings: the commonest distance between neighbouring times."""
    times = np.unique(readings.seconds)
    if len(times) < 2:
        raise DataFileError(f"{readings.path}: all readings have one time; a day needs several")
    gaps, counts = np.unique(np.diff(times), return_counts=True)
    step = int(gaps[counts.argmax()])
    minutes = step // 60
    if step % 60 or minutes > LONGEST_STEP or 1440 % minutes:
        raise DataFileError(
            f"{readings.path}, row {readings.first_row[0]}, column of times: readings are {step / 60:g} minutes apart "
            f"as a rule; a day must be a whole number of them, two at least (60, 30, 15, ... minutes)"
        )
    return minutes


def _drop_strays(readings: Readings, report: DayReport) -> None:
    """Leave out readings beside the grid of times; complain where they are many."""
    beside = readings.seconds % (60 * report.minutes) != 0
    stray = beside[readings.time]
    report.beside_grid = int(stray.sum())
    if report.beside_grid > STRAY * len(stray):
        row = min(readings.first_row[code] for code in np.flatnonzero(beside))
        raise DataFileError(
            f"{readings.path}, row {row}, column of times: {report.beside_grid} of {len(stray)} readings are not at "
            f"whole multiples of {report.minutes} minutes from midnight; give all meters at the same times"
        )
    if report.beside_grid:
        readings.meter, readings.time = readings.meter[~stray], readings.time[~stray]
        readings.value = readings.value[~stray]


class _Grid:
    """The N days of meters that have a reading at all, and the places of readings in them.

    x: (N, V), NaN for gaps.  day, meter: of each row, (N,), positions in dates (D,) and in the names of meters.
    position, slot: day and place in it of each code of time, (T,).  row: of each day and meter, (D, meters).
    present: meters with a reading, (D, V); seen: readings, (D, V), more than present where times stand twice.
    """

    def __init__(self, readings: Readings, minutes: int) -> None:
        self.values, meters = 1440 // minutes, len(readings.meters)
        self.dates, self.position = np.unique(readings.seconds // DAY, return_inverse=True)
        if meters * len(self.dates) > MAX_CELLS:
            raise DataFileError(
                f"{readings.path}: {meters} meters on {len(self.dates)} days; at most {MAX_CELLS} days of meters fit"
            )
        self.slot = readings.seconds % DAY // (60 * minutes)
        there = np.zeros((len(self.dates), meters), bool)
        for some in _chunks(len(readings.value)):
            there[self.position[readings.time[some]], readings.meter[some]] = True
        self.row = np.cumsum(there.ravel(), dtype=np.int64).reshape(there.shape) - 1
        self.day, self.meter = np.nonzero(there)
        self.x = np.full((len(self.day), self.values), np.nan, np.float32)
        self.seen = np.zeros((len(self.dates), self.values), np.int64)
        self.present = np.zeros_like(self.seen)

    def fill(self, readings: Readings, report: DayReport) -> np.ndarray:
        """Put the readings in their places; (N,) bool, False where two at one time differ."""
        agreeing, flat = np.ones(len(self.x), bool), self.x.reshape(-1)
        for some in _chunks(len(readings.value)):
            time, value = readings.time[some], readings.value[some]
            day, slot = self.position[time], self.slot[time]
            row = self.row[day, readings.meter[some]]
            place = row * self.values + slot
            empty = np.isnan(flat[place])
            flat[place[empty]] = value[empty]
            differs = flat[place] != value
            agreeing[row[differs]] = False
            report.conflicting += int(differs.sum())
            self.seen += np.bincount(day * self.values + slot, minlength=self.seen.size).reshape(self.seen.shape)
        np.add.at(self.present, self.day, (~np.isnan(self.x)).astype(np.int64))
        report.repeated = int((self.seen - self.present).sum()) - report.conflicting
        report.days_found = len(self.x)
        return agreeing


def _fill_gaps(x: np.ndarray, kept: np.ndarray, report: DayReport) -> np.ndarray:
    """Fill short gaps, in place; (N,) bool, True where a day is then complete.  x: (N, V), kept: (N,)."""
    missing = np.isnan(x).sum(1)
    longest, most = LONGEST_GAP // report.minutes, MOST_FILLED // report.minutes
    inside = ~np.isnan(x[:, 0]) & ~np.isnan(x[:, -1])
    for row in np.flatnonzero(kept & (missing > 0) & (missing <= most) & inside):
        gap = np.isnan(x[row])
        edges = np.flatnonzero(np.diff(gap.astype(np.int8)))
        if (np.diff(edges)[::2] <= longest).all():
            at = np.flatnonzero(~gap)
            x[row, gap] = np.interp(np.flatnonzero(gap), at, x[row, at])
            report.filled_readings += int(missing[row])
            report.filled_days += 1
            missing[row] = 0
    whole: np.ndarray = missing == 0
    return whole


def _collect(readings: Readings, grid: _Grid, kept: np.ndarray, report: DayReport) -> MeterDays:
    """The days that are kept, in kW; meters and dates without any are left out.  kept: (N,) bool."""
    if not kept.any():
        raise DataFileError(
            f"{readings.path}: no meter has a complete day of {1440 // report.minutes} readings; of {len(kept)} days "
            f"{report.days_with_gaps} have gaps, {report.days_with_conflicts} have two different readings at one time, "
            f"{report.days_of_clock_changes} are days of a clock change"
        )
    x = grid.x[kept]
    if readings.energy:
        x *= np.float32(60 / report.minutes)
    used, meter = np.unique(grid.meter[kept], return_inverse=True)
    days, day = np.unique(grid.day[kept], return_inverse=True)
    names = [readings.meters[i] for i in used]
    report.days_kept = len(x)
    report.meters_without_a_day = sorted(set(readings.meters) - set(names))
    _check_units(readings, names, meter, x)
    _check_counters(readings, names, meter, x)
    return MeterDays(names, grid.dates[days], meter, day, x, report.minutes, report)


def _check_units(readings: Readings, names: list[str], meter: np.ndarray, x: np.ndarray) -> None:
    """Complain where a meter reads so much more than the others that it must be in another unit.

    names: of meters.  meter: position in them, (N,).  x: (N, V) kW.
    """
    mean = np.bincount(meter, np.abs(x).mean(1, dtype=np.float64)) / np.bincount(meter)
    middle = float(np.median(mean))
    if len(names) >= 3 and middle > 0 and mean.max() > UNLIKE * middle:
        worst = int(mean.argmax())
        raise DataFileError(
            f"{readings.path}, meter {show(names[worst])}: it reads {mean[worst] / middle:.0f} times the median of "
            f"all meters, as if it were in another unit (Wh among kWh); convert it or leave it out"
        )


def _check_counters(readings: Readings, names: list[str], meter: np.ndarray, x: np.ndarray) -> None:
    """Complain where readings of a meter never fall within a day, but rise: it counts, and is read, not differenced.

    names: of meters.  meter: position in them, (N,).  x: (N, V) kW.
    """
    falls, rises = np.zeros(len(x), bool), x[:, -1] > x[:, 0]
    for some in _chunks(len(x)):
        falls[some] = (np.diff(x[some], axis=1) < 0).any(1)
    days, rising = np.bincount(meter), np.bincount(meter, rises)
    counting = (np.bincount(meter, falls) == 0) & (days >= LEAST_COUNTED) & (2 * rising > days)
    if counting.any():
        first = int(counting.argmax())
        raise DataFileError(
            f"{readings.path}, meter {show(names[first])}: its readings never fall within any of {days[first]} days, "
            f"as those of a counter; give the energy of each interval, the difference of neighbouring readings"
        )


def _chunks(length: int) -> list[slice]:
    return [slice(start, start + AT_ONCE) for start in range(0, length, AT_ONCE)]
