"""The paper's claims, each with its evidence there, our number here, and a verdict that follows from the rows.

A verdict is one of ``VERDICTS``; each claim says the rule by which it was reached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compvae.baselines import Paper
from compvae.evaluation.rows import MODEL, Row, named, split
from compvae.problems import Problem

__all__ = ["VERDICTS", "Claim", "claims", "number", "rounded", "side_by_side"]

VERDICTS = ("holds", "partly", "does not hold", "not measured", "does not apply")
HOLDS, PARTLY, FAILS, UNKNOWN, APART = VERDICTS
CLOSE, ROUGH = 0.01, 0.1  # relED; a Gaussian with the right moments gets 0.034 on one sine wave
GOOD_EDIT, SOME_EDIT = 0.5, 1.0  # edit ratio; 1 is no better than forgetting what was observed
SPREAD_CLOSE, SPREAD_ROUGH = 0.1, 0.3  # error of the standard deviation, in units of the spread
LEAST_DEPARTURE = 0.05

Found = tuple[str, str]
"""What we measured, in words, and the verdict."""


@dataclass(frozen=True)
class Claim:
    """claim, paper: what it says, and by what.  ours: what we measured.  rule: how the verdict follows."""

    claim: str
    paper: str
    ours: str
    verdict: str
    rule: str


def claims(rows: Sequence[Row], problem: Problem) -> list[Claim]:
    """All claims of the paper, judged by these rows."""
    found = []
    for claim, paper, judge, rule in (*CLAIMS, *(ONLY_SINES if problem.name == "sines" else ())):
        ours, verdict = judge(rows, problem)
        found.append(Claim(claim, paper, ours, verdict, rule))
    return found


def side_by_side(mine: Sequence[Claim], theirs: Sequence[Claim]) -> list[tuple[Claim, Claim | None]]:
    """Each claim as judged for a model, and for another one beside it, None where there is no other."""
    other = {one.claim: one for one in theirs}
    return [(one, other.get(one.claim)) for one in mine]


def number(row: Row) -> str:
    """A value with two standard errors."""
    value, error = rounded(row)
    return _unbroken(f"{value} ± {error}") if error else value


def rounded(row: Row) -> tuple[str, str]:
    """A value and two standard errors, both to two digits of the error; "" where it is not known or 0."""
    if not row.se:
        return f"{row.value:.3g}", ""
    digits = max(0, 1 - math.floor(math.log10(row.error)))
    return f"{row.value:.{digits}f}", f"{row.error:.{digits}f}"


def _at(row: Row) -> str:
    return f"{number(row)} at {_size(row)}"


def _size(row: Row) -> str:
    return _unbroken(f"K = {row.K}")


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _list(rows: Sequence[Row]) -> str:
    return ", ".join(_at(row) for row in rows)


def _graded(values: Sequence[float], good: float, fair: float) -> str:
    worst = max(values)
    return HOLDS if worst <= good else PARTLY if worst <= fair else FAILS


def _edits(rows: Sequence[Row], problem: Problem) -> Found:
    found = named(rows, "edit remove")
    if not found:
        return "-", UNKNOWN
    return f"edit ratio {_list(found)}", _graded([_high(row) for row in found], GOOD_EDIT, SOME_EDIT)


def _high(row: Row) -> float:
    """The value at the upper end of its error."""
    assert row.value is not None
    return row.value + row.error


def _order(rows: Sequence[Row], problem: Problem) -> Found:
    found = named(rows, "order")
    if not found:
        return "-", UNKNOWN
    worst = max(row.value or 0.0 for row in found)
    return f"samples of one composition in two orders differ by at most {worst:.3g}", FAILS if worst else HOLDS


def _within(rows: Sequence[Row], problem: Problem) -> Found:
    return _distances(split(named(rows, "relED"), problem.max_parts)[0])


def _beyond(rows: Sequence[Row], problem: Problem) -> Found:
    return _distances(split(named(rows, "relED"), problem.max_parts)[1])


def _distances(found: Sequence[Row]) -> Found:
    """relED at its floor counts as 0."""
    if not found:
        return "-", UNKNOWN
    return f"relED {_list(found)}", _graded([0.0 if row.at_floor else row.value or 0.0 for row in found], CLOSE, ROUGH)


def _labour(rows: Sequence[Row], problem: Problem) -> Found:
    """Of the model where it has a z, else of the paper's configuration trained beside it, else not at all."""
    said, verdict = [], UNKNOWN
    for of, who in ((MODEL, "this model"), (Paper.name, "the paper's configuration, narrowed")):
        in_w, in_z = named(rows, "bits in w", of), named(rows, "bits in z", of)
        if not in_w or not in_z:
            continue
        w, z = in_w[0], in_z[0]
        assert w.value is not None
        if z.value:
            said.append(f"{who}: {number(w)} bits in w, {number(z)} in z")
            verdict = HOLDS if w.value - z.value > w.error + z.error else FAILS
            break
        said.append(f"{who}: {number(w)} bits in w, and it has no z")
        verdict = APART
    return "; ".join(said) or "-", verdict


