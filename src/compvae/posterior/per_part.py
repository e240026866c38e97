"""prod_i q(w_i | x, {l_i}): iterative amortised inference (theory, section 5, colours; Marino et al. 2018).

Read x around each part, let the parts exchange messages, then correct the guess in rounds, each fed the gradient of
log p(x | {w_i}) at the current guess.  In units of the prior's deviation, q_i = N(d_i, 1 / (1 + exp(-b_i))).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compvae.batch import Batch, PaddedParts
from compvae.config import ModelConfig, PerPartConfig
from compvae.distributions import Normal, variance_of
from compvae.nn.residual import Residual, mlp
from compvae.posterior.base import Given, Posterior, Reader
from compvae.scale import x_scale

__all__ = ["PerPartPosterior"]

EVAL_STRIDE = 3  # outside training, corrections look at every third pixel


class PerPartPosterior(Posterior):
    """Independent parts, each corrected by the gradient of the likelihood."""

    of_sum = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.posterior
        assert isinstance(own, PerPartConfig)
        self.config, self.own = config, own
        latent, width = config.latent, own.width
        crop = own.reader == "crop"
        self.reader = None if crop else Reader(config, with_parts=True)
        reading = 0 if self.reader is None else self.reader.width
        self.z_network = None
        self.embedding = nn.Embedding(config.parts.n_kinds, own.embedding)
        about = own.embedding + config.parts.n_features
        self.stem = nn.Linear((config.shape[0] * own.crop**2 if crop else reading) + about, width)
        self.settle = Residual(width)
        self.message = mlp(width + config.parts.n_features + 2, width, width)
        self.join, self.joined = nn.Linear(2 * width, width), Residual(width)
        self.look, self.think = nn.Linear(width + 4 * latent.w, width), Residual(width)
        self.correct = nn.Linear(width, 2 * latent.w)

    def w(self, given: Given) -> Normal:
        """Normal over the parts, (B, K, d)."""
        parts = given.batch.parts.padded()
        h = self._exchange(self._read_each(given, parts), parts)
        deviation = given.prior.variance.sqrt()
        shift = log_message = torch.zeros_like(deviation)
        for round_ in range(self.own.rounds):
            slope = self._slope(given, (given.prior.mean + deviation * shift).detach(), round_) * deviation
            seen = torch.cat([h, shift, log_message, slope.sign() * slope.abs().log1p(), (slope / 30).clamp(-3, 3)], -1)
            step, log_message = self.correct(F.elu(self.think(F.elu(self.look(seen))))).chunk(2, -1)
            shift = shift + step
        variance = deviation**2 / (1 + variance_of(-log_message))
        return Normal(given.prior.mean + deviation * shift, variance, given.prior.mask)

    def _read_each(self, given: Given, parts: PaddedParts) -> Tensor:
        """What is seen of x for each part, (B, K, width)."""
        about = [self.embedding(parts.kind), parts.features.to(given.batch.x.dtype)]
        if self.own.reader == "crop":
            seen = self._crops(given.batch, parts)
        else:
            seen = given.evidence[:, None].expand(-1, parts.kind.shape[1], -1)
        return F.elu(self.settle(F.elu(self.stem(torch.cat([seen, *about], -1)))))

    def _crops(self, batch: Batch, parts: PaddedParts) -> Tensor:
        """x around the place of each part, (B, K, channels * crop^2)."""
        x, side = batch.x / self.config.unit, self.own.crop
        line = torch.linspace(-self.own.reach, self.own.reach, side, dtype=x.dtype, device=x.device)
        window = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
        places = parts.features.to(x.dtype)[:, :, None, None] + window
        grid = places.flatten(1, 2)  # (B, K * crop, crop, 2)
        seen = F.grid_sample(x, grid, align_corners=True, padding_mode="border")
        return seen.view(len(x), x.shape[1], -1, side, side).transpose(1, 2).flatten(2)

    def _exchange(self, h: Tensor, parts: PaddedParts) -> Tensor:
        """Messages between the parts, weaker with distance where parts have a place.  h: (B, K, width)."""
        place = parts.features.to(h.dtype)
        offset = place[:, None] - place[:, :, None]
        square = (offset**2).sum(-1, keepdim=True)
        pairs = torch.cat([h[:, None].expand(-1, h.shape[1], -1, -1), offset, square, square.sqrt()], -1)
        others = parts.mask[:, None] & ~torch.eye(h.shape[1], dtype=torch.bool, device=h.device)
        weight = others[..., None] * torch.exp(-2 * square)
        received = (self.message(pairs) * weight).sum(2)
        return F.elu(self.joined(F.elu(self.join(torch.cat([h, received], -1)))))

    def _slope(self, given: Given, w: Tensor, round_: int) -> Tensor:
        """d log p(x | {w_i}) / d w at w, with noise ``sigma`` in place of the decoder's own.  w: (B, K, d)."""
        x, pixels = given.batch.x, self._pixels(given, round_)
        scale = x_scale(self.config, given.batch.parts, x)
        with torch.enable_grad():
            w = w.requires_grad_()
            mean = given.likelihood(w, pixels).mean
            weight = 1.0
            if pixels is not None:
                x = x.reshape(len(x), -1, given.n_pixels)[:, :, pixels]
                scale, weight = scale.view(-1, 1, 1), given.n_pixels / len(pixels)
            fit = -(((x - mean) / scale) ** 2).sum() * weight / (2 * self.own.sigma**2)
            return torch.autograd.grad(fit, w)[0]

    def _pixels(self, given: Given, round_: int) -> Tensor | None:
        """Which pixels this correction looks at, (P,); None for all."""
        if not self.own.pixels:
            return None
        if self.training:
            return given.noise.permutation(f"pixels/{round_}", given.n_pixels)[: self.own.pixels]
        return torch.arange(0, given.n_pixels, EVAL_STRIDE, device=given.batch.x.device)
