"""h_i^0 = (pr(x), z, e(l_i) + eps_i), graph blocks over the parts, then (mu_i, nu_i, rho_i)  (paper, section 3.3).

Errata: the output is linear (an ELU, as in the 1D table, would force nu > -1); the noise eps_i on the embeddings, in
the text but not in the tables, is on.  eps_i makes q a mixture; the bound at a drawn eps is still a lower bound.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from compvae.config import GraphConfig, ModelConfig
from compvae.distributions import Members, PaperCorrelated, PartsGaussian, SumControlled
from compvae.nn.embedding import PartEmbedding
from compvae.nn.graph import GraphBlock
from compvae.posterior.base import Given, Posterior, Reader, ZPosterior
from compvae.prior import members_of
from compvae.scale import beside

__all__ = ["GraphPosterior"]

FAMILIES = {"paper": PaperCorrelated, "sum_controlled": SumControlled}


class GraphPosterior(Posterior):
    """q({w_i} | x, z, {l_i}) by message passing between the parts."""

    of_sum = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.posterior
        assert isinstance(own, GraphConfig)
        self.config, self.own = config, own
        self.reader = Reader(config, with_parts=False)
        z = config.latent.z
        self.z_network = ZPosterior(self.reader.width, z, own.z_network, free=True) if z else None
        self.embedding = PartEmbedding(config.parts.n_kinds, config.parts.n_features, own.embedding)
        widths = [self.reader.width + z + self.embedding.width] + [own.width] * own.blocks
        self.blocks = nn.ModuleList(GraphBlock(a, b) for a, b in pairwise(widths))
        self.head = nn.Linear(own.width, 3 * config.latent.w)

    def w(self, given: Given) -> PartsGaussian:
        """A correlated normal over (B, K, d)."""
        parts = given.batch.parts.padded()
        row, column = parts.mask.nonzero(as_tuple=True)  # parts one after another: nothing is computed for padding
        embedded = self.embedding(parts.kind[row, column], parts.features[row, column])
        if self.own.embedding_noise:
            eps = given.noise.normal("embedding", parts.kind.shape[1], self.embedding.width, dtype=embedded.dtype)
            embedded = embedded + self.own.embedding_noise * eps[row, column]
        first, *others = self.blocks
        assert isinstance(first, GraphBlock)
        h = F.elu(first.first(beside(given.evidence, given.z), embedded, row))
        for block in others:
            h = F.elu(block(h, row, len(parts)))
        outputs = h.new_zeros(*parts.mask.shape, self.head.out_features).index_put((row, column), self.head(h))
        mean, log_variance, logits = outputs.chunk(3, -1)
        return self._family(members_of(parts, self.config), mean, log_variance, logits)

    def _family(self, members: Members, mean: Tensor, log_variance: Tensor, logits: Tensor) -> PartsGaussian:
        return FAMILIES[self.own.family].of(members, mean, log_variance, logits)
