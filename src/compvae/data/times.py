"""Timestamps: text -> code -> wall clock, seconds since 1970-01-01 as the file writes it.

Each text is parsed once, however many meters share it.  Either all timestamps say how far they are from UTC or none
does: in a mix nobody can tell which readings belong to the same moment.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

import numpy as np

from compvae.data.text import show

__all__ = ["DAY", "Times", "day_number", "iso_day"]

DAY = 86_400
MAX_TIMES = 2_000_000  # different ones: almost four years of minutes
FIRST_YEAR, LAST_YEAR = 1900, 2200
EPOCH = datetime(1970, 1, 1)
FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?\s?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII | re.I
)
ADVICE = "write 2013-01-31 00:30, with or without seconds and offset"


class Times(dict[str, int]):
    """Text -> code; texts that were not seen before are parsed, a ValueError says what is wrong with one.

    seconds, offsets: by code; the offset from UTC in minutes, None where timestamps have none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[int] = []
        self.offsets: list[int | None] = []

    def __missing__(self, text: str) -> int:
        moment, offset = _parse(text)
        if self.offsets and (self.offsets[0] is None) != (offset is None):
            has, had = ("no", "one") if offset is None else ("an", "none")
            raise ValueError(
                f"{show(text)} has {has} offset from UTC, the rows before it have {had}; write all or none with one"
            )
        if len(self.seconds) >= MAX_TIMES:
            raise ValueError(f"more than {MAX_TIMES} different timestamps; readings need common times")
        code = self[text] = len(self.seconds)
        self.seconds.append(int((moment - EPOCH).total_seconds()))
        self.offsets.append(offset)
        return code

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """seconds (T,) int64 and offsets in minutes (T,) int64, 0 where there are none."""
        return np.array(self.seconds, np.int64), np.array([offset or 0 for offset in self.offsets], np.int64)


def _parse(text: str) -> tuple[datetime, int | None]:
    """The wall clock, and the offset in minutes."""
    found = FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{show(text)} is not a timestamp; {ADVICE}")
    year, month, day, hour, minute, second, zone = found.groups()
    if hour is None:
        raise ValueError(f"{show(text)} has no time of day; {ADVICE}")
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))
    except ValueError as error:
        raise ValueError(f"{show(text)} is not a timestamp, {error}; {ADVICE}") from None
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"{show(text)} is outside of the years {FIRST_YEAR} to {LAST_YEAR}")
    return moment, None if zone is None else _minutes(zone)


def _minutes(zone: str) -> int:
    if zone in "Zz":
        return 0
    minutes = 60 * int(zone[1:3]) + int(zone[-2:])
    return -minutes if zone[0] == "-" else minutes


def day_number(text: str) -> int:
    """Days since 1970-01-01 of ``2013-01-31``; a time of midnight may stand behind it.  A ValueError if it is none."""
    found = FORM.fullmatch(text.strip())
    if found is None or any(part not in (None, "00") for part in found.groups()[3:6]):
        raise ValueError(f"{show(text)} is not a date; write 2013-01-31")
    try:
        moment = datetime(*(int(part) for part in found.groups()[:3]))  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"{show(text)} is not a date, {error}; write 2013-01-31") from None
    return (moment - EPOCH).days


def iso_day(number: int) -> str:
    """``2013-01-31`` of days since 1970-01-01."""
    return (date(1970, 1, 1) + timedelta(days=int(number))).isoformat()
