"""p({w_i} | {l_i}) = prod_i p(w_i | l_i): what every prior of parts offers, by part and for their sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from compvae.batch import PaddedParts, Parts
from compvae.config import ModelConfig
from compvae.distributions import Members, Normal

__all__ = ["PartPrior", "PriorStatistics", "members_of"]


def members_of(parts: PaddedParts, config: ModelConfig) -> Members:
    """Which sum each part enters: its kind's block, or the one sum of all."""
    return Members(parts.mask, parts.kind, parts.n_kinds) if config.latent.blocks else Members(parts.mask)


@dataclass(frozen=True)
class PriorStatistics:
    """What the M-step needs, as sums over a batch, so that processes can add theirs.

    With deviations from the current means m: square = sum E[(w - m)^2] / n, deviation = sum E[w - m], both (C, d);
    parts = sum n and terms = number of summands, both (C, 1).  n = 1 where parts are seen one by one, n_c for a block.
    """

    square: Tensor
    deviation: Tensor
    parts: Tensor
    terms: Tensor

    def finite(self) -> bool:
        """False if anything in it is NaN or infinite."""
        return all(bool(torch.isfinite(getattr(self, field.name)).all()) for field in fields(self))


class PartPrior(nn.Module, ABC):
    """p({w_i} | {l_i}) of independent parts."""

    config: ModelConfig

    @abstractmethod
    def of_parts(self, parts: PaddedParts) -> Normal:
        """prod_i p(w_i | l_i), normal over (B, K, d)."""

    def of_sum(self, parts: Parts) -> Normal:
        """p(W | {l_i}), normal over (B, G, d): from counts where that is possible, so that K does not matter."""
        padded = parts.padded()
        return self.of_parts(padded).sum(members_of(padded, self.config))
