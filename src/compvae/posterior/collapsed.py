"""q(W | x, {l_i}) = p(W | {l_i}) x N(message from x): the collapsed posterior (theory, sections 4 and 5).

Since x and z see the parts only through W = sum_i w_i, the best q over the parts is q(W) times the bridge, and
KL({w_i}) = KL(q(W) || N(M, S)).  A product of experts is never wider than the prior: no KL blow-up.

The message is about y = W / sqrt(n), whose prior spread does not depend on the number n of parts in the sum.
"""

from __future__ import annotations

from compvae.config import CollapsedConfig, ModelConfig
from compvae.distributions import Normal
from compvae.nn.residual import residual_stack
from compvae.posterior.base import Given, Posterior, Reader, ZPosterior

__all__ = ["CollapsedPosterior"]


class CollapsedPosterior(Posterior):
    """q(W | x, {l_i}); where there is a z, q(z | x, W, {l_i}) comes after it."""

    of_sum = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        own = config.posterior
        assert isinstance(own, CollapsedConfig)
        self.config = config
        self.reader = Reader(config, with_parts=True)
        latent, code = config.latent, config.n_blocks * config.latent.w
        self.z_network = ZPosterior(self.reader.width + code, latent.z, own.z_network, free=False) if latent.z else None
        self.network = residual_stack(self.reader.width, own.width, own.blocks, 2 * code)

    def w(self, given: Given) -> Normal:
        """Normal over W, (B, G, d)."""
        message = self.network(given.evidence).view(len(given.evidence), self.config.n_blocks, 2 * self.config.latent.w)
        shift, log_variance = message.chunk(2, -1)
        parts = given.batch.parts
        counts = parts.counts if self.config.latent.blocks else parts.sizes[:, None]
        n = counts.to(message.dtype)[..., None]
        return given.prior.times(n.sqrt() * shift, log_variance + n.clamp(min=1).log())
