"""The base: W | composition is Gaussian: one term for each kind of part, one for the whole and one that parts share.

    W = sum_i w_i + w_0 + (sum_i B_{l_i}) z,   w_i ~ N(m_c + M_c a, L_c L_c' + diag d_c),  c = l_i,   z ~ N(0, I)

so that, with n_c parts of kind c, n_0 = 1 for what a whole brings beside its parts, and a the context,

    E W = sum_c n_c (m_c + M_c a),   Cov W = e^(2 g a) ( sum_c n_c (L_c L_c' + diag d_c) + (sum_c n_c B_c)(..)' )

The variance grows with K through the parts and with K^2 through what they share.  Given W everything is
linear-Gaussian: the terms of the kinds, w_0 and z have their posterior in closed form, several wholes with one z too.
What n alike parts have in common is their sum; the sum of n' of them, given it, is a bridge (docs/mathematics.md).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from compvae.batch import Shared
from compvae.noise import NormalSource
from compvae.transport.gaussian import LinearGaussian, Terms

__all__ = ["Base"]


class Base(nn.Module):
    """W given the composition, in units of ``scale``.

    scale: (T,).  means: of each kind and each covariate, (C + 1, 1 + E, T).  loadings: L_c, (C + 1, T, R).
    noise: d_c, (C + 1, T).  shared: B_c, (C, T, Z).  spread_by: g, (E,).
    """

    scale: Tensor
    means: Tensor
    loadings: Tensor
    noise: Tensor
    shared: Tensor
    spread_by: Tensor

    def __init__(self, kinds: int, values: int, rank: int, factors: int, covariates: int) -> None:
        super().__init__()
        self.kinds, self.rank, self.factors = kinds, rank, factors
        self.register_buffer("scale", torch.ones(values))
        self.register_buffer("means", torch.zeros(kinds + 1, 1 + covariates, values))
        self.register_buffer("loadings", torch.zeros(kinds + 1, values, rank))
        self.register_buffer("noise", torch.ones(kinds + 1, values))
        self.register_buffer("shared", torch.zeros(kinds, values, factors))
        self.register_buffer("spread_by", torch.zeros(covariates))

    # -- moments -------------------------------------------------------------------------------------------------

    def mean(self, counts: Tensor, context: Tensor) -> Tensor:
        """E W, (B, T).  counts: (B, C).  context: (B, E)."""
        told = torch.cat([torch.ones_like(counts[:, :1]), context], 1)
        weights = with_whole(counts)[:, :, None] * told[:, None]
        return weights.flatten(1) @ self.means.to(counts.dtype).flatten(0, 1)

    def spread(self, counts: Tensor, context: Tensor) -> Tensor:
        """Standard deviation of each value of W, (B, T).  counts: (B, C).  context: (B, E)."""
        own = self.loadings.to(counts.dtype).square().sum(2) + self.noise.to(counts.dtype)
        shared = self.shared_loadings(counts).square().sum(2)
        return (with_whole(counts) @ own + shared).sqrt() * self.factor(context)

    def shared_loadings(self, counts: Tensor) -> Tensor:
        """sum_c n_c B_c, (B, T, Z): what z does.  counts: (B, C)."""
        return torch.einsum("bc,ctz->btz", counts, self.shared.to(counts.dtype))

    def factor(self, context: Tensor) -> Tensor:
        """e^(g a), (B, 1): how much wider a whole with this context is.  context: (B, E)."""
        return (context @ self.spread_by.to(context.dtype)).clamp(-3, 3).exp()[:, None]

    # -- drawing -------------------------------------------------------------------------------------------------

    def draw(self, counts: Tensor, context: Tensor, source: NormalSource, z: Tensor | None = None) -> Tensor:
        """W - E W, (B, T): O(kinds) whatever K is.  counts: (B, C).  z: (B, Z), drawn where it is not given."""
        dtype, n = counts.dtype, with_whole(counts)
        rank = max(1, self.rank)  # noise is asked for by kind, so that it can belong to parts
        own = [source.normal("w", self.kinds, rank, dtype=dtype), source.normal("w/whole", 1, rank, dtype=dtype)]
        factors = torch.cat(own, 1)[..., : self.rank] * n.sqrt()[..., None]
        deviation = factors.flatten(1) @ self.loadings.to(dtype).mT.flatten(0, 1)
        rest = source.normal("w/rest", self.noise.shape[1], dtype=dtype)
        deviation = deviation + (n @ self.noise.to(dtype)).sqrt() * rest
        if self.factors:
            z = source.normal("z", self.factors, dtype=dtype) if z is None else z
            deviation = deviation + (self.shared_loadings(counts) @ z[..., None])[..., 0]
        return deviation * self.factor(context)

    def draw_terms(self, counts: Tensor, context: Tensor, source: NormalSource, name: str) -> Tensor:
        """The terms of the kinds one by one, (B, C', T) for counts (B, C'), C' = C or, with w_0, C + 1."""
        dtype, kinds = counts.dtype, counts.shape[1]
        own = source.normal(name, kinds, max(1, self.rank), dtype=dtype)[..., : self.rank]
        rest = source.normal(f"{name}/rest", kinds, self.noise.shape[1], dtype=dtype)
        each = torch.einsum("bcr,ctr->bct", own, self.loadings[:kinds].to(dtype))
        each = each + rest * self.noise[:kinds].to(dtype).sqrt()
        return each * counts.sqrt()[..., None] * self.factor(context)[..., None]

    # -- given W -------------------------------------------------------------------------------------------------

    def log_prob(self, deviation: Tensor, counts: Tensor, context: Tensor, groups: Shared | None = None) -> Tensor:
        """ln N(W - E W; 0, Cov W), nats (B,); that of wholes with one z is theirs together, split equally over them.

        deviation: W - E W, (B, T) float64.  counts: (B, C).
        """
        return self.factorised(counts, context).log_prob(deviation, groups)

    def posterior_mean(self, deviation: Tensor, counts: Tensor, context: Tensor, groups: Shared | None = None) -> Terms:
        """E[terms | W], one for each kind; their sum, with the loadings of z, is W - E W again.

        deviation: W - E W, (B, T) float64.  counts: (B, C).  groups: which wholes have one z.
        """
        return self.factorised(counts, context).posterior_mean(deviation, groups)

    def posterior(
        self, deviation: Tensor, counts: Tensor, context: Tensor, groups: Shared | None, source: NormalSource
    ) -> Terms:
        """A draw of the terms given W; noise that is 0 everywhere gives the means.

        Arguments as in :meth:`posterior_mean`.
        """
        each = self.draw_terms(with_whole(counts), context, source, "terms")
        z = source.normal("terms/z", max(1, self.factors), dtype=counts.dtype)[:, : self.factors]
        if groups is not None:
            z = z[groups.first][groups.group]
        return self.factorised(counts, context).conditioned(Terms(each, z), deviation, groups)

    def of_z(self, counts: Tensor, context: Tensor, z: Tensor) -> Tensor:
        """(sum_c n_c B_c) z, (B, T).  counts: (B, C).  z: (B, Z)."""
        return (self.shared_loadings(counts) @ z[..., None])[..., 0] * self.factor(context)

    def factorised(self, counts: Tensor, context: Tensor | None = None) -> LinearGaussian:
        """The terms of the kinds, of these compositions.  counts: (B, C).  context: (B, E), none for a factor of 1."""
        n = with_whole(counts)
        loadings = self.loadings.to(n.dtype) * n.sqrt()[:, :, None, None]  # (B, C + 1, T, R)
        noises = n[..., None] * self.noise.to(n.dtype)
        shared = self.shared_loadings(counts)
        factor = torch.ones_like(n[:, :1]) if context is None else self.factor(context)
        return LinearGaussian(loadings.transpose(1, 2).flatten(2), noises, shared, factor)


def with_whole(counts: Tensor) -> Tensor:
    """[n_1 .. n_C, 1]: what a whole brings beside its parts counts as one more part.  counts: (B, C)."""
    return torch.cat([counts, torch.ones_like(counts[:, :1])], 1)
