"""compvae report: one self-contained HTML page about a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    model: Annotated[str, typer.Argument(help="A shipped model by name, or a run or model directory.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    evaluation: Annotated[
        Path | None, typer.Option(help="What compvae evaluate --json wrote; measured anew if not given.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few samples: soon there, large errors.")] = False,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")] = False,
) -> None:
    """Write one page that shows how good a model is: claims, measures, figures; it needs no network."""
    from compvae.report import write_report

    page = write_report(model, out, quick, seed, evaluation, lambda text: print(text, file=sys.stderr))
    print(json.dumps({"report": str(page)}) if as_json else f"the report is {page}")
