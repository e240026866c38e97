"""theta <- argmin of a loss: Adam, its rate falling along a cosine to a hundredth (Kingma & Ba 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

__all__ = ["Tick", "descend"]

Tick = Callable[[], None]
"""Called after each unit of a long piece of work: a step, a batch, a round."""


def descend(
    weights: Iterable[Tensor], loss: Callable[[], Tensor], steps: int, rate: float, tick: Tick | None = None
) -> None:
    """Move the weights, of any shapes, in place; whether they have gradients is afterwards as it was."""
    weights = list(weights)
    learned = [weight.requires_grad for weight in weights]
    for weight in weights:
        weight.requires_grad_(True)
    optimiser = torch.optim.Adam(weights, lr=rate)
    with torch.enable_grad():
        for step in range(steps):
            optimiser.param_groups[0]["lr"] = rate * (0.5 * (1 + math.cos(math.pi * step / steps)) + 0.01)
            value = loss()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            if tick is not None:
                tick()
    for weight, was in zip(weights, learned, strict=True):
        weight.requires_grad_(was)
        weight.grad = None
