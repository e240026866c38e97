"""What the exact feeder of households is like: energy, losses, variance against K, what a day can be read from, speed.

python benchmarks/households_truth.py
"""

from __future__ import annotations

import time

import numpy as np
import torch

from compvae import problems
from compvae.measures import rel_ed
from compvae.noise import Noise
from compvae.problems.base import Problem

EVERYDAY = 0.02  # kW a home: the ridge of the linear readers


def energies(problem: Problem) -> None:
    print("kWh a day and home: mean over days, at -5 C, at 15 C; kW: mean daily peak of one home and of 100, a home")
    for name in problem.schema.categories:
        days = problem.truth({name: 100}, 1000)
        at = [problem.truth({name: 100}, 300, context={"temperature": t}).sum(1).mean() / 200 for t in (-5, 15)]
        alone = problem.truth({name: 1}, 2000).max(1).mean()
        print(
            f"  {name:13s} {days.sum(1).mean() / 200:6.2f} {at[0]:6.2f} {at[1]:6.2f}"
            f"  {alone:5.2f} {days.max(1).mean() / 100:5.2f}"
        )


def losses(problem: Problem) -> None:
    """x = L + b L^2 / K solved for L."""
    x = problem.truth(dict.fromkeys(problem.schema.categories, 13), 1000).astype(np.float64) / 104
    load = (np.sqrt(1 + 4 * 0.02 * x) - 1) / (2 * 0.02)
    share, top = (x - load).sum() / load.sum(), ((x - load) / load)[np.arange(len(x)), x.argmax(1)].mean()
    print(f"losses: {share:.2%} of the energy, {top:.2%} of the load at the daily peak, 13 homes of each profile")


def variances(problem: Problem) -> None:
    print("Var(x/K), mean over half-hours, n homes of each profile: truth, independent homes, their ratio")
    single = sum(problem.truth({name: 1}, 20_000, seed=1).var(0) for name in problem.schema.categories)
    for each, n in ((1, 20_000), (3, 10_000), (13, 4000), (125, 1000)):
        size = each * len(problem.schema.categories)
        found = (problem.truth(dict.fromkeys(problem.schema.categories, each), n) / size).var(0).mean()
        alone = np.mean(single) * each / size**2
        print(f"  K = {size:4d}  {found:.5f}  {alone:.5f}  {found / alone:5.2f}   (n = {n})")


def readings(problem: Problem, n: int = 6000) -> None:
    print("temperature and match, read from one whole at K = 100 by ridge regression on (x, x^2): R^2 and AUC")
    mixtures: dict[str, dict[str, int]] = {
        "76 flats, 24 heat pumps": {"flat": 76, "heat_pump": 24},
        "12 or 13 of each": {name: 12 + (i > 3) for i, name in enumerate(problem.schema.categories)},
    }
    for title, parts in mixtures.items():
        x, days = problem.truth(parts, n).astype(np.float64) / 100, problem.factors(n)
        features = np.concatenate([np.ones((n, 1)), x, x**2], 1)
        fit, rest = features[: n // 2], features[n // 2 :]
        gram = fit.T @ fit + EVERYDAY**2 * np.eye(fit.shape[1])
        guess = {k: rest @ np.linalg.solve(gram, fit.T @ days[k][: n // 2]) for k in ("temperature", "match")}
        warm = days["temperature"][n // 2 :]
        r2 = 1 - ((guess["temperature"] - warm) ** 2).mean() / warm.var()
        match = days["match"][n // 2 :] > 0
        auc = (guess["match"][match][:, None] > guess["match"][~match]).mean()
        print(f"  {title}: R^2 {r2:.3f}, AUC {auc:.4f}")


def gaussians(problem: Problem) -> None:
    print("relED of a Gaussian with the truth's mean and covariance: median and largest of 8 compositions")
    source = np.random.default_rng(0)
    for size in (1, 5, 20, 50):
        found = []
        for seed in range(8):
            counts = problem.draw_parts(torch.tensor([size]), Noise(seed, 1)).counts[0].long().tolist()
            parts = dict(zip(problem.schema.categories, counts, strict=True))
            many = problem.truth(parts, 5000, seed=1).astype(np.float64)
            fake = source.multivariate_normal(many.mean(0), np.cov(many.T), 1000).astype(np.float32)
            found.append(rel_ed(problem.truth(parts, 1000, seed=2), fake).value)
        print(f"  K = {size:2d}  {np.median(found):.4f}  {max(found):.4f}")


def speed(problem: Problem) -> None:
    for size, n in ((10, 1000), (1000, 100), (1_000_000, 1)):
        start = time.process_time()
        problem.truth({"flat": size // 2, "heat_pump": size // 2}, n)
        print(f"{n} samples of {size} homes: {time.process_time() - start:.2f} s of one core")


def main() -> None:
    torch.set_num_threads(1)
    problem = problems.get("households")
    for show in (energies, losses, variances, readings, gaussians, speed):
        show(problem)


if __name__ == "__main__":
    main()
