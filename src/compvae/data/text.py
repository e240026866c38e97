"""Tables of text (CSV), read a chunk at a time: memory is bounded by a line and a chunk, whatever the file.

Separators are commas, semicolons or tabs, whichever the header uses; beside the latter two a decimal comma is read.
Rows are numbered as an editor does, the header being row 1, and every complaint names file, row and column.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from compvae.errors import ConfigError, DataFileError
from compvae.files import reason

__all__ = ["CHUNK_FIELDS", "NULLS", "Chunk", "Table", "TextTable", "looked_up", "numbers", "one_line", "show"]

MAX_LINE = 2**22  # characters
MAX_COLUMNS = 100_000
CHUNK_FIELDS = 2**14
READ_CHARACTERS = 2**18
SEPARATORS = (",", ";", "\t")
NULLS = frozenset({"", "null", "nan", "na", "n/a", "none"})  # how files write "not measured"


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table.  rows: the fields of each, as many as the header has.  at: the number of each row."""

    rows: list[list[str]]
    at: Sequence[int]


class Table(ABC):
    """A table of texts, and how its places are named in messages.

    header: the names of the columns.  decimal_comma: True where a comma may stand for the decimal point.
    """

    path: Path
    header: tuple[str, ...]
    decimal_comma: bool

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """The rows, from the top each time, at most CHUNK_FIELDS fields at a time (at least a row)."""

    @abstractmethod
    def in_header(self, column: int | None = None) -> str:
        """Where the names of the columns stand.  column: position of one, from 0."""

    def where(self, row: int, column: int | None = None) -> str:
        """A place in the file.  column: its position, from 0."""
        return f"{self.path}, row {row}" + ("" if column is None else f", column {show(self.header[column])}")

    def needs(self, *names: str) -> None:
        """Complain where a column is missing."""
        for name in names:
            if name not in self.header:
                found = ", ".join(show(column) for column in self.header[:8])
                raise DataFileError(f"{self.in_header()}: column {name!r} is missing, found are {found}")

    def _check_header(self) -> None:
        if len(self.header) > MAX_COLUMNS:
            raise DataFileError(f"{self.in_header()}: {len(self.header)} columns, at most {MAX_COLUMNS} are allowed")
        seen: set[str] = set()
        for position, name in enumerate(self.header):
            if not name:
                raise DataFileError(f"{self.in_header()}: column {position + 1} has no name; give it one")
            if name in seen:
                raise DataFileError(f"{self.in_header()}: column {show(name)} stands twice; rename or remove one")
            seen.add(name)


