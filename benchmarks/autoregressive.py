"""Does an autoregressive p(x | w) = prod_p p(x_p | x_before, w) earn its place on images?  (Paper, first perspective.)

    python benchmarks/autoregressive.py src/compvae/models/colours --steps 1500

A small PixelCNN on top of a trained pixelwise decoder: a masked 5 x 5 window of the residuals x - mean(w) seen so far,
beside mean and log-variance, gives a correction of both; trained with latents drawn from q.  Compared on wholes of
seeds that training never sees: the x term of the bound, relED of samples, seconds for as many samples, all against the
pixelwise decoder.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch import Tensor, nn

import compvae
from compvae import problems
from compvae.batch import PaddedParts
from compvae.composing.generation import generate
from compvae.distributions import Normal
from compvae.inference import infer
from compvae.measures import rel_ed
from compvae.network import CompVAE, structured
from compvae.noise import Noise
from train_small import repeated

REACH = 2  # pixels to each side


class PixelHead(nn.Module):
    """(residuals before p, mean_p, log-variance_p) -> corrected mean and log-variance of p."""

    def __init__(self, channels: int = 3, width: int = 48) -> None:
        super().__init__()
        self.before = 2 * REACH * (REACH + 1)  # pixels of the window that come before its centre
        last = nn.Linear(width, 2 * channels)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        first, second = nn.Linear(channels * (self.before + 2), width), nn.Linear(width, width)
        self.net = nn.Sequential(first, nn.ELU(), second, nn.ELU(), last)

    def forward(self, window: Tensor, mean: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        """window: residuals in units of the deviation, (N, channels, before).  mean, log_variance: (N, channels)."""
        # bounded: what was never seen in training must not feed on itself when pixels are drawn one after another
        seen = torch.cat([window.flatten(1).clamp(-6, 6), mean, log_variance / 10], 1)
        shift, stretch = self.net(seen).chunk(2, 1)
        return mean + 6 * torch.tanh(shift / 6) * (0.5 * log_variance).exp(), log_variance + 4 * torch.tanh(stretch / 4)


def windows(residual: Tensor) -> Tensor:
    """What stands before each pixel in raster order, (B, H, W, channels, before).  residual: (B, channels, H, W)."""
    padded = nn.functional.pad(residual, (REACH, REACH, REACH, 0))
    height, width = residual.shape[2:]
    side = 2 * REACH + 1
    cells = [(r, c) for r in range(REACH + 1) for c in range(side) if r < REACH or c < REACH]
    return torch.stack([padded[:, :, r : r + height, c : c + width] for r, c in cells], -1).permute(0, 2, 3, 1, 4)


def log_prob(head: PixelHead, x: Tensor, whole: Normal) -> Tensor:
    """ln p(x | w), (B,).  x: (B, channels, H, W)."""
    deviation = whole.variance.sqrt()
    window = windows((x - whole.mean) / deviation)
    flat = [v.permute(0, 2, 3, 1).flatten(0, 2) for v in (whole.mean, whole.variance.log(), x)]
    mean, log_variance = head(window.flatten(0, 2), flat[0], flat[1])
    return Normal(mean, log_variance.exp()).log_density(flat[2]).view(len(x), -1).sum(1)


@torch.no_grad()
def draw(head: PixelHead, whole: Normal, noise: Noise) -> Tensor:
    """Pixel after pixel, (B, channels, H, W)."""
    unit = noise.normal("x", *whole.mean.shape[1:])
    deviation, x = whole.variance.sqrt(), whole.mean.clone()
    residual = torch.zeros_like(x)
    height, width = x.shape[2:]
    padded = nn.functional.pad(residual, (REACH, REACH, REACH, 0))
    for row in range(height):
        for column in range(width):
            patch = padded[:, :, row : row + REACH + 1, column : column + 2 * REACH + 1].flatten(2)
            window = patch[:, :, : head.before]
            at = (..., row, column)
            mean, log_variance = head(window, whole.mean[at], whole.variance[at].log())
            x[at] = mean + (0.5 * log_variance).exp() * unit[at]
            padded[:, :, row + REACH, column + REACH] = (x[at] - whole.mean[at]) / deviation[at]
    return x


def decoded(model: CompVAE, rows: Tensor, step: int, seed: int) -> tuple[Tensor, Normal]:
    """Wholes and p(x | w) at a draw of q."""
    noise = Noise(seed, rows, step)
    batch = problems.get("colours").draw(8, noise)
    latent = infer(model, batch, noise)
    return batch.x, model.decoder(latent.code, batch.parts, None, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--wholes", type=int, default=500)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, problem = structured(compvae.load(args.model).network), problems.get("colours")
    model.train()  # q looks at some of the pixels, as in training
    head = PixelHead()
    optimiser = torch.optim.Adam(head.parameters(), 2e-3)
    started = time.perf_counter()
    for step in range(args.steps):
        with torch.no_grad():
            x, whole = decoded(model, torch.arange(args.batch), step, 400_000)
        loss = -log_prob(head, x, whole).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 100 == 0:
            print(step, round(loss.item(), 1), flush=True)
    minutes = (time.perf_counter() - started) / 60
    model.eval()
    with torch.no_grad():
        x, whole = decoded(model, torch.arange(64), 0, 410_000)
        bound = {"pixelwise": float(whole.log_prob(x).mean()), "autoregressive": float(log_prob(head, x, whole).mean())}
    print(json.dumps({"x term": bound, "training minutes": round(minutes, 2)}), flush=True)
    for size in (2, 4, 8):
        values: dict[str, list[float]] = {"pixelwise": [], "autoregressive": []}
        seconds = {"pixelwise": 0.0, "autoregressive": 0.0}
        for number in range(4):
            parts = problem.draw_parts(torch.tensor([size]), Noise(420_000 + size, torch.tensor([number])))
            parts.kind[0, :2] = torch.tensor([0, 1])
            true, drawn = compare(model, head, parts, args.wholes, number, seconds)
            for name, y in drawn.items():
                values[name].append(rel_ed(true.numpy(), y.numpy()).value)
        line = {name: round(sum(v) / len(v), 4) for name, v in values.items()}
        print(
            json.dumps({"K": size, "relED": line, "seconds": {k: round(v, 2) for k, v in seconds.items()}}), flush=True
        )


def compare(
    model: CompVAE, head: PixelHead, parts: PaddedParts, wholes: int, number: int, seconds: dict[str, float]
) -> tuple[Tensor, dict[str, Tensor]]:
    """True wholes, and wholes of both decoders at the same latents."""
    problem = problems.get("colours")
    noise = Noise(421_000, wholes, number)
    many = repeated(parts, wholes)
    true = problem.combine(many, problem.draw_specifics(many, noise))
    drawn: dict[str, list[Tensor]] = {"pixelwise": [], "autoregressive": []}
    for rows in torch.arange(wholes).split(100):
        source = noise.fold(1).at(rows)
        started = time.perf_counter()
        whole = generate(model, many.rows(rows), source).x
        drawn["pixelwise"].append(whole.rsample(source, "x"))
        seconds["pixelwise"] += time.perf_counter() - started
        drawn["autoregressive"].append(draw(head, whole, source))
        seconds["autoregressive"] += time.perf_counter() - started
    return true, {name: torch.cat(x) for name, x in drawn.items()}


if __name__ == "__main__":
    main()
