"""One self-contained page about a model: numbers, claims, figures, how to make it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compvae.errors import OutputError
from compvae.extras import need
from compvae.figures import inline_svg
from compvae.files import reason, write_atomic
from compvae.report.claims import claims, number
from compvae.report.exhibits import exhibits
from compvae.report.facts import Subject, facts, headlines, reproduction
from compvae.report.measuring import Effort, departure_rows, measure, order_row
from compvae.report.rows import MODEL, Row, read_rows

__all__ = ["report", "write_report"]

TEMPLATE = Path(__file__).with_name("page.html.jinja")
MEANINGS = {
    "relED": "relative energy distance of samples to exact ones; 0 is exact",
    "edit remove": "error of a removal over that of forgetting the observed whole; 0 is exact, 1 is a fresh draw",
    "off-manifold": "distance of samples to the nearest whole the exact generator can make, of their RMS",
    "period": "RMS of x(t + period) - x(t), of the RMS of x; exact curves have 0",
    "moment mean": "error of the mean, in units of the spread",
    "moment std": "error of the standard deviation, in units of the spread",
    "bits in w": "information in the parts' latents",
    "bits in z": "information in the shared latent",
    "order": "largest difference between samples of one composition given in two orders",
}


def write_report(
    name: str,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    measures: Path | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Measure, draw, and put the page at ``out``, whole or not at all.  measures: rows that were measured before."""
    if not out.parent.is_dir():
        raise OutputError(f"{out.parent} is not a directory; create it, or name another place by --out")
    subject = Subject.of(name)
    say("measuring" if measures is None else "reading the measures")
    rows = measure(subject.model, subject.problem, Effort.of(quick), seed) if measures is None else read_rows(measures)
    say("drawing")
    page = report(subject, rows, seed, reproduction(subject, quick, seed, measures), quick)
    try:
        write_atomic(out, page.encode())
    except OSError as error:
        raise OutputError(f"{out}: cannot write the report, {reason(error)}") from None
    return out


def _grouped(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by measure, in the order in which measures first come; the model's before those of others."""
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.of != MODEL):
        groups.setdefault(row.name, []).append(row)
    return groups


def report(subject: Subject, rows: Sequence[Row], seed: int, commands: Sequence[str], quick: bool = False) -> str:
    """The page as HTML."""
    jinja = need("jinja2", "report")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    problem = subject.problem
    all_rows = [*rows, order_row(subject.model, problem, seed), *departure_rows(problem, seed=seed)]
    page: str = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=subject.name,
        problem=problem,
        facts=facts(subject),
        headlines=headlines(rows, problem),
        claims=claims(all_rows, problem),
        measures=_grouped(all_rows),
        meanings=MEANINGS,
        number=number,
        exhibits=[
            (one, jinja.utils.markupsafe.Markup(inline_svg(one.figure, one.name, one.alt)))
            for one in exhibits(subject.model, problem, rows, subject.lines, seed)
        ],
        commands=commands,
        quick=quick,
    )
    return page
