"""Days of 23 or 25 hours, on which clocks are changed: found by their offsets, or by the hour that all meters miss."""

from __future__ import annotations

import numpy as np

from compvae.data.readings import Readings
from compvae.data.times import DAY
from compvae.errors import DataFileError

__all__ = ["changed_by_hours", "changed_by_offsets"]

NIGHT = 4 * 60  # minutes: clocks are changed in the first hours of a day
SOME, MANY = 3, 0.03  # more days than both of these with two offsets: these are not clock changes


def changed_by_offsets(readings: Readings) -> set[int]:
    """Days (since 1970-01-01) whose timestamps have more than one offset from UTC."""
    pairs = np.unique(np.stack([readings.seconds // DAY, readings.offsets]), axis=1)
    days, counts = np.unique(pairs[0], return_counts=True)
    changed = days[counts > 1]
    if len(changed) > max(SOME, MANY * len(days)):
        row = readings.first_row[int(np.flatnonzero(readings.seconds // DAY == changed[0])[0])]
        raise DataFileError(
            f"{readings.path}, row {row}, column of times: {len(changed)} of {len(days)} days have several offsets "
            f"from UTC; write the times of all meters in one time zone"
        )
    return {int(day) for day in changed}


def changed_by_hours(dates: np.ndarray, present: np.ndarray, seen: np.ndarray, minutes: int) -> set[int]:
    """Days on which one hour of the night is missing, or stands twice, for more than half of the meters.

    dates: days since 1970-01-01, (D,).  present: meters with a reading, seen: readings, both (D, V).
    minutes: between readings.
    """
    hour = 60 // minutes
    if hour == 0:
        return set()
    meters = present.max(1, keepdims=True)
    night = slice(0, NIGHT // minutes)
    missing = (present[:, night] * 2 < meters) & (meters > 0)
    twice = (seen - present)[:, night] * 2 > meters
    ends = present[:, NIGHT // minutes] * 2 >= meters[:, 0]  # the night is over, and readings are there
    return {
        int(date)
        for date, gap, double, awake in zip(dates, missing, twice, ends, strict=True)
        if _one_hour(double, hour) or (awake and _one_hour(gap, hour))
    }


def _one_hour(flags: np.ndarray, hour: int) -> bool:
    """True where exactly one hour is flagged, in one piece.  flags: (values of the night,) bool."""
    at = np.flatnonzero(flags)
    return len(at) == hour and int(at[-1] - at[0]) == hour - 1
