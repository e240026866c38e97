"""ln p(x | parts) beside the truth, on two problems of five values whose density is known.

python benchmarks/densities.py --minutes 3 --json benchmarks/results/densities.json

bent     y = sum of Gaussian parts + what they share; x = y but x_2 = y_2 + y_1^2 / (2 K): volume is preserved
switch   each part is one of two Gaussians of its kind, which one is hidden: a mixture over all choices

For 2,000 wholes of the truth: the mean of ln p(truth) - ln p(model), which is the Kullback-Leibler divergence, nats;
the same of the Gaussian with the data's moments; and how often ``rank`` names the right one of six compositions, by the
model, the Gaussian and the truth.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

import compvae
from compvae.batch import Batch, CountedParts, PaddedParts
from compvae.noise import Noise
from compvae.parts import Attribute, Categorical, Continuous, PartsSchema
from compvae.problems import Problem, get, register
from compvae.transport.network import Transport
from compvae.transport.observing import whitened_square
from compvae.verdict.yardsticks import moment_gaussian

VALUES, KINDS = 5, 3
WHOLES, RIVALS = 2_000, 6
CHUNK = 250

_random = np.random.default_rng(2026)
MEANS = torch.tensor(_random.normal(size=(KINDS, VALUES)) * 1.5, dtype=torch.float64)
OTHER = torch.tensor(_random.normal(size=(KINDS, VALUES)) * 1.5, dtype=torch.float64)
ROOTS = torch.tensor(_random.normal(size=(KINDS, VALUES, VALUES)) * 0.4 + np.eye(VALUES) * 0.5, dtype=torch.float64)
COMMON = torch.tensor(_random.normal(size=(KINDS, VALUES)) * 0.4, dtype=torch.float64)
ODDS = torch.tensor([0.3, 0.5, 0.7], dtype=torch.float64)


class _Five(Problem):
    """Five values, three kinds, up to four parts."""

    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 4
    schema = PartsSchema(attributes=(Categorical(name="kind", categories=("a", "b", "c")),))
    shape = (VALUES,)

    @abstractmethod
    def log_density(self, x: Tensor, counts: Tensor) -> Tensor:
        """ln p(x | counts), exact, (B,).  x: (B, 5) float64.  counts: (B, 3)."""


@register
class Bent(_Five):
    """A Gaussian sum, bent."""

    name: ClassVar[str] = "bent"
    summary: ClassVar[str] = "a Gaussian sum of five values, bent without changing volume"
    specific_names: ClassVar[tuple[str, ...]] = tuple(f"e{i}" for i in range(VALUES))
    shared: ClassVar[tuple[Attribute, ...]] = (Continuous(name="common", low=-10, high=10),)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """(B, K, 5)."""
        return noise.normal("e", parts.kind.shape[1], VALUES)

    def draw_factors(self, noise: Noise) -> Tensor:
        """(B, 1)."""
        return noise.normal("common", 1)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 5), factors: (B, 1) -> x (B, 5)."""
        assert factors is not None
        own = MEANS[parts.kind] + (ROOTS[parts.kind] @ specifics.double()[..., None])[..., 0]
        own = own + COMMON[parts.kind] * factors.double()[:, None]
        y = (own * parts.mask[..., None]).sum(1)
        y[:, 1] += y[:, 0] ** 2 / (2 * parts.mask.sum(1))
        return y.float()

    def log_density(self, x: Tensor, counts: Tensor) -> Tensor:
        """As in the base class."""
        y = x.clone()
        y[:, 1] -= x[:, 0] ** 2 / (2 * counts.sum(1))
        common = counts @ COMMON
        covariance = torch.einsum("bc,cij->bij", counts, ROOTS @ ROOTS.mT) + common[:, :, None] * common[:, None]
        found: Tensor = MultivariateNormal(counts @ MEANS, covariance).log_prob(y)
        return found


