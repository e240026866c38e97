"""One self-contained page about a model: numbers, claims, figures, how to make it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compvae.api import load, shipped
from compvae.baselines import Budget, Independent
from compvae.errors import ConfigError, DataFileError
from compvae.evaluation import Evaluation, effort_for, evaluate, evaluate_own, plan_for, read_evaluation
from compvae.report.claims import claims, rounded, side_by_side
from compvae.report.exhibits import exhibits
from compvae.report.facts import Subject, facts, headlines, reproduction
from compvae.report.measures import MEANINGS, shown_below, versus
from compvae.report.own import OwnSubject, own_report
from compvae.report.render import REPORT, check_place, render, write_page
from compvae.verdict.verdict import Verdict

__all__ = ["report", "write_report"]


@dataclass(frozen=True)
class Other:
    """A model that stands beside the one a report is about."""

    name: str
    found: Evaluation


def write_report(
    name: str,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    evaluation: Path | None = None,
    say: Callable[[str], None] = print,
    beside: str | None = None,
    beside_evaluation: Path | None = None,
) -> Path:
    """Measure, draw, and put the page at ``out``, whole or not at all.

    A model of own data is judged on what its run held out, any other against the truth, beside sums of its parts.
    evaluation: what ``compvae evaluate --json`` wrote; without it the model is evaluated.
    beside: another model of the problem, whose claims stand beside these; by default for a model of the paper's form
    the one that comes with the package for its problem.  beside_evaluation: as evaluation, of that model.
    """
    check_place(out)
    model = load(name)
    subject = OwnSubject.of(name, model) if model.provenance.problem is None else Subject.of(name, model)
    say("measuring" if evaluation is None else "reading the evaluation")
    found = _measured(subject, quick, seed) if evaluation is None else _read(evaluation, subject.kind)
    if isinstance(subject, OwnSubject):
        say("drawing")
        page = own_report(subject, found, quick, seed, evaluation)
    else:
        other = _other(subject, beside, quick, seed, beside_evaluation, say)
        say("drawing")
        page = report(subject, found, seed, reproduction(subject, quick, seed, evaluation, found), quick, other)
    return write_page(page, out, "the report")


def _measured(subject: Subject | OwnSubject, quick: bool, seed: int) -> Evaluation:
    """As ``compvae evaluate --against independent``: the whole against the sum of its parts is a claim of the paper."""
    if isinstance(subject, OwnSubject):
        return evaluate_own(subject.model, subject.source, effort_for(quick, None, None, None), seed)
    summed = {Independent.name: Budget(steps=1, seed=seed)}
    return evaluate(subject.model, plan_for(subject.problem, quick), summed, seed)


def _other(
    subject: Subject, beside: str | None, quick: bool, seed: int, evaluation: Path | None, say: Callable[[str], None]
) -> Other | None:
    """The model beside this one, measured."""
    name = successor_of(subject) if beside is None else beside
    if not name:
        if evaluation is not None:
            raise ConfigError("an evaluation of a model beside this one needs its name; give --beside too")
        return None
    other = Subject.of(name)
    if other.kind != subject.kind:
        raise ConfigError(f"{name} is a model of {other.kind}, which cannot stand beside one of {subject.kind}")
    say(f"measuring {name}" if evaluation is None else f"reading the evaluation of {name}")
    return Other(name, _measured(other, quick, seed) if evaluation is None else _read(evaluation, other.kind))


def successor_of(subject: Subject) -> str:
    """The shipped model of the same problem that does not have the paper's form; "" for models that do not have it."""
    return subject.kind if subject.model.provenance.of_paper and subject.kind in shipped() else ""


def _read(path: Path, kind: str) -> Evaluation:
    found = read_evaluation(path)
    other = found.about.get("problem", kind)
    if other != kind:
        raise DataFileError(f"{path} is an evaluation of a model of {other}, not of {kind}")
    return found


def report(
    subject: Subject,
    found: Evaluation,
    seed: int,
    commands: Sequence[str],
    quick: bool = False,
    other: Other | None = None,
) -> str:
    """The page as HTML.  other: a model whose claims stand beside these."""
    problem, rows = subject.problem, found.measures
    return render(
        REPORT,
        exhibits(subject.model, problem, found, subject.lines, seed),
        name=subject.name,
        problem=problem,
        facts=facts(subject),
        headlines=headlines(rows, problem),
        claims=side_by_side(claims(rows, problem), [] if other is None else claims(other.found.measures, problem)),
        beside="" if other is None else other.name,
        measures=shown_below(found),
        versus=versus(found),
        meanings=MEANINGS,
        rounded=rounded,
        commands=commands,
        quick=quick or bool(found.about.get("quick")),
        verdict=Verdict.read(subject.name),
    )
