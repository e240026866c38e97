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

__all__ = ["GraphBlock", "linear_of_pieces", "sum_of_others"]


def sum_of_others(value: Tensor, owner: Tensor, wholes: int) -> Tensor:
    """sum_{j != i} value_j over the parts of the same whole, in O(K).

    value: (P, N), the parts of all wholes one after another.  owner: (P,) int64, the whole of each part.
    """
    total = value.new_zeros(wholes, value.shape[1]).index_add(0, owner, value)
    return total[owner] - value


def linear_of_pieces(layer: nn.Linear, whole: Tensor, owner: Tensor, *parts: Tensor) -> Tensor:
    """layer(parts[:-1].., whole of the part, parts[-1]), the product with the whole done once a whole, not once a part.

    parts: (P, N_k) each.  whole: (B, N).  owner: (P,) int64.  -> (P, M).
    """
    pieces = [*parts[:-1], whole, parts[-1]]
    weights = layer.weight.split([piece.shape[1] for piece in pieces], 1)  # one gradient, put together once
    out = F.linear(parts[-1], weights[-1], layer.bias) + F.linear(whole, weights[-2])[owner]
    for part, weight in zip(parts[:-1], weights[:-2], strict=True):
        out = out + F.linear(part, weight)
    return out


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
        others = self._hear(self.message(h), owner, wholes)
        out: Tensor = self.out(F.elu(self.join(torch.cat([others, h], -1))))
        return out

    def first(self, whole: Tensor, part: Tensor, owner: Tensor) -> Tensor:
        """forward((whole of the part, part)), with less work: what all parts of a whole have in common is done once.

        whole: (B, N1).  part: (P, N2), N1 + N2 = N.  owner: (P,) int64.  -> (P, M).
        """
        begin, *rest = self.message
        assert isinstance(begin, Residual)
        h = torch.cat([whole[owner], part], -1)
        message = h + begin.outer(F.elu(linear_of_pieces(begin.inner, whole, owner, part)))
        for layer in rest:
            message = layer(message)
        others = self._hear(message, owner, len(whole))
        out: Tensor = self.out(F.elu(linear_of_pieces(self.join, whole, owner, others, part)))
        return out

    def _hear(self, message: Tensor, owner: Tensor, wholes: int) -> Tensor:
        """What a part hears of the others.  message: (P, N) -> (P, N)."""
        heard: Tensor = self.received(torch.tanh(sum_of_others(message, owner, wholes)))
        return heard
