"""Compositions and context as a caller writes them: on a command line, in a request, in a file.

* ``3:2,7:1``: name:count, where parts have one categorical attribute;
* ``{"3": 2, "7": 1}`` or ``[{"colour": "red", "x": 0.2, "y": -0.5}]``: JSON, any parts;
* ``parts.json``: the same in a file; a list of lists has a composition for each row of the data;
* ``parts.csv``: one line a part, columns ``<attributes>[, count][, whole_id]``: with ``whole_id`` one composition each.

What is wrong in a text is a :class:`~compvae.errors.PartsError`, in a file a :class:`~compvae.errors.DataFileError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from compvae.data.text import TextTable, one_line, show
from compvae.data.wholes import ID
from compvae.errors import CompVAEError, ConfigError, DataFileError, PartsError
from compvae.files import is_file, reason
from compvae.parts import COUNT_KEY, Attribute, Categorical, Multiset, PartsBatch, PartsSchema

__all__ = ["Compositions", "read_context_text", "read_parts_text"]

FILE_ENDINGS = (".csv", ".json")
MAX_JSON_BYTES = 2**26
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
WHOLE_NUMBER = re.compile(r"[+-]?\d{1,15}", re.ASCII)


@dataclass(frozen=True)
class Compositions:
    """What a text of parts says: one composition for all wholes, one for each row, or one for each by its id.

    source: where it stands, for messages.  found: in the form it was written.
    error: what is raised where it does not fit the data.
    """

    source: str
    found: Multiset | list[Multiset] | dict[str, Multiset]
    error: type[CompVAEError] = PartsError

    def single(self) -> Multiset:
        """The composition, where one is needed."""
        if not isinstance(self.found, Multiset):
            raise self.error(f"{self.source} holds {len(self.found)} wholes; here one composition is needed")
        return self.found

    def rows(self, ids: Sequence[str]) -> Multiset | PartsBatch:
        """For the wholes with these ids, in this order."""
        if isinstance(self.found, Multiset):
            return self.found
        if isinstance(self.found, dict):
            return PartsBatch(self._by_id(self.found, ids))
        if len(self.found) != len(ids):
            raise self.error(
                f"{self.source} holds {len(self.found)} compositions, the data {len(ids)} wholes; give one each"
            )
        return PartsBatch(self.found)

    def _by_id(self, found: dict[str, Multiset], ids: Sequence[str]) -> list[Multiset]:
        for name in ids:
            if name not in found:
                raise self.error(f"{self.source}: there are no parts for the whole {show(name)} of the data")
        wanted = set(ids)
        for name in found:
            if name not in wanted:
                raise self.error(f"{self.source}: the data has no whole {show(name)}")
        return [found[name] for name in ids]


def read_parts_text(text: str, schema: PartsSchema, where: str = "parts") -> Compositions:
    """Read what a caller wrote; where: name of the flag or field, for messages."""
    if text.endswith(FILE_ENDINGS):
        return _of_file(Path(text), schema)
    if text.lstrip().startswith(("[", "{")):
        try:
            return _of_content(_json(text), schema, where)
        except (ValueError, RecursionError) as error:
            if isinstance(error, PartsError):
                raise
            raise PartsError(f"{where}: not valid JSON, {one_line(error)}") from None
    return Compositions(where, schema.parse(_pairs(text, where), where))


def read_context_text(text: str, attributes: Sequence[Attribute], where: str = "context") -> dict[str, str | float]:
    """``temperature=-5,day_type=weekend`` or a JSON object as covariate -> value, numbers where they are continuous."""
    if text.lstrip().startswith("{"):
        try:
            found = _json(text)
        except (ValueError, RecursionError) as error:
            raise PartsError(f"{where}: not valid JSON, {one_line(error)}") from None
        assert isinstance(found, dict)
        return found
    kinds = {attribute.name: attribute for attribute in attributes}
    values: dict[str, str | float] = {}
    for piece in text.split(","):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not (name and equals and value):
            raise PartsError(f"{where} {_shown(text)}: write covariate=value, separated by commas")
        if name in values:
            raise PartsError(f"{where}: covariate {_shown(name)} stands twice")
        values[name] = value if isinstance(kinds.get(name), Categorical) else _number(value)
    return values


def _pairs(text: str, where: str) -> dict[str, int | str]:
    """``3:2,7:1`` as name -> count; a name that stands twice counts twice."""
    totals: dict[str, int | str] = {}
    for piece in text.split(","):
        name, colon, count = (part.strip() for part in piece.rpartition(":"))
        if not (name and colon and count):
            raise PartsError(
                f"{where} {_shown(text)}: write name:count, separated by commas, or a JSON list of parts, or name a "
                ".csv or .json file"
            )
        if not WHOLE_NUMBER.fullmatch(count) or int(count) < 0:
            raise PartsError(f"{where}: the count of {_shown(name)} must be a whole number >= 0, got {_shown(count)}")
        totals[name] = int(totals.get(name, 0)) + int(count)
    return totals


def _json(text: str) -> Any:
    """JSON without NaN, and without names that stand twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name stands twice in one object")
        return found

    def no_number(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a number")

    return json.loads(text, object_pairs_hook=unique, parse_constant=no_number)


def _number(text: str) -> str | float:
    """The number a text spells; a text that spells none as it is, for whoever complains about it."""
    return float(text) if NUMBER.fullmatch(text) else text


def _shown(text: str) -> str:
    return show(" ".join(text.split()))


# -- files -----------------------------------------------------------------------------------------------------------


def _of_file(path: Path, schema: PartsSchema) -> Compositions:
    if not is_file(path):
        raise ConfigError(f"{str(path)!r}: no such file")
    content = _csv_rows(path, schema) if path.suffix == ".csv" else _json_file(path)
    try:
        return replace(_of_content(content, schema, str(path)), error=DataFileError)
    except PartsError as error:
        raise DataFileError(str(error)) from None


def _of_content(content: Any, schema: PartsSchema, source: str) -> Compositions:
    if isinstance(content, list) and content and all(isinstance(item, list) for item in content):
        return Compositions(source, [schema.parse(parts, f"{source}[{row}]") for row, parts in enumerate(content)])
    if isinstance(content, list) and any(isinstance(item, dict) and ID in item for item in content):
        by_id = _by_id(content, source).items()
        return Compositions(source, {name: schema.parse(parts, f"{source}, whole {name}") for name, parts in by_id})
    return Compositions(source, schema.parse(content, source))


def _by_id(parts: list[Any], source: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for number, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get(ID), str | int) or part[ID] == "":
            raise PartsError(f"{source}[{number}]: every part needs a {ID}, a text or a whole number")
        found.setdefault(str(part[ID]), []).append({key: value for key, value in part.items() if key != ID})
    return found


def _json_file(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise DataFileError(f"{path} has more than {MAX_JSON_BYTES} bytes; give so many parts as counts, or a .csv")
        return _json(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{str(path)!r}: cannot read the file, {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{path} is not valid JSON: {one_line(error)}") from None


def _csv_rows(path: Path, schema: PartsSchema) -> list[dict[str, Any]]:
    """The lines of a table as dicts, one a part; numbers where the schema wants them."""
    table = TextTable(path)
    names = [attribute.name for attribute in schema.attributes]
    table.needs(*names)
    for name in table.header:
        if name not in (*names, COUNT_KEY, ID):
            raise DataFileError(f"{path}, row 1: column {show(name)} is unknown, expected are {', '.join(names)}")
    parts = list(_checked_rows(table, schema))
    if not parts:
        raise DataFileError(f"{path}: there is no row below the header")
    return parts


def _checked_rows(table: TextTable, schema: PartsSchema) -> Iterator[dict[str, Any]]:
    """The rows as dicts; a complaint about a single value names its place."""
    attributes = {attribute.name: attribute for attribute in schema.attributes}
    for chunk in table.chunks():
        for at, row in zip(chunk.at, chunk.rows, strict=True):
            part: dict[str, Any] = {}
            for column, (name, text) in enumerate(zip(table.header, row, strict=True)):
                try:
                    part[name] = _cell(text.strip(), name, attributes.get(name), table, table.where(at, column))
                except PartsError as error:
                    raise DataFileError(str(error)) from None
            yield part


def _cell(text: str, name: str, attribute: Attribute | None, table: TextTable, where: str) -> str | float:
    """One value, checked on its own.  attribute: None in the columns of ids and counts."""
    if isinstance(attribute, Categorical):
        attribute.index(text, where)
        return text
    if attribute is not None:
        return attribute.value(_number(text.replace(",", ".") if table.decimal_comma else text), where)
    if name == COUNT_KEY:
        if not WHOLE_NUMBER.fullmatch(text) or int(text) < 0:
            raise PartsError(f"{where}: the count must be a whole number >= 0, got {_shown(text)}")
        return int(text)
    if not text:
        raise PartsError(f"{where}: nothing is written; every part needs the id of its whole")
    return text
