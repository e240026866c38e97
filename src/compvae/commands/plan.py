"""compvae plan: what a planner asks about a composition, as a table and a page."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compvae.commands.options import (
    FORMS,
    AsJson,
    ContextText,
    ModelName,
    PartsText,
    Seed,
    context_of,
    load_model,
    parts_of,
    tell,
)
from compvae.errors import ConfigError, DataFileError

if TYPE_CHECKING:
    import numpy as np

    from compvae.model import Model
    from compvae.planning import Plan

__all__ = ["plan"]

MAX_DRAWS = 10_000_000


def plan(
    model: ModelName,
    parts: PartsText,
    context: ContextText = None,
    rating: Annotated[float | None, typer.Option(help="A load: how likely is a higher peak?")] = None,
    replace: Annotated[str | None, typer.Option(help=f"Parts to take away: {FORMS}.")] = None,
    by: Annotated[str | None, typer.Option(help=f"Parts to put in their place: {FORMS}.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="An observed day of these parts, one whole: the same replacement on it.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=20, max=MAX_DRAWS, help="Days to draw.")] = 10_000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Page to write: .html.")] = None,
    as_json: AsJson = False,
) -> None:
    """Peaks, ratings, diversity, what-if: compvae plan households --parts flat:40,heat_pump:12 --rating 90

    Prints P50, P95 and P99 of the daily peak with their standard errors, the energy, the chance of exceeding a rating,
    the after-diversity maximum demand and what a replacement does; --out writes a page with the figures as well.
    """
    if out is not None and out.suffix != ".html":
        raise ConfigError(f"--out {str(out)!r}: a plan is a page, name it .html")
    if (replace is None) != (by is None):
        raise ConfigError("--replace and --by go together: name the parts that go, and those that come")
    if data is not None and replace is None:
        raise ConfigError("--data is a day to be changed: name the parts that go by --replace, those that come by --by")
    loaded = load_model(model, None)
    from compvae.planning import Question, make_plan, plan_dict

    given = {flag: None if text is None else parts_of(loaded, text, f"--{flag}").single()
             for flag, text in (("replace", replace), ("by", by))}  # fmt: skip
    composition = parts_of(loaded, parts, "--parts").single()
    observed = None if data is None else _one_day(loaded, data)
    found = make_plan(
        loaded, Question(composition, context_of(loaded, context), rating, **given, observed=observed, n=n, seed=seed)
    )
    if out is not None:
        from compvae.report.plan import write_plan

        flags = {"--parts": parts, "--context": context, "--rating": rating, "--replace": replace, "--by": by,
                 "--data": data, "-n": n, "--seed": seed, "--out": out}  # fmt: skip
        write_plan(found, model, out, [_command(model, flags)])
    where = None if out is None else str(out)
    tell({"model": model, **plan_dict(found), "out": where}, _table(found), as_json)
    if where is not None and not as_json:
        print(f"the page is {where}", file=sys.stderr)


def _one_day(model: Model, path: Path) -> np.ndarray:
    from compvae.data.wholes import read_observed

    _, x = read_observed(path, model.shape)
    if len(x) != 1:
        raise DataFileError(f"{path} holds {len(x)} wholes; --data takes one day, give a file with one")
    day: np.ndarray = x[0]
    return day


def _command(model: str, flags: dict[str, Any]) -> str:
    given = [f"{flag} {shlex.quote(str(value))}" for flag, value in flags.items() if value is not None]
    return " ".join(["compvae plan", shlex.quote(model), *given])


def _table(found: Plan) -> str:
    """One line for each answer."""
    from compvae.planning import rows

    lines, group = [], ""
    for row in rows(found):
        if row.group != group:
            group = row.group
            lines.append(group)
        lines.append(f"  {row.label:52} {row.value:>12} {row.error:>20} {row.unit}".rstrip())
    return "\n".join(lines)