def _not_the_sum(rows: Sequence[Row], problem: Problem) -> Found:
    ours = {row.K: row for row in named(rows, "relED")}
    pairs = [(ours[row.K], row) for row in named(rows, "relED", "independent") if row.K in ours and (row.K or 0) > 1]
    if not pairs:
        return "-", UNKNOWN
    text = ", ".join(f"{number(theirs)} against {number(mine)} at {_size(mine)}" for mine, theirs in pairs)
    better = [(t.value or 0) - (m.value or 0) > t.error + m.error for m, t in pairs]
    verdict = HOLDS if all(better) else PARTLY if any(better) else FAILS
    return f"relED of the sum of parts drawn alone against ours: {text}", verdict


def _variance(rows: Sequence[Row], problem: Problem) -> Found:
    found = named(rows, "moment std")[:1]
    if not found:
        return "-", UNKNOWN
    verdict = _graded([0.0 if found[0].at_floor else found[0].value or 0.0], SPREAD_CLOSE, SPREAD_ROUGH)
    return f"error of the standard deviation {_at(found[0])}, in units of the true spread", verdict


def _strength(rows: Sequence[Row], problem: Problem) -> Found:
    found = [row for row in rows if row.name.startswith("departure from the sum, C = ") and row.value is not None]
    if len(found) < 2:
        return "-", UNKNOWN
    values = [row.value or 0.0 for row in found]
    text = ", ".join(f"{number(row)} at {_unbroken(row.name.rpartition(', ')[2])}" for row in found)
    grows = all(b > a for a, b in pairwise(values)) and values[-1] > LEAST_DEPARTURE
    return f"distance of the exact whole from the sum of its parts, of its RMS: {text}", HOLDS if grows else FAILS


CLAIMS: tuple[tuple[str, str, Callable[[Sequence[Row], Problem], Found], str], ...] = (
    (
        "Parts can be taken out of an observed whole (ensemblist disentanglement)",
        "figures of wholes recomposed part by part, no number (5.1, 5.2)",
        _edits,
        f"holds if every edit ratio is below {GOOD_EDIT:g} by two standard errors, partly below {SOME_EDIT:g}",
    ),
    (
        "The order of the parts does not matter",
        "by construction: the parts enter by their sum (3.1)",
        _order,
        "holds if the difference is 0",
    ),
    (
        "One model serves any number of parts (size flexibility)",
        "K from 1 to 16 (1D) and 1 to 8 (2D) in training (4.3)",
        _within,
        f"holds if every relED is at its floor or at most {CLOSE:g}, partly up to {ROUGH:g}",
    ),
    (
        "It serves more parts than it was trained on (size generality)",
        "used up to K = 30 after training to 16, results omitted (5.1)",
        _beyond,
        f"holds if every relED is at its floor or at most {CLOSE:g}, partly up to {ROUGH:g}",
    ),
    (
        "w holds most of the information, z the rest (division of labour)",
        "about 100 bits in w and 10 in z in 1D, 200 to 300 and 40 to 60 in 2D (5.1, 5.2)",
        _labour,
        "holds if there are more bits in w than in z by two standard errors of each",
    ),
    (
        "The whole is not the sum of its parts, and the model knows it",
        "a figure of the two curves (4.2)",
        _not_the_sum,
        "holds if the sum is further from the truth at every K by two standard errors of each, partly at some",
    ),
    (
        "Parts of one category vary (intrinsic variance)",
        "a figure of curves of one category (5.1)",
        _variance,
        f"holds if the error is at its floor or at most {SPREAD_CLOSE:g}, partly up to {SPREAD_ROUGH:g}",
    ),
)
ONLY_SINES = (
    (
        "C sets how far the whole is from the sum of its parts",
        "C = 3 throughout (4.2)",
        _strength,
        f"a property of the data: holds if the distance grows with C, to more than {LEAST_DEPARTURE:g}",
    ),
)
