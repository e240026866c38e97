"""What every decoder offers: p(x | code, z, context), and the aggregation that makes the code from the parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from compvae.aggregation import Aggregation
from compvae.batch import Parts
from compvae.distributions import Normal
from compvae.distributions.dense import Linearised, jacobian

__all__ = ["Decoder"]


class Decoder(nn.Module, ABC):
    """p(x | ..)."""

    aggregation: ClassVar[Aggregation]
    n_pixels: int = 0  # N: how many places of x can be decoded alone; 0 where the decoder is not pixelwise
    pixels: int = 0  # how many of them a training step looks at; 0 for all
    loading: nn.Parameter  # A, (C, d, F), where a decoder has it: all that stands between a kind's code and the network

    @abstractmethod
    def forward(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Normal:
        """code: W, (B, G, d), for a plain sum; {w_i}, (B, K, d), otherwise.  z: (B, Z).  context: (B, E).

        pixels: (P,) int64, places of x to decode, for a pixelwise decoder.
        -> normal over (B, *shape), or over (B, channels, P) where pixels are given.
        """

    def noise_of_parts(self, parts: Parts, like: Tensor) -> Tensor | None:
        """Variance of the noise that the parts bring, (B, *shape); None where it belongs to the whole.

        like: (B, *), for device and dtype.
        """
        return None

    def shares(self, code: Tensor, parts: Parts) -> Tensor | None:
        """What each part has of each value of x, 1 in all, (B, K, *shape) or broadcastable; None where it is not said.

        code: as in forward.
        """
        return None

    @torch.no_grad()
    def turn(self, axes: Tensor) -> None:
        """w -> axes_c^T w for the code of every kind, with x unchanged.  axes: orthogonal, (C, d, d)."""
        self.loading.copy_(torch.einsum("cde,cdf->cef", axes, self.loading))

    def linearise(
        self, code: Tensor, parts: Parts, z: Tensor | None, context: Tensor | None, pixels: Tensor | None = None
    ) -> Linearised:
        """p(x | code + ..), its mean to first order, arguments as in forward; one pass for each number of the code."""

        whole: Normal = self(code, parts, z, context, pixels)

        def mean(flat: Tensor) -> Tensor:
            moved: Normal = self(flat.view_as(code), parts, z, context, pixels)
            return moved.mean.flatten(1)

        value, slope = jacobian(mean, code.flatten(1))
        return Linearised(value, whole.variance.expand_as(whole.mean).flatten(1).detach(), slope)
