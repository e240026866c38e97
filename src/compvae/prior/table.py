"""p(w_i | l_i) as a table of moments for each kind, its sums over counts in closed form, its exact M-step.

The prior of W = sum_i w_i is N(sum_i m_i, sum_i p_i^2), linear in the counts n_c: drawing a composition costs
O(#kinds), not O(K) (theory, section 4).  With category-owned blocks, W_c ~ N(n_c m_c, n_c p_c^2) (section 5).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from compvae.batch import PaddedParts, Parts
from compvae.config import ModelConfig
from compvae.distributions import Members, Normal, PartsGaussian, raised, variance_of
from compvae.distributions.dense import Correlated
from compvae.nn.residual import white
from compvae.prior.base import PartPrior, PriorStatistics

__all__ = ["TablePrior"]


class TablePrior(PartPrior):
    """N(m_c, p_c^2) for each kind c.

    The moments are parameters (fit by gradient) or buffers (fit by the M-step).
    """

    mean: Tensor
    log_variance: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        shape = (config.parts.n_kinds, config.latent.w)
        mean = config.prior.centre + config.prior.spread * white(*shape)
        if config.prior.fit == "gradient":
            self.mean, self.log_variance = nn.Parameter(mean), nn.Parameter(torch.zeros(shape))
        else:
            self.register_buffer("mean", mean)
            self.register_buffer("log_variance", torch.zeros(shape))

    def moments(self) -> tuple[Tensor, Tensor]:
        """m_c and p_c^2, (C, d) each."""
        return self.mean, variance_of(self.log_variance, self.config.prior.floor)

    def of_parts(self, parts: PaddedParts) -> Normal:
        """N(m_{l_i}, p_{l_i}^2), normal over (B, K, d)."""
        mean, variance = self.moments()
        return Normal(mean[parts.kind], variance[parts.kind], parts.mask[..., None])

    def of_sum(self, parts: Parts) -> Normal:
        """N(sum_c n_c m_c, sum_c n_c p_c^2), one for each block, normal over (B, G, d)."""
        mean, variance = self.moments()
        counts = parts.counts.to(mean.dtype)[..., None]
        mean, variance = counts * mean, counts * variance
        if not self.config.latent.blocks:
            mean, variance = mean.sum(1, keepdim=True), variance.sum(1, keepdim=True)
        return Normal(mean, variance, self._present(counts))

    def _present(self, counts: Tensor) -> Tensor:
        return counts > 0 if self.config.latent.blocks else torch.ones_like(counts[:, :1], dtype=torch.bool)

    @torch.no_grad()
    def statistics(self, parts: Parts, q: Normal | PartsGaussian | Correlated, of_sum: bool) -> PriorStatistics:
        """Moments of q about the current means.  q: over W, (B, G, d), where of_sum; else over parts, (B, K, d)."""
        if not of_sum:
            return self._of_each_part(parts.padded(), q.mean, q.variance)
        return self._of_blocks(parts, q) if self.config.latent.blocks else self._of_one_sum(parts, q)

    def _of_each_part(self, parts: PaddedParts, mean: Tensor, variance: Tensor) -> PriorStatistics:
        kinds = Members(parts.mask, parts.kind, parts.n_kinds)
        deviation = mean - self.mean[parts.kind]
        number = kinds.sizes(mean.dtype).sum(0)
        return PriorStatistics(
            kinds.total(deviation**2 + variance).sum(0), kinds.total(deviation).sum(0), number, number
        )

    def _of_blocks(self, parts: Parts, q: Normal | PartsGaussian | Correlated) -> PriorStatistics:
        """W_c ~ N(n m, n p^2): the best p^2 is the mean over wholes of E[(W_c - n m)^2] / n."""
        n = parts.counts.to(q.mean.dtype)[..., None]
        deviation = (q.mean - n * self.mean).masked_fill(n == 0, 0.0)
        square = (deviation**2 + q.variance).masked_fill(n == 0, 0.0) / n.clamp(min=1)
        return PriorStatistics(square.sum(0), deviation.sum(0), n.sum(0), (n > 0).to(n.dtype).sum(0))

    def _of_one_sum(self, parts: Parts, q: Normal | PartsGaussian | Correlated) -> PriorStatistics:
        """Kinds mixed in one sum have no closed-form optimum; one EM step uses the parts' moments under the bridge."""
        n = parts.counts.to(q.mean.dtype)[..., None]
        mean, variance = self.moments()
        total_mean, total = (n * mean).sum(1, keepdim=True), (n * variance).sum(1, keepdim=True)
        share = variance / total
        deviation = share * (q.mean - total_mean)
        square = deviation**2 + variance + share**2 * (q.variance - total)
        number = n.sum(0)
        return PriorStatistics((n * square).sum(0), (n * deviation).sum(0), number, number)

    @torch.no_grad()
    def m_step(self, statistics: PriorStatistics, rate: float | None = None) -> None:
        """Move m_c and p_c^2 by ``rate`` towards their optimum given q; kinds that were not seen stay."""
        rate = self.config.prior.rate if rate is None else rate
        seen = statistics.parts > 0
        step = rate * statistics.deviation / statistics.parts.clamp(min=1)
        square = statistics.square - 2 * step * statistics.deviation + step**2 * statistics.parts
        variance = variance_of(self.log_variance).lerp(square / statistics.terms.clamp(min=1), rate)
        self.mean.add_(torch.where(seen, step, 0.0))
        floor = 2 * torch.log(torch.tensor(self.config.prior.floor))
        self.log_variance.copy_(torch.where(seen, variance.log().clamp(min=float(floor)), self.log_variance))

    @torch.no_grad()
    def set_moments(self, mean: Tensor, variance: Tensor, seen: Tensor) -> None:
        """m_c and p_c^2 of the kinds that were seen, above the floor.  mean, variance: (C, d).  seen: (C,) bool."""
        log_variance = raised(variance, self.config.prior.floor)
        self.mean.copy_(torch.where(seen[:, None], mean, self.mean))
        self.log_variance.copy_(torch.where(seen[:, None], log_variance, self.log_variance))
