"""Wholes from a file: npz (``x`` (N, *shape), ``whole_id`` (N,)), CSV or Parquet (``whole_id``, then the numbers of x).

Beside ``whole_id`` may stand ``shared_id``: wholes with the same one share one external factor.

The numbers of x stand in columns, the last axis fastest.  Where all the names of :func:`~compvae.data.flat.flat_names`
are there, other columns may stand beside them: so every file of results can be read again.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compvae.checks import number_array
from compvae.data.flat import flat_names
from compvae.data.text import TextTable, numbers, one_line, show
from compvae.errors import CompVAEError, ConfigError, DataError, DataFileError
from compvae.extras import need
from compvae.files import is_file

__all__ = ["ID", "SHARED", "StoredWholes", "read_observed", "read_wholes"]

ID, SHARED = "whole_id", "shared_id"
MAX_ARRAY_BYTES = 2**33
PARQUET_ROWS = 2**12
BLANK_ID = "nothing is written; every whole needs one"


@dataclass(frozen=True)
class StoredWholes:
    """What a file of wholes holds.

    ids, shared: (N,), None where the file has none.  x: (N, *shape) float32, flat where it comes from a table.
    """

    ids: list[str] | None
    x: np.ndarray
    shared: list[str] | None = None


def read_wholes(path: Path) -> StoredWholes:
    """The wholes of a dataset, with their ids."""
    found = READERS[path.suffix](path, None)
    if found.ids is None:
        place = ": array" if path.suffix == ".npz" else ", row 1: column"
        raise DataFileError(f"{path}{place} {ID!r} is missing")
    twice, count = Counter(found.ids).most_common(1)[0]
    if count > 1:
        raise DataFileError(f"{path}: the whole {show(twice)} stands {count} times; each needs an id of its own")
    return found


def read_observed(path: Path, shape: tuple[int, ...]) -> tuple[list[str], np.ndarray]:
    """The ids, and x of each, (N, *shape) float32; without ids in the file they are "0", "1", ...

    A single x of this shape in an npz file counts as one row.
    """
    if path.suffix not in READERS:
        raise ConfigError(f"{str(path)!r}: data must be a file that ends in {', '.join(READERS)}")
    if not is_file(path):
        raise ConfigError(f"{str(path)!r}: no such file")
    found = READERS[path.suffix](path, shape)
    x = found.x[None] if found.x.shape == shape else found.x
    if path.suffix != ".npz":
        x = x.reshape(len(x), *shape)
    if x.shape[1:] != shape:
        rows = f"(n, {', '.join(map(str, shape))})"
        raise DataFileError(f"{path}, array 'x': the model needs shape {rows}, got {found.x.shape}")
    ids = [str(row) for row in range(len(x))] if found.ids is None else found.ids
    return ids, x


# -- npz -------------------------------------------------------------------------------------------------------------


def _read_npz(path: Path, shape: tuple[int, ...] | None = None) -> StoredWholes:
    try:
        with zipfile.ZipFile(path) as archive:
            largest = max((info.file_size for info in archive.infolist()), default=0)
        if largest > MAX_ARRAY_BYTES:
            raise DataFileError(f"{path}: an array of {largest} bytes, at most {MAX_ARRAY_BYTES} are allowed")
        with np.load(path, allow_pickle=False) as arrays:
            x = _array(arrays, "x", path)
            ids, shared = (_array(arrays, name, path) if name in arrays else None for name in (ID, SHARED))
    except CompVAEError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise DataFileError(f"{path} is not a readable npz file: {one_line(error)}") from None
    if x.dtype.kind not in "fiub":
        raise DataFileError(f"{path}, array 'x': expected numbers, got {x.dtype}")
    if 0 in x.shape or (x.ndim < 2 and x.shape != shape):
        raise DataFileError(f"{path}: expected x (N, *shape) with at least one whole, got {x.shape}")
    return StoredWholes(
        _names(ids, ID, x, path),
        _finite(x, f"{path}, array 'x'"),
        _names(shared, SHARED, x, path),
    )


def _names(ids: np.ndarray | None, name: str, x: np.ndarray, path: Path) -> list[str] | None:
    if ids is None:
        return None
    if ids.shape != (len(x),):
        raise DataFileError(f"{path}: expected x (N, *shape) and {name} (N,), got {x.shape} and {ids.shape}")
    if ids.dtype.kind not in "iuU":
        raise DataFileError(f"{path}, array {name!r}: expected whole numbers or texts, got {ids.dtype}")
    found = [str(value) for value in ids.tolist()]
    if "" in found:
        raise DataFileError(f"{path}, array {name!r}, index {found.index('')}: {BLANK_ID}")
    return found


def _array(arrays: Any, name: str, path: Path) -> np.ndarray:
    if name not in arrays:
        raise DataFileError(f"{path}: array {name!r} is missing, found are {', '.join(map(show, arrays.files[:8]))}")
    return np.asarray(arrays[name])


def _finite(x: np.ndarray, where: str) -> np.ndarray:
    try:
        return number_array(x, where)
    except DataError as error:
        raise DataFileError(str(error)) from None


# -- tables ----------------------------------------------------------------------------------------------------------


def _columns(header: Sequence[str], shape: tuple[int, ...] | None, path: Path) -> list[int]:
    """Positions of the columns of x: those that are named like it, else all beside the id."""
    named = [] if shape is None else flat_names("x", shape)
    place = {name: i for i, name in enumerate(header)}
    if named and all(name in place for name in named):
        return [place[name] for name in named]
    others = [i for i, name in enumerate(header) if name not in (ID, SHARED)]
    if not others:
        raise DataFileError(f"{path}, row 1: expected columns of numbers beside {ID!r}")
    if named and len(others) != len(named):
        raise DataFileError(
            f"{path}, row 1: the model needs {len(named)} columns, {named[0]} to {named[-1]}, "
            f"beside an optional {ID}; found are {len(others)}, {show(header[others[0]])} to {show(header[others[-1]])}"
        )
    return others


def _read_csv(path: Path, shape: tuple[int, ...] | None) -> StoredWholes:
    table = TextTable(path)
    if all(_is_number(name) for name in table.header) and table.header != tuple(map(str, range(len(table.header)))):
        raise DataFileError(f"{path}, row 1: it holds numbers, expected the names of the columns")
    keys = {name: table.header.index(name) for name in (ID, SHARED) if name in table.header}
    used = _columns(table.header, shape, path)
    ids: dict[str, list[str]] = {name: [] for name in keys}
    pieces: list[np.ndarray] = []
    for chunk in table.chunks():
        for name, key in keys.items():
            texts = [row[key].strip() for row in chunk.rows]
            if "" in texts:
                raise DataFileError(f"{table.where(chunk.at[texts.index('')], key)}: {BLANK_ID}")
            ids[name] += texts

        def where(i: int, at: Sequence[int] = chunk.at) -> str:
            return table.where(at[i // len(used)], used[i % len(used)])

        found = numbers([row[i] for row in chunk.rows for i in used], where, table.decimal_comma)
        pieces.append(_single(found, where).reshape(-1, len(used)))
    if not pieces:
        raise DataFileError(f"{path}: there is no row below the header")
    return StoredWholes(ids.get(ID), np.concatenate(pieces), ids.get(SHARED))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path, shape: tuple[int, ...] | None) -> StoredWholes:
    pyarrow, parquet = need("pyarrow", "data"), need("pyarrow.parquet", "data")
    try:
        with parquet.ParquetFile(path) as file:
            header = list(file.schema_arrow.names)
            names = [header[i] for i in _columns(header, shape, path)]
            for name in names:
                kind = file.schema_arrow.field(name).type
                if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
                    raise DataFileError(f"{path}, column {show(name)}: expected numbers, got {kind}")
            asked = [*names, *(name for name in (ID, SHARED) if name in header)]
            blocks = list(_blocks(file.iter_batches(PARQUET_ROWS, columns=asked), names, path))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataFileError(f"{path} is not a readable Parquet file: {one_line(error)}") from None
    if not blocks:
        raise DataFileError(f"{path}: there is no row")
    ids, shared = (
        [text for found, _ in blocks for text in found[name]] if name in header else None for name in (ID, SHARED)
    )
    return StoredWholes(ids, np.concatenate([x for _, x in blocks]), shared)


def _blocks(
    batches: Iterator[Any], names: Sequence[str], path: Path
) -> Iterator[tuple[dict[str, list[str]], np.ndarray]]:
    """(ids by name, x (m, columns)) of each batch of rows."""
    first = 1
    for batch in batches:
        columns = [batch.column(batch.schema.get_field_index(name)) for name in names]
        found = np.stack([np.asarray(c.to_numpy(zero_copy_only=False), dtype=np.float64) for c in columns], 1)

        def where(i: int, first: int = first) -> str:
            return f"{path}, row {first + i // len(names)}, column {show(names[i % len(names)])}"

        ids: dict[str, list[str]] = {}
        for name in (name for name in (ID, SHARED) if name in batch.schema.names):
            ids[name] = ["" if value is None else str(value) for value in batch.column(name).to_pylist()]
            if "" in ids[name]:
                raise DataFileError(f"{path}, row {first + ids[name].index('')}, column {name!r}: {BLANK_ID}")
        yield ids, _single(found.reshape(-1), where).reshape(found.shape)
        first += batch.num_rows


def _single(found: np.ndarray, where: Callable[[int], str]) -> np.ndarray:
    """Numbers in single precision, all of them there.  found: (n,) float64."""
    if np.isnan(found).any():
        raise DataFileError(f"{where(int(np.isnan(found).argmax()))}: the value is missing")
    large = np.abs(found) > np.finfo(np.float32).max
    if large.any():
        raise DataFileError(f"{where(int(large.argmax()))}: the value is too large for single precision")
    return found.astype(np.float32)


READERS: dict[str, Callable[[Path, tuple[int, ...] | None], StoredWholes]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
