"""What an observed whole says of the covariates that nobody told:

    p(a_m | x)  is in proportion to  p(a_m | known) p(x | parts, a_m),   a_1 .. a_A some of those seen in training

Candidates are compared by a short form of the map, without its determinant, which hardly differs between them; the
best few are kept.  Wholes with one z have one context.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from compvae.batch import Batch, Shared
from compvae.context import context_size
from compvae.noise import Noise, Still
from compvae.transport.network import Transport

__all__ = ["ObservedContexts", "log_prob", "observe", "whitened_square"]

CANDIDATES, KEPT = 64, 8
LEAST = 1e-3  # of the probability of the best, below which a candidate is never drawn
CHUNK_NUMBERS = 2**20  # values of the wholes that are compared at once


@dataclass(frozen=True)
class ObservedContexts:
    """Contexts that each whole may have had, best first.

    contexts: (B, A, E), None where the model takes none.  prior: ln p(a | known), weights: p(a | x), (B, A).
    deviations: W - E W of all wholes under the first, second, .. context of each, (B, T) each, as they are asked for.
    """

    network: Transport
    batch: Batch
    contexts: Tensor | None
    prior: Tensor
    weights: Tensor
    deviations: dict[int, Tensor] = field(default_factory=dict)

    def at(self, index: int) -> Tensor | None:
        """The context of this number of each whole, (B, E)."""
        return None if self.contexts is None else self.contexts[:, index]

    def deviation(self, index: int) -> Tensor:
        """W - E W under the context of this number, (B, T): all wholes at once, so that no byte depends on draws."""
        if index not in self.deviations:
            given = self.network.given(self.batch.parts, self.at(index))
            self.deviations[index] = self.network.deviations(self.batch.x, given)
        return self.deviations[index]

    def drawn(self, rows: Tensor, noise: Noise) -> tuple[Tensor | None, Tensor]:
        """A context for each draw, (R, E), and W - E W under it, (R, T); the best one where the noise is 0.

        rows: of the wholes, (R,) int64, each as often as it is drawn.  noise: of these draws.
        """
        index = torch.zeros_like(rows)
        if self.contexts is not None and self.weights.shape[1] > 1 and not isinstance(noise, Still):
            first = rows if self.batch.shared is None else _first_of_draw(self.batch.shared, len(rows))
            share = noise.uniform("observed context", 1, dtype=torch.float64)
            share = share if self.batch.shared is None else share[first]
            reached = self.weights.double().cumsum(1)[rows]
            index = (share * reached[:, -1:] > reached).sum(1).clamp(max=self.weights.shape[1] - 1)
        found = self.deviation(0)[rows]
        for number in index.unique().tolist():
            here = index == number
            found[here] = self.deviation(number)[rows[here]]
        return (None if self.contexts is None else self.contexts[rows, index]), found


def _first_of_draw(shared: Shared, rows: int) -> Tensor:
    """Of each row of several draws, the row of the same draw with which its group begins, (rows,) int64."""
    wholes = len(shared.group)
    start = torch.arange(rows) // wholes * wholes
    return start + shared.first[shared.group].repeat(rows // wholes)


@torch.no_grad()
def observe(network: Transport, batch: Batch) -> ObservedContexts:
    """The contexts that wholes may have had.  batch: the wholes, what is known of their context."""
    if not network.config.context:
        one = torch.zeros(len(batch), 1)
        return ObservedContexts(network, batch, None, one, one.exp())
    unknown = torch.zeros(len(batch), context_size(network.config.context))
    context = unknown if batch.context is None else batch.context
    contexts, prior = network.covariates.candidates(context.double(), CANDIDATES)
    if contexts.shape[1] == 1:
        return ObservedContexts(network, batch, contexts, prior, prior.exp())
    number = contexts.shape[1]
    size = max(1, CHUNK_NUMBERS // (number * batch.x[0].numel()))
    pieces = []
    for start in range(0, len(batch), size):
        rows = torch.arange(start, min(start + size, len(batch)))
        pieces.append(network.rough_density(batch.rows(rows), contexts[rows]))
    score = torch.cat(pieces)
    if batch.shared is not None:
        score = batch.shared.total(score)[batch.shared.group]
    score, best = (score + prior).topk(min(KEPT, number), 1)
    weights = score.softmax(1)
    weights = weights * (weights >= LEAST * weights[:, :1])
    kept = contexts.gather(1, best[..., None].expand(-1, -1, contexts.shape[2]))
    return ObservedContexts(network, batch, kept, prior.gather(1, best), weights / weights.sum(1, keepdim=True))


@torch.no_grad()
def log_prob(network: Transport, batch: Batch) -> Tensor:
    """ln p(x | parts, known), nats float64 (B,): ln sum_a p(a | known) p(x | parts, a) over the contexts kept.

    That of wholes with one z is theirs together, split equally over them.
    """
    seen = observe(network, batch)
    if seen.contexts is None or seen.contexts.shape[1] == 1:
        return network.log_density(batch, seen.at(0))
    each = torch.stack([network.log_density(batch, seen.at(index)) for index in range(seen.contexts.shape[1])], 1)
    if batch.shared is None:
        return (each + seen.prior).logsumexp(1)
    groups = batch.shared
    joint = (groups.total(each) + seen.prior[groups.first]).logsumexp(1)
    return (joint / groups.members)[groups.group]


@torch.no_grad()
def whitened_square(network: Transport, batch: Batch) -> float:
    """Mean |u|^2 / T of wholes taken back to the base, u white under it: 1 where base and map are right."""
    seen = observe(network, batch)
    square = network.given(batch.parts, seen.at(0)).gaussian.square(seen.deviation(0)[..., None])
    return float(square.mean()) / batch.x[0].numel()
