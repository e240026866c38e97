"""What a part is: l_i in Lambda, and multisets {l_i} of parts (paper, section 3, Notations).

A :class:`PartsSchema` names the attributes of a part.  Its categorical attributes together make the *kind* of a part
(one integer), its continuous attributes the *features*.  A :class:`Multiset` is one composition, kept as runs
(part, count), so that a million alike homes cost what ten cost.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from compvae.checks import describe_invalid
from compvae.errors import PartsError

__all__ = ["Attribute", "Categorical", "Continuous", "Multiset", "Part", "PartsBatch", "PartsSchema"]

MAX_PARTS = 10**9  # beyond, the rounding of a float32 sum comes near the spread of the sum itself
MAX_KINDS = 65_536
MAX_LISTED = 1_000_000  # parts written out one by one
COUNT_KEY = "count"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise PartsError(f"{type(self).__name__}: {describe_invalid(error)}") from None


class Categorical(_Frozen):
    """An attribute that takes one of a finite list of names."""

    type: Literal["categorical"] = "categorical"
    name: str = Field(min_length=1)
    categories: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError(f"attribute {self.name!r} names a category twice; each name may stand once")
        return self

    def index(self, value: object, where: str) -> int:
        """Position of a category given by name, or by an integer that spells its name."""
        name = _show(int(value)) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else value
        if isinstance(name, str) and name in self.categories:
            return self.categories.index(name)
        near = difflib.get_close_matches(name, self.categories, n=1) if isinstance(name, str) else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise PartsError(
            f"{where}: {self.name} {_show(value)} is unknown, it must be one of {_listed(self.categories)}{hint}"
        )


class Continuous(_Frozen):
    """An attribute that takes a real value in [low, high]."""

    type: Literal["continuous"] = "continuous"
    name: str = Field(min_length=1)
    low: Annotated[float, Field(strict=True)]
    high: Annotated[float, Field(strict=True)]
    unit: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"attribute {self.name!r} needs low < high, got low {self.low} and high {self.high}")
        return self

    def value(self, value: object, where: str) -> float:
        """The value as a float inside the range."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise PartsError(f"{where}: {self.name} must be a number{self._range()}, got {_show(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not self.low <= number <= self.high:  # also false for NaN
            raise PartsError(f"{where}: {self.name} is {number}, it must be{self._range()}")
        return number

    def scaled(self, value: Any) -> Any:
        """A number, or an array of any shape, mapped linearly from [low, high] to [-1, 1], the form networks see."""
        return 2.0 * (value - self.low) / (self.high - self.low) - 1.0

    def unscaled(self, scaled: float) -> float:
        """The number that :meth:`scaled` maps there, within the range whatever rounding says."""
        return min(self.high, max(self.low, self.low + (scaled + 1.0) * (self.high - self.low) / 2.0))

    def _range(self) -> str:
        return f" in [{self.low:g}, {self.high:g}]" + (f" {self.unit}" if self.unit else "")


Attribute = Annotated[Categorical | Continuous, Field(discriminator="type")]


class Part(NamedTuple):
    """One part l_i: its kind, and its continuous attributes in schema order, in their own units."""

    kind: int
    features: tuple[float, ...] = ()


class PartsSchema(_Frozen):
    """The attributes that describe a part, and how compositions are read.

    >>> schema = PartsSchema(attributes=(Categorical(name="frequency", categories=("1", "2", "3")),))
    >>> schema.parse({"3": 2, 1: 1}).counts
    (1, 0, 2)
    """

    attributes: tuple[Attribute, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [attribute.name for attribute in self.attributes]
        if len(set(names)) < len(names):
            raise ValueError(f"attribute names must differ, got {_listed(names)}")
        if COUNT_KEY in names:
            raise ValueError(f"an attribute may not be called {COUNT_KEY!r}: the word says how often a part stands")
        if self.n_kinds > MAX_KINDS:
            raise ValueError(
                f"the categorical attributes make {self.n_kinds} combinations, at most {MAX_KINDS} are allowed"
            )
        return self

    @property
    def categorical(self) -> tuple[Categorical, ...]:
        """The categorical attributes."""
        return tuple(a for a in self.attributes if isinstance(a, Categorical))

    @property
    def continuous(self) -> tuple[Continuous, ...]:
        """The continuous attributes."""
        return tuple(a for a in self.attributes if isinstance(a, Continuous))

    @property
    def n_kinds(self) -> int:
        """C: how many combinations of categories there are (1 where no attribute is categorical)."""
        return math.prod(len(a.categories) for a in self.categorical)

    @property
    def n_features(self) -> int:
        """F: how many continuous attributes there are."""
        return len(self.continuous)

    @property
    def countable(self) -> bool:
        """True where a composition is fully described by how many parts of each kind it has."""
        return not self.continuous

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of the categories, where there is one categorical attribute."""
        if len(self.categorical) != 1:
            raise PartsError(f"categories needs one categorical attribute, this schema has {len(self.categorical)}")
        return self.categorical[0].categories

    def parse(self, parts: object, where: str = "parts") -> Multiset:
        """Read ONE composition: a mapping name -> count, a list of dicts (one a part), or a :class:`Multiset`.

        A dict of the list may hold ``count``.  Zero counts are dropped.  Raises :class:`PartsError`.
        """
        if isinstance(parts, Multiset):
            if parts.schema != self:
                raise PartsError(f"{where}: these parts were read with another schema; give them as a list of dicts")
            return parts
        if isinstance(parts, Mapping):
            runs = self._read_mapping(parts, where)
        elif isinstance(parts, Sequence) and not isinstance(parts, str | bytes):
            runs = [self._read_dict(item, f"{where}[{i}]") for i, item in enumerate(parts)]
        else:
            raise PartsError(f"{where} must be {self._forms()}, got {_show(parts)}")
        runs = [(part, count) for part, count in runs if count]
        if not runs:
            raise PartsError(f"{where} is empty: a whole needs at least one part")
        total = sum(count for _, count in runs)
        if total > MAX_PARTS:
            raise PartsError(f"{where} has {_show(total)} parts, at most {MAX_PARTS} are allowed")
        return Multiset(self, tuple(runs))

    def describe(self, part: Part) -> dict[str, str | float]:
        """The part as a dict attribute name -> value, in schema order."""
        names, values, kind = {}, iter(part.features), part.kind
        for attribute in reversed(self.categorical):
            kind, index = divmod(kind, len(attribute.categories))
            names[attribute.name] = attribute.categories[index]
        return {a.name: names[a.name] if isinstance(a, Categorical) else next(values) for a in self.attributes}

    def _read_mapping(self, parts: Mapping[Any, Any], where: str) -> list[tuple[Part, int]]:
        if len(self.attributes) != 1 or not self.categorical:
            keys = _listed([a.name for a in self.attributes])
            raise PartsError(
                f"{where}: a mapping name -> count needs parts with one categorical attribute; "
                f"give a list of dicts, one a part, with keys {keys}"
            )
        attribute = self.categorical[0]
        return [
            (Part(attribute.index(name, where)), _count(count, f"{where}[{_show(name)}]"))
            for name, count in parts.items()
        ]

    def _read_dict(self, item: object, where: str) -> tuple[Part, int]:
        if not isinstance(item, Mapping):
            raise PartsError(
                f"{where} must be a dict with keys {_listed([a.name for a in self.attributes])}, got {_show(item)}"
            )
        allowed = {a.name for a in self.attributes} | {COUNT_KEY}
        for key in item:
            if key not in allowed:
                names = _listed([a.name for a in self.attributes])
                raise PartsError(f"{where}: unknown attribute {_show(key)}, the attributes are {names}")
        kind, features = 0, []
        for attribute in self.attributes:
            if attribute.name not in item:
                raise PartsError(f"{where}: attribute {attribute.name!r} is missing")
            if isinstance(attribute, Categorical):
                kind = kind * len(attribute.categories) + attribute.index(item[attribute.name], where)
            else:
                features.append(attribute.value(item[attribute.name], where))
        return Part(kind, tuple(features)), _count(item.get(COUNT_KEY, 1), f"{where}[{COUNT_KEY!r}]")

    def _forms(self) -> str:
        mapping = "a mapping name -> count or " if len(self.attributes) == 1 and self.categorical else ""
        return f"{mapping}a list of dicts with keys {_listed([a.name for a in self.attributes])}"


@dataclass(frozen=True)
class Multiset:
    """One composition {l_i} as runs (part, count), in the caller's order."""

    schema: PartsSchema
    runs: tuple[tuple[Part, int], ...]

    @cached_property
    def size(self) -> int:
        """K: the number of parts."""
        return sum(count for _, count in self.runs)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """n_c: the number of parts of each kind."""
        totals = [0] * self.schema.n_kinds
        for part, count in self.runs:
            totals[part.kind] += count
        return tuple(totals)

    def canonical(self) -> Multiset:
        """The same multiset in one fixed order, alike parts merged: what every draw and sum is done on."""
        merged: dict[Part, int] = {}
        for part, count in self.runs:
            merged[part] = merged.get(part, 0) + count
        return Multiset(self.schema, tuple(sorted(merged.items())))

    def listed(self) -> list[Part]:
        """The parts one by one, in order."""
        if self.size > MAX_LISTED:
            raise PartsError(
                f"a composition of {self.size} parts cannot be listed one by one, at most {MAX_LISTED} can"
            )
        return [part for part, count in self.runs for _ in range(count)]

    def counted(self) -> list[dict[str, str | float]]:
        """One dict for each run of alike parts, with how many there are: a form that parse reads again."""
        return [{**self.schema.describe(part), COUNT_KEY: count} for part, count in self.runs]

    def dicts(self) -> list[dict[str, str | float]]:
        """The parts one by one as dicts, in order."""
        return [self.schema.describe(part) for part in self.listed()]


class PartsBatch:
    """One composition for each row of x: ``PartsBatch([{"3": 2}, {"7": 1}])``."""

    def __init__(self, compositions: Iterable[object]) -> None:
        if isinstance(compositions, str | bytes | Mapping) or not isinstance(compositions, Iterable):
            raise PartsError(f"PartsBatch takes a list of compositions, one for each row, got {_show(compositions)}")
        self.compositions = tuple(compositions)
        if not self.compositions:
            raise PartsError("PartsBatch is empty: it needs one composition for each row")

    def __len__(self) -> int:
        return len(self.compositions)

    def parse(self, schema: PartsSchema) -> list[Multiset]:
        """Read every composition; errors name the row."""
        return [schema.parse(parts, f"parts[row {i}]") for i, parts in enumerate(self.compositions)]


def _count(value: object, where: str) -> int:
    """A count as an int >= 0; integral floats are accepted, fractions are not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise PartsError(f"{where}: the count must be a whole number >= 0, got {_show(value)}")
    try:
        whole = int(float(value)) if not isinstance(value, numbers.Integral) else int(value)
    except (ValueError, OverflowError):  # NaN, infinity
        whole = -1
    if whole < 0 or whole != value:
        raise PartsError(f"{where}: the count must be a whole number >= 0, got {_show(value)}")
    return whole


def _show(value: object) -> str:
    """A short form of a value for messages."""
    try:
        text = repr(value)
    except Exception:  # a number of more than 4300 digits, lists nested a thousand deep, a caller's own __repr__
        return f"something of type {type(value).__name__} too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown}, ... ({len(names)} in all)"
