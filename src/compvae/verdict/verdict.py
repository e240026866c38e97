"""The verdict of a run: how its model does on what was held out, beside yardsticks, in sentences and as a table."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from compvae.errors import DataFileError
from compvae.verdict.scores import Scores

__all__ = ["FLOW", "GAUSSIAN", "VERDICT_FILE", "Verdict", "VerdictRow", "make_verdict", "out_of_range"]

VERDICT_FILE = "verdict.json"  # in the directory of a run
GAUSSIAN, FLOW = "Gaussian with the data's moments", "flow on the counts"
BEYOND_DOUBT = 2.0  # standard errors
OUT_OF_RANGE = 10.0  # times the data's range
FEW_WHOLES = 20  # below which a verdict says so
MANY_TIMES = 10  # beyond which a share is not worth a number
SHARP = 0.9, 1.1  # between which mean |u|^2 / T of inverted wholes should lie


class VerdictRow(BaseModel):
    """One sampler on the held-out wholes.

    energy, se: mean energy score and its standard error.  worse, worse_se: its energy score less the model's, paired.
    coverage: share of values within 90% intervals.  spread: variance of draws over the real one.  above: share of
    wholes whose largest value exceeds the drawn P95; 5% is right.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    energy: float
    se: float
    worse: float
    worse_se: float
    coverage: float
    spread: float
    above: float


class Verdict(BaseModel):
    """What a run found out about its model.  str() is what a person reads; sentences first, then the table.

    lost: it loses to the Gaussian, beyond two standard errors.  choice: what was tried before, best first.
    """

    model_config = ConfigDict(frozen=True)

    wholes: int
    sentences: list[str]
    rows: list[VerdictRow]
    lost: bool
    choice: list[dict[str, Any]] = []

    def __str__(self) -> str:
        head = f"{'':34} {'energy score':>20} {'worse by':>20} {'within 90%':>10} {'spread':>7} {'above P95':>9}"
        lines = [" ".join(self.sentences), "", head]
        for row in self.rows:
            worse = "" if row is self.rows[0] else f"{row.worse:.4g} +- {row.worse_se:.2g}"
            energy = f"{row.energy:.4g} +- {row.se:.2g}"
            lines.append(
                f"{row.name:34} {energy:>20} {worse:>20} {row.coverage:>10.0%} {row.spread:>7.2f} {row.above:>9.1%}"
            )
        return "\n".join(lines)

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> Verdict | None:
        """That of a run, or of the run a model directory lies in; None where there is none."""
        place = Path(directory)
        for path in (place / VERDICT_FILE, place.parent / VERDICT_FILE):
            if path.is_file() and (path.parent / "model").is_dir():
                try:
                    return cls.model_validate_json(path.read_bytes())
                except (OSError, ValueError):
                    raise DataFileError(f"{path} is not the verdict of a run; the file is damaged") from None
        return None

    @property
    def warning(self) -> str:
        """One line for every later use of a model that lost; nothing otherwise."""
        return self.sentences[0] if self.lost else ""


def make_verdict(
    scores: Mapping[str, Scores],
    undetermined: Mapping[str, str],
    whitened: float | None,
    choice: Sequence[Mapping[str, Any]] = (),
) -> Verdict:
    """scores: by name, the model's first.  undetermined: kinds whose edits the data does not decide, with the reason.

    whitened: mean |u|^2 / T of held-out wholes inverted, where the model is invertible.
    """
    names = list(scores)
    own = scores[names[0]]
    rows = [_row(name, scores[name], own) for name in names]
    gaussian = next((row for row in rows if row.name == GAUSSIAN), None)
    lost = gaussian is not None and gaussian.worse < -BEYOND_DOUBT * gaussian.worse_se
    sentences = [_against(rows, lost), _calibration(rows[0])]
    if len(own.energy) < FEW_WHOLES:
        number = "Only one whole was" if len(own.energy) == 1 else f"Only {len(own.energy)} different wholes were"
        sentences.append(f"{number} held out, too few to rely on these numbers: give it more wholes.")
    if undetermined:
        listed = "; ".join(f"{kind}: {why}" for kind, why in list(undetermined.items())[:5])
        more = f" and {len(undetermined) - 5} more" if len(undetermined) > 5 else ""
        sentences.append(
            f"Edits and the shared factor of these kinds are not determined by the data ({listed}{more}): what belongs "
            f"to the part and what to the whole cannot be told apart."
        )
    if whitened is not None and not SHARP[0] <= whitened <= SHARP[1]:
        sentences.append(
            f"Log-likelihoods are rough: held-out wholes taken back to the base have {whitened:.3g} of the variance "
            f"they should have (1 is right), as happens {_why_rough(whitened)}."
        )
    return Verdict(
        wholes=len(own.energy), sentences=sentences, rows=rows, lost=lost, choice=[dict(row) for row in choice]
    )


def _why_rough(whitened: float) -> str:
    if whitened < 1:
        return "where wholes vary in fewer ways than they have values"
    return "where there are few wholes, or where they are farther from a Gaussian than the steps could mend"


def _row(name: str, scores: Scores, own: Scores) -> VerdictRow:
    difference = scores.energy - own.energy
    return VerdictRow(
        name=name, energy=scores.mean, se=_error(scores.energy), worse=float(difference.mean()),
        worse_se=_error(difference), coverage=float(scores.inside.mean()), spread=scores.spread_ratio,
        above=float(scores.above.mean()),
    )  # fmt: skip


def _error(values: Tensor) -> float:
    """Standard error of a mean; of a single value its size, which is all that is known."""
    if len(values) == 1:
        return float(values.abs().mean())
    return float(values.std(unbiased=False)) / math.sqrt(max(1, len(values) - 1))


def _against(rows: Sequence[VerdictRow], lost: bool) -> str:
    """The first sentence: better, worse or like each yardstick."""
    own, clauses = rows[0], []
    for row in rows[1:]:
        share = abs(row.worse) / max(row.energy, 1e-30)
        if abs(row.worse) <= BEYOND_DOUBT * row.worse_se:
            clauses.append(f"as good as the {row.name}")
        else:
            amount = f"{share:.1%}" if share < MANY_TIMES else f"more than {MANY_TIMES} times"
            clauses.append(f"{amount} {'lower' if row.worse > 0 else 'higher'} than the {row.name}")
    beside = "; ".join(clauses) or "no yardstick could be fitted"
    start = "This model has failed: on" if lost else "On"
    end = (
        ". Do not use its samples: give it more wholes or more minutes, or look for wholes and parts that do not "
        "belong together."
        if lost
        else "."
    )
    score = f"{own.energy:.4g} (energy score, lower is better)"
    return f"{start} wholes that training did not see, its samples score {score}: {beside}{end}"


def _calibration(own: VerdictRow) -> str:
    notes = []
    if not 0.8 <= own.coverage <= 0.97:
        notes.append("intervals are too " + ("narrow" if own.coverage < 0.8 else "wide"))
    if not 0.8 <= own.spread <= 1.25:
        notes.append("samples vary too " + ("little" if own.spread < 0.8 else "much"))
    judged = "; ".join(notes) or "both as they should be"
    return (
        f"Its 90% intervals hold {own.coverage:.0%} of the values and its samples vary {own.spread:.2f} times as much "
        f"as the wholes do ({judged}); {own.above:.1%} of the wholes have a peak above its P95 (5% is right)."
    )


def out_of_range(largest: float, data: Tensor) -> bool:
    """Whether draws run out of ten times the data's range.  data: (N, *shape)."""
    return largest > OUT_OF_RANGE * float(data.abs().max().clamp(min=torch.finfo(torch.float32).tiny))
