"""A training step of the paper's 1D model as a textbook would write it, beside the `paper` preset: same loss, how much
faster, how much memory.

    python benchmarks/textbook_paper.py --batch 64 --rounds 8

Every round takes the next of eight batches as training draws them, K uniform in 1..16: a single batch may have many
more parts, or fewer, than another.

Written from the tables of appendix A.1 as mended by our errata (docs/paper.md): parts padded to the largest K of the
batch, x and z repeated for each part, Adam parameter by parameter.  It can take over the weights of our model.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from itertools import cycle, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compvae import presets, problems
from compvae.batch import Batch
from compvae.bench.memory import peak
from compvae.bench.rows import Row, Scope, about, document, rows_of, table
from compvae.bench.training import mixed
from compvae.config import GraphConfig, ModelConfig, PaperDecoderConfig
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.objective import elbo
from compvae.prior import TablePrior
from compvae.train.needs import operations
from compvae.train.schedule import RECIPES
from compvae.train.step import optimiser_for, train_step

BATCHES = 8


class Residual(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(n, n), nn.Linear(n, n)

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = h + self.b(F.elu(self.a(h)))
        return out


class GraphBlock(nn.Module):
    """Table 3: h'_i = f(h_i, sum_{j != i} g(h_j)) on padded parts."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.g1, self.g2, self.f1 = Residual(n), Residual(n), Residual(n)
        self.join, self.f2 = nn.Linear(2 * n, m), Residual(m)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        """h: (B, K, N), mask: (B, K, 1) -> (B, K, M)."""
        g = self.g2(F.elu(self.g1(h))) * mask
        others = self.f1(torch.tanh(g.sum(1, keepdim=True) - g))
        out: Tensor = self.f2(F.elu(self.join(torch.cat([others, h], -1))))
        return out


def floored(log_variance: Tensor, sigma: float) -> Tensor:
    low = 2 * math.log(sigma)
    return F.elu(log_variance - low - 1) + low + 1


