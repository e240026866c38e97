"""Train a `small` preset through the package, or take a model, and measure it: relED at several K, edit ratio.

    python benchmarks/train_small.py sines --steps 3000 --threads 1
    python benchmarks/train_small.py colours --model colours

Compositions are those of a fixed seed that training never sees; the truth is the exact generator.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import compvae
from compvae import problems
from compvae.batch import Batch, PaddedParts
from compvae.composing.generation import generate
from compvae.inference import infer
from compvae.measures import edit_ratio, rel_ed
from compvae.network import CompVAE, structured
from compvae.noise import Noise
from compvae.problems import Problem

SIZES = {"sines": (1, 2, 4, 8, 16, 30, 100, 1000), "colours": (2, 3, 4, 8, 12, 16)}
EDIT_SIZES = {"sines": (2, 4, 8), "colours": (3, 4, 8)}


def repeated(parts: PaddedParts, n: int) -> PaddedParts:
    return PaddedParts(
        parts.kind.expand(n, -1), parts.features.expand(n, -1, -1), parts.mask.expand(n, -1), parts.n_kinds
    )


def generation(model: CompVAE, problem: Problem, size: int, n: int, sets: int) -> tuple[float, float]:
    values = []
    for index in range(sets):
        noise = Noise(90_000 + size, torch.tensor([index]))
        parts = problem.draw_parts(torch.tensor([size]), noise)
        if problem.name == "colours":
            parts.kind[0, :2] = torch.tensor([0, 1])  # one colour alone gives a constant image
        many = repeated(parts, n)
        source = Noise(91_000 + size, n, index)
        truth = torch.cat(
            [
                problem.combine(many.rows(r), problem.draw_specifics(many.rows(r), source.at(r)))
                for r in torch.arange(n).split(200)
            ]
        )
        drawn = [generate(model, many.rows(r), source.fold(1).at(r)).x for r in torch.arange(n).split(200)]
        x = torch.cat(
            [d.rsample(source.fold(2).at(r), "x") for d, r in zip(drawn, torch.arange(n).split(200), strict=True)]
        )
        values.append(rel_ed(truth.numpy(), x.numpy()).value)
    return float(np.mean(values)), float(np.std(values) / math.sqrt(sets))


def removal(model: CompVAE, problem: Problem, size: int, n: int = 1000) -> float:
    noise = Noise(92_000 + size, n)
    parts = problem.draw_parts(torch.full((n,), size), noise)
    if problem.schema.countable:
        order = noise.uniform("unique", problem.schema.n_kinds).argsort(1)[:, :size]
        parts = PaddedParts(order, parts.features, parts.mask, parts.n_kinds)
    hidden = problem.draw_specifics(parts, noise)
    rest = PaddedParts(parts.kind[:, 1:], parts.features[:, 1:], parts.mask[:, 1:], parts.n_kinds)
    x, exact = problem.combine(parts, hidden), problem.combine(rest, hidden[:, 1:])
    base = problem.combine(rest, problem.draw_specifics(rest, noise.fold(1)))
    with torch.no_grad():
        q = infer(model, Batch(x, parts), noise.fold(2)).q
        if model.posterior.of_sum:
            gone = torch.zeros(n, problem.schema.n_kinds).scatter_(1, parts.kind[:, :1], 1.0).bool()
            edited = model.decoder(q.mean.masked_fill(gone[..., None], 0.0), rest, None, None)
        else:
            edited = model.decoder(q.mean[:, 1:], rest, None, None)
    return edit_ratio(edited.mean.numpy(), exact.numpy(), base.numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=sorted(SIZES))
    parser.add_argument("--model", help="measure this one: a shipped name or a directory; nothing is trained")
    parser.add_argument("--steps", type=int, help="the preset's own number if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--out", help="directory of the run, a temporary one if left out")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    problem = problems.get(args.problem)
    start = time.perf_counter()
    if args.model:
        model = structured(compvae.load(args.model).network)
    else:
        out = Path(args.out or tempfile.mkdtemp()) / f"{args.problem}-{args.seed}"
        run = compvae.fit(args.problem, out=out, steps=args.steps, seed=args.seed, threads=args.threads, show=True)
        model = structured(run.model.network)
    print(json.dumps({"command": vars(args), "train_seconds": round(time.perf_counter() - start)}), flush=True)
    for size in SIZES[problem.name]:
        value, error = generation(model, problem, size, args.n, 8)
        print(f"K {size} relED {value:.4f} +- {error:.4f}", flush=True)
    for size in EDIT_SIZES[problem.name]:
        print(f"K {size} edit ratio {removal(model, problem, size):.3f}", flush=True)


if __name__ == "__main__":
    main()
