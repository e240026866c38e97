"""The command line: thin over the package, torch imported only by the commands that need it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from compvae.errors import CompVAEError

__all__ = ["app", "main"]

app = typer.Typer(
    name="compvae",
    help="A programmable generative model: sample wholes from their parts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]


@app.callback()
def _root() -> None:
    """A programmable generative model: sample wholes from their parts."""


@app.command()
def problems(as_json: AsJson = False) -> None:
    """List the problems that come with the package: parts, shape of x, presets."""
    from compvae.presets import PRESETS
    from compvae.problems import PROBLEMS

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "summary": problem.summary,
            "attributes": [attribute.model_dump() for attribute in problem().schema.attributes],
            "shape": list(problem().shape),
            "hidden": list(problem.specific_names),
            "presets": list(PRESETS[name]),
        }
        for name, problem in PROBLEMS.items()
    ]
    if as_json:
        print(json.dumps({"problems": rows}))
        return
    for row in rows:
        print(f"{row['name']}: {row['summary']}")
        print(
            f"  parts   {', '.join(a['name'] for a in row['attributes'])}; hidden in each: {', '.join(row['hidden'])}"
        )
        print(f"  x       shape {tuple(row['shape'])}")
        print(f"  presets {', '.join(row['presets'])}")


def main() -> None:
    """Run a command; an error of the user's is one line on stderr and exit code 2."""
    try:
        app()
    except CompVAEError as error:
        print(f"compvae: {error}", file=sys.stderr)
        raise SystemExit(2) from None
