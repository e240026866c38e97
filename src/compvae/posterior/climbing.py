"""How far a damped Gauss-Newton step may go: less damping after a step that climbed, more after one taken back."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["EVAL_FACTOR", "FIRST_DAMPING", "next_damping"]

FIRST_DAMPING, LESS, MORE = 0.03, 0.2, 8.0
EVAL_FACTOR = 4  # outside training, as many times the rounds


def next_damping(damping: Tensor, climbed: Tensor) -> Tensor:
    """damping: (B,).  climbed: (B,) bool."""
    return damping * torch.where(climbed, LESS, MORE)
