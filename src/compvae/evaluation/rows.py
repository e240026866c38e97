"""What an evaluation says: rows of measures, paired comparisons, and the JSON document that holds both.

{"about": {..}, "measures": [{"of", "name", "K", "value", "se", "floor", "n"}, ..], "comparisons": [..],
 "training": {"paper": [{"step", "w_bits", "z_bits", "x", "bound"}, ..]}}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from compvae.checks import describe_invalid
from compvae.errors import DataFileError
from compvae.files import reason

__all__ = ["MODEL", "Comparison", "Evaluation", "Row", "named", "read_evaluation", "split"]

MODEL = "model"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Row(_Frozen):
    """A measure at one K.

    of: who was judged: the model, a baseline, the truth itself.  K: None where it is over the training range.
    value, se: None where not defined.  floor: what a perfect model would get, None where that is 0.
    n: samples of each composition that the measure looked at; of own data, held-out wholes.
    low, high: 95% interval over days and homes, for own data.
    """

    of: str = MODEL
    name: str
    K: int | None = Field(None, ge=1)
    value: float | None
    se: float | None = None
    floor: float | None = None
    n: int | None = None
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        """Two standard errors, 0 where they are not known."""
        return 2 * (self.se or 0.0)

    @property
    def at_floor(self) -> bool:
        """Whether a perfect model could have got this."""
        return self.value is not None and self.value - self.error <= (self.floor or 0.0)


class Comparison(_Frozen):
    """Ours minus theirs over the same n cases, lower being better: compositions, or held-out wholes of own data.

    verdict: win or loss where the difference is beyond its 95% interval (Student's of n - 1 degrees; low to high, over
    days and homes, for own data), else tie.
    """

    against: str
    name: str
    K: int = Field(ge=1)
    value: float
    se: float
    n: int
    verdict: str
    low: float | None = None
    high: float | None = None


class Evaluation(BaseModel):
    """What has been measured so far: whoever is interrupted keeps it.

    about: the model, its problem, seed and minutes, as the command was given them.
    training: of baselines that have latents, lines of their metrics.jsonl: bits in w and z along training.
    """

    model_config = ConfigDict(extra="ignore")

    about: dict[str, Any] = {}
    measures: list[Row] = []
    comparisons: list[Comparison] = []
    training: dict[str, list[dict[str, Any]]] = {}


def read_evaluation(path: Path) -> Evaluation:
    """The file that ``compvae evaluate --json`` wrote."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or "measures" not in data:
            raise DataFileError(f"{path} is not what compvae evaluate --json writes: it has no list of measures")
        return Evaluation.model_validate(data)
    except OSError as error:
        raise DataFileError(f"{path}: cannot read the evaluation, {reason(error)}") from None
    except ValidationError as error:
        raise DataFileError(f"{path} is not what compvae evaluate --json writes: {describe_invalid(error)}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataFileError(f"{path} is not valid JSON: {error}") from None


def named(rows: Sequence[Row], name: str, of: str = MODEL) -> list[Row]:
    """The rows of one measure that have a value, by K."""
    found = [row for row in rows if row.name == name and row.of == of and row.value is not None]
    return sorted(found, key=lambda row: row.K or 0)


def split(rows: Sequence[Row], largest: int) -> tuple[list[Row], list[Row]]:
    """Rows of at most so many parts, and rows of more."""
    sized = [(row.K, row) for row in rows if row.K is not None]
    return [row for size, row in sized if size <= largest], [row for size, row in sized if size > largest]