class TextTable(Table):
    """A CSV file with a header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as stream:
            line = self._first_line(stream)
        self.separator = max(SEPARATORS, key=line.count)  # the first of equals
        self.decimal_comma = self.separator != ","
        self.header = tuple(name.strip() for name in self._next(self._reader([line]), 1, 1)[0])
        self._check_header()

    def in_header(self, column: int | None = None) -> str:
        """Row 1."""
        return self.where(1, column)

    def chunks(self) -> Iterator[Chunk]:
        """The rows below the header, blank lines left out, at most CHUNK_FIELDS fields at a time (at least a row)."""
        height, number = max(1, CHUNK_FIELDS // len(self.header)), 2
        with self._open() as stream:
            reader = self._reader(chain.from_iterable(self._lines(stream)))
            self._next(reader, 1, 1)
            while rows := self._next(reader, height, number):
                chunk = self._whole_rows(rows, number)
                number += len(rows)
                if chunk.rows:
                    yield chunk

    def _whole_rows(self, rows: list[list[str]], first: int) -> Chunk:
        """Rows without the blank ones (nothing, or separators alone), as wide as the header.  first: its number."""
        width = len(self.header)
        if set(map(len, rows)) == {width} and all(row[0].strip() for row in rows):
            return Chunk(rows, range(first, first + len(rows)))
        numbered = [(at, row) for at, row in enumerate(rows, first) if any(field.strip() for field in row)]
        for at, row in numbered:
            if len(row) != width:
                raise DataFileError(
                    f"{self.where(at)}: it has {len(row)} fields but the header has {width}; "
                    "the file may be cut off, or a separator stands inside a field without quotes"
                )
        return Chunk([row for _, row in numbered], [at for at, _ in numbered])

    # -- below the table -----------------------------------------------------------------------------------------

    def _open(self) -> IO[str]:
        try:
            if self.path.exists() and not self.path.is_file():  # a pipe or a device could be read for ever
                raise ConfigError(f"{self.path} is not a regular file")
            return open(self.path, encoding="utf-8-sig", newline=None)
        except (OSError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{str(self.path)!r}: cannot read the file, {reason(error)}") from None

    def _first_line(self, stream: IO[str]) -> str:
        line: str = next(chain.from_iterable(self._lines(stream)), "")
        if not line.strip():
            raise DataFileError(f"{self.path}, row 1: the file is empty or opens with a blank line, expected a header")
        return line

    def _lines(self, stream: IO[str]) -> Iterator[list[str]]:
        """Lines of bounded length, some at a time: a file without line ends must not be read whole."""
        rest, number = "", 1
        while True:
            try:
                text = stream.read(READ_CHARACTERS)
            except UnicodeDecodeError:
                raise DataFileError(f"{self.path}, row {number} or below: not UTF-8 text; save it as UTF-8") from None
            except OSError as error:
                raise DataFileError(f"{self.path}, row {number} or below: cannot read, {reason(error)}") from None
            lines = (rest + text).split("\n")
            rest = lines.pop()
            number += len(lines)
            if len(rest) > MAX_LINE:
                raise DataFileError(
                    f"{self.path}, row {number}: longer than {MAX_LINE} characters; a table has at most "
                    f"{MAX_COLUMNS} columns, give many meters in the long form (meter, timestamp, kwh)"
                )
            yield lines
            if not text:
                if rest:
                    yield [rest]
                return

    def _reader(self, lines: Iterable[str]) -> Any:
        return csv.reader(lines, delimiter=self.separator, strict=True)

    def _next(self, reader: Any, count: int, first: int) -> list[list[str]]:
        """So many further rows, fewer at the end.  first: number of the next row."""
        rows: list[list[str]] = []
        try:
            rows.extend(islice(reader, count))
        except csv.Error as error:
            raise DataFileError(
                f"{self.where(first + len(rows))}: {error}; look for a quote that is not closed"
            ) from None
        return rows


def numbers(texts: Sequence[str], where: Callable[[int], str], decimal_comma: bool = False) -> np.ndarray:
    """Texts as finite numbers, float64 (n,); NaN where the text says that there is none (NULLS).

    where: the place of the i-th text, for the message about one that is no number.
    """
    try:
        found = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        plain = ["nan" if text.strip().lower() in NULLS else text for text in texts]
        if decimal_comma:
            plain = [text.replace(",", ".") for text in plain]
        try:
            found = np.fromiter(map(float, plain), dtype=np.float64, count=len(texts))
        except ValueError:
            _refuse_first(texts, plain, where)
    if np.isinf(found).any():
        first = int(np.isinf(found).argmax())
        raise DataFileError(f"{where(first)}: {show(texts[first])} is not a finite number")
    return found


def looked_up(table: Mapping[str, int], texts: Sequence[str], where: Callable[[int], str]) -> np.ndarray:
    """The number that stands for each text, int64 (n,).  table: may raise ValueError for a text it does not take."""
    try:
        return np.fromiter(map(table.__getitem__, texts), dtype=np.int64, count=len(texts))
    except ValueError:
        for i, text in enumerate(texts):
            try:
                table[text]
            except ValueError as error:
                raise DataFileError(f"{where(i)}: {error}") from None
        raise


def _refuse_first(texts: Sequence[str], plain: Sequence[str], where: Callable[[int], str]) -> NoReturn:
    """Say which text is no number, and why, as far as it can be guessed.  plain: the texts as they were tried."""
    for i, (text, tried) in enumerate(zip(texts, plain, strict=True)):
        try:
            float(tried)
        except ValueError:
            hint = ""
            if any(c.isdigit() for c in text) and any(c.isalpha() for c in text):
                hint = "; write numbers without their unit, which belongs into the column's name"
            elif "," in text:
                hint = "; write decimal points, or separate the fields by semicolons"
            raise DataFileError(f"{where(i)}: {show(text)} is not a number{hint}") from None
    raise AssertionError("every text is a number")


def show(text: str) -> str:
    """A text from a file for a message: quoted, on one line, not too long."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def one_line(error: Exception) -> str:
    """What another library says about a file, short enough for one of our messages."""
    return " ".join(reason(error).split())[:200]
