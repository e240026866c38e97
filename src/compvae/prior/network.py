"""p(w_i | l_i) by a network of kind and place: where parts have continuous attributes  (paper, appendix A, 2D)."""

from __future__ import annotations

from compvae.batch import PaddedParts
from compvae.config import ModelConfig
from compvae.distributions import Normal, variance_of
from compvae.nn.embedding import PartEmbedding
from compvae.nn.residual import mlp
from compvae.prior.base import PartPrior

__all__ = ["NetworkPrior"]


class NetworkPrior(PartPrior):
    """N(mean, variance)(kind, features) by a network  (paper, table of p(w|l), 2D)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = PartEmbedding(config.parts.n_kinds, config.parts.n_features, config.prior.embedding)
        self.network = mlp(self.embedding.width, config.prior.hidden, 2 * config.latent.w)

    def of_parts(self, parts: PaddedParts) -> Normal:
        """Normal over (B, K, d)."""
        mean, log_variance = self.network(self.embedding(parts.kind, parts.features)).chunk(2, -1)
        return Normal(mean, variance_of(log_variance, self.config.prior.floor), parts.mask[..., None])
