"""Files of results: wholes, one row each, what stands beside them, and what holds for all; npz, CSV or Parquet.

Rows are written as they come, never all in memory, to a temporary file that takes its place at the end: after an error,
a signal or a full disk there is the old file, or none.  The same result gives the same bytes.

* npz: an array for each name, ``x`` (n, *shape) first; facts are arrays without axes.
* CSV: a column for each number (:func:`~compvae.data.flat.flat_names`), 9 digits for single precision, 17 for double,
  so that every number comes back exactly.  Facts have no place in a table: they are what the command prints.
* Parquet: the same columns; facts are texts in the file's metadata.
"""

from __future__ import annotations

import math
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from compvae.data.flat import flat_names
from compvae.errors import ConfigError, OutputError
from compvae.extras import need
from compvae.files import reason, staged

__all__ = ["Result", "check_ending", "write_result", "write_to"]

BLOCK_BYTES = 2**23  # of x, that are held while a table is written

Fact = str | int | float


@dataclass(frozen=True)
class Result:
    """n rows.

    x: chunks (m, *shape) float32, n rows in all.  beside: name -> array (n, *), one entry a row.  facts: of all rows.
    """

    n: int
    shape: tuple[int, ...]
    x: Iterable[np.ndarray]
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @staticmethod
    def of(x: np.ndarray, beside: Mapping[str, np.ndarray], facts: Mapping[str, Fact]) -> Result:
        """A result that is there already.  x: (n, *shape)."""
        return Result(len(x), x.shape[1:], [x], beside, facts)

    def blocks(self) -> Iterator[list[tuple[str, np.ndarray]]]:
        """(name, rows (m, *)) of x and all beside it, some rows at a time: m is a function of the shape alone."""
        height, start = max(1, BLOCK_BYTES // (4 * math.prod(self.shape))), 0
        for x in _regrouped(self.x, height):
            rows = slice(start, start + len(x))
            yield [("x", x), *((name, value[rows]) for name, value in self.beside.items())]
            start += len(x)

    def columns(self) -> list[tuple[str, np.dtype[Any]]]:
        """Name and type of each column of a table."""
        arrays = [("x", self.shape, np.dtype(np.float32))]
        arrays += [(name, value.shape[1:], value.dtype) for name, value in self.beside.items()]
        return [(column, dtype) for name, shape, dtype in arrays for column in flat_names(name, shape)]


def check_ending(path: Path) -> None:
    """Complain about a file whose ending names no format, or whose format cannot be written here."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"--out {str(path)!r}: the file must end in {', '.join(FORMATS)}")
    if path.suffix == ".parquet":
        need("pyarrow.parquet", "data")


def write_result(path: Path, result: Result) -> None:
    """Write by the ending of the file's name."""
    check_ending(path)
    chunks = _Counted(result.x)
    try:
        _check_space(path.parent, 4 * result.n * math.prod(result.shape))
        with staged(path) as stream:
            write_to(stream, path.suffix, replace(result, x=chunks))
    except OSError as error:
        raise OutputError(f"{path}: cannot write, {reason(error)}") from None
    assert chunks.rows == result.n


def write_to(stream: IO[bytes], ending: str, result: Result) -> None:
    """Write to a stream, by the ending a file would have (".npz", ".csv", ".parquet")."""
    FORMATS[ending](stream, result)


def _check_space(directory: Path, needed: int) -> None:
    """Complain before hours of work about a disk that x alone would fill; text may need twice as much."""
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise OutputError(f"{directory}: {needed / 1e9:,.1f} GB are needed but {free / 1e9:,.1f} GB are free")


class _Counted:
    """The chunks of x, counted."""

    def __init__(self, chunks: Iterable[np.ndarray]) -> None:
        self.chunks, self.rows = chunks, 0

    def __iter__(self) -> Iterator[np.ndarray]:
        for chunk in self.chunks:
            self.rows += len(chunk)
            yield chunk


def _regrouped(chunks: Iterable[np.ndarray], height: int) -> Iterator[np.ndarray]:
    """The same rows in blocks of one height, the last one perhaps lower."""
    held: list[np.ndarray] = []
    for chunk in chunks:
        held.append(chunk)
        while sum(map(len, held)) >= height:
            joined = np.concatenate(held)
            yield joined[:height]
            held = [joined[height:]]
    if sum(map(len, held)):
        yield np.concatenate(held)


# -- npz -------------------------------------------------------------------------------------------------------------


def _write_npz(stream: IO[bytes], result: Result) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        with _member(archive, "x") as member:
            header = {"descr": "<f4", "fortran_order": False, "shape": (result.n, *result.shape)}
            np.lib.format.write_array_header_1_0(member, header)
            for chunk in result.x:
                member.write(np.ascontiguousarray(chunk, dtype="<f4").data)
        for name, value in {**result.beside, **result.facts}.items():
            with _member(archive, name) as member:
                np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A stream to an array of an npz file, with a fixed date so that bytes depend on the contents alone."""
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


# -- CSV -------------------------------------------------------------------------------------------------------------


def _write_csv(stream: IO[bytes], result: Result) -> None:
    columns = result.columns()
    stream.write((",".join(name for name, _ in columns) + "\n").encode())
    pattern = ",".join(_pattern(dtype) for _, dtype in columns) + "\n"
    for block in result.blocks():
        rows = zip(*(_cells(value) for _, value in block), strict=True)
        stream.writelines((pattern % tuple(chain.from_iterable(row))).encode() for row in rows)


def _pattern(dtype: np.dtype[Any]) -> str:
    """How a number is written so that it is read back exactly."""
    return {"f4": "%.9g", "f8": "%.17g", "i8": "%d"}.get(dtype.str[1:], "%s")


def _cells(value: np.ndarray) -> Iterator[list[object]]:
    """The cells of each row, row by row; texts in quotes where they need it."""
    for row in value.reshape(len(value), -1):
        cells = row.tolist()
        yield [_quoted(cell) for cell in cells] if value.dtype.kind == "U" else cells


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


# -- Parquet ---------------------------------------------------------------------------------------------------------


def _write_parquet(stream: IO[bytes], result: Result) -> None:
    pyarrow, parquet = need("pyarrow", "data"), need("pyarrow.parquet", "data")
    kinds = {"f4": pyarrow.float32(), "f8": pyarrow.float64(), "i8": pyarrow.int64()}
    fields = [(name, kinds.get(dtype.str[1:], pyarrow.string())) for name, dtype in result.columns()]
    schema = pyarrow.schema(fields, metadata={name: str(value) for name, value in result.facts.items()})
    with parquet.ParquetWriter(stream, schema) as writer:
        for block in result.blocks():
            columns = [column for _, value in block for column in value.reshape(len(value), -1).T]
            arrays = [pyarrow.array(column, type=kind) for column, (_, kind) in zip(columns, fields, strict=True)]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))


FORMATS: dict[str, Callable[[IO[bytes], Result], None]] = {
    ".npz": _write_npz,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
