"""Tables by the ending of their file: text (CSV), or Parquet as the same rows of text, a chunk at a time.

One path for both: whatever reads a table names file, row and column in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compvae.data.text import CHUNK_FIELDS, Chunk, Table, TextTable, one_line, show
from compvae.errors import ConfigError, DataFileError
from compvae.extras import need
from compvae.files import is_file

__all__ = ["ENDINGS", "ParquetTable", "Table", "open_table"]

ENDINGS = (".csv", ".parquet")
WITHOUT_ZONE, WITH_ZONE = "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"


class ParquetTable(Table):
    """A Parquet file as a table of texts; rows are numbered from 1, there is no header line."""

    decimal_comma = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrow, self._parquet = need("pyarrow", "data"), need("pyarrow.parquet", "data")
        self._compute = need("pyarrow.compute", "data")
        with self._reading(), self._parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
        self.header = tuple(name.strip() for name in schema.names)
        self._check_header()
        for column, kind in enumerate(schema.types):
            if not self._plain(kind):
                raise DataFileError(f"{self.in_header(column)}: expected numbers, texts or times, got {kind}")

    def in_header(self, column: int | None = None) -> str:
        """The file, and the column."""
        return str(self.path) + ("" if column is None else f", column {show(self.header[column])}")

    def chunks(self) -> Iterator[Chunk]:
        """The rows as texts, at most CHUNK_FIELDS fields at a time (at least a row)."""
        first = 1
        with self._reading(), self._parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(max(1, CHUNK_FIELDS // len(self.header))):
                columns = [self._texts(column) for column in batch.columns]
                yield Chunk([list(row) for row in zip(*columns, strict=True)], range(first, first + batch.num_rows))
                first += batch.num_rows

    def _plain(self, kind: Any) -> bool:
        """True for a type whose values a CSV file could hold."""
        types = self._arrow.types
        if types.is_dictionary(kind):
            return self._plain(kind.value_type)
        checks = (
            types.is_integer, types.is_floating, types.is_decimal, types.is_string, types.is_large_string,
            types.is_timestamp, types.is_date, types.is_boolean, types.is_null,
        )  # fmt: skip
        return any(check(kind) for check in checks)

    def _texts(self, column: Any) -> list[str]:
        """The values of a column as a CSV file would have them; "" where there is none."""
        if self._arrow.types.is_timestamp(column.type):
            pattern = WITHOUT_ZONE if column.type.tz is None else WITH_ZONE
            column = self._compute.strftime(column, format=pattern)
        texts = column.cast(self._arrow.string()).fill_null("").to_pylist()
        return [str(text) for text in texts]

    def _reading(self) -> _Reading:
        return _Reading(self.path, self._arrow.ArrowException)


class _Reading:
    """What pyarrow says about a broken file, as one of our errors."""

    def __init__(self, path: Path, kind: type[Exception]) -> None:
        self.path, self.kinds = path, (kind, OSError, UnicodeDecodeError)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self.kinds):
            raise DataFileError(f"{self.path} is not a readable Parquet file: {one_line(error)}") from None


def open_table(path: Path, what: str = "data") -> Table:
    """The table in this file.  what: what it should hold, for messages."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"{str(path)!r}: {what} must be a file that ends in {' or '.join(ENDINGS)}")
    if not is_file(path):
        raise ConfigError(f"{str(path)!r}: no such file")
    return ParquetTable(path) if path.suffix.lower() == ".parquet" else TextTable(path)
