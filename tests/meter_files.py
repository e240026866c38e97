"""Small files of meter readings: homes of two sizes that share the day's weather, written in any layout."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

START = datetime(2021, 5, 3)  # a Monday


def loads(homes: int = 10, days: int = 12, values: int = 24, seed: int = 0) -> np.ndarray:
    """kWh of each reading, (homes, days, values): every second home is twice as large."""
    rng = np.random.default_rng(seed)
    shape = 0.3 + 0.2 * np.sin(np.linspace(0, 2 * np.pi, values, endpoint=False) - 2) ** 2
    size = np.where(np.arange(homes) % 2 == 0, 1.0, 2.0)[:, None, None]
    weather = np.exp(0.3 * rng.standard_normal((1, days, 1)))
    kwh = size * weather * shape * rng.gamma(4, 0.25, (homes, days, values))
    return (kwh * 24 / values).round(4)


def times(days: int, values: int, start: datetime = START) -> list[str]:
    step = timedelta(minutes=1440 // values)
    return [(start + i * step).strftime("%Y-%m-%d %H:%M") for i in range(days * values)]


def name(home: int) -> str:
    return f"m{home:02}"


def write_long(path: Path, kwh: np.ndarray, unit: str = "kwh", start: datetime = START) -> Path:
    stamps = times(*kwh.shape[1:], start)
    rows = [f"{name(h)},{t},{v:.10g}" for h, load in enumerate(kwh) for t, v in zip(stamps, load.ravel(), strict=True)]
    path.write_text("\n".join([f"meter,timestamp,{unit}", *rows]) + "\n")
    return path


def write_wide(path: Path, kwh: np.ndarray) -> Path:
    flat = kwh.reshape(len(kwh), -1).T
    rows = [",".join([t, *(f"{v:.10g}" for v in row)]) for t, row in zip(times(*kwh.shape[1:]), flat, strict=True)]
    path.write_text("\n".join([",".join(["timestamp", *map(name, range(len(kwh)))]), *rows]) + "\n")
    return path


def write_london(path: Path, kwh: np.ndarray) -> Path:
    stamps = times(*kwh.shape[1:])
    rows = [
        f"{name(h)},Std,{t}:00.0000000, {v:.10g} "
        for h, load in enumerate(kwh)
        for t, v in zip(stamps, load.ravel(), strict=True)
    ]
    path.write_text("\n".join(["LCLid,stdorToU,DateTime,KWH/hh (per half hour) ", *rows]) + "\n")
    return path


def write_homes(path: Path, homes: int) -> Path:
    rows = [f"{name(h)},{'small' if h % 2 == 0 else 'large'}" for h in range(homes)]
    path.write_text("\n".join(["meter,profile", *rows]) + "\n")
    return path


def write_days(path: Path, days: int) -> Path:
    """Temperature and kind of all days but the second."""
    dates = [START + timedelta(days=i) for i in range(days)]
    rows = [
        f"{d:%Y-%m-%d},{10 + i / 2},{'weekend' if d.weekday() > 4 else 'weekday'}"
        for i, d in enumerate(dates)
        if i != 1
    ]
    path.write_text("\n".join(["date,temperature,day_type", *rows]) + "\n")
    return path


def write_all(directory: Path, homes: int = 10, days: int = 12, values: int = 24) -> dict[str, Path]:
    """meters.csv, homes.csv and days.csv."""
    directory.mkdir(parents=True, exist_ok=True)
    return {
        "meters": write_long(directory / "meters.csv", loads(homes, days, values)),
        "homes": write_homes(directory / "homes.csv", homes),
        "days": write_days(directory / "days.csv", days),
    }