@register
class Switch(_Five):
    """Parts of two states."""

    name: ClassVar[str] = "switch"
    summary: ClassVar[str] = "sums of parts that are one of two Gaussians each"
    specific_names: ClassVar[tuple[str, ...]] = ("state", *(f"e{i}" for i in range(VALUES)))

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """(state, e), (B, K, 6)."""
        width = parts.kind.shape[1]
        state = (noise.uniform("state", width) < ODDS[parts.kind]).float()
        return torch.cat([state[..., None], noise.normal("e", width, VALUES)], -1)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 6) -> x (B, 5)."""
        state, e = specifics[..., :1].double(), specifics[..., 1:].double()
        own = torch.lerp(OTHER[parts.kind], MEANS[parts.kind], state) + (ROOTS[parts.kind] @ e[..., None])[..., 0]
        return (own * parts.mask[..., None]).sum(1).float()

    def log_density(self, x: Tensor, counts: Tensor) -> Tensor:
        """As in the base class: over the number of parts of each kind in their first state."""
        covariance = torch.einsum("bc,cij->bij", counts, ROOTS @ ROOTS.mT)
        found = []
        for on in itertools.product(range(self.max_parts + 1), repeat=KINDS):
            first = torch.tensor(on, dtype=torch.float64)
            weight = (
                torch.distributions.Binomial(counts.clamp(min=first), ODDS).log_prob(first.expand_as(counts)).sum(1)
            )
            mean = first @ MEANS + (counts - first) @ OTHER
            inside = (first <= counts).all(1)
            density = MultivariateNormal(mean, covariance).log_prob(x)
            found.append(torch.where(inside, weight + density, -torch.inf))
        return torch.stack(found).logsumexp(0)


@torch.no_grad()
def log_density(of: Transport | _Five, x: Tensor, counts: Tensor) -> Tensor:
    """ln p of a model or of the truth, (B,)."""
    if isinstance(of, Problem):
        return of.log_density(x.double(), counts)
    rows = [slice(start, start + CHUNK) for start in range(0, len(x), CHUNK)]
    return torch.cat([of.log_density(Batch(x[r], CountedParts(counts[r])), None) for r in rows])


def rivals(counts: Tensor, random: np.random.Generator) -> Tensor:
    """Six compositions of as many parts for each whole, the right one first, (B, 6, 3)."""
    every = {k: [c for c in itertools.product(range(k + 1), repeat=KINDS) if sum(c) == k] for k in range(1, 5)}
    found = []
    for row in counts.int().tolist():
        others = [c for c in every[sum(row)] if list(c) != row]
        chosen = random.permutation(len(others))[: RIVALS - 1]
        picked = [row, *(list(others[i]) for i in chosen)]
        found.append((picked + [row] * RIVALS)[:RIVALS])  # K = 1 has three: the rest repeats the right one
    return torch.tensor(found, dtype=torch.float64)


def named_right(of: Transport | _Five, x: Tensor, listed: Tensor) -> np.ndarray:
    """1 where the right composition has the largest density, (B,)."""
    each = torch.stack([log_density(of, x, listed[:, k]) for k in range(RIVALS)], 1)
    return (each.argmax(1) == 0).double().numpy()


def measured(name: str, minutes: float, seed: int) -> dict[str, Any]:
    """All numbers of one problem."""
    problem = get(name)
    assert isinstance(problem, _Five)
    with tempfile.TemporaryDirectory() as out:
        run = compvae.fit(name, preset="transport", out=Path(out) / "run", minutes=minutes, seed=seed, threads=1)
    network = run.model.network
    assert isinstance(network, Transport)
    gaussian = moment_gaussian(problem, problem.draw(problem.max_parts, Noise(4711, 8192)), seed)
    unseen = problem.draw(problem.max_parts, Noise(9_000 + seed, WHOLES))
    x, counts = unseen.x, unseen.parts.counts
    truth = log_density(problem, x, counts)
    row: dict[str, Any] = {"problem": name, "seed": seed, "minutes": minutes, "entropy": -float(truth.mean())}
    row["whitened"] = whitened_square(network, unseen)
    listed = rivals(counts, np.random.default_rng(seed))
    for label, of in (("truth", problem), ("model", network), ("gaussian", gaussian)):
        off = (truth - log_density(of, x, counts)).numpy()
        right = named_right(of, x, listed)
        row[label] = {
            "divergence": float(off.mean()), "se": float(off.std() / len(off) ** 0.5),
            "rms": float((off @ off / len(off)) ** 0.5),
            "named right": float(right.mean()), "named right se": float(right.std() / len(right) ** 0.5),
        }  # fmt: skip
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="bent,switch")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in args.problems.split(","):
        rows.append(measured(name, args.minutes, args.seed))
        print(json.dumps(rows[-1], indent=1), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"version": compvae.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
