"""Which profile each meter has: from a table ``meter, profile``, or by bands of its mean daily energy.

A table may say in a column ``exports`` (yes, no) that a home feeds in; only such meters may read below zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compvae.data.tables import Table, open_table
from compvae.data.text import show
from compvae.errors import ConfigError, DataFileError

__all__ = ["Bands", "Profiles", "auto_bands", "check_exports", "read_profiles"]

METER, PROFILE, EXPORTS = "meter", "profile", "exports"
YES, NO = frozenset({"yes", "y", "true", "1"}), frozenset({"no", "n", "false", "0", ""})
MAX_PROFILES, MAX_BANDS = 64, 32
SHOWN = 5


@dataclass(frozen=True)
class Profiles:
    """names: sorted.  of: index of the profile of each meter, (H,) int64, in the order in which meters were asked for.

    exporting: meters that may feed in.
    """

    names: tuple[str, ...]
    of: np.ndarray
    exporting: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Bands:
    """Size bands: band b holds homes whose mean daily energy is at most limits[b] kWh; the last has no limit."""

    limits: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """band1 (smallest), band2, ..."""
        return tuple(f"band{i + 1}" for i in range(len(self.limits) + 1))

    @classmethod
    def of(cls, kwh: np.ndarray, count: int) -> Bands:
        """Quantile bands.  kwh: mean daily energy of each home, (H,)."""
        limits = np.quantile(kwh, np.arange(1, count) / count)
        if len(set(limits.tolist())) < count - 1 or len(kwh) < 2 * count:
            raise ConfigError(f"--profiles auto:{count}: {len(kwh)} training homes are too few or too alike for it")
        return cls(tuple(float(limit) for limit in limits))

    def index(self, kwh: np.ndarray) -> np.ndarray:
        """The band of each home, (H,) int64.  kwh: mean daily energy, (H,)."""
        return np.searchsorted(np.array(self.limits), kwh, side="left").astype(np.int64)


def auto_bands(text: str) -> int | None:
    """4 for ``auto:4``; None for what is no such text."""
    found = re.fullmatch(r"auto:(\d{1,6})", text.strip())
    if found is None:
        return None
    count = int(found.group(1))
    if not 1 <= count <= MAX_BANDS:
        raise ConfigError(f"--profiles {text}: between 1 and {MAX_BANDS} bands can be made")
    return count


@dataclass
class _Home:
    """A line of the table.  row: where it stands."""

    profile: str
    exports: bool
    row: int


def read_profiles(path: Path, meters: Sequence[str]) -> Profiles:
    """The profile of each of these meters; homes of the table that have no reading are passed over."""
    table = open_table(path, "profiles")
    table.needs(METER, PROFILE)
    homes = _read_homes(table)
    without = [meter for meter in meters if meter not in homes]
    if without:
        more = "" if len(without) <= SHOWN else f" and {len(without) - SHOWN} more"
        listed = ", ".join(show(meter) for meter in without[:SHOWN])
        raise DataFileError(f"{path}: {len(without)} of {len(meters)} meters have no profile: {listed}{more}")
    names = tuple(sorted({homes[meter].profile for meter in meters}))
    if len(names) > MAX_PROFILES:
        raise DataFileError(f"{path}, column 'profile': {len(names)} profiles, at most {MAX_PROFILES} are allowed")
    of = np.array([names.index(homes[meter].profile) for meter in meters], np.int64)
    return Profiles(names, of, frozenset(meter for meter in meters if homes[meter].exports))


def _read_homes(table: Table) -> Mapping[str, _Home]:
    meter, profile = table.header.index(METER), table.header.index(PROFILE)
    exports = table.header.index(EXPORTS) if EXPORTS in table.header else None
    homes: dict[str, _Home] = {}
    for chunk in table.chunks():
        for at, row in zip(chunk.at, chunk.rows, strict=True):
            name, kind = row[meter].strip(), row[profile].strip()
            for column, text in ((meter, name), (profile, kind)):
                if not text:
                    raise DataFileError(f"{table.where(at, column)}: nothing is written")
            if ":" in kind or "," in kind or "=" in kind:
                raise DataFileError(f"{table.where(at, profile)}: {show(kind)} holds one of : , = which --parts uses")
            if name in homes:
                raise DataFileError(
                    f"{table.where(at, meter)}: {show(name)} stands already in row {homes[name].row}; one line a meter"
                )
            homes[name] = _Home(kind, exports is not None and _yes(table, at, exports, row[exports]), at)
    if not homes:
        raise DataFileError(f"{table.path}: there is no row below the header")
    return homes


def _yes(table: Table, at: int, column: int, text: str) -> bool:
    word = text.strip().lower()
    if word not in YES | NO:
        raise DataFileError(f"{table.where(at, column)}: {show(text)} is neither yes nor no")
    return word in YES


def check_exports(negative: Mapping[str, str], exporting: frozenset[str]) -> None:
    """Complain about a meter that reads below zero and is not said to feed in.  negative: meter -> place."""
    for meter, place in negative.items():
        if meter not in exporting:
            raise DataFileError(
                f"{place}: meter {show(meter)} reads below zero; if its home feeds in, say so by a column 'exports' "
                f"with yes in the table of profiles, else correct the reading"
            )
