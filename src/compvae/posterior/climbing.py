"""Damped Gauss-Newton: less damping after a step that climbed, more after one that is taken back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

import torch
from torch import Tensor

__all__ = ["EVAL_FACTOR", "Place", "climb"]

FIRST_DAMPING, LESS, MORE = 0.03, 0.2, 8.0
NOTHING = 0.01  # nats a step promises, in units of the decoder's rounding: no longer worth a look
EVAL_FACTOR = 4  # outside training, as many times the rounds


@dataclass(frozen=True)
class Place(ABC):
    """A point on the way to the peak, and what is seen from it.

    at: in units of the prior, (B, D).  cost: minus the logarithm that is climbed, (B,).  slope: of that logarithm,
    (B, D).  seen: what its curvature is made of, (B, *, D).
    """

    at: Tensor
    cost: Tensor
    slope: Tensor
    seen: Tensor

    @abstractmethod
    def step(self, damping: Tensor) -> Tensor:
        """Where to go from here, (B, D).  damping: (B,)."""

    def where(self, chosen: Tensor, other: Self) -> Self:
        """This place in the chosen rows, the other elsewhere.  chosen: (B,) bool."""
        row = chosen[:, None]
        return type(self)(
            torch.where(row, self.at, other.at),
            torch.where(chosen, self.cost, other.cost),
            torch.where(row, self.slope, other.slope),
            torch.where(row[..., None], self.seen, other.seen),
        )


_Place = TypeVar("_Place", bound=Place)


def climb(look: Callable[[Tensor], _Place], start: Tensor, rounds: int, rounding: float) -> _Place:
    """The best place after so many steps.  look: what is seen from a point.  start: (B, D).  rounding: of the decoder.

    A row stays where its next step promises nothing, so that it does not hang on the rows beside it, and all stop when
    the last one has come to rest.
    """
    best = look(start)
    damping = torch.full_like(best.cost, FIRST_DAMPING)
    resting = torch.zeros_like(best.cost, dtype=torch.bool)
    for _ in range(rounds):
        step = best.step(damping)
        resting = resting | ((best.slope * step).sum(1) < NOTHING * rounding)
        if resting.all():
            break
        tried = look(best.at + step)
        climbed = (tried.cost < best.cost) & ~resting
        best, damping = tried.where(climbed, best), damping * torch.where(climbed, LESS, MORE)
    return best
