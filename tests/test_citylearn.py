"""compvae data citylearn, on a wheel made here: what is unpacked, what is refused; real pip, no network."""

from __future__ import annotations

import hashlib
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from calls import call
from compvae.data import citylearn
from compvae.data.citylearn import FOLDER, HOME, LOAD, TEMPERATURE, WEATHER, WHEEL, unpack
from compvae.data.meter_days import complete_days
from compvae.data.readings import read_readings
from compvae.errors import DataFileError
from compvae.problems.own import own_data

HOURS, HOMES = 24 * 40, 8
START = datetime(2016, 8, 1)


def labels(hours: int = HOURS) -> list[str]:
    """month, hour and day type as the real files have them: midnight is hour 24 of the day before."""
    before = [START + timedelta(hours=i - 1) for i in range(hours)]
    return [f"{t.month}.0,{t.hour + 1}.0,{t.isoweekday()}.0" for t in before]


def load(home: int) -> np.ndarray:
    return np.round(np.random.default_rng(home).gamma(2, 0.3, HOURS) * (1 + 0.2 * home), 5)


def write_wheel(path: Path, column: str = LOAD, stamps: list[str] | None = None) -> Path:
    """A wheel that pip takes for citylearn 2.1.2, with a few homes and their weather."""
    about = "citylearn-2.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for home in range(1, HOMES + 1):
            rows = [f"{stamp},{value}" for stamp, value in zip(stamps or labels(), load(home), strict=True)]
            text = "\n".join([f"Month,Hour,Day Type,{column}", *rows])
            archive.writestr(f"{FOLDER}Building_{home}.csv", text)
        weather = [TEMPERATURE, *(str(10 + hour // 24) for hour in range(HOURS))]
        archive.writestr(WEATHER, "\n".join(weather))
        archive.writestr("citylearn/data/other/Building_1.csv", "not ours")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: citylearn\nVersion: 2.1.2\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def test_the_homes_come_out_hour_by_hour_from_the_first_of_august(tmp_path: Path) -> None:
    found = unpack(write_wheel(tmp_path / WHEEL), tmp_path / "out")
    assert found == {"homes": HOMES, "hours": HOURS}
    days = complete_days(read_readings(tmp_path / "out" / "meters.csv"))
    assert days.minutes == 60
    assert days.report.days_kept == HOMES * HOURS // 24
    first = days.kw[(days.meter == days.meters.index("home03")) & (days.day == 0)][0]
    np.testing.assert_allclose(first, load(3)[:24], rtol=1e-5)
    assert (tmp_path / "out" / "days.csv").read_text().splitlines()[:3] == [
        "date,temperature,day_type", "2016-08-01,10.00,weekday", "2016-08-02,11.00,weekday"
    ]  # fmt: skip
    homes = (tmp_path / "out" / "homes.csv").read_text().splitlines()
    assert homes[1].startswith("home01,small,")
    assert homes[-1].startswith("home08,large,")


def test_what_comes_out_can_be_trained_on(tmp_path: Path) -> None:
    unpack(write_wheel(tmp_path / WHEEL), tmp_path)
    source = own_data(*(str(tmp_path / name) for name in ("meters.csv", "homes.csv", "days.csv"))).open()
    assert source.schema.categories == ("large", "medium", "small")
    assert [a.name for a in source.context] == ["temperature", "day_type"]


def test_rows_that_do_not_fit_the_calendar_and_missing_columns_are_refused(tmp_path: Path) -> None:
    stamps = labels()
    stamps[100] = stamps[101]
    with pytest.raises(DataFileError, match="hour 100 is month, hour, day type"):
        unpack(write_wheel(tmp_path / "a.whl", stamps=stamps), tmp_path / "out")
    with pytest.raises(DataFileError, match="home01, column 'Equipment Electric Power"):
        unpack(write_wheel(tmp_path / "b.whl", column="load"), tmp_path / "out")
    (tmp_path / "c.whl").write_bytes(b"PK nothing")
    with pytest.raises(DataFileError, match=r"is not the wheel of citylearn==2\.1\.2"):
        unpack(tmp_path / "c.whl", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which pip looks instead of the network, and a cache of its own."""
    links = tmp_path / "links"
    links.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return links


def test_pip_fetches_once_and_the_hash_is_checked(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = write_wheel(index / WHEEL)
    cached = tmp_path / "cache" / "compvae" / WHEEL
    code, _, err = call("data", "citylearn", "--out", tmp_path / "out")
    assert code == 3
    assert "expected 95730b1deed73b1f5a4d17eb8334be3c99efa4aef8677822378d62d8359511dd" in err
    assert not cached.exists()
    assert not (tmp_path / "out").exists()

    monkeypatch.setattr(citylearn.verified, "__defaults__", (hashlib.sha256(wheel.read_bytes()).hexdigest(),))
    code, text, err = call("data", "citylearn", "--out", tmp_path / "out")
    assert code == 0, err
    assert f"{HOMES} homes" in text
    assert "--profiles" in text
    assert cached.exists()
    wheel.unlink()  # now the cache must do
    assert call("data", "citylearn", "--out", tmp_path / "again")[0] == 0
    assert (tmp_path / "again" / "meters.csv").read_bytes() == (tmp_path / "out" / "meters.csv").read_bytes()


def test_a_download_that_fails_is_one_line(index: Path, tmp_path: Path) -> None:
    code, _, err = call("data", "citylearn", "--out", tmp_path / "out")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "pip could not download citylearn==2.1.2" in err
    assert call("data", "london")[0] == 2


def test_only_plain_names_of_homes_are_taken_from_the_wheel() -> None:
    assert HOME.fullmatch(f"{FOLDER}Building_17.csv")
    assert not HOME.fullmatch(f"{FOLDER}../Building_1.csv")
