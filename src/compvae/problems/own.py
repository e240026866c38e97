"""A user's own data by its paths, with a hash of every file: what a run records, and opens again when it is resumed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from compvae.data.covariates import read_covariates
from compvae.data.dataset import dataset_files, read_dataset
from compvae.data.homes import auto_bands, check_exports, read_profiles
from compvae.data.meter_days import complete_days
from compvae.data.readings import read_readings
from compvae.data.times import day_number
from compvae.errors import ConfigError, DataError, DataFileError
from compvae.files import is_file, reason, sha256_of
from compvae.problems.meters import MeterGroups
from compvae.problems.source import OwnSource
from compvae.problems.tables import TableWholes

__all__ = ["OwnData", "own_data"]


class OwnData(BaseModel):
    """Where the data is.

    kind: "meters", a file of readings, or "tables", a directory of wholes and parts.
    profiles: a table ``meter, profile``, or ``auto:4``.  context: a table ``date, ...``.
    sha256: of every file, by its path.  split_seed: decides what is held out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["meters", "tables"]
    path: str
    profiles: str | None = None
    context: str | None = None
    sha256: dict[str, str] = {}
    split_seed: int = 0

    def files(self) -> list[Path]:
        """All files the data is read from."""
        if self.kind == "tables":
            return list(dataset_files(Path(self.path)).values())
        beside = [] if self.profiles is None or auto_bands(self.profiles) is not None else [self.profiles]
        return [Path(name) for name in (self.path, *beside, *([] if self.context is None else [self.context]))]

    def places(self) -> dict[str, str | None]:
        """The paths alone."""
        return {"data": self.path, "profiles": self.profiles, "context": self.context}

    def open(self) -> OwnSource:
        """The source; a DataFileError where a file is not what it was when the run began."""
        for path in self.files():
            if self.sha256.get(str(path)) != _sha256(path):
                raise DataFileError(
                    f"{path}: the file has changed since the run began; put the old one back, or start a new run"
                )
        return _open(self.kind, self.path, self.profiles, self.context, self.split_seed, tuple(self.sha256.items()))


def own_data(path: str, profiles: str | None = None, context: str | None = None, split_seed: int = 0) -> OwnData:
    """A file of meter readings, or a directory of tables, with the hashes of its files."""
    place = Path(path)
    if place.is_dir():
        for flag, value in (("--profiles", profiles), ("--context", context)):
            if value is not None:
                raise ConfigError(f"{flag} goes with a file of meter readings; {path} is a directory of tables")
        found = OwnData(kind="tables", path=_absolute(path), split_seed=split_seed)
    elif profiles is None:
        raise ConfigError(f"{path}: meters need profiles; give --profiles homes.csv (meter, profile), or auto:4")
    else:
        named = profiles if auto_bands(profiles) is not None else _absolute(profiles)
        days = None if context is None else _absolute(context)
        found = OwnData(kind="meters", path=_absolute(path), profiles=named, context=days, split_seed=split_seed)
    return found.model_copy(update={"sha256": {str(file): _sha256(file) for file in found.files()}})


def _absolute(path: str) -> str:
    return str(Path(path).resolve())


def _sha256(path: Path) -> str:
    if not is_file(path):
        raise ConfigError(f"{str(path)!r}: no such file")
    try:
        return sha256_of(path)
    except OSError as error:
        raise ConfigError(f"{str(path)!r}: cannot read the file, {reason(error)}") from None


@lru_cache(maxsize=1)  # a run asks several times: for its sizes, for measuring, for training
def _open(
    kind: str,
    path: str,
    profiles: str | None,
    context: str | None,
    split_seed: int,
    hashes: tuple[tuple[str, str], ...],
) -> OwnSource:
    """The data, read once.  hashes: of the files; another hash is another entry of the cache."""
    try:
        if kind == "tables":
            return TableWholes(read_dataset(Path(path)), split_seed)
        assert profiles is not None
        return _groups(path, profiles, context, split_seed)
    except DataError as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{path}: {error}") from None


def _groups(path: str, profiles: str, context: str | None, split_seed: int) -> MeterGroups:
    readings = read_readings(Path(path))
    days = complete_days(readings)
    bands = auto_bands(profiles)
    covariates = None if context is None else read_covariates(Path(context), "date", day_number)
    if bands is not None:
        check_exports(readings.negative, frozenset())
        return MeterGroups(days, bands, covariates, split_seed)
    homes = read_profiles(Path(profiles), days.meters)
    check_exports(readings.negative, homes.exporting)
    return MeterGroups(days, homes, covariates, split_seed)
