"""Parts that have a place in the whole: pixel = link( sum_i softmax_i(c(w_i, l_i) . b(pixel - place_i)) value(l_i) ).

b(offset) = (offset, |offset|^2, learned tanh features); c is a network of the latent, the kind and the place.  An
order-invariant aggregation that can represent the colours' true process (theory, section 5).  It is not a function of
W = sum w_i: no collapse, no bridge, sampling in O(K).
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from compvae.aggregation import Aggregation, SoftmaxMix
from compvae.batch import Parts
from compvae.config import ModelConfig, PlacedConfig
from compvae.context import context_size
from compvae.decoder.base import Decoder
from compvae.distributions import Members, Normal, soft_floor
from compvae.nn.residual import mlp
from compvae.scale import size_scale

__all__ = ["PlacedDecoder"]


class PlacedDecoder(Decoder):
    """A mixture of learned values at each pixel, seen through a pixelwise link."""

    aggregation: ClassVar[Aggregation] = SoftmaxMix()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.decoder
        assert isinstance(own, PlacedConfig)
        self.config, self.own, self.pixels = config, own, own.pixels
        axes = config.parts.n_features
        self.grid, self.channels = config.shape[-axes:], math.prod(config.shape[:-axes])
        self.n_pixels = math.prod(self.grid)
        self.embedding = nn.Embedding(config.parts.n_kinds, own.embedding)
        self.basis = nn.Linear(axes + 1, own.basis)
        self.coefficients = mlp(config.latent.w + own.embedding + axes, own.hidden, own.hidden, axes + 1 + own.basis)
        self.value = nn.Linear(own.embedding, own.values)
        inputs = own.values + context_size(config.context)
        self.link = mlp(inputs, own.hidden, own.hidden, self.channels + 1)

    def places(self, like: Tensor) -> Tensor:
        """Coordinates of every pixel in [-1, 1], first attribute along the last axis, (N, F)."""
        lines = [torch.linspace(-1, 1, size, dtype=like.dtype, device=like.device) for size in self.grid]
        return torch.stack(torch.meshgrid(*lines, indexing="ij"), -1).flatten(0, -2).flip(-1)

    def logits(self, code: Tensor, parts: Parts, places: Tensor) -> Tensor:
        """c(w_i, l_i) . b(place - place_i).  code: (B, K, d).  places: (P, F).  -> (B, K, P)."""
        padded = parts.padded()
        place = padded.features.to(code.dtype)
        offset = places - place[:, :, None]
        offset = torch.cat([offset, (offset**2).sum(-1, keepdim=True)], -1)
        basis = torch.cat([offset, torch.tanh(self.basis(offset))], -1)
        about = torch.cat([code, self.embedding(padded.kind), place], -1)
        return torch.einsum("bkpf,bkf->bkp", basis, self.coefficients(about))

    def forward(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Normal:
        """code: {w_i}, (B, K, d) -> normal over (B, *shape), or over (B, channels, P) where pixels are given."""
        padded, places = parts.padded(), self.places(code)
        logits = self.logits(code, padded, places if pixels is None else places[pixels])
        value = self.value(self.embedding(padded.kind))
        mixed = self.aggregation(value, Members(padded.mask), logits)
        if context is not None:
            mixed = torch.cat([mixed, context.to(mixed.dtype)[:, None].expand(-1, mixed.shape[1], -1)], -1)
        out = self.link(mixed).transpose(1, 2)
        mean, variance = out[:, :-1], soft_floor(out[:, -1:], self.own.floor).exp()
        if pixels is None:
            mean = mean.reshape(len(out), *self.config.shape)
            variance = variance.reshape(len(out), *[1] * (mean.ndim - 1 - len(self.grid)), *self.grid)
        scale = size_scale(self.config, parts, mean)
        return Normal(scale * mean, scale**2 * variance)
