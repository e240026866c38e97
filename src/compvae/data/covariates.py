"""Columns of a table as attributes: numbers become a range, texts become categories; blanks are unknown.

Used for what is observed about a day (``date, ...``) or a whole (``whole_id, ...``), and for what describes a part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from compvae.data.tables import Table, open_table
from compvae.data.text import NULLS, numbers, show
from compvae.errors import DataFileError
from compvae.parts import Attribute, Categorical, Continuous

__all__ = ["Column", "Covariates", "is_number", "read_covariates"]

MAX_CATEGORIES = 256
MARGIN = 0.1  # of the range, on both sides: a day a little colder than all that were seen may be asked for
NUMBER = re.compile(r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d{1,3})?\s*", re.ASCII)


def is_number(text: str) -> bool:
    """True for a text that is a plain number, with a decimal point or comma."""
    return NUMBER.fullmatch(text) is not None


@dataclass
class Column:
    """The texts of one column, and where each stands."""

    name: str
    texts: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def blank(self) -> np.ndarray:
        """True where nothing is written, (N,) bool."""
        return np.array([text.strip().lower() in NULLS for text in self.texts], bool)

    def numeric(self) -> bool:
        """True where at least half of what is written are numbers."""
        written = [text for text, blank in zip(self.texts, self.blank(), strict=True) if not blank]
        return 2 * sum(map(is_number, written)) >= len(written) > 0

    def numbers(self, table: Table) -> np.ndarray:
        """As numbers, (N,) float64, NaN where blank; complains about texts among them."""
        column = table.header.index(self.name)
        return numbers(self.texts, lambda i: table.where(self.rows[i], column), table.decimal_comma)

    def range_of(self, values: np.ndarray, table: Table) -> Continuous:
        """The attribute of numbers, NaN left out: their range and a margin.  values: (N,)."""
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if low == high:
            raise DataFileError(f"{table.path}, column {show(self.name)}: always {low:g}; remove it")
        margin = MARGIN * (high - low)
        return Continuous(name=self.name, low=low - margin, high=high + margin)

    def categories(self, table: Table) -> tuple[Categorical, np.ndarray]:
        """The attribute of texts, and the index of each, (N,) int64; those that are blank have 0."""
        blank = self.blank()
        names = sorted({text.strip() for text, empty in zip(self.texts, blank, strict=True) if not empty})
        if len(names) > MAX_CATEGORIES:
            raise DataFileError(
                f"{table.path}, column {show(self.name)}: {len(names)} different texts, at most {MAX_CATEGORIES} are "
                f"allowed; {show(names[0])} is one of them"
            )
        index = {name: i for i, name in enumerate(names)}
        found = [0 if empty else index[text.strip()] for text, empty in zip(self.texts, blank, strict=True)]
        return Categorical(name=self.name, categories=tuple(names)), np.array(found, np.int64)


@dataclass(frozen=True)
class Covariates:
    """What is observed, by key.  values: (A,) each, a category as its index; known: (A,) bool each."""

    attributes: tuple[Attribute, ...] = ()
    values: Mapping[object, np.ndarray] = field(default_factory=dict)
    known: Mapping[object, np.ndarray] = field(default_factory=dict)

    def rows(self, keys: Sequence[object]) -> tuple[np.ndarray, np.ndarray]:
        """values (N, A) float64 and known (N, A) bool in the order of these keys; a key without a row is unknown."""
        nothing = np.zeros(len(self.attributes))
        values = [self.values.get(key, nothing) for key in keys]
        known = [self.known.get(key, nothing > 0) for key in keys]
        shape = (len(keys), len(self.attributes))
        return np.array(values, np.float64).reshape(shape), np.array(known, bool).reshape(shape)


def read_covariates(
    path: Path, key: str, parse: Callable[[str], object] = str.strip, skip: Sequence[str] = ()
) -> Covariates:
    """Read ``key, <columns>``.  parse: the key of a text, or a ValueError.  skip: columns with another meaning."""
    table = open_table(path, "context")
    table.needs(key)
    keys, columns = _read_columns(table, key, parse, skip)
    attributes, values, known = [], [], []
    for column in columns:
        there = ~column.blank()
        if not there.any():
            raise DataFileError(f"{path}, column {show(column.name)}: nothing is written in it; remove it")
        if column.numeric():
            number = column.numbers(table)
            attributes.append(column.range_of(number, table))
            values.append(np.nan_to_num(number))
        else:
            attribute, index = column.categories(table)
            attributes.append(attribute)  # type: ignore[arg-type]
            values.append(index.astype(np.float64))
        known.append(there)
    stacked, flags = np.stack(values, 1), np.stack(known, 1)
    return Covariates(tuple(attributes), dict(zip(keys, stacked, strict=True)), dict(zip(keys, flags, strict=True)))


def _read_columns(
    table: Table, key: str, parse: Callable[[str], object], skip: Sequence[str]
) -> tuple[list[object], list[Column]]:
    """The key of each row, each once, and the columns beside it."""
    at = table.header.index(key)
    used = [i for i, name in enumerate(table.header) if i != at and name not in skip]
    if not used:
        raise DataFileError(f"{table.in_header()}: there is no column beside {key!r}; a context has one at least")
    columns = [Column(table.header[i]) for i in used]
    keys: dict[object, int] = {}
    for chunk in table.chunks():
        for number, row in zip(chunk.at, chunk.rows, strict=True):
            try:
                found = parse(row[at])
            except ValueError as error:
                raise DataFileError(f"{table.where(number, at)}: {error}") from None
            if found in keys or found == "":
                why = f"{show(row[at])} stands already in row {keys[found]}" if found in keys else "nothing is written"
                raise DataFileError(f"{table.where(number, at)}: {why}")
            keys[found] = number
            for column, i in zip(columns, used, strict=True):
                column.texts.append(row[i])
                column.rows.append(number)
    if not keys:
        raise DataFileError(f"{table.path}: there is no row below the header")
    return list(keys), columns
