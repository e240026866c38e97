"""One self-contained page with the answers of a plan: the table, then the figures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from compvae.errors import OutputError
from compvae.extras import need
from compvae.figures import inline_svg
from compvae.files import reason, write_atomic
from compvae.planning import Plan, rows
from compvae.report.loads import described, plan_exhibits
from compvae.report.page import TEMPLATE as REPORT

__all__ = ["plan_page", "write_plan"]

TEMPLATE = Path(__file__).with_name("plan.html.jinja")


def plan_page(plan: Plan, name: str, commands: Sequence[str]) -> str:
    """The page as HTML.  name: of the model.  commands: that make the page again."""
    jinja = need("jinja2", "report")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    safe = jinja.utils.markupsafe.Markup
    page: str = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        style=safe(_style()),
        name=name,
        what=described(plan.question.parts),
        plan=plan,
        groups=[(group, list(some)) for group, some in groupby(rows(plan), lambda row: row.group)],
        exhibits=[(one, safe(inline_svg(one.figure, one.name, one.alt))) for one in plan_exhibits(plan)],
        commands=commands,
    )
    return page


def write_plan(plan: Plan, name: str, out: Path, commands: Sequence[str]) -> Path:
    """Put the page at ``out``, whole or not at all."""
    if not out.parent.is_dir():
        raise OutputError(f"{out.parent} is not a directory; create it, or name another place by --out")
    try:
        write_atomic(out, plan_page(plan, name, commands).encode())
    except OSError as error:
        raise OutputError(f"{out}: cannot write the page, {reason(error)}") from None
    return out


def _style() -> str:
    """The style of reports, which stands in their template: one look for all pages."""
    text = REPORT.read_text(encoding="utf-8")
    return text[text.index("<style>") : text.index("</style>") + len("</style>")]
