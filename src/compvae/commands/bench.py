"""compvae bench: how long things take, as ratios to something run in turn with them."""

from __future__ import annotations

import json
import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from compvae.commands.options import AsJson, Seed, tell
from compvae.errors import OutputError
from compvae.files import reason, write_atomic

__all__ = ["bench"]


def bench(
    only: Annotated[
        str,
        typer.Option(
            help="Sections: training (or of it: sizes, posteriors, widths, data, processes), sampling, inference, "
            "startup, paper (143M parameters, minutes)."
        ),
    ] = "training,sampling,inference,startup",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of every comparison; their median is told.")] = 9,
    quick: Annotated[bool, typer.Option("--quick", help="Little of everything: shows that all works.")] = False,
    out: Annotated[Path | None, typer.Option(help="File to write the JSON document to as well.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Time training, sampling, inference and start-up on this machine: compvae bench --only sampling

    Cases of one comparison take turns on one thread; what counts is processor time, and its ratio to the case named
    beside it, with the quartiles over the rounds.
    """
    if out is not None and not out.absolute().parent.is_dir():
        raise OutputError(f"{out.parent} is not a directory; create it, or name another place by --out")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or torch's profiler speaks on stderr; read when torch is imported
    from compvae.bench import Scope, about, chosen, document, measure, table

    scope, names = Scope(rounds, quick, seed), chosen(only)
    words = ["compvae", "bench", "--only", only, "--rounds", str(rounds), "--seed", str(seed)]
    with _told():
        rows = measure(names, scope)
    found = document(rows, about(shlex.join([*words, *(["--quick"] if quick else [])]), scope))
    if out is not None:
        try:
            write_atomic(out, (json.dumps(found, indent=1) + "\n").encode())
        except OSError as error:
            raise OutputError(f"{out}: cannot write the document, {reason(error)}") from None
    tell(found, table(rows), as_json)


@contextmanager
def _told() -> Iterator[None]:
    """How far the comparisons are, on stderr."""
    log, handler = logging.getLogger("compvae.bench"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
