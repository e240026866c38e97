"""compvae sample, compvae tail: wholes from parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from compvae.commands.options import (
    AsJson,
    ContextText,
    ModelName,
    Noise,
    OutFile,
    PartsText,
    Seed,
    ShowProgress,
    context_of,
    load_model,
    parts_json,
    parts_of,
    tell,
)
from compvae.errors import ConfigError

__all__ = ["sample", "tail"]

MAX_ROWS = 10**10

Number = Annotated[int, typer.Option("-n", min=1, max=MAX_ROWS, help="How many wholes.")]


def sample(
    model: ModelName,
    parts: PartsText,
    n: Number = 1000,
    out: OutFile = None,
    context: ContextText = None,
    noise: Noise = True,
    by_part: Annotated[
        bool, typer.Option("--by-part", help="Latents belong to parts: with one seed, what is not changed stays.")
    ] = False,
    keys: Annotated[
        str | None, typer.Option(help="With --by-part: identities of the parts, in their order, such as 0,2,3.")
    ] = None,
    seed: Seed = 0,
    progress: ShowProgress = False,
    as_json: AsJson = False,
) -> None:
    """Sample wholes from their parts: compvae sample sines --parts 3:2,7:1 -n 1000 --out x.npz

    The file holds x (n, *shape), parts (JSON text) and seed; without --out, a summary is all there is.
    """
    numbers = _keys(keys, by_part)
    loaded = load_model(model, out)
    from collections import deque

    from compvae.commands.tally import Tally
    from compvae.progress import watched
    from compvae.results import Fact, Result, write_result

    composition, told = parts_of(loaded, parts, "--parts").single(), context_of(loaded, context)
    tally = Tally()
    if by_part:
        rows = loaded.compose(composition, numbers, told).stream(n, seed, noise)
    else:
        rows = loaded.stream(composition, n, seed, told, noise)
    stream = (x for _, x in rows)
    chunks = tally.counting(watched(stream, n, progress))
    facts: dict[str, Fact] = {"parts": parts_json([composition]), "seed": seed, **_context_fact(told)}
    if out is None:
        deque(chunks, maxlen=0)
    else:
        write_result(out, Result(n, loaded.shape, chunks, {}, facts))
    found = {
        "model": model,
        "shape": [n, *loaded.shape],
        "parts": composition.counted(),
        "context": told,
        "noise": noise,
        "seed": seed,
        "out": None if out is None else str(out),
        **tally.summary(),
    }
    written = "" if out is None else f"; written to {out}"
    text = f"{n:,} wholes of shape {loaded.shape} from {composition.size:,} parts, seed {seed}: {tally.text()}"
    tell(found, text + written, as_json)


def tail(
    model: ModelName,
    parts: PartsText,
    event: Annotated[str, typer.Option(help="What is extreme: peak, energy (the sum), ramp.")] = "peak",
    quantile: Annotated[float | None, typer.Option(help="0.99: the highest 1% of the event.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Instead of a quantile: the event's smallest value.")] = None,
    method: Annotated[str, typer.Option(help="auto, rejection, subset or importance.")] = "auto",
    n: Number = 200,
    out: OutFile = None,
    context: ContextText = None,
    noise: Noise = True,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Sample rare wholes: compvae tail households --parts flat:40,heat_pump:12 --quantile 0.99 -n 500 --out peaks.npz

    Beside x, parts and seed the file holds weights, probability, cv, ess, threshold, method, event and draws.  An
    estimate that is too poor is refused, with exit code 5.
    """
    loaded = load_model(model, out)
    from dataclasses import asdict

    from compvae.results import Result, write_result

    composition, told = parts_of(loaded, parts, "--parts").single(), context_of(loaded, context)
    found = loaded.tail(composition, event, quantile, n, seed, told, noise, threshold, method)
    about = {name: value for name, value in asdict(found).items() if name not in ("x", "weights")}
    about = {"event": event, **about}
    if out is not None:
        scalars = {name: value for name, value in about.items() if isinstance(value, str | int | float)}
        facts = {"parts": parts_json([composition]), **scalars, **_context_fact(told)}
        write_result(out, Result.of(found.x, {"weights": found.weights}, facts))
    where = None if out is None else str(out)
    document = {"model": model, "shape": list(found.x.shape), "parts": composition.counted(), "context": told}
    text = (
        f"P({event} >= {found.threshold:.6g}) = {found.probability:.3g}, relative error {found.cv:.1%}, by "
        f"{found.method} with {found.draws:,} draws; {n:,} wholes, worth {found.ess:.0f} independent ones"
    )
    tell({**document, **about, "out": where}, text + ("" if where is None else f"; written to {where}"), as_json)


def _keys(text: str | None, by_part: bool) -> list[int] | None:
    """The identities of --keys."""
    if text is None:
        return None
    if not by_part:
        raise ConfigError("--keys names the parts whose latents are held; it needs --by-part")
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(piece.isascii() and piece.isdigit() and len(piece) < 10 for piece in pieces):
        raise ConfigError(f"--keys {text[:40]!r}: write whole numbers, separated by commas")
    return [int(piece) for piece in pieces]


def _context_fact(told: Mapping[str, Any] | None) -> dict[str, str]:
    return {} if told is None else {"context": json.dumps(told)}
