"""compvae report: one self-contained HTML page about a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from compvae.commands.options import AsJson, Imported, ModelName, Seed, import_modules

__all__ = ["report"]


def report(
    model: ModelName,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    evaluation: Annotated[
        Path | None, typer.Option(help="What compvae evaluate --json wrote; measured anew if not given.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few samples: soon there, large errors.")] = False,
    beside: Annotated[
        str | None,
        typer.Option(help="Another model whose claims stand beside these; '' for none."),
    ] = None,
    beside_evaluation: Annotated[
        Path | None, typer.Option(help="What compvae evaluate --json wrote of that model.")
    ] = None,
    seed: Seed = 0,
    imported: Imported = None,
    as_json: AsJson = False,
) -> None:
    """Write one page that shows how good a model is: claims, measures, figures; it needs no network."""
    from compvae.report import write_report

    import_modules(imported)
    page = write_report(
        model, out, quick, seed, evaluation, lambda text: print(text, file=sys.stderr), beside, beside_evaluation
    )
    print(json.dumps({"report": str(page)}) if as_json else f"the report is {page}")