def log_normal(value: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    terms = (value - mean) ** 2 / log_variance.exp() + log_variance + math.log(2 * math.pi)
    return -0.5 * terms.flatten(1).sum(1)


class Textbook(nn.Module):
    """Tables 1 to 5 of appendix A.1, in the sizes of a configuration."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        q, p, w, z = config.posterior, config.decoder, config.latent.w, config.latent.z
        assert isinstance(q, GraphConfig)
        assert isinstance(p, PaperDecoderConfig)
        c, kinds = q.channels, config.parts.n_kinds
        a, b = c // 4, c // 2
        self.noise, self.floors = q.embedding_noise, (config.prior.floor, p.floor)
        self.prior_mean, self.prior_log_variance = nn.Embedding(kinds, w), nn.Embedding(kinds, w)
        pz = config.prior.z_network.width
        self.pz = nn.Sequential(nn.Linear(w, pz), nn.ELU(), nn.Linear(pz, 2 * z))
        self.px = nn.Sequential(nn.Linear(w + z, 5 * c), nn.ELU())
        for _ in range(p.blocks):
            self.px.extend([Residual(5 * c), nn.ELU()])
        self.up = nn.Sequential(
            nn.Unflatten(1, (c, 5)),
            nn.ConvTranspose1d(c, b, 4, 2), nn.ELU(), nn.Conv1d(b, b, 7, 1, 3), nn.ELU(),
            nn.ConvTranspose1d(b, a, 8, 4), nn.ELU(), nn.Conv1d(a, a, 7, 1, 3), nn.ELU(),
            nn.ConvTranspose1d(a, c // 8, 15, 5), nn.ELU(), nn.Conv1d(c // 8, 2, 7, 1, 3),
        )  # fmt: skip
        self.pr = nn.Sequential(
            nn.Conv1d(1, a, 10, 5), nn.ELU(), nn.Conv1d(a, a, 7, 1, 3), nn.ELU(), nn.Conv1d(a, b, 6, 3), nn.ELU(),
            nn.Conv1d(b, b, 7, 1, 3), nn.ELU(), nn.Conv1d(b, c, 4, 2), nn.ELU(), nn.Flatten(),
            Residual(5 * c), nn.ELU(),
        )  # fmt: skip
        wide = q.z_network.width
        self.qz = nn.Sequential(nn.Linear(5 * c, wide), nn.ELU())
        for _ in range(q.z_network.blocks):
            self.qz.extend([Residual(wide), nn.ELU()])
        self.qz.append(nn.Linear(wide, 2 * z))
        self.embedding = nn.Embedding(kinds, q.embedding)
        widths = [5 * c + z + q.embedding] + [q.width] * q.blocks
        self.graph = nn.ModuleList(GraphBlock(n, m) for n, m in pairwise(widths))
        self.head = nn.Linear(q.width, 3 * w)

    def forward(self, x: Tensor, kind: Tensor, mask: Tensor, eps: dict[str, Tensor]) -> Tensor:
        """The negative bound of each whole, (B,).  kind: (B, K), mask: (B, K, 1), eps: white noise by name."""
        seen = self.pr(x[:, None])
        z_mean, z_log_variance = self.qz(seen).chunk(2, -1)
        z = z_mean + (0.5 * z_log_variance).exp() * eps["z"]
        beside = torch.cat([seen, z], -1)[:, None].repeat(1, kind.shape[1], 1)
        h = torch.cat([beside, self.embedding(kind) + self.noise * eps["embedding"]], -1)
        for block in self.graph:
            h = F.elu(block(h, mask))
        mean, log_variance, logits = self.head(h).chunk(3, -1)
        deviation, weight = (0.5 * log_variance).exp(), logits.exp() * mask
        rho = weight / (1 + weight.sum(1, keepdim=True))
        white = eps["w"] * mask
        w = (mean + deviation * (white - rho * white.sum(1, keepdim=True))) * mask
        total = w.sum(1)

        # KL of the parts in closed form, of z at its draw (Alg. 1)
        prior_mean = self.prior_mean(kind)
        prior_log_variance = floored(self.prior_log_variance(kind), self.floors[0])
        size = mask.sum(1, keepdim=True)
        variance = log_variance.exp() * (1 - 2 * rho + size * rho**2)
        terms = (variance + (mean - prior_mean) ** 2) / prior_log_variance.exp() - 1 + prior_log_variance - log_variance
        kl_w = 0.5 * (terms * mask).flatten(1).sum(1) - (1 - rho.sum(1)).log().sum(1)
        p_mean, p_log_variance = self.pz(total).chunk(2, -1)
        kl_z = log_normal(z, z_mean, z_log_variance) - log_normal(z, p_mean, floored(p_log_variance, self.floors[0]))

        out = self.up(self.px(torch.cat([total, z], -1)))[:, :, 35:235]
        loss: Tensor = kl_w + kl_z - log_normal(x, out[:, 0], floored(out[:, 1], self.floors[1]))
        return loss

    @torch.no_grad()
    def take_over(self, model: CompVAE) -> Textbook:
        """The weights of our model: both list their layers in the order of the tables."""
        assert isinstance(model.prior, TablePrior)
        self.prior_mean.weight.copy_(model.prior.mean)
        self.prior_log_variance.weight.copy_(model.prior.log_variance)
        decoder, posterior = model.decoder, model.posterior
        pairs: list[tuple[nn.Module, Any]] = [
            (self.pz, model.z_prior), (self.px, decoder.stem), (self.up, decoder.trunk),
            (self.pr, posterior.reader), (self.qz, posterior.z_network), (self.embedding, posterior.embedding),
            (self.graph, posterior.blocks), (self.head, posterior.head),
        ]  # fmt: skip
        for own, other in pairs:
            for a, b in zip(own.parameters(), other.parameters(), strict=True):
                a.copy_(b)
        return self


def padded(batch: Batch, noise: Noise, config: ModelConfig) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
    """x, kind, mask and the noise that our model would draw."""
    parts = batch.parts.padded()
    q, size = config.posterior, parts.kind.shape[1]
    assert isinstance(q, GraphConfig)
    eps = {
        "z": noise.normal("z", config.latent.z),
        "w": noise.normal("w", size, config.latent.w),
        "embedding": noise.normal("embedding", size, q.embedding),
    }
    return batch.x, parts.kind, parts.mask[..., None].float(), eps


def drawn(rows: int, seed: int) -> Iterator[tuple[Batch, Noise]]:
    """Batches as in training, with their noise, one after another and over again."""
    problem = problems.get("sines")
    return cycle([(mixed(problem, rows, seed + i), Noise(seed, rows, 1 + i)) for i in range(BATCHES)])


def ours(rows: int, seed: int) -> Callable[[], object]:
    config, recipe = _preset(rows)
    model, batches = CompVAE.seeded(config, seed), drawn(rows, seed)
    optimiser = optimiser_for(model, recipe)
    return lambda: train_step(model, optimiser, recipe, *next(batches), 0)


def theirs(rows: int, seed: int) -> Callable[[], object]:
    config, recipe = _preset(rows)
    model = Textbook(config)
    optimiser = torch.optim.Adam(model.parameters(), recipe.rate, recipe.betas, foreach=False, fused=False)
    batches = drawn(rows, seed)

    def step() -> None:
        loss = model(*padded(*next(batches), config)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def losses(config: ModelConfig, rows: int, seed: int) -> tuple[float, float]:
    """The mean negative bound, ours and the textbook's, for the same weights, wholes and noise."""
    model, (batch, noise) = CompVAE.seeded(config, seed), next(drawn(rows, seed))
    with torch.no_grad():
        own = -float(elbo(model, batch, noise).total.mean())
        return own, float(Textbook(config).take_over(model)(*padded(batch, noise, config)).mean())


def _preset(rows: int) -> Any:
    recipe = RECIPES["sines", "paper"].model_copy(update={"batch": rows})
    return presets.preset(problems.get("sines"), "paper"), recipe


def _steps(which: str, rows: int) -> None:
    """What a fresh process does to show its peak memory."""
    step = {"ours": ours, "textbook": theirs}[which](rows, 0)
    for _ in range(2):
        step()


def _operations(step: Callable[[], object]) -> float:
    """Of a step, mean over the batches."""
    return operations(lambda: [step() for _ in range(BATCHES)]) / BATCHES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=BATCHES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args()
    torch.set_num_threads(1)
    memory = {which: peak(_steps, which, args.batch) for which in ("ours", "textbook")}
    own, other = losses(_preset(args.batch)[0], args.batch, args.seed)
    cases = {"ours": ours(args.batch, args.seed), "textbook": theirs(args.batch, args.seed)}
    counts = {name: {"operations": _operations(run), "peak MB": memory[name]} for name, run in cases.items()}
    rows: list[Row] = rows_of(f"paper, K 1..16, batch {args.batch}", cases, "ours", args.rounds, counts)
    facts = about(
        f"python benchmarks/textbook_paper.py --batch {args.batch} --rounds {args.rounds}", Scope(args.rounds)
    )
    if args.json:
        print(json.dumps(document(rows, {**facts, "loss": {"ours": own, "textbook": other}})))
        return
    print(table(rows))
    print(f"negative bound: ours {own:.6f}, textbook {other:.6f}, relative difference {abs(own / other - 1):.1e}")


if __name__ == "__main__":
    main()
