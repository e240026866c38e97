"""x(pixel) = 1 - prod_i (1 - sigmoid((r_i - |pixel - place_i|) / 0.03)): the union of discs on 32 x 32.

A part is a disc with a place (x to the right, y downward); hidden in it is its radius r_i ~ U(0.15, 0.4).  By default
places are drawn in an L: the corner x > 0, y > 0 is never seen, and asked for afterwards.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from compvae.batch import Batch, PaddedParts
from compvae.noise import Noise
from compvae.parts import Continuous, PartsSchema
from compvae.problems import Problem, Settings, register

SIZE, EDGE = 32, 0.03
RADIUS = (0.15, 0.4)
FEWEST = 2  # discs
WITHIN = 0.9  # places are drawn within +-0.9
LINE = torch.linspace(-1.0, 1.0, SIZE)


class BallsSettings(Settings):
    """places: where discs are drawn, in the L of three quadrants or in the corner that it leaves out."""

    places: Literal["L", "corner"] = "L"


@register
class Balls(Problem):
    """White discs on black."""

    name: ClassVar[str] = "balls"
    summary: ClassVar[str] = "images of two to four discs, each with a place"
    specific_names: ClassVar[tuple[str, ...]] = ("radius",)
    extensive: ClassVar[bool] = False
    max_parts: ClassVar[int] = 4
    settings_class: ClassVar[type[Settings]] = BallsSettings
    settings: BallsSettings
    schema = PartsSchema(
        attributes=(Continuous(name="x", low=-1.0, high=1.0), Continuous(name="y", low=-1.0, high=1.0))
    )
    shape = (1, SIZE, SIZE)

    def draw_parts(self, sizes: Tensor, noise: Noise) -> PaddedParts:
        """Places uniform in three quadrants, or in the fourth.  sizes: (B,) int64."""
        width = int(sizes.max())
        mask = torch.arange(width) < sizes[:, None]
        corner = torch.ones(len(sizes), width, 2)
        if self.settings.places == "L":
            corner = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])[noise.integers("quadrant", 0, 2, width)]
        place = WITHIN * noise.uniform("place", width, 2) * corner
        return PaddedParts(torch.zeros_like(mask, dtype=torch.int64), place * mask[..., None], mask, 1)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """The radius of each disc, (B, K, 1)."""
        return RADIUS[0] + (RADIUS[1] - RADIUS[0]) * noise.uniform("radius", parts.kind.shape[1], 1)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 1) -> x (B, 1, 32, 32)."""
        column, row = parts.features[..., None].unbind(2)
        away = (((LINE - column) ** 2)[:, :, None, :] + ((LINE - row) ** 2)[:, :, :, None]).sqrt()
        disc = ((specifics[..., None] - away) / EDGE).sigmoid() * parts.mask[..., None, None]
        return 1 - (1 - disc).prod(1, keepdim=True)

    def draw(self, max_parts: int, noise: Noise, min_parts: int = FEWEST) -> Batch:
        """Two discs or more."""
        return super().draw(max(FEWEST, max_parts), noise, max(FEWEST, min_parts))
