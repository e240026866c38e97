"""The energy score of samples as a loss: E|X - x| - E|X - X'| / 2, X, X' drawn for the composition of x.

In expectation it is the energy distance to the truth but for a constant, so that nothing can hide from it behind a good
bound: a mean of samples that is off, a spread that is too narrow.  A prior that an M-step fits is held, and with it
what the latents mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from compvae.batch import Batch
from compvae.composing.generation import sampled_whole
from compvae.network import CompVAE
from compvae.noise import Noise

__all__ = ["DRAWS", "energy_loss"]

DRAWS = 4  # for each whole
SMALLEST = 1e-6  # under a root, whose slope has no end at 0


def energy_loss(model: CompVAE, batch: Batch, noise: Noise) -> Tensor:
    """The energy score of each whole over the root of its number of values, (B,), with gradients to the decoder."""
    rows = torch.arange(len(batch)).repeat_interleave(DRAWS)
    many = batch.rows(rows)
    own = noise.of_rows(noise.rows[rows] * DRAWS + torch.arange(DRAWS).repeat(len(batch)))
    drawn = sampled_whole(model, many.parts, own, many.context).x.rsample(own, "x").flatten(1)
    drawn = drawn.view(len(batch), DRAWS, -1)
    near = _norm(drawn - batch.x.flatten(1)[:, None]).mean(1)
    one, other = torch.triu_indices(DRAWS, DRAWS, 1)
    apart = _norm(drawn[:, one] - drawn[:, other]).mean(1)
    score: Tensor = (near - apart / 2) / batch.x[0].numel() ** 0.5
    return score


def _norm(difference: Tensor) -> Tensor:
    """(.., T) -> (..)."""
    length: Tensor = (difference.square().sum(-1) + SMALLEST).sqrt()
    return length
