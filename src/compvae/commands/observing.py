"""compvae infer, compvae edit: the parts of observed wholes, and wholes with other parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compvae.commands.options import (
    AddedText,
    AsJson,
    ContextText,
    DataFile,
    ModelName,
    MovedText,
    MovedToText,
    OutFile,
    PartsText,
    RemovedText,
    Seed,
    context_of,
    load_model,
    parts_json,
    parts_of,
    tell,
)
from compvae.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from compvae.composing.composition import Composition
    from compvae.model import Model
    from compvae.results import Fact

__all__ = ["edit", "infer"]


def infer(
    model: ModelName,
    data: DataFile,
    parts: PartsText,
    out: OutFile = None,
    context: ContextText = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Recover the parts of observed wholes: compvae infer sines --data x.npz --parts 3:2,7:1 --out w.npz

    For each whole the file holds x, the whole as the model sees it; alone (n, kinds of parts, *shape), each different
    part decoded alone, in the order of parts; and the bound on ln p(x | parts) in nats, bound = bound_x - bound_w -
    bound_z; of an invertible model bound is ln p(x | parts) itself, without terms.  Alike parts have one mean and stand
    once, with their count, in parts (JSON text).
    """
    import numpy as np

    from compvae.parts import PartsBatch
    from compvae.results import Result, write_result

    loaded = load_model(model, out)
    ids, x, composition = _observed(loaded, data, parts, context)
    whole = composition.decode()
    terms = loaded.elbo(x, PartsBatch(composition.multisets), context_of(loaded, context), seed=seed)
    bound, said = np.asarray(terms.total), {"w": terms.w, "z": terms.z, "x": terms.x}
    if out is not None:
        beside = {
            "whole_id": np.array(ids),
            "bound": bound,
            **{f"bound_{name}": np.asarray(term) for name, term in said.items() if term is not None},
            "alone": _alone(composition),
        }
        write_result(out, Result.of(whole, beside, {"parts": _parts(composition), "seed": seed}))
    error = float(np.sqrt(np.mean((whole - x) ** 2, dtype=np.float64)))
    found = {"bound": float(bound.mean(dtype=np.float64)), "rmse": error}
    name = "bound" if terms.w is not None else "ln p(x | parts)"
    text = f"{name} {found['bound']:.2f} nats a whole, decoded to within {error:.3g} (RMSE)"
    _tell_observed(model, x, composition, found, text, seed, out, as_json)


def edit(
    model: ModelName,
    data: DataFile,
    parts: PartsText,
    remove: RemovedText = None,
    add: AddedText = None,
    move: MovedText = None,
    to: MovedToText = None,
    n: Annotated[int | None, typer.Option("-n", min=1, help="Draws of each whole; without it the mean.")] = None,
    noise: Annotated[bool, typer.Option("--noise", help="With the observation noise; needs -n.")] = False,
    out: OutFile = None,
    context: ContextText = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Take parts away and put parts in: compvae edit sines --data x.npz --parts 3:2,7:1 --remove 7:1 --out y.npz

    The file holds the edited wholes x, one row each, with whole_id and, where -n is given, draw; parts and
    parts_before (JSON text) and seed.  Added parts are drawn given what the parts share, which stays as it was.  Parts
    that are moved (--move, --to: other values of their continuous attributes) keep what is hidden in them.
    """
    import numpy as np

    from compvae.results import Result, write_result

    loaded = load_model(model, out)
    ids, x, before = _observed(loaded, data, parts, context)
    after = _moved(loaded, _edited(loaded, before, ids, remove, add, move is None), ids, move, to)
    drawn = after.decode(n, seed, noise)
    beside = {"whole_id": np.array(ids)}
    if n is not None:
        drawn = drawn.swapaxes(0, 1).reshape(-1, *loaded.shape)
        beside = {"whole_id": np.repeat(np.array(ids), n), "draw": np.tile(np.arange(n), len(ids))}
    if out is not None:
        facts: dict[str, Fact] = {"parts": _parts(after), "parts_before": _parts(before), "seed": seed}
        write_result(out, Result.of(drawn, beside, facts))
    found = {"parts_before": json.loads(_parts(before)), "mean": float(drawn.mean(dtype=np.float64))}
    found["edited_shape"] = list(drawn.shape)
    text = f"edited, {len(drawn):,} rows in all, mean {x.mean():.4g} before and {found['mean']:.4g} after"
    _tell_observed(model, x, after, found, text, seed, out, as_json)


def _observed(model: Model, data: Path, parts: str, context: str | None) -> tuple[list[str], np.ndarray, Composition]:
    """The ids and the wholes of a file, and what the model makes of them."""
    from compvae.data.wholes import read_observed

    ids, x = read_observed(data, model.shape)
    given = parts_of(model, parts, "--parts").rows(ids)
    return ids, x, model.infer(x, given, context_of(model, context))


def _moved(model: Model, before: Composition, ids: list[str], move: str | None, to: str | None) -> Composition:
    """With parts moved, where that was asked for."""
    if move is None and to is None:
        return before
    if move is None or to is None:
        raise ConfigError("--move and --to go together: the parts to move, and the same parts as they shall be")
    return before.move(parts_of(model, move, "--move").rows(ids), parts_of(model, to, "--to").rows(ids))


def _edited(
    model: Model, before: Composition, ids: list[str], remove: str | None, add: str | None, needed: bool
) -> Composition:
    """With parts taken away and put in.  needed: nothing else is asked for."""
    if remove is None and add is None:
        if not needed:
            return before
        raise ConfigError("name the parts to take away by --remove, those to put in by --add, those to move by --move")
    gone = None if remove is None else parts_of(model, remove, "--remove").rows(ids)
    new = None if add is None else parts_of(model, add, "--add").rows(ids)
    if gone is None:
        return before.add(new)
    return before.remove(gone) if new is None else before.replace(gone, new)


def _alone(composition: Composition) -> np.ndarray:
    """x of each different part alone, (rows, most kinds of parts of a row, *shape); NaN beyond those of a row."""
    import numpy as np

    firsts = [_firsts(multiset.runs) for multiset in composition.multisets]
    width = max(map(len, firsts))
    pieces = [composition.part([places[min(k, len(places) - 1)] for places in firsts]) for k in range(width)]
    alone = np.stack(pieces, 1)
    for row, places in enumerate(firsts):
        alone[row, len(places) :] = np.nan
    return alone


def _firsts(runs: tuple[tuple[Any, int], ...]) -> list[int]:
    """Place of the first part of each run."""
    places = [0]
    for _, count in runs[:-1]:
        places.append(places[-1] + count)
    return places


def _parts(composition: Composition) -> str:
    """The parts of all rows; once where they are the same."""
    multisets = composition.multisets
    return parts_json(multisets[:1] if len(set(multisets)) == 1 else multisets)


def _tell_observed(
    model: str, x: np.ndarray, composition: Composition, more: dict[str, Any], text: str, seed: int,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    found = {"model": model, "shape": list(x.shape), "parts": json.loads(_parts(composition)), "seed": seed}
    where = None if out is None else str(out)
    written = "" if where is None else f"; written to {where}"
    tell({**found, **more, "out": where}, f"{len(x):,} wholes: {text}{written}", as_json)
