"""The 1D problem: x(t) = K tanh( C/K sum_{i=1..K} a_i cos(2 pi l_i t / resolution + k_i) )  (paper, section 4.2).

a_i ~ N(1, 0.3), k_i ~ N(0, phase_std).  Where the paper disagrees with itself we take (errata):
ten frequencies 1..10 (its ``torch.randint(1, 10)`` gives nine); the sum from i=1; phase_std 0.8 as in the listing (the
text says pi/2); T split into its two meanings, ``timesteps`` (200) and ``resolution`` (100); C=3 as an argument.
Frequencies are integers, so x(t + resolution) = x(t) exactly.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from compvae.batch import PaddedParts
from compvae.noise import Noise
from compvae.parts import Categorical, PartsSchema
from compvae.problems.base import Problem, Settings

__all__ = ["Sines", "SinesSettings"]

FREQUENCIES = 10
AMPLITUDE = (1.0, 0.3)  # mean and standard deviation


class SinesSettings(Settings):
    """Settings of the 1D problem."""

    phase_std: float = Field(0.8, ge=0, le=100)
    C: float = Field(3.0, gt=0, le=1000)
    timesteps: int = Field(200, ge=1, le=65_536)
    resolution: int = Field(100, ge=1, le=65_536)


class Sines(Problem):
    """Sums of sine waves seen through a saturating link."""

    name: ClassVar[str] = "sines"
    summary: ClassVar[str] = "curves made of sine waves of ten frequencies, each with its own amplitude and phase"
    specific_names: ClassVar[tuple[str, ...]] = ("amplitude", "phase")
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 16
    settings_class: ClassVar[type[Settings]] = SinesSettings
    settings: SinesSettings

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        names = tuple(str(f) for f in range(1, FREQUENCIES + 1))
        self.schema = PartsSchema(attributes=(Categorical(name="frequency", categories=names),))
        self.shape = (self.settings.timesteps,)
        # a cos(wt + k) = (a cos k) cos wt - (a sin k) sin wt: one product of a (B, 20) with a (20, T) matrix
        time = torch.arange(self.settings.timesteps, dtype=torch.float64) / self.settings.resolution
        angle = 2 * math.pi * torch.arange(1, FREQUENCIES + 1, dtype=torch.float64)[:, None] * time
        self._centre, self._spread = torch.tensor([[AMPLITUDE[0], 0.0], [AMPLITUDE[1], self.settings.phase_std]])
        self.waves = torch.cat([angle.cos(), -angle.sin()])  # (20, T) float64

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """(amplitude, phase) of each part, (B, K, 2)."""
        unit = noise.normal("specifics", parts.kind.shape[1], 2)
        return torch.addcmul(self._centre, unit, self._spread)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 2) -> x (B, T)."""
        amplitude, phase = specifics.unbind(-1)
        amplitude = amplitude * parts.mask
        spectrum = specifics.new_zeros(len(parts), 2 * FREQUENCIES)
        spectrum.scatter_add_(1, parts.kind, amplitude * phase.cos())
        spectrum.scatter_add_(1, parts.kind + FREQUENCIES, amplitude * phase.sin())
        size = parts.sizes[:, None].to(specifics.dtype)
        curve = spectrum @ self.waves.to(specifics.dtype)
        return curve.mul_(self.settings.C / size).tanh_().mul_(size)
