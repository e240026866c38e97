"""One self-contained page with the answers of a plan: the table, then the figures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from compvae.planning import Plan, rows
from compvae.report.loads import described, plan_exhibits
from compvae.report.render import render, write_page

__all__ = ["plan_page", "write_plan"]


def plan_page(plan: Plan, name: str, commands: Sequence[str]) -> str:
    """The page as HTML.  name: of the model.  commands: that make the page again."""
    return render(
        "plan.html.jinja",
        plan_exhibits(plan),
        name=name,
        what=described(plan.question.parts),
        plan=plan,
        groups=[(group, list(some)) for group, some in groupby(rows(plan), lambda row: row.group)],
        commands=commands,
    )


def write_plan(plan: Plan, name: str, out: Path, commands: Sequence[str]) -> Path:
    """Put the page at ``out``, whole or not at all."""
    return write_page(plan_page(plan, name, commands), out, "the page")
