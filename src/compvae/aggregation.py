"""How parts become a whole: an order-invariant function of {value_i} (the paper's sum; others are its further work).

To add one: write a class with ``__call__``, say whether it is the plain sum, and give an instance to the
decoder that uses it.  The collapse, the bridge and sampling from counts stand on ``plain_sum``.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch
from torch import Tensor

from compvae.distributions import Members

__all__ = ["Aggregation", "PlainSum", "SoftmaxMix"]


class Aggregation(Protocol):
    """Order-invariant, padding-safe."""

    plain_sum: ClassVar[bool]

    def __call__(self, value: Tensor, members: Members, logits: Tensor | None = None) -> Tensor:
        """value: (B, K, D); logits, where used: (B, K, P).  -> one tensor for each whole."""


class PlainSum:
    """W = sum_i w_i  (paper, section 3.1); with blocks, one sum for each kind."""

    plain_sum: ClassVar[bool] = True

    def __call__(self, value: Tensor, members: Members, logits: Tensor | None = None) -> Tensor:
        """value: (B, K, D) -> (B, G, D)."""
        return members.total(value)


class SoftmaxMix:
    """At each place p: sum_i softmax_i(logits_ip) value_i, a sum followed by a ratio."""

    plain_sum: ClassVar[bool] = False

    def __call__(self, value: Tensor, members: Members, logits: Tensor | None = None) -> Tensor:
        """value: (B, K, D).  logits: (B, K, P).  -> (B, P, D)."""
        assert logits is not None
        return torch.einsum("bkp,bkd->bpd", self.weights(logits, members), value)

    def weights(self, logits: Tensor, members: Members) -> Tensor:
        """softmax over the parts at each place, 0 for padding.  logits: (B, K, P)."""
        # A finite fill, not -inf: a row of padding alone would otherwise be NaN in the gradient.
        return torch.softmax(logits.masked_fill(~members.mask[..., None], -1e9), 1)
