"""Rows of measures as ``compvae evaluate --json`` writes them: {"name", "K", "value", "se", "floor", "n"}, and "of"."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from compvae.checks import describe_invalid
from compvae.errors import ModelFileError
from compvae.files import reason
from compvae.measures import Measured

__all__ = ["MODEL", "Row", "named", "read_rows", "row_of", "split"]

MODEL = "model"


class Row(BaseModel):
    """A measure at one K.

    of: who was judged, the model or a baseline.  K: None where it is over the training range.
    value, se: None where not defined.  floor: what a perfect model would get, None where that is 0.  n: samples.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    of: str = MODEL
    name: str
    K: int | None = Field(None, ge=1)
    value: float | None
    se: float | None = None
    floor: float | None = None
    n: int | None = None

    @property
    def error(self) -> float:
        """Two standard errors, 0 where they are not known."""
        return 2 * (self.se or 0.0)

    @property
    def at_floor(self) -> bool:
        """Whether a perfect model could have got this."""
        return self.value is not None and self.value - self.error <= (self.floor or 0.0)


class _Document(BaseModel):
    measures: list[Row]


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that ``compvae evaluate --json`` wrote."""
    try:
        return _Document.model_validate(json.loads(path.read_text(encoding="utf-8"))).measures
    except OSError as error:
        raise ModelFileError(f"{path}: cannot read the measures, {reason(error)}") from None
    except ValidationError as error:
        raise ModelFileError(f"{path} is not what compvae evaluate --json writes: {describe_invalid(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not valid JSON: {error}") from None


def row_of(name: str, size: int | None, cases: Sequence[Measured], of: str = MODEL) -> Row:
    """value = mean_j v_j,  se = sqrt(sum_j se_j^2) / m,  floor = mean_j floor_j, over the cases where it is defined."""
    defined = [case for case in cases if math.isfinite(case.value)]
    if not defined:
        return Row(of=of, name=name, K=size, value=None, n=cases[0].n)
    value = float(np.mean([case.value for case in defined]))
    se = math.sqrt(sum(case.se**2 for case in defined)) / len(defined)
    floors = [case.floor for case in defined if case.floor is not None]
    floor = float(np.mean(floors)) if floors else None
    return Row(of=of, name=name, K=size, value=value, se=se if math.isfinite(se) else None, floor=floor, n=defined[0].n)


def named(rows: Sequence[Row], name: str, of: str = MODEL) -> list[Row]:
    """The rows of one measure that have a value, by K."""
    found = [row for row in rows if row.name == name and row.of == of and row.value is not None]
    return sorted(found, key=lambda row: row.K or 0)


def split(rows: Sequence[Row], largest: int) -> tuple[list[Row], list[Row]]:
    """Rows of at most so many parts, and rows of more."""
    sized = [(row.K, row) for row in rows if row.K is not None]
    return [row for size, row in sized if size <= largest], [row for size, row in sized if size > largest]
