"""e(l_i): a learned vector for the kind of a part, beside ELU(Linear(features)) where it has continuous attributes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["PartEmbedding"]


class PartEmbedding(nn.Module):
    """l_i -> (ELU(Linear(features_i)), table[kind_i])  (paper, tables of p(w|l) and q(w|..), 2D; table alone in 1D)."""

    def __init__(self, n_kinds: int, n_features: int, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(n_kinds, size)
        self.place = nn.Linear(n_features, size) if n_features else None
        self.width = size * (2 if n_features else 1)

    def forward(self, kind: Tensor, features: Tensor) -> Tensor:
        """kind: (*,) int64.  features: (*, F).  -> (*, width)."""
        embedded: Tensor = self.table(kind)
        if self.place is None:
            return embedded
        return torch.cat([F.elu(self.place(features.to(embedded.dtype))), embedded], -1)
