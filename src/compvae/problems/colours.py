"""The 2D problem: pixel = ( sum_i softmax_i(-s_i |pixel - place_i|^2) colour_i )^(1/2.4)  (paper, section 4.2).

s_i ~ U(5, 10) is the hidden sharpness of a site.  Places are drawn from U(-.9, .9)^2, as the paper's listing does (its
text says [0, 1]^2 and a comment 1.9); ``x`` counts columns to the right, ``y`` rows downward, both in [-1, 1].
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from compvae.batch import PaddedParts
from compvae.noise import Noise
from compvae.parts import Categorical, Continuous, PartsSchema
from compvae.problems.base import Problem, Settings

__all__ = ["COLOURS", "Colours", "ColoursSettings"]

COLOURS = {
    "red": (1.0, 0.0, 0.0),
    "green": (0.0, 1.0, 0.0),
    "blue": (0.0, 0.0, 1.0),
    "black": (0.0, 0.0, 0.0),
    "white": (1.0, 1.0, 1.0),
}
SHARPNESS = (5.0, 10.0)
GAMMA = 2.4


class ColoursSettings(Settings):
    """Settings of the 2D problem."""

    size: int = Field(32, ge=2, le=1024, description="pixels along each side")


class Colours(Problem):
    """Colour gradients between sites."""

    name: ClassVar[str] = "colours"
    summary: ClassVar[str] = "images made of coloured sites, each with its own place and hidden sharpness"
    specific_names: ClassVar[tuple[str, ...]] = ("sharpness",)
    extensive: ClassVar[bool] = False
    max_parts: ClassVar[int] = 8
    drawn_within: ClassVar[float] = 0.9  # no site stands on the border
    settings_class: ClassVar[type[Settings]] = ColoursSettings
    settings: ColoursSettings

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.schema = PartsSchema(
            attributes=(
                Categorical(name="colour", categories=tuple(COLOURS)),
                Continuous(name="x", low=-1.0, high=1.0, unit="half widths to the right"),
                Continuous(name="y", low=-1.0, high=1.0, unit="half heights downward"),
            )
        )
        self.shape = (3, self.settings.size, self.settings.size)
        self.palette = torch.tensor(list(COLOURS.values()))  # (5, 3)
        self._line = torch.linspace(-1.0, 1.0, self.settings.size)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """Sharpness of each site, (B, K, 1)."""
        low, high = SHARPNESS
        return noise.uniform("specifics", parts.kind.shape[1], 1) * (high - low) + low

    def distances(self, parts: PaddedParts, dtype: torch.dtype) -> Tensor:
        """Squared distance of each pixel to each site, (B, K, H, W)."""
        column, row = parts.features.to(dtype)[..., None].unbind(2)
        line = self._line.to(dtype)
        return ((line - column) ** 2)[:, :, None, :] + ((line - row) ** 2)[:, :, :, None]

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 1) -> x (B, 3, H, W)."""
        logits = -specifics[..., None] * self.distances(parts, specifics.dtype)
        logits.masked_fill_(~parts.mask[..., None, None], -torch.inf)
        colour = self.palette.to(specifics.dtype)[parts.kind]
        mix = torch.einsum("bkhw,bkc->bchw", torch.softmax(logits, 1), colour)
        return mix.pow(1 / GAMMA).clamp(0.0, 1.0)
