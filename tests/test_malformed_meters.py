"""Meter files that are wrong: one message with file, row and column, exit code 3, never a traceback."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calls import call
from compvae.data.meter_days import MeterDays, complete_days
from compvae.data.readings import read_readings
from compvae.errors import CompVAEError, DataFileError
from compvae.problems.own import own_data
from junk import assert_readable
from meter_files import loads, write_all, write_long

HEADER = "meter,timestamp,kwh\n"
GOOD = "".join(f"a,2021-05-03 {h:02}:00,0.5\n" for h in range(24))


def hours(meter: str, value: str = "0.5", day: str = "2021-05-03") -> str:
    return "".join(f"{meter},{day} {h:02}:00,{value}\n" for h in range(24))


WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty": ("", ("row 1", "empty")),
    "blank first line": ("\n" + HEADER + GOOD, ("row 1", "blank line")),
    "header alone": (HEADER, ("no reading",)),
    "only blank readings": (HEADER + hours("a", "null"), ("no reading",)),
    "no header": (GOOD, ("row 1", "expected meter, timestamp, kwh")),
    "wrong header": ("home,when,power\n" + GOOD, ("row 1", "'home'", "expected meter, timestamp, kwh")),
    "no timestamps": ("meter,time,kwh\n" + GOOD, ("row 1", "'timestamp' is missing")),
    "no meters": ("timestamp,kwh\n2021-05-03 00:00,1\n", ("row 1", "'meter' is missing")),
    "no values": ("meter,timestamp,load\n" + GOOD, ("row 1", "'kwh' is missing")),
    "a column twice": ("meter,timestamp,kwh,kwh\n", ("row 1", "stands twice")),
    "several units": ("meter,timestamp,kwh,wh\na,2021-05-03 00:00,1,1000\n", ("row 1", "'kwh', 'wh'", "several units")),
    "units of rows": (
        "meter,timestamp,kwh,unit\na,2021-05-03 00:00,1,Wh\n",
        ("row 1", "'unit'", "single rows", "kwh, wh, kw or w"),
    ),
    "a counter": (
        HEADER + "".join(f"a,2021-05-0{d} {h:02}:00,{24 * d + h}\n" for d in (3, 4, 5) for h in range(24)),
        ("meter 'a'", "never fall within any of 3 days", "difference"),
    ),
    "a Unix time": (HEADER + "a,1620000000,1\n", ("row 2", "'timestamp'", "not a timestamp")),
    "a named time zone": (HEADER + "a,2021-05-03 00:00 CET,1\n", ("row 2", "'timestamp'", "not a timestamp")),
    "a total below": (HEADER + GOOD + "Total,,12\n", ("row 26", "'timestamp'", "not a timestamp")),
    "a header again": (HEADER + GOOD + HEADER, ("row 26", "'kwh'", "not a number")),
    "a unit in a number": (HEADER + GOOD + "a,2021-05-04 00:00,500 Wh\n", ("row 26", "'kwh'", "500 Wh", "unit")),
    "text in numbers": (HEADER + "a,2021-05-03 00:00,much\n", ("row 2", "'kwh'", "'much' is not a number")),
    "decimal comma": (HEADER + 'a,2021-05-03 00:00,"0,5"\n', ("row 2", "'kwh'", "semicolons")),
    "infinite": (HEADER + GOOD + "a,2021-05-04 00:00,inf\n", ("row 26", "'kwh'", "finite")),
    "huge": (HEADER + "a,2021-05-03 00:00,1e30\n", ("row 2", "'kwh'", "too large")),
    "no time": (HEADER + "a,2021-05-03,1\n", ("row 2", "'timestamp'", "no time of day")),
    "day first": (HEADER + "a,03/05/2021 00:00,1\n", ("row 2", "'timestamp'", "not a timestamp")),
    "hour 24": (HEADER + "a,2021-05-03 24:00,1\n", ("row 2", "'timestamp'", "hour must be in 0..23")),
    "31 February": (HEADER + "a,2021-02-31 00:00,1\n", ("row 2", "'timestamp'", "day")),
    "year 0213": (HEADER + "a,0213-05-03 00:00,1\n", ("row 2", "'timestamp'", "outside of the years")),
    "time zone mix": (
        HEADER + GOOD + "a,2021-05-04 00:00Z,1\n",
        ("row 26", "'timestamp'", "has an offset", "write all or none"),
    ),
    "a nameless meter": (HEADER + " ,2021-05-03 00:00,1\n", ("row 2", "'meter'", "no name")),
    "truncated": (HEADER + GOOD + "a,2021-05-04 0", ("row 26", "2 fields", "cut off")),
    "an open quote": (HEADER + GOOD + 'a,"2021-05-04 00:00,1\n', ("row 26", "quote")),
    "a field too many": (HEADER + "a,2021-05-03 00:00,1,5\n", ("row 2", "4 fields")),
    "not text": ("meter,timestamp,kwh\n\udcff\udcfe\n", ("UTF-8",)),
    "one time": (HEADER + "a,2021-05-03 00:00,1\nb,2021-05-03 00:00,1\n", ("one time",)),
    "seven minutes": (
        HEADER + "".join(f"a,2021-05-03 00:{7 * i:02},1\n" for i in range(8)),
        ("row 2", "times", "7 minutes apart"),
    ),
    "days alone": (
        HEADER + "".join(f"a,2021-05-0{d} 00:00,1\n" for d in range(1, 9)),
        ("1440 minutes apart", "two at least"),
    ),
    "beside the hours": (
        HEADER + hours("a") + hours("b", day="2021-05-04").replace(":00,", ":07,"),
        ("row 26", "times", "24 of 48 readings", "whole multiples of 60"),
    ),
    "missing hours": (HEADER + "".join(GOOD.splitlines(True)[:20]), ("no meter has a complete day", "1 have gaps")),
    "Wh among kWh": (
        HEADER + hours("a") + hours("b") + hours("c") + hours("d", "500"),
        ("meter 'd'", "1000 times the median", "Wh among kWh"),
    ),
    "negative": (HEADER + GOOD + hours("b", "-0.5"), ("row 26", "'kwh'", "below zero", "exports")),
    "too few homes": (HEADER + GOOD + hours("b"), ("4 training homes",)),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_its_place(case: str, tmp_path: Path) -> None:
    text, words = WRONG[case]
    path = tmp_path / "meters.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    code, out, err = call("train", path, "--profiles", "auto:1", "--out", tmp_path / "run")
    assert (code, out) == (3, ""), err
    assert len(err.splitlines()) == 1
    assert str(path) in err
    for word in words:
        assert word in err
    assert not (tmp_path / "run").exists()


WRONG_HOMES = {
    "no column": ("meter,kind\nm00,flat\n", ("row 1", "'profile' is missing")),
    "nothing": ("meter,profile\n", ("no row",)),
    "a meter twice": ("meter,profile\nm00,a\nm00,b\n", ("row 3", "'meter'", "already in row 2")),
    "no profile": ("meter,profile\nm00,\n", ("row 2", "'profile'", "nothing")),
    "a colon": ("meter,profile\nm00,a:b\n", ("row 2", "'profile'", "--parts")),
    "meters left over": ("meter,profile\nm00,a\n", ("9 of 10 meters", "'m01'", "and 4 more")),
    "odd exports": ("meter,profile,exports\nm00,a,maybe\n", ("row 2", "'exports'", "yes nor no")),
}


@pytest.mark.parametrize("case", WRONG_HOMES)
def test_wrong_profiles_are_refused(case: str, tmp_path: Path) -> None:
    text, words = WRONG_HOMES[case]
    files = write_all(tmp_path)
    files["homes"].write_text(text)
    code, _, err = call("train", files["meters"], "--profiles", files["homes"], "--out", tmp_path / "run")
    assert code == 3, err
    assert all(word in err for word in (str(files["homes"]), *words)), err


WRONG_DAYS = {
    "no date": ("day,temperature\n2021-05-03,4\n", ("row 1", "'date' is missing")),
    "no columns": ("date\n2021-05-03\n", ("row 1", "no column beside")),
    "no date in it": ("date,temperature\nMonday,4\n", ("row 2", "'date'", "not a date")),
    "a day twice": ("date,temperature\n2021-05-03,4\n2021-05-03,5\n", ("row 3", "'date'", "already in row 2")),
    "text in numbers": (
        "date,temperature\n2021-05-03,4\n2021-05-04,5\n2021-05-05,warm\n",
        ("row 4", "'temperature'", "'warm'"),
    ),
    "always the same": ("date,temperature\n2021-05-03,4\n2021-05-04,4\n", ("'temperature'", "always 4")),
    "nothing in it": ("date,temperature\n2021-05-03,\n", ("'temperature'", "nothing is written")),
}


@pytest.mark.parametrize("case", WRONG_DAYS)
def test_a_wrong_context_is_refused(case: str, tmp_path: Path) -> None:
    text, words = WRONG_DAYS[case]
    files = write_all(tmp_path)
    files["days"].write_text(text)
    arguments = ("--profiles", files["homes"], "--context", files["days"], "--out", tmp_path / "run")
    code, _, err = call("train", files["meters"], *arguments)
    assert code == 3, err
    assert all(word in err for word in (str(files["days"]), *words)), err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("meters.csv",), "meters need profiles"),
        (("meters.csv", "--profiles", "auto:0"), "between 1 and 32"),
        (("meters.csv", "--profiles", "auto:9"), "too few"),
        (("meters.csv", "--profiles", "none.csv"), "no such file"),
        (("homes.txt", "--profiles", "auto:2"), "ends in .csv or .parquet"),
        (("nowhere.csv", "--profiles", "auto:2"), "is unknown"),
        (("sines", "--profiles", "auto:2"), "not with the problem sines"),
        ((".",), "a dataset needs wholes"),
    ],
)
def test_wrong_flags_are_usage_errors(arguments, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(tmp_path)
    (tmp_path / "homes.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    code, _, err = call("train", *arguments, "--out", "run")
    assert (code, words in err) == (2, True), err


def test_a_million_columns_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    with path.open("w") as stream:
        stream.write("timestamp")
        for start in range(0, 1_000_000, 10_000):
            stream.write("".join(f",m{i}" for i in range(start, start + 10_000)))
        stream.write("\n")
    tracemalloc.start()
    with pytest.raises(DataFileError, match=r"wide\.csv, row 1: .*100000 columns.* long form"):
        read_readings(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000  # a line of bounded length, whatever the file


def test_a_broken_parquet_file_is_refused(tmp_path: Path) -> None:
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    path = tmp_path / "meters.parquet"
    parquet.write_table(pyarrow.table({"meter": ["a"], "timestamp": ["x"], "kwh": [1.0]}), path)
    with pytest.raises(DataFileError, match="row 1, column 'timestamp': 'x' is not a timestamp"):
        read_readings(path)
    parquet.write_table(pyarrow.table({"meter": [["a"]], "timestamp": ["x"], "kwh": [1.0]}), path)
    with pytest.raises(DataFileError, match="column 'meter': expected numbers, texts or times"):
        read_readings(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataFileError, match="not a readable Parquet file"):
        read_readings(path)


def test_homes_that_feed_in_may_read_below_zero(tmp_path: Path) -> None:
    kwh = loads(10, 12)
    kwh[3, :, 12] = -1.5
    path = write_long(tmp_path / "m.csv", kwh)
    homes = tmp_path / "homes.csv"
    lines = [f"m{h:02},{'solar' if h == 3 else 'flat'},{'yes' if h == 3 else ''}" for h in range(10)]
    homes.write_text("\n".join(["meter,profile,exports", *lines]) + "\n")
    source = own_data(str(path), str(homes)).open()
    assert source.schema.categories == ("flat", "solar")
    homes.write_text(homes.read_text().replace("yes", "no"))
    with pytest.raises(DataFileError, match=r"m\.csv, row \d+, column 'kwh': meter 'm03' reads below zero"):
        own_data(str(path), str(homes)).open()


FIELDS = st.one_of(
    st.sampled_from(("a", "b", "", " ", "nan", "inf", "-1", "1e400", "0,5", '"', "null", "2021-05-03 00:00", "kwh")),
    st.text(max_size=12),
    st.floats().map(str),
)


def read_or_refused(path: Path) -> tuple[MeterDays | None, DataFileError]:
    try:
        return complete_days(read_readings(path)), DataFileError("")
    except DataFileError as error:
        return None, error


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(FIELDS, min_size=1, max_size=5), max_size=4),
    place=st.integers(0, 48),
    cut=st.integers(0, 200),
    header=st.sampled_from(
        ("meter,timestamp,kwh", "timestamp,a,b", "LCLid,stdorToU,DateTime,KWH/hh (per half hour) ", "")
    ),
)
def test_junk_is_read_or_refused_but_never_crashes(rows, place: int, cut: int, header: str, tmp_path: Path) -> None:
    lines = [header, *GOOD.splitlines()]
    lines[place:place] = [",".join(row) for row in rows]
    path = tmp_path / "meters.csv"
    data = "\n".join(lines).encode(errors="surrogatepass")
    path.write_bytes(data[: len(data) - cut] if cut < 100 else data)
    found, refused = read_or_refused(path)
    if found is not None:
        assert np.isfinite(found.kw).all()
    else:
        assert str(path) in str(refused)
        assert_readable(refused)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), ending=st.sampled_from((".csv", ".parquet")))
def test_any_bytes_are_refused(data: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"meters{ending}"
    path.write_bytes(data)
    with pytest.raises(CompVAEError) as caught:
        read_readings(path)
    assert_readable(caught.value)
