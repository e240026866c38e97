"""Covariates that nobody tells are drawn from those seen in training, and the model is told them:

    p(x | parts, known) = sum_m p(a_m | known) p(x | parts, a_m),   a_1 .. a_M contexts of training wholes

p(a_m | known) is a kernel of the known attributes, 1 / M where nothing is known.  What two wholes share through an
unknown covariate, and that its effect is not linear, are then exact as far as the model is with the covariate known.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from compvae.context import context_size, flag_columns
from compvae.noise import NormalSource
from compvae.parts import Attribute, Categorical

__all__ = ["Covariates"]

BANDWIDTH = 0.1  # of a known value, in units of the spread of those seen
ELSEWHERE = -30.0  # ln of the weight of another category than the known one: taken where it was never seen
CHUNK_NUMBERS = 2**22  # weights that are held at once


class Covariates(nn.Module):
    """Contexts of training wholes, neighbours alike.

    seen: (M, E), all of them known; M is 0 for a model without context.
    """

    seen: Tensor

    def __init__(self, attributes: Sequence[Attribute], rows: int) -> None:
        super().__init__()
        self.attributes, self.rows = tuple(attributes), rows
        self.flags = list(flag_columns(attributes))
        self.register_buffer("seen", torch.zeros(rows, context_size(attributes)), persistent=rows > 0)

    def fit_(self, contexts: Tensor) -> None:
        """Take ``rows`` contexts of those that are known in full, evenly from their order.  contexts: (N, E)."""
        if not self.rows:
            return
        known = contexts[(contexts[:, self.flags] > 0).all(1)]
        if not len(known):
            known = contexts.new_zeros(1, contexts.shape[1])
        ordered = known[self._order(known)]
        self.seen.copy_(ordered[_evenly(len(ordered), self.rows)])

    def complete(self, context: Tensor, source: NormalSource) -> Tensor:
        """The same with a draw in the place of what is unknown, (B, E).  context: (B, E)."""
        if not self.rows or bool((context[:, self.flags] > 0).all()):
            return context
        share = torch.special.ndtr(source.normal("context", 1, dtype=torch.float64))  # one number a whole
        size = max(1, CHUNK_NUMBERS // self.rows)
        pieces = []
        for start in range(0, len(context), size):
            some = context[start : start + size]
            reached = self.log_weights(some, self.seen).double().exp().cumsum(1)
            index = torch.searchsorted(reached, share[start : start + size] * reached[:, -1:])
            pieces.append(self._filled(some, self.seen[index[:, 0].clamp(max=self.rows - 1)]))
        return torch.cat(pieces)

    def candidates(self, context: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Contexts that a whole may have had, (B, A, E), and ln of their weights, (B, A); one where all is known.

        context: (B, E).  count: A at most, evenly from those seen.
        """
        if not self.rows or bool((context[:, self.flags] > 0).all()):
            return context[:, None], context.new_zeros(len(context), 1)
        atoms = self.seen[_evenly(self.rows, min(count, self.rows))]
        return self._filled(context[:, None], atoms.to(context.dtype)), self.log_weights(context, atoms)

    def log_weights(self, context: Tensor, atoms: Tensor) -> Tensor:
        """ln p(a_m | known), (B, A), normalised.  context: (B, E).  atoms: (A, E)."""
        total, column = context.new_zeros(len(context), len(atoms)), 0
        spread = self.seen.std(0, unbiased=False).clamp(min=1e-6)
        for attribute in self.attributes:
            width = context_size([attribute])
            value, theirs = (a[:, column + 1 : column + width].to(context.dtype) for a in (context, atoms))
            if isinstance(attribute, Categorical):
                weight = ELSEWHERE * (1 - value @ theirs.T)
            else:
                away = (value - theirs.T) / spread[column + 1]
                weight = -0.5 * (away / BANDWIDTH).square()
            total = total + weight * context[:, column : column + 1]
            column += width
        return total.log_softmax(1)

    def _filled(self, context: Tensor, drawn: Tensor) -> Tensor:
        """What is known, and the other for the rest.  context: (.., E).  drawn: (.., E)."""
        known = context[..., self.flags] > 0
        return torch.where(known, context, drawn.to(context.dtype))

    def _order(self, contexts: Tensor) -> Tensor:
        """By category, then by value, so that neighbours are alike, (N,).  contexts: (N, E)."""
        order, column = torch.arange(len(contexts)), 0
        columns: list[int] = []
        for attribute in self.attributes:
            width = context_size([attribute])
            values = list(range(column + 1, column + width))
            columns = [*columns, *values] if not isinstance(attribute, Categorical) else [*values, *columns]
            column += width
        for one in reversed(columns):
            order = order[contexts[order, one].argsort(stable=True)]
        return order


def _evenly(count: int, rows: int) -> Tensor:
    """``rows`` places among ``count``, at even distances, (rows,) int64."""
    return ((torch.arange(rows).double() + 0.5) * count / rows).long().clamp(max=count - 1)
