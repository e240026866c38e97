"""Meter readings from files: layouts, resolution, units, gaps, repeats, clock changes, memory."""

from __future__ import annotations

import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from compvae.data.meter_days import MeterDays, complete_days
from compvae.data.readings import read_readings
from compvae.data.text import TextTable
from compvae.errors import DataFileError
from meter_files import loads, name, write_london, write_long, write_wide


def read(path: Path) -> MeterDays:
    return complete_days(read_readings(path))


def kept(found: MeterDays) -> dict[tuple[str, int], np.ndarray]:
    """(meter, day since 1970) -> kW."""
    return {(found.meters[m], int(found.dates[d])): x for m, d, x in zip(found.meter, found.day, found.kw, strict=True)}


def assert_equals(found: MeterDays, kwh: np.ndarray) -> None:
    """Every day of every home is there, as mean power."""
    days = kept(found)
    assert len(days) == kwh.shape[0] * kwh.shape[1]
    hours = 24 / kwh.shape[2]
    for home, load in enumerate(kwh):
        for day, x in enumerate(load):
            np.testing.assert_allclose(days[name(home), int(found.dates[0]) + day], x / hours, rtol=1e-6)


@pytest.mark.parametrize("values", [24, 48, 96])
@pytest.mark.parametrize("write", [write_long, write_wide, write_london])
def test_every_layout_and_resolution_gives_the_same_days_in_kw(write, values: int, tmp_path: Path) -> None:
    kwh = loads(3, 4, values)
    found = read(write(tmp_path / "meters.csv", kwh))
    assert found.minutes == 1440 // values
    assert_equals(found, kwh)


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kwh, start = loads(3, 4), datetime(2021, 5, 3)
    stamps = [start + timedelta(hours=i) for i in range(4 * 24)]
    columns = {"meter": [name(h) for h in range(3) for _ in stamps], "timestamp": stamps * 3, "kwh": kwh.ravel()}
    parquet.write_table(pyarrow.table(columns), tmp_path / "long.parquet")
    assert_equals(read(tmp_path / "long.parquet"), kwh)
    wide = {"timestamp": stamps, **{name(h): load.ravel() for h, load in enumerate(kwh)}}
    parquet.write_table(pyarrow.table(wide), tmp_path / "wide.parquet")
    assert_equals(read(tmp_path / "wide.parquet"), kwh)


@pytest.mark.parametrize(("unit", "factor"), [("wh", 1000), ("kw", 1), ("w", 1000)])
def test_other_units_by_the_name_of_the_column(unit: str, factor: float, tmp_path: Path) -> None:
    kwh = loads(3, 2)  # hourly: kWh of a reading and mean kW are the same number
    assert_equals(read(write_long(tmp_path / "meters.csv", kwh * factor, unit)), kwh)


def edited(path: Path, change) -> Path:
    """A half-hourly file of 4 homes and 4 days after its rows were changed."""
    write_long(path, loads(4, 4, 48))
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *change(rows)]) + "\n")
    return path


def without(*places: tuple[str, str]):
    return lambda rows: [row for row in rows if not any(row.startswith(f"{m},2021-05-{t}") for m, t in places)]


def test_a_gap_of_an_hour_is_filled_by_a_straight_line_and_counted(tmp_path: Path) -> None:
    found = read(edited(tmp_path / "m.csv", without(("m00", "04 10:00"), ("m00", "04 10:30"))))
    day = kept(found)["m00", int(found.dates[1])]
    np.testing.assert_allclose(day[20:22], np.interp([1, 2], [0, 3], [day[19], day[22]]), rtol=1e-6)
    assert (found.report.filled_readings, found.report.filled_days, len(found.kw)) == (2, 1, 16)


@pytest.mark.parametrize(
    "places",
    [
        [("m00", "04 10:00"), ("m00", "04 10:30"), ("m00", "04 11:00")],  # longer than an hour
        [("m00", f"04 {h:02}:00") for h in (6, 8, 10, 12, 14)],  # more than two hours in all
        [("m00", "04 00:00")],  # nothing before it
        [("m00", "04 23:30")],  # nothing after it
    ],
)
def test_a_day_with_larger_gaps_is_left_out_for_that_meter_alone(places, tmp_path: Path) -> None:
    found = read(edited(tmp_path / "m.csv", without(*places)))
    assert found.report.days_with_gaps == 1
    assert len(found.kw) == 15
    assert ("m00", int(found.dates[1])) not in kept(found)


def test_a_meter_without_a_complete_day_is_left_out_and_named(tmp_path: Path) -> None:
    found = read(edited(tmp_path / "m.csv", lambda rows: [*rows, "late,2021-05-04 10:00,0.5"]))
    assert found.report.meters_without_a_day == ["late"]
    assert "late" not in found.meters


