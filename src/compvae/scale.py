"""What networks see beside the latents: the unit x is measured in, and the context."""

from __future__ import annotations

import torch
from torch import Tensor

from compvae.batch import Batch, Parts
from compvae.config import ModelConfig
from compvae.context import context_size

__all__ = ["beside", "context_of", "size_scale", "x_scale"]


def beside(h: Tensor, *others: Tensor | None) -> Tensor:
    """h with further vectors beside it, those that are None left out.  h: (*, N), others: (*, M) -> (*, N + ..)."""
    given = [other.to(h.dtype) for other in others if other is not None]
    return torch.cat([h, *given], -1) if given else h


def size_scale(config: ModelConfig, parts: Parts, like: Tensor) -> Tensor:
    """How x grows with its parts: K, or 1.  like: (B, *) -> (B, 1, ..)."""
    sizes = parts.sizes if config.scale == "size" else torch.ones_like(parts.sizes)
    return sizes.to(like.dtype).view(-1, *[1] * (like.ndim - 1))


def x_scale(config: ModelConfig, parts: Parts, like: Tensor) -> Tensor:
    """What x is measured in: the data's unit, times K where x grows with it.  like: (B, *) -> (B, 1, ..)."""
    return config.unit * size_scale(config, parts, like)


def context_of(batch: Batch, config: ModelConfig) -> Tensor:
    """The context of each whole, (B, E); zeros (unknown) where none was given."""
    if batch.context is not None:
        return batch.context
    return batch.x.new_zeros(len(batch), context_size(config.context))
