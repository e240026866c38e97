"""From a template and exhibits to one self-contained page on disk."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compvae.errors import OutputError
from compvae.extras import need
from compvae.figures import inline_svg
from compvae.files import reason, write_atomic
from compvae.report.exhibit import Exhibit

__all__ = ["check_place", "render", "write_page"]

HERE = Path(__file__).parent
REPORT = "page.html.jinja"  # the style of all pages stands in it


def render(template: str, exhibits: Iterable[Exhibit], **values: Any) -> str:
    """The page as HTML.  template: the name of a file beside this one; it is given style, exhibits and the values."""
    jinja = need("jinja2", "report")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=jinja.FunctionLoader(_text),
    )  # fmt: skip
    safe = jinja.utils.markupsafe.Markup
    page: str = environment.get_template(template).render(
        style=safe(_style()),
        exhibits=[(one, safe(inline_svg(one.figure, one.name, one.alt))) for one in exhibits],
        **values,
    )
    return page


def check_place(out: Path) -> None:
    """Refuse a place in a directory that is not there, before the work is done."""
    if not out.parent.is_dir():
        raise OutputError(f"{out.parent} is not a directory; create it, or name another place by --out")


def write_page(page: str, out: Path, what: str) -> Path:
    """Put the page at ``out``, whole or not at all.  what: the report, or the page of a plan."""
    check_place(out)
    try:
        write_atomic(out, page.encode())
    except OSError as error:
        raise OutputError(f"{out}: cannot write {what}, {reason(error)}") from None
    return out


def _text(template: str) -> str:
    return (HERE / template).read_text(encoding="utf-8")


def _style() -> str:
    text = _text(REPORT)
    return text[text.index("<style>") : text.index("</style>") + len("</style>")]
