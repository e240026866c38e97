"""A dataset as a directory: wholes, the parts of each, and what is observed about it.

* ``wholes.npz`` (``x``, ``whole_id``[, ``shared_id``]), or the same as ``.csv`` or ``.parquet``;
* ``parts.csv``: ``whole_id, <attributes>[, count]``, one line for each part, or for each run of alike ones;
* ``context.csv`` (optional): ``whole_id, <columns>``.  ``shared_id`` may be a column here too; where the wholes have
  one as well, the two must agree.

An attribute whose values are numbers with a fraction, or more than 32 different numbers, is continuous; all others are
categorical ("1" to "10" are names of frequencies as well as numbers).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compvae.data.covariates import Column, Covariates, read_covariates
from compvae.data.tables import ENDINGS, Table, open_table
from compvae.data.text import show
from compvae.data.wholes import ID, READERS, SHARED, StoredWholes, read_wholes
from compvae.errors import ConfigError, DataFileError, PartsError
from compvae.files import is_file
from compvae.parts import COUNT_KEY, Attribute, Multiset, Part, PartsSchema

__all__ = ["Dataset", "dataset_files", "read_dataset"]

MANY_NUMBERS = 32
MAX_COUNT = 10**6


@dataclass(frozen=True)
class Dataset:
    """Wholes with their parts.

    x: (N, *shape) float32.  parts: of each whole.  shared: id of the factor each shares, None where none do.
    """

    ids: list[str]
    x: np.ndarray
    schema: PartsSchema
    parts: list[Multiset]
    context: Covariates
    shared: list[str] | None


def dataset_files(directory: Path) -> dict[str, Path]:
    """The files of a dataset by what they hold; a ConfigError where the directory holds none."""
    found = {}
    for name, endings in (("wholes", tuple(READERS)), ("parts", ENDINGS), ("context", ENDINGS)):
        there = [directory / f"{name}{ending}" for ending in endings if is_file(directory / f"{name}{ending}")]
        if len(there) > 1:
            raise ConfigError(f"{there[0]} and {there[1]} are both there; keep one of them")
        if not there and name != "context":
            raise ConfigError(f"{directory}: a dataset needs {name} ({name}{f' or {name}'.join(endings)})")
        if there:
            found[name] = there[0]
    return found


def read_dataset(directory: Path) -> Dataset:
    """Read and check a dataset."""
    files = dataset_files(directory)
    wholes = read_wholes(files["wholes"])
    assert wholes.ids is not None
    schema, by_id = _read_parts(files["parts"], wholes.ids)
    context, shared = Covariates(), wholes.shared
    if "context" in files:
        context, shared = _read_context(files["context"], files["wholes"], wholes)
    return Dataset(wholes.ids, wholes.x, schema, [by_id[name] for name in wholes.ids], context, shared)


# -- parts -----------------------------------------------------------------------------------------------------------


def _read_parts(path: Path, ids: list[str]) -> tuple[PartsSchema, dict[str, Multiset]]:
    """The schema that the columns show, and the parts of each of these wholes."""
    table = open_table(path, "parts")
    table.needs(ID)
    names = [name for name in table.header if name not in (ID, SHARED, COUNT_KEY)]
    if not names:
        raise DataFileError(f"{table.in_header()}: a part needs an attribute beside {ID!r}")
    columns = _columns_of(table)
    _refuse_unknown(columns[ID], table, set(ids))
    attributes, kinds, features = _attributes(table, [columns[name] for name in names])
    try:
        schema = PartsSchema(attributes=attributes)
    except PartsError as error:
        raise DataFileError(f"{path}: {error}") from None
    runs: dict[str, list[tuple[Part, int]]] = {name: [] for name in ids}  # of each whole
    counts = _counts(table, columns.get(COUNT_KEY), len(columns[ID].texts))
    for name, kind, place, count in zip(columns[ID].texts, kinds, features, counts, strict=True):
        if count:
            runs[name.strip()].append((Part(int(kind), tuple(float(value) for value in place)), count))
    for name, parts in runs.items():
        if not parts:
            raise DataFileError(f"{path}: the whole {show(name)} has no parts; each needs one at least")
    return schema, {name: Multiset(schema, tuple(parts)).canonical() for name, parts in runs.items()}


def _columns_of(table: Table) -> dict[str, Column]:
    """All columns by name."""
    columns = {name: Column(name) for name in table.header}
    for chunk in table.chunks():
        for at, row in zip(chunk.at, chunk.rows, strict=True):
            for column, text in zip(columns.values(), row, strict=True):
                column.texts.append(text)
                column.rows.append(at)
    return columns


def _refuse_unknown(column: Column, table: Table, known: set[str]) -> None:
    """Complain about the id of a whole that is not there."""
    for at, name in zip(column.rows, column.texts, strict=True):
        if name.strip() not in known:
            raise DataFileError(f"{table.where(at, table.header.index(ID))}: there is no whole {show(name)}")


def _attributes(table: Table, columns: list[Column]) -> tuple[tuple[Attribute, ...], np.ndarray, np.ndarray]:
    """The attributes, the kind of each part (N,) int64, and its continuous attributes (N, F) float64."""
    attributes: list[Attribute] = []
    kind = np.zeros(len(columns[0].texts), np.int64)
    places: list[np.ndarray] = []
    if not len(kind):
        raise DataFileError(f"{table.path}: there is no row below the header")
    for column in columns:
        blank = column.blank()
        if blank.any():
            place = table.where(column.rows[int(blank.argmax())], table.header.index(column.name))
            raise DataFileError(f"{place}: nothing is written; every part needs all attributes")
        values = column.numbers(table) if column.numeric() else None
        if values is not None and _is_continuous(values):
            attributes.append(column.range_of(values, table))
            places.append(values)
        else:
            attribute, index = column.categories(table)
            attributes.append(attribute)
            kind = kind * len(attribute.categories) + index
    return tuple(attributes), kind, np.stack(places, 1) if places else np.zeros((len(kind), 0))


def _is_continuous(values: np.ndarray) -> bool:
    """True for numbers that are no names.  values: (N,)."""
    return bool((values % 1 != 0).any() or len(np.unique(values)) > MANY_NUMBERS)


def _counts(table: Table, column: Column | None, length: int) -> list[int]:
    """How often the part of each row stands, (length,); once where there is no such column."""
    if column is None:
        return [1] * length
    values = column.numbers(table)
    bad = ~((values >= 0) & (values <= MAX_COUNT) & (values % 1 == 0))
    if bad.any():
        first = int(bad.argmax())
        place = table.where(column.rows[first], table.header.index(COUNT_KEY))
        raise DataFileError(f"{place}: {show(column.texts[first])} is not a whole number from 0 to {MAX_COUNT}")
    return [int(value) for value in values]


# -- context ---------------------------------------------------------------------------------------------------------


def _read_context(path: Path, wholes_path: Path, wholes: StoredWholes) -> tuple[Covariates, list[str] | None]:
    """What is observed about each whole, and the id of what it shares, from this table or from that of the wholes."""
    assert wholes.ids is not None
    table = open_table(path, "context")
    table.needs(ID)
    columns = _columns_of(table)
    _refuse_unknown(columns[ID], table, set(wholes.ids))
    shared = wholes.shared
    if SHARED in columns:
        shared = _shared_ids(table, columns, wholes.ids)
        if wholes.shared is not None:
            _refuse_contradiction(table, columns, dict(zip(wholes.ids, wholes.shared, strict=True)), wholes_path)
    only_ids = set(table.header) <= {ID, SHARED}
    return Covariates() if only_ids else read_covariates(path, ID, skip=(SHARED,)), shared


def _shared_ids(table: Table, columns: dict[str, Column], ids: list[str]) -> list[str]:
    """The shared id of each of these wholes."""
    by_id: dict[str, str] = {}
    for at, text, other in zip(columns[ID].rows, columns[ID].texts, columns[SHARED].texts, strict=True):
        name = text.strip()
        if name in by_id:
            raise DataFileError(f"{table.where(at, table.header.index(ID))}: the whole {show(name)} stands twice")
        by_id[name] = other.strip()
    for name in ids:
        if not by_id.get(name):
            raise DataFileError(f"{table.path}, column {SHARED!r}: the whole {show(name)} has none; each needs one")
    return [by_id[name] for name in ids]


def _refuse_contradiction(table: Table, columns: dict[str, Column], known: dict[str, str], wholes_path: Path) -> None:
    """Complain about a whole with another shared id in the file of wholes.  known: that id, by whole."""
    for at, text, other in zip(columns[ID].rows, columns[ID].texts, columns[SHARED].texts, strict=True):
        name, here = text.strip(), other.strip()
        if known[name] != here:
            raise DataFileError(
                f"{table.where(at, table.header.index(SHARED))}: the whole {show(name)} has {show(here)} here and "
                f"{show(known[name])} in {wholes_path}; write the same {SHARED} in both files, or leave the column out "
                f"of one of them"
            )
