"""Sampling: wholes a second against n and K, latency of one call, bytes allocated; beside the bare decoder and others.

The bare decoder is p(x | W) alone on codes that are already there, in tiles of the same height: what no sampler of this
model can be faster than.  The exact generator adds up K parts, so it is asked only where that is possible.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import compvae
from compvae import problems
from compvae.baselines import ConditionalVAE, Flow, FlowMatching, Sampler
from compvae.batch import collate, repeat
from compvae.bench.memory import allocated
from compvae.bench.rows import Row, Scope, rows_of
from compvae.composing.generation import TILE, generate
from compvae.model import Model
from compvae.network import structured
from compvae.noise import Noise

__all__ = ["bare", "sampling", "shared_out"]

SECTION = "sampling"
MILLION = 1_000_000
EXACT = 1000  # parts the exact generator is asked for at most


def shared_out(model: Model, size: int) -> dict[str, int]:
    """So many parts, the categories in equal shares as far as they go."""
    names = model.parts.categories
    counts = [size // len(names) + (index < size % len(names)) for index in range(len(names))]
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def bare(model: Model, parts: dict[str, int], n: int) -> Callable[[], object]:
    """n wholes through the decoder's network alone, tile by tile."""
    tile = repeat(collate([model.parts.parse(parts).canonical()]), TILE)
    network = structured(model.network, "timing the decoder alone")
    made = generate(network, tile, Noise(0, TILE))
    tiles = -(-n // TILE)

    @torch.no_grad()
    def run() -> object:
        for _ in range(tiles):
            network.decoder(made.code, tile, made.z, None)
        return None

    return run


def sampling(scope: Scope) -> list[Row]:
    """All comparisons, for the shipped models of curves and of loads."""
    found: list[Row] = []
    for name in ("sines",) if scope.quick else ("sines", "households"):
        model = compvae.load(name)
        found += _against_size(name, model, scope)
        found += _against_number(name, model, scope)
        found += _beside_others(name, model, scope)
    return found


def _sampler(model: Sampler, parts: dict[str, int], n: int, seed: int) -> Callable[[], object]:
    return lambda: model.sample(parts, n, seed)


def _against_size(name: str, model: Model, scope: Scope) -> list[Row]:
    n = 256 if scope.quick else 1000
    sizes = (1, 10, MILLION) if scope.quick else (1, 10, 100, 1000, 10_000, 100_000, MILLION)
    cases = {f"{name}, {n} wholes, K {size}": _sampler(model, shared_out(model, size), n, scope.seed) for size in sizes}
    counts = {case: {"bytes a whole": allocated(run) / n} for case, run in cases.items()}
    return rows_of(SECTION, cases, f"{name}, {n} wholes, K 10", scope.turns, counts)


def _against_number(name: str, model: Model, scope: Scope) -> list[Row]:
    parts = shared_out(model, 10)
    numbers = (1, 256) if scope.quick else (1, 10, 100, 1000, 10_000)
    cases = {f"{name}, K 10, {n} wholes": _sampler(model, parts, n, scope.seed) for n in numbers}
    return rows_of(SECTION, cases, f"{name}, K 10, {numbers[-1]} wholes", scope.turns)


def _beside_others(name: str, model: Model, scope: Scope) -> list[Row]:
    """n wholes by other means, all of them beside ours."""
    n, size = (256, 10) if scope.quick else (1000, 10)
    problem, parts = problems.get(name), shared_out(model, size)
    ours = f"{name}, ours, {n} wholes, K {size}"
    cases = {
        ours: _sampler(model, parts, n, scope.seed),
        f"{name}, bare decoder": bare(model, parts, n),
        f"{name}, exact generator, K {size}": lambda: problem.truth(parts, n, scope.seed),
    }
    if not scope.quick:
        many = shared_out(model, EXACT)
        cases[f"{name}, exact generator, K {EXACT}, 100 wholes"] = lambda: problem.truth(many, 100, scope.seed)
        for kind in (ConditionalVAE, Flow, FlowMatching):  # untrained: how long it takes does not hang on the weights
            cases[f"{name}, baseline {kind.name}"] = _sampler(kind(problem, 0), parts, n, scope.seed)
    return rows_of(SECTION, cases, ours, scope.turns)
