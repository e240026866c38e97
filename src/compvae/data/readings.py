"""Meter readings, streamed: long (meter, timestamp, kwh), wide (a column for each meter), or London's layout.

A reading takes 12 bytes: meter, time and value as codes and a float.  The text of the file is never in memory, but for
one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from compvae.data.tables import Table, open_table
from compvae.data.text import Chunk, looked_up, numbers, show
from compvae.data.times import Times
from compvae.errors import DataFileError

__all__ = ["Readings", "read_readings"]

METER, TIMESTAMP = "meter", "timestamp"
UNITS = {"kwh": (True, 1.0), "wh": (True, 1e-3), "kw": (False, 1.0), "w": (False, 1e-3)}  # energy or power; factor
UNIT_COLUMNS = ("unit", "units", "uom")
LONDON_METER, LONDON_TIME, LONDON_VALUE = "lclid", "datetime", "kwh/hh"
WIDE_TIMES = ("timestamp", "datetime", "date_time", "time")
FORMS = (
    "meter, timestamp, kwh; or timestamp and one column for each meter; "
    "or LCLid, stdorToU, DateTime, KWH/hh (per half hour)"
)
MAX_METERS = 1_000_000
MAX_READINGS = 2**28
MAX_VALUE = 1e6  # in the unit of the file: beyond, it is no meter of a home


@dataclass
class Readings:
    """What a file holds.  Readings that are blank are counted and left out.

    meter, time: codes, (R,) int32; value: (R,) float32, kWh where ``energy``, else kW.
    seconds, offsets: of each code of time, (T,) int64; first_row: where it stands first.
    negative: meter -> place of its first negative reading.
    """

    path: Path
    meters: list[str]
    meter: np.ndarray
    time: np.ndarray
    value: np.ndarray
    seconds: np.ndarray
    offsets: np.ndarray
    first_row: list[int]
    energy: bool
    blank: int
    negative: dict[str, str]


def read_readings(path: Path) -> Readings:
    """Read a file of meter readings, CSV or Parquet, in any of the layouts."""
    table = open_table(path, "meter readings")
    collected = _Collected(table, _layout(table))
    for chunk in table.chunks():
        collected.take(chunk)
    return collected.readings()


@dataclass(frozen=True)
class _Layout:
    """Positions of the columns.  meter: None in the wide form; values: one column, or one for each meter."""

    meter: int | None
    time: int
    values: tuple[int, ...]
    energy: bool = True
    factor: float = 1.0


def _layout(table: Table) -> _Layout:
    """Which of the three layouts the header shows."""
    names = [name.casefold() for name in table.header]
    london = [i for i, name in enumerate(names) if name.startswith(LONDON_VALUE)]
    if LONDON_METER in names and LONDON_TIME in names and london:
        return _Layout(names.index(LONDON_METER), names.index(LONDON_TIME), (london[0],))
    if METER in names:
        return _long(table, names)
    times = [i for i, name in enumerate(names) if name in WIDE_TIMES]
    if len(times) == 1 and len(names) > 1:
        if any(name in UNITS for name in names):
            raise DataFileError(f"{table.in_header()}: column 'meter' is missing; expected {FORMS}")
        return _Layout(None, times[0], tuple(i for i in range(len(names)) if i != times[0]))
    found = ", ".join(show(name) for name in table.header[:6])
    raise DataFileError(f"{table.in_header()}: the columns {found} are no layout of meter readings; expected {FORMS}")


def _long(table: Table, names: list[str]) -> _Layout:
    """meter, timestamp, and one column whose name is its unit.  names: of the columns, in lower case."""
    values = [i for i, name in enumerate(names) if name in UNITS]
    if TIMESTAMP not in names or not values:
        missing = TIMESTAMP if TIMESTAMP not in names else "kwh"
        raise DataFileError(f"{table.in_header()}: column {missing!r} is missing; expected {FORMS}")
    for column in (i for i, name in enumerate(names) if name in UNIT_COLUMNS):
        raise DataFileError(
            f"{table.in_header(column)}: units of single rows are not read; convert all to one unit, name its column "
            f"kwh, wh, kw or w, and remove this one"
        )
    if len(values) > 1:
        both = ", ".join(show(table.header[i]) for i in values)
        raise DataFileError(f"{table.in_header()}: the columns {both} give readings in several units; keep one of them")
    energy, factor = UNITS[names[values[0]]]
    return _Layout(names.index(METER), names.index(TIMESTAMP), (values[0],), energy, factor)


class _Names(dict[str, int]):
    """Name of a meter -> code."""

    def __missing__(self, text: str) -> int:
        name = text.strip()
        if not name or len(name) > 200 or not name.isprintable():
            raise ValueError(f"{show(text)} is no name of a meter")
        if name != text:
            return self[name]
        if len(self) >= MAX_METERS:
            raise ValueError(f"more than {MAX_METERS} meters")
        code = self[name] = len(self)
        return code


@dataclass
class _Collected:
    """Chunks of readings as they come."""

    table: Table
    layout: _Layout
    times: Times = field(default_factory=Times)
    names: _Names = field(default_factory=_Names)
    pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    first_row: list[int] = field(default_factory=list)
    negative: dict[int, str] = field(default_factory=dict)
    count: int = 0
    blank: int = 0

    def take(self, chunk: Chunk) -> None:
        """Add the readings of a chunk."""
        layout, columns = self.layout, self.layout.values

        def where(i: int) -> str:
            return self.table.where(chunk.at[i // len(columns)], columns[i % len(columns)])

        value = numbers([row[i] for row in chunk.rows for i in columns], where, self.table.decimal_comma)
        there = ~np.isnan(value)
        if (np.abs(value[there]) > MAX_VALUE).any():
            first = int(np.flatnonzero(there & (np.abs(np.nan_to_num(value)) > MAX_VALUE))[0])
            raise DataFileError(f"{where(first)}: {value[first]:g} is too large for a meter; look at the unit")
        row = np.arange(len(value)) // len(columns)
        used = np.unique(row[there])  # a row without readings needs no time
        time = np.zeros(len(chunk.rows), np.int32)
        time[used] = self._times(chunk, used)
        meter = self._meters(chunk)
        self._keep(meter[there], time[row[there]], value[there] * layout.factor)
        self.blank += int((~there).sum())
        for i in np.flatnonzero(there & (value < 0)):
            self.negative.setdefault(int(meter[i]), where(int(i)))

    def _times(self, chunk: Chunk, used: np.ndarray) -> np.ndarray:
        """The code of the time of each of these rows, (U,).  used: positions of rows in the chunk, (U,)."""
        known = len(self.times.seconds)
        texts = [chunk.rows[i][self.layout.time] for i in used]
        codes = looked_up(self.times, texts, lambda i: self.table.where(chunk.at[int(used[i])], self.layout.time))
        new, at = np.unique(codes, return_index=True)
        self.first_row += [chunk.at[int(used[i])] for code, i in zip(new, at, strict=True) if code >= known]
        return codes

    def _meters(self, chunk: Chunk) -> np.ndarray:
        """The code of the meter of each value, those that are not there included, (rows times columns of values,)."""
        column = self.layout.meter
        if column is None:
            names: Sequence[str] = [self.table.header[i] for i in self.layout.values]
            codes = looked_up(self.names, names, lambda i: self.table.in_header(self.layout.values[i]))
            return np.tile(codes, len(chunk.rows))
        texts = [row[column] for row in chunk.rows]
        return looked_up(self.names, texts, lambda i: self.table.where(chunk.at[i], column))

    def _keep(self, meter: np.ndarray, time: np.ndarray, value: np.ndarray) -> None:
        self.count += len(value)
        if self.count > MAX_READINGS:
            raise DataFileError(f"{self.table.path}: more than {MAX_READINGS} readings; leave out meters or years")
        self.pieces.append((meter.astype(np.int32), time.astype(np.int32), value.astype(np.float32)))

    def readings(self) -> Readings:
        """All of them."""
        if not self.count:
            raise DataFileError(f"{self.table.path}: there is no reading below the header")
        seconds, offsets = self.times.arrays()
        meter, time, value = (np.concatenate(piece) for piece in zip(*self.pieces, strict=True))
        self.pieces.clear()
        names = list(self.names)
        negative = {names[code]: place for code, place in self.negative.items()}
        return Readings(
            self.table.path, names, meter, time, value, seconds, offsets, self.first_row, self.layout.energy,
            self.blank, negative,
        )  # fmt: skip
