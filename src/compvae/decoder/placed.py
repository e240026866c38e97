"""Parts that have a place: x = link(v, ln v), v = sum_i softmax_i(c(w_i, l_i) . b(pixel - place_i)) value(l_i).

b(offset) = (offset, |offset|^2, learned tanh features); c is a network of the latent and the kind, not of the place:
a part acts by its offset alone, so the code of a part cannot drift with where it stands.  Values are positive and the
link sees their logarithm too: a power of v, as in an image's gamma, is steep near 0 in v and a line in ln v.  The link
is the same for every pixel and channel, of that channel's own values, as for a sensor's response.

An order-invariant aggregation that can represent the colours' true process (theory, section 5).  It is not a function
of W = sum w_i: no collapse, no bridge, sampling in O(K).
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from compvae.aggregation import SoftmaxMix
from compvae.batch import PaddedParts, Parts
from compvae.config import ModelConfig, PlacedConfig
from compvae.context import context_size
from compvae.decoder.base import Decoder
from compvae.distributions import WIDEST, Members, Normal, variance_of
from compvae.distributions.dense import Linearised, jacobian
from compvae.nn.residual import Skipped, mlp
from compvae.scale import x_scale

__all__ = ["PlacedDecoder"]

DARKEST = 1e-6  # values below it are not told apart


class PlacedDecoder(Decoder):
    """A mixture of learned values at each pixel, seen through a pixelwise link."""

    aggregation: ClassVar[SoftmaxMix] = SoftmaxMix()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.decoder
        assert isinstance(own, PlacedConfig)
        self.config, self.own, self.pixels = config, own, own.pixels
        axes = config.parts.n_features
        self.grid, self.channels = config.shape[-axes:], math.prod(config.shape[:-axes])
        self.n_pixels = math.prod(self.grid)
        self.loading = nn.Parameter(torch.eye(config.latent.w).repeat(config.parts.n_kinds, 1, 1))
        self.embedding = nn.Embedding(config.parts.n_kinds, own.embedding)
        self.basis = nn.Linear(axes + 1, own.basis)
        self.coefficients = mlp(config.latent.w + own.embedding, own.hidden, own.hidden, axes + 1 + own.basis)
        self.value = nn.Linear(own.embedding, self.channels * own.values)
        inputs = 2 * own.values + context_size(config.context)
        self.link = Skipped(mlp(inputs, own.link, own.link, 2), inputs, 2)

    def places(self, like: Tensor) -> Tensor:
        """Coordinates of every pixel in [-1, 1], first attribute along the last axis, (N, F)."""
        lines = [torch.linspace(-1, 1, size, dtype=like.dtype, device=like.device) for size in self.grid]
        return torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).flatten(0, -2).flip(-1)

    def logits(self, code: Tensor, parts: Parts, places: Tensor) -> Tensor:
        """c(w_i, l_i) . b(place - place_i).  code: (B, K, d).  places: (P, F).  -> (B, K, P)."""
        padded = parts.padded()
        return torch.einsum("bkpf,bkf->bkp", self._basis(padded, places, code), self._coefficients(code, padded.kind))

    def _basis(self, padded: PaddedParts, places: Tensor, like: Tensor) -> Tensor:
        """b(place - place_i), (B, K, P, basis), or (1, K, P, basis) for rows of one composition.  places: (P, F)."""
        alike = padded.features.stride(0) == 0  # one composition, expanded by batch.repeat
        stands = padded.features[:1] if alike else padded.features
        offset = places - stands.to(like.dtype)[:, :, None]
        offset = torch.cat([offset, (offset**2).sum(-1, keepdim=True)], -1)
        return torch.cat([offset, torch.tanh(self.basis(offset))], -1)

    def _coefficients(self, code: Tensor, kind: Tensor) -> Tensor:
        """c(w_i, l_i), (*, basis).  code: (*, d).  kind: (*,)."""
        turned = torch.einsum("...d,...de->...e", code, self.loading[kind])
        out: Tensor = self.coefficients(torch.cat([turned, self.embedding(kind)], -1))
        return out

    def _slopes(self, code: Tensor, padded: PaddedParts, places: Tensor) -> Tensor:
        """d logit_ip / d w_i, (B, K, P, d).  code: (B, K, d)."""
        kind = padded.kind.flatten()
        _, slope = jacobian(lambda w: self._coefficients(w, kind), code.flatten(0, 1))
        slope = slope.unflatten(0, code.shape[:2])  # (B, K, basis, d)
        return torch.einsum("bkpf,bkfd->bkpd", self._basis(padded, places, code), slope)

    def forward(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Normal:
        """code: {w_i}, (B, K, d) -> normal over (B, *shape), or over (B, channels, P) where pixels are given."""
        padded, places = parts.padded(), self.places(code)
        logits = self.logits(code, padded, places if pixels is None else places[pixels])
        mean, variance = self._observe(logits, padded, context)
        if pixels is None:
            mean, variance = (value.reshape(len(code), *self.config.shape) for value in (mean, variance))
        scale = x_scale(self.config, parts, mean)
        return Normal(scale * mean, scale**2 * variance)

    def shares(self, code: Tensor, parts: Parts) -> Tensor:
        """softmax_i of the logits at each pixel, alike for all channels, (B, K, 1, .., *grid).  code: (B, K, d)."""
        padded = parts.padded()
        weight = self.aggregation.weights(self.logits(code, padded, self.places(code)), Members(padded.mask))
        above = [1] * (len(self.config.shape) - len(self.grid))
        return weight.reshape(*weight.shape[:2], *above, *self.grid)

    def linearise(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Linearised:
        """dx/dw_i = dx/dlogit_i . dlogit_i/dw_i at each pixel: one backward pass a channel, one forward an axis."""
        padded, places = parts.padded(), self.places(code)
        places = places if pixels is None else places[pixels]
        code = code.detach()
        with torch.enable_grad():
            logits = self.logits(code, padded, places).detach().requires_grad_()
            mean, variance = self._observe(logits, padded, context)
            by_logit = [
                torch.autograd.grad(mean[:, c].sum(), logits, retain_graph=c + 1 < self.channels)[0]
                for c in range(self.channels)
            ]
        by_code = self._slopes(code, padded, places)
        slope = torch.einsum("cbkp,bkpd->bcpkd", torch.stack(by_logit), by_code)
        scale = x_scale(self.config, parts, mean)
        mean, variance = (scale * mean).detach(), (scale**2 * variance).detach()
        slope = (scale[..., None, None] * slope).flatten(1, 2).flatten(2)
        return Linearised(mean.flatten(1), variance.flatten(1), slope)

    def _observe(self, logits: Tensor, padded: PaddedParts, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance before scaling, (B, channels, P) each.  logits: (B, K, P)."""
        value = self.value(self.embedding(padded.kind)) ** 2
        mixed = self.aggregation(value, Members(padded.mask), logits).unflatten(2, (self.channels, self.own.values))
        seen = [mixed, (mixed + DARKEST).log() / 4]
        if context is not None:
            seen.append(context.to(mixed.dtype)[:, None, None].expand(-1, *mixed.shape[1:3], -1))
        mean, log_variance = self.link(torch.cat(seen, -1)).transpose(1, 2).unbind(-1)
        return mean, variance_of(log_variance, self.own.floor, WIDEST)
