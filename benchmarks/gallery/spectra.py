"""x(t) = 1 - exp(-path sum_i h_i (exp(-(t - a_i - s_i)^2 / 18) + exp(-(t - b_i - s_i)^2 / 50) / 2)).

Substances in a cuvette: absorbances add up, and are seen through a path that all of them share.  A part is one of six
substances; hidden in each are its height h_i ~ Gamma(5, 1/5) and its shift s_i ~ N(0, 1.2); ln path ~ N(0, 0.3).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from compvae.batch import Batch, PaddedParts, Shared
from compvae.noise import Noise
from compvae.parts import Attribute, Categorical, Continuous, PartsSchema
from compvae.problems import Problem, Settings, register
from compvae.problems.blocks import BLOCK, neighbours

FIRST = torch.tensor([10.0, 22.0, 34.0, 46.0, 58.0, 70.0])  # where the high line of each substance lies
SECOND = torch.tensor([50.0, 66.0, 8.0, 20.0, 30.0, 44.0])  # and the low one
VALUES = 80


class SpectraSettings(Settings):
    """together: one to four neighbouring rows of a draw have one path, and say so by a shared id."""

    together: bool = False


@register
class Spectra(Problem):
    """Six substances seen through one cuvette."""

    name: ClassVar[str] = "spectra"
    summary: ClassVar[str] = "absorption of substances in one cuvette, whose path is unknown"
    specific_names: ClassVar[tuple[str, ...]] = ("height", "shift")
    shared: ClassVar[tuple[Attribute, ...]] = (Continuous(name="path", low=0.05, high=20.0),)
    extensive: ClassVar[bool] = False
    max_parts: ClassVar[int] = 6
    settings_class: ClassVar[type[Settings]] = SpectraSettings
    settings: SpectraSettings
    schema = PartsSchema(attributes=(Categorical(name="substance", categories=tuple("ABCDEF")),))
    shape = (VALUES,)

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        if self.settings.together:
            self.rows_together = BLOCK  # type: ignore[misc]  # of this instance: presets ask for it

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """(height, shift) of each part, (B, K, 2)."""
        width = parts.kind.shape[1]
        height = -noise.uniform("height", width, 5).log().mean(-1)  # five exponentials make a Gamma(5)
        return torch.stack([height, 1.2 * noise.normal("shift", width)], -1)

    def draw_factors(self, noise: Noise) -> Tensor:
        """The path of each whole, (B, 1)."""
        return (0.3 * noise.normal("path", 1)).exp()

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 2), factors: (B, 1) -> x (B, 80)."""
        assert factors is not None, "a cuvette has a path"
        height, shift = (specifics * parts.mask[..., None]).unbind(-1)
        away = torch.arange(VALUES) - shift[..., None]
        high = (-0.5 * ((away - FIRST[parts.kind][..., None]) / 3) ** 2).exp()
        low = (-0.5 * ((away - SECOND[parts.kind][..., None]) / 5) ** 2).exp()
        return 1 - (-factors * (height[..., None] * (high + low / 2)).sum(1)).exp()

    def draw(self, max_parts: int, noise: Noise, min_parts: int = 1) -> Batch:
        """One whole for each row of noise; its path is its own, or that of the row its neighbours begin with."""
        first = neighbours(noise).first if self.settings.together else noise.rows
        parts = self.draw_parts(noise.integers("sizes", min_parts, max_parts), noise)
        x = self.combine(parts, self.draw_specifics(parts, noise), self.draw_factors(noise.of_rows(first)))
        return Batch(x, parts.counted(), shared=Shared.of(first) if self.settings.together else None)
