"""x(t) = 2 tanh( sum_i s_i exp(-|(t - place_i) / b_i|^1.5) / 2 ), t from -1 to 1: a field warmed by sources.

A part is a source of one of three kinds with a place (a continuous attribute); hidden in each are its strength s_i and
its width b_i, both log-normal around those of its kind.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from compvae.batch import PaddedParts
from compvae.noise import Noise
from compvae.parts import Categorical, Continuous, PartsSchema
from compvae.problems import Problem, register

KINDS = {"candle": (0.6, 0.06), "stove": (1.0, 0.15), "fire": (1.6, 0.3)}  # median strength and width
SPREAD = torch.tensor([0.35, 0.2])  # of their logarithms
POINTS = torch.linspace(-1.0, 1.0, 96)


@register
class Heat(Problem):
    """A field that saturates, warmed by sources with places."""

    name: ClassVar[str] = "heat"
    summary: ClassVar[str] = "a field warmed by sources of three kinds, each with a place"
    specific_names: ClassVar[tuple[str, ...]] = ("strength", "width")
    extensive: ClassVar[bool] = False
    max_parts: ClassVar[int] = 6
    schema = PartsSchema(
        attributes=(
            Categorical(name="kind", categories=tuple(KINDS)),
            Continuous(name="place", low=-1.0, high=1.0),
        )
    )
    shape = (len(POINTS),)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """(strength, width) of each source, (B, K, 2)."""
        median = torch.tensor(list(KINDS.values()))[parts.kind]
        return median * (SPREAD * noise.normal("specifics", parts.kind.shape[1], 2)).exp()

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 2) -> x (B, 96)."""
        strength, width = specifics[..., None].unbind(2)  # (B, K, 1) each
        bump = (-(((POINTS - parts.features) / width).abs() ** 1.5)).exp()
        return 2 * ((strength * parts.mask[..., None] * bump).sum(1) / 2).tanh()
