"""One self-contained page about a model: numbers, claims, figures, how to make it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compvae.baselines import Budget, Independent
from compvae.errors import DataFileError, OutputError
from compvae.evaluation import Evaluation, evaluate, plan_for, read_evaluation
from compvae.extras import need
from compvae.figures import inline_svg
from compvae.files import reason, write_atomic
from compvae.report.claims import claims, rounded
from compvae.report.exhibits import exhibits
from compvae.report.facts import Subject, facts, headlines, reproduction
from compvae.report.measures import MEANINGS, shown_below, versus

__all__ = ["report", "write_report"]

TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write_report(
    name: str,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    evaluation: Path | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Measure, draw, and put the page at ``out``, whole or not at all.

    evaluation: what ``compvae evaluate --json`` wrote; without it the model is evaluated, beside sums of its parts.
    """
    if not out.parent.is_dir():
        raise OutputError(f"{out.parent} is not a directory; create it, or name another place by --out")
    subject = Subject.of(name)
    say("measuring" if evaluation is None else "reading the evaluation")
    found = _measured(subject, quick, seed) if evaluation is None else _read(evaluation, subject)
    say("drawing")
    page = report(subject, found, seed, reproduction(subject, quick, seed, evaluation, found), quick)
    try:
        write_atomic(out, page.encode())
    except OSError as error:
        raise OutputError(f"{out}: cannot write the report, {reason(error)}") from None
    return out


def _measured(subject: Subject, quick: bool, seed: int) -> Evaluation:
    """As ``compvae evaluate --against independent``: the whole against the sum of its parts is a claim of the paper."""
    summed = {Independent.name: Budget(steps=1, seed=seed)}
    return evaluate(subject.model, plan_for(subject.problem, quick), summed, seed)


def _read(path: Path, subject: Subject) -> Evaluation:
    found = read_evaluation(path)
    other = found.about.get("problem", subject.problem.name)
    if other != subject.problem.name:
        raise DataFileError(f"{path} is an evaluation of a model of {other}, not of {subject.problem.name}")
    return found


def report(subject: Subject, found: Evaluation, seed: int, commands: Sequence[str], quick: bool = False) -> str:
    """The page as HTML."""
    jinja = need("jinja2", "report")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    problem, rows = subject.problem, found.measures
    page: str = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=subject.name,
        problem=problem,
        facts=facts(subject),
        headlines=headlines(rows, problem),
        claims=claims(rows, problem),
        measures=shown_below(found),
        versus=versus(found),
        meanings=MEANINGS,
        rounded=rounded,
        exhibits=[
            (one, jinja.utils.markupsafe.Markup(inline_svg(one.figure, one.name, one.alt)))
            for one in exhibits(subject.model, problem, found, subject.lines, seed)
        ],
        commands=commands,
        quick=quick or bool(found.about.get("quick")),
    )
    return page
