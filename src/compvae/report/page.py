"""One self-contained page about a model: numbers, claims, figures, how to make it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compvae.api import load
from compvae.baselines import Budget, Independent
from compvae.errors import DataFileError
from compvae.evaluation import Evaluation, effort_for, evaluate, evaluate_own, plan_for, read_evaluation
from compvae.report.claims import claims, rounded
from compvae.report.exhibits import exhibits
from compvae.report.facts import Subject, facts, headlines, reproduction
from compvae.report.measures import MEANINGS, shown_below, versus
from compvae.report.own import OwnSubject, own_report
from compvae.report.render import REPORT, check_place, render, write_page
from compvae.verdict.verdict import Verdict

__all__ = ["report", "write_report"]


def write_report(
    name: str,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    evaluation: Path | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Measure, draw, and put the page at ``out``, whole or not at all.

    A model of own data is judged on what its run held out, any other against the truth, beside sums of its parts.
    evaluation: what ``compvae evaluate --json`` wrote; without it the model is evaluated.
    """
    check_place(out)
    model = load(name)
    subject = OwnSubject.of(name, model) if model.provenance.problem is None else Subject.of(name, model)
    say("measuring" if evaluation is None else "reading the evaluation")
    found = _measured(subject, quick, seed) if evaluation is None else _read(evaluation, subject.kind)
    say("drawing")
    if isinstance(subject, OwnSubject):
        page = own_report(subject, found, quick, seed, evaluation)
    else:
        page = report(subject, found, seed, reproduction(subject, quick, seed, evaluation, found), quick)
    return write_page(page, out, "the report")


def _measured(subject: Subject | OwnSubject, quick: bool, seed: int) -> Evaluation:
    """As ``compvae evaluate --against independent``: the whole against the sum of its parts is a claim of the paper."""
    if isinstance(subject, OwnSubject):
        return evaluate_own(subject.model, subject.source, effort_for(quick, None, None, None), seed)
    summed = {Independent.name: Budget(steps=1, seed=seed)}
    return evaluate(subject.model, plan_for(subject.problem, quick), summed, seed)


def _read(path: Path, kind: str) -> Evaluation:
    found = read_evaluation(path)
    other = found.about.get("problem", kind)
    if other != kind:
        raise DataFileError(f"{path} is an evaluation of a model of {other}, not of {kind}")
    return found


def report(subject: Subject, found: Evaluation, seed: int, commands: Sequence[str], quick: bool = False) -> str:
    """The page as HTML."""
    problem, rows = subject.problem, found.measures
    return render(
        REPORT,
        exhibits(subject.model, problem, found, subject.lines, seed),
        name=subject.name,
        problem=problem,
        facts=facts(subject),
        headlines=headlines(rows, problem),
        claims=claims(rows, problem),
        measures=shown_below(found),
        versus=versus(found),
        meanings=MEANINGS,
        rounded=rounded,
        commands=commands,
        quick=quick or bool(found.about.get("quick")),
        verdict=Verdict.read(subject.name),
    )
