"""GraphBlock(N -> M): h'_i = f(h_i, sum_{j != i} g(h_j))  (paper, table "Structure of a GraphBlock").

g = Residual, ELU, Residual.  f: tanh of the sum, Residual, concatenate with h_i, Linear(2N, M), ELU, Residual.
The text gives f and g no layers; the table's are taken (errata).  The sum over the others is the total minus one's own,
so a block costs O(K); parts stand one after another in one axis, so that padding is never computed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compvae.nn.residual import Residual

__all__ = ["GraphBlock", "sum_of_others"]


def sum_of_others(value: Tensor, owner: Tensor, wholes: int) -> Tensor:
    """sum_{j != i} value_j over the parts of the same whole, in O(K).

    value: (P, N), the parts of all wholes one after another.  owner: (P,) int64, the whole of each part.
    """
    total = value.new_zeros(wholes, value.shape[1]).index_add(0, owner, value)
    return total[owner] - value


class GraphBlock(nn.Module):
    """One round of messages between all parts of a whole."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.message = nn.Sequential(Residual(inputs), nn.ELU(), Residual(inputs))
        self.received = Residual(inputs)
        self.join = nn.Linear(2 * inputs, outputs)
        self.out = Residual(outputs)

    def forward(self, h: Tensor, owner: Tensor, wholes: int) -> Tensor:
        """h: (P, N).  owner: (P,) int64 in 0..wholes-1.  -> (P, M)."""
        others = self.received(torch.tanh(sum_of_others(self.message(h), owner, wholes)))
        out: Tensor = self.out(F.elu(self.join(torch.cat([others, h], -1))))
        return out
