"""Inference and edits: wholes a second, and the latency of one, beside sampling as many wholes."""

from __future__ import annotations

from collections.abc import Callable

import compvae
from compvae.bench.rows import Row, Scope, rows_of

__all__ = ["inference"]

SECTION = "inference"
PARTS, GONE, COME = (
    {"sines": {"3": 2, "7": 1, "5": 1}, "households": {"flat": 6, "heat_pump": 4}},
    {"sines": {"7": 1}, "households": {"flat": 1}},
    {"sines": {"2": 1}, "households": {"heat_pump": 1}},
)


def inference(scope: Scope) -> list[Row]:
    """The posterior of observed wholes, the bound, an edit, a part alone; for one whole and for many."""
    found: list[Row] = []
    numbers = (1,) if scope.quick else (1, 32, 1000)
    for name in ("sines",) if scope.quick else ("sines", "households"):
        for n in numbers:
            found += rows_of(SECTION, _cases(name, n, scope.seed), f"{name}, sample, n {n}", scope.turns)
    return found


def _cases(name: str, n: int, seed: int) -> dict[str, Callable[[], object]]:
    model, parts, gone, come = compvae.load(name), PARTS[name], GONE[name], COME[name]
    x = model.sample(parts, n, seed)
    seen = model.infer(x, parts)
    found: dict[str, Callable[[], object]] = {
        f"{name}, sample, n {n}": lambda: model.sample(parts, n, seed),
        f"{name}, infer, n {n}": lambda: model.infer(x, parts).decode(),
        f"{name}, bound, n {n}": lambda: model.elbo(x, parts),
        f"{name}, remove a part and decode, n {n}": lambda: seen.remove(gone).decode(),
        f"{name}, replace a part and decode, n {n}": lambda: seen.replace(gone, come).decode(),
    }
    if n == 1:
        found[f"{name}, replace a part, 100 draws, n 1"] = lambda: seen.replace(gone, come).decode(n=100)
    return found
