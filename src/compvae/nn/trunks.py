"""Trunks from x to a vector and from a vector to x, by the paper's tables, and plain ones for CPUs.

Curves are 200 points (appendix A.1), images 3 x 32 x 32 (appendix A.2).  ``channels`` is the number of channels at the
narrow end: 160 and 128 in the paper; smaller values give the same shape of network, narrowed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from compvae.nn.residual import Residual

__all__ = ["CurveIn", "CurveOut", "ImageIn", "ImageOut", "VectorIn"]


def _with_elu(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*[item for layer in layers for item in (layer, nn.ELU())])


class CurveIn(nn.Module):
    """pr(x) for curves: (B, 200) -> (B, 5 channels)  (paper, table "preprocessing block", 1D)."""

    shape = (200,)

    def __init__(self, channels: int = 160) -> None:
        super().__init__()
        a, b = channels // 4, channels // 2
        self.convolutions = _with_elu(
            nn.Conv1d(1, a, 10, 5),
            nn.Conv1d(a, a, 7, 1, 3),
            nn.Conv1d(a, b, 6, 3),
            nn.Conv1d(b, b, 7, 1, 3),
            nn.Conv1d(b, channels, 4, 2),
        )
        self.width = 5 * channels
        self.residual = _with_elu(Residual(self.width))

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, 200) -> (B, width)."""
        out: Tensor = self.residual(self.convolutions(x[:, None]).flatten(1))
        return out


class CurveOut(nn.Module):
    """(B, 5 channels) -> mean and log-variance of a curve  (paper, table of p(x | z, sum w), 1D)."""

    shape = (200,)

    def __init__(self, channels: int = 160) -> None:
        super().__init__()
        self.channels, self.width = channels, 5 * channels
        b, a, c = channels // 2, channels // 4, channels // 8
        self.convolutions = nn.Sequential(
            *_with_elu(
                nn.ConvTranspose1d(channels, b, 4, 2),
                nn.Conv1d(b, b, 7, 1, 3),
                nn.ConvTranspose1d(b, a, 8, 4),
                nn.Conv1d(a, a, 7, 1, 3),
                nn.ConvTranspose1d(a, c, 15, 5),
            ),
            nn.Conv1d(c, 2, 7, 1, 3),
        )

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """h: (B, width) -> mean (B, 200), log-variance (B, 200); 270 points are made and the borders cropped."""
        out = self.convolutions(h.view(len(h), self.channels, 5))[:, :, 35:235]
        return out[:, 0], out[:, 1]


class ImageIn(nn.Module):
    """pr(x) for images: (B, 3, 32, 32) -> (B, 8 channels)  (paper, table "preprocessing block", 2D)."""

    shape = (3, 32, 32)

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        a, b, c, d = channels // 8, channels // 4, 3 * channels // 8, channels // 2
        self.convolutions = _with_elu(
            nn.Conv2d(3, a, 5, 1, 2),
            nn.Conv2d(a, b, 4, 2, 1),
            nn.Conv2d(b, b, 5, 1, 2),
            nn.Conv2d(b, c, 4, 2, 1),
            nn.Conv2d(c, d, 4, 2, 1),
        )
        self.width = 16 * d
        self.residual = _with_elu(Residual(self.width))

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, 3, 32, 32) -> (B, width)."""
        out: Tensor = self.residual(self.convolutions(x).flatten(1))
        return out


class ImageOut(nn.Module):
    """(B, 16 channels) -> mean and log-variance of an image  (paper, table of p(x | z, sum w), 2D).

    Errata: the last convolution takes 24 channels (the table says 16), gives 3 means and 1 log-variance shared by the
    three colours, has no ELU, and the image is 32 x 32 (the table says 64 x 64).
    """

    shape = (3, 32, 32)

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.channels, self.width = channels, 16 * channels
        a, b, c = channels // 2, channels // 4, 3 * channels // 16

        def double() -> nn.Upsample:
            return nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)

        self.convolutions = nn.Sequential(
            double(), nn.Conv2d(channels, a, 5, 1, 2), nn.ELU(),
            double(), nn.Conv2d(a, b, 5, 1, 2), nn.ELU(),
            double(), nn.Conv2d(b, c, 5, 1, 2), nn.ELU(),
            nn.Conv2d(c, 4, 5, 1, 2),
        )  # fmt: skip

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """h: (B, width) -> mean (B, 3, 32, 32), log-variance (B, 1, 32, 32)."""
        out = self.convolutions(h.view(len(h), self.channels, 4, 4))
        return out[:, :3], out[:, 3:]


class VectorIn(nn.Module):
    """x as it is, flat: (B, *shape) -> (B, prod shape); on CPUs, convolutions over 200 points are slow beside it."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape, self.width = tuple(shape), math.prod(shape)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, *shape) -> (B, width)."""
        return x.flatten(1)
