"""x_f = number of dice that show face f, f = 1..10.

A part is a die of one of six types; hidden in each is the face it shows.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from compvae.batch import PaddedParts
from compvae.noise import Noise
from compvae.parts import Categorical, PartsSchema
from compvae.problems import Problem, register

FACES = 10
TYPES = {  # weight of each face
    "d4": (1, 1, 1, 1),
    "d6": (1, 1, 1, 1, 1, 1),
    "d8": (1, 1, 1, 1, 1, 1, 1, 1),
    "d10": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "sixes": (1, 1, 1, 1, 1, 5),  # a loaded d6
    "odds": (3, 1, 3, 1, 3, 1, 3, 1),  # a loaded d8
}


@register
class Dice(Problem):
    """Dice thrown together."""

    name: ClassVar[str] = "dice"
    summary: ClassVar[str] = "counts of the faces that dice show, fair and loaded ones"
    specific_names: ClassVar[tuple[str, ...]] = ("face",)
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 10
    schema = PartsSchema(attributes=(Categorical(name="die", categories=tuple(TYPES)),))
    shape = (FACES,)

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        weights = torch.tensor([[*weights, *[0] * (FACES - len(weights))] for weights in TYPES.values()])
        self._below = (weights / weights.sum(1, keepdim=True)).cumsum(1)[:, :-1]  # P(face <= f), (6, 9)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """The face of each die, 1..10, (B, K, 1)."""
        thrown = noise.uniform("face", parts.kind.shape[1], 1)
        below = self._below[parts.kind]
        return 1.0 + ((thrown > below) & (below < 1 - 1e-6)).sum(-1, keepdim=True)  # rounded sums may miss 1

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 1) -> x (B, 10)."""
        shown = (specifics == torch.arange(1, FACES + 1)) & parts.mask[..., None]
        return shown.sum(1).to(specifics.dtype)