def test_repeated_readings_count_once_and_conflicting_ones_cost_the_day(tmp_path: Path) -> None:
    def change(rows: list[str]) -> list[str]:
        return [*rows, rows[5], rows[5], "m01,2021-05-04 10:00,3.5"]

    found = read(edited(tmp_path / "m.csv", change))
    assert (found.report.repeated, found.report.conflicting) == (2, 1)
    assert (found.report.days_with_conflicts, len(found.kw)) == (1, 15)
    assert ("m01", int(found.dates[1])) not in kept(found)


def test_blank_readings_are_gaps_wherever_they_stand(tmp_path: Path) -> None:
    def change(rows: list[str]) -> list[str]:  # London has such rows at odd times
        return [rows[0], *(f"m00,2021-05-03 15:13:4{i},Null" for i in range(3)), *rows[1:]]

    found = read(edited(tmp_path / "m.csv", change))
    assert (found.report.blank, len(found.kw), found.minutes) == (3, 16, 30)


@pytest.mark.parametrize("blank", ["", ",,", " , ,", "\n,,\n"])
def test_rows_of_separators_alone_are_blank_whatever_stands_beside_them(blank: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"meter,timestamp,kwh\na,2013-01-01 00:00,1\n{blank}\nb,2013-01-01 00:00,2\n")
    chunk = next(TextTable(path).chunks())
    assert [row[0] for row in chunk.rows] == ["a", "b"]
    assert list(chunk.at) == [2, 4 + blank.count("\n")]


def test_parquet_complains_about_its_columns_as_csv_does(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ones = pyarrow.array([1])
    parquet.write_table(pyarrow.Table.from_arrays([ones, ones], names=["kwh", "kwh "]), tmp_path / "t.parquet")
    with pytest.raises(DataFileError, match=r"t\.parquet: column 'kwh' stands twice"):
        read_readings(tmp_path / "t.parquet")


def test_the_day_without_an_hour_and_the_day_with_one_twice_are_left_out_for_all(tmp_path: Path) -> None:
    def change(rows: list[str]) -> list[str]:
        spring = [row for row in rows if "2021-05-04 02:" not in row]  # 23 hours
        again = [row.rsplit(",", 1)[0] + ",0.7" for row in rows if "2021-05-05 01:" in row]  # 25 hours
        return spring + again

    found = read(edited(tmp_path / "m.csv", change))
    assert found.report.clock_changes == ["2021-05-04", "2021-05-05"]
    assert (found.report.days_of_clock_changes, len(found.kw), found.report.filled_readings) == (8, 8, 0)


def test_offsets_tell_the_clock_change_and_days_are_cut_where_the_clock_says(tmp_path: Path) -> None:
    utc = datetime(2021, 3, 26, 23)  # local midnight, an hour before UTC's; clocks change on the 28th
    change = datetime(2021, 3, 28, 1)
    rows = []
    for i in range(4 * 24 - 1):
        moment = utc + timedelta(hours=i)
        ahead = 2 if moment >= change else 1
        rows.append(f"a,{moment + timedelta(hours=ahead):%Y-%m-%dT%H:%M:%S}+0{ahead}:00,{94 - i}")
    path = tmp_path / "m.csv"
    path.write_text("meter,timestamp,kwh\n" + "\n".join(rows) + "\n")
    found = read(path)
    assert found.report.clock_changes == ["2021-03-28"]
    assert found.kw[:, 0].tolist() == [94, 47, 23]  # the 27th, 29th and 30th begin at their midnight


def test_meters_in_several_time_zones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    stamps = [datetime(2021, 5, 1) + timedelta(hours=i) for i in range(240)]
    rows = [f"{m},{t:%Y-%m-%dT%H:%M}{z},1" for m, z in (("a", "+01:00"), ("b", "-05:00")) for t in stamps]
    path.write_text("meter,timestamp,kwh\n" + "\n".join(rows) + "\n")
    with pytest.raises(DataFileError, match=r"m\.csv, row 2, .* one time zone"):
        read(path)


def test_memory_grows_by_the_readings_not_by_the_text(tmp_path: Path) -> None:
    peaks, counts = [], []
    for homes in (4, 12):
        path = write_london(tmp_path / f"{homes}.csv", loads(homes, 100, 48))
        tracemalloc.start()
        counts.append(len(read_readings(path).value))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert counts == [4 * 4800, 12 * 4800]
    # 12 bytes a reading, twice while pieces are joined; the text has 50, and a string of Python far more
    assert (peaks[1] - peaks[0]) / (counts[1] - counts[0]) < 26
