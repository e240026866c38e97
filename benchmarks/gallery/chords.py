"""x(f) = sum_i a_i sum_h h^(-b_i) exp(-(f - f_i - 12 log2 h)^2), the spectrum of K notes (examples/new_problem.py).

A part is a note, C to B; hidden in each are its loudness a_i ~ N(1, 0.25) and its dullness b_i ~ N(1, 0.2).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from compvae.batch import PaddedParts
from compvae.noise import Noise
from compvae.parts import Categorical, PartsSchema
from compvae.problems import Problem, register

NOTES = {"C": 0.0, "D": 2.0, "E": 4.0, "F": 5.0, "G": 7.0, "A": 9.0, "B": 11.0}  # semitones above C
HARMONICS = torch.arange(1.0, 6.0)
SEMITONES = torch.arange(-2.0, 42.0)


@register
class Chords(Problem):
    """Notes that sound together."""

    name: ClassVar[str] = "chords"
    summary: ClassVar[str] = "spectra of notes that sound together"
    specific_names: ClassVar[tuple[str, ...]] = ("loudness", "dullness")
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 6
    schema = PartsSchema(attributes=(Categorical(name="note", categories=tuple(NOTES)),))
    shape = (len(SEMITONES),)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """(loudness, dullness) of each note, (B, K, 2)."""
        return 1 + torch.tensor([0.25, 0.2]) * noise.normal("specifics", parts.kind.shape[1], 2)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 2) -> x (B, 44)."""
        pitch = torch.tensor(list(NOTES.values()))[parts.kind]
        height = specifics[..., :1] * HARMONICS ** -specifics[..., 1:] * parts.mask[..., None]  # (B, K, 5)
        peak = pitch[..., None] + 12 * HARMONICS.log2()
        return (height[..., None] * (-((SEMITONES - peak[..., None]) ** 2)).exp()).sum((1, 2))
