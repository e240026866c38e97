"""EM for the base: given z and the kinds' factors W is a linear regression, given the regression they are Gaussian.

    E   z, factors of each kind | W: closed form, wholes with one z together           (base.py)
    M   [m_c, M_c, L_c, B_c] by least squares of W on [n_c (1, a), sqrt(n_c) factors_c, n_c z], weighted by 1 / Var W
        d_c = mean square of each kind's share of what is left

Starts at least squares: of W on the counts, and of the products of what is left on n_c, 1 and K^2, both weighted by
the variance that each composition has.
"""

from __future__ import annotations

import torch
from torch import Tensor

from compvae.batch import Shared
from compvae.transport.base import Base, with_whole

__all__ = ["fit_base", "raise_noise_"]

RIDGE = 1e-6  # relative, for regressors that hardly vary
SMALLEST = 1e-4  # scale of a value, relative to the largest: values that are constant have one too
LEAST_NOISE = 1e-6  # d_c in units of scale^2
PAIR_NUMBERS, PAIR_ROUNDS = 2**20, 20  # values of wholes with one z that are looked at, and how often
MOST_AXES = 512  # in which second moments are taken apart
MOST_WEIGHTED = 2**23  # numbers of the normal equations, beyond which all values of a whole have one weight
CHUNK_NUMBERS = 2**24  # of the loadings of one chunk


@torch.no_grad()
def fit_base(
    base: Base, w: Tensor, counts: Tensor, context: Tensor, groups: Shared | None, rounds: int, rows: int = 1500
) -> Base:
    """Fit in place.  w: W in its own units, (N, T).  counts: (N, C).  context: (N, E).  groups: which have one z.

    rounds: of EM.  rows: that EM sees, the first ones; all else is fitted to all.
    """
    w, counts, context = w.double(), counts.double(), context.double()
    size = counts.sum(1, keepdim=True)
    design = _design(counts, context)
    means, variance = _weighted_means(design, w, counts)
    scale = ((w - design @ means).square() / size).mean(0).sqrt()
    scale = scale.clamp(min=max(SMALLEST * float(scale.max()), 1e-30))
    base.scale.copy_(scale)
    base.means.copy_((means / scale).view_as(base.means))
    width = (variance / scale.square()).mean(1, keepdim=True)
    _fit_variation(base, w / scale, counts, context, width, groups, rounds, rows)
    return base


def _fit_variation(
    base: Base, w: Tensor, counts: Tensor, context: Tensor, width: Tensor, groups: Shared | None, rounds: int, rows: int
) -> None:
    """All but the means, in place.  w: in units of scale, (N, T).  width: variance of each whole, (N, 1)."""
    means = base.means.clone()
    residual = w - base.mean(counts, context)
    base.spread_by.copy_(_spread_by_context(residual.square().mean(1) / counts.sum(1), context))
    _start(base, residual / base.factor(context), counts, width, groups)
    few = slice(0, rows)
    some = None if groups is None else Shared.of(groups.group[few])
    for _ in range(rounds):
        _round(base, w[few], counts[few], context[few], width[few], some)
    base.means.copy_(means)  # of all rows, each weighted by its own variance
    _match_variance(base, w, counts, context, groups is not None)


def _weighted_means(design: Tensor, w: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """E W as a function of the design, (P, T), and Var W of each whole's values, (N, T).

    Least squares, first with one weight for all values, then weighted by each value's variance at each composition: a
    kind that varies little is not drowned by one that varies much.  design: (N, P).  w: (N, T).  counts: (N, C).
    """
    size = counts.sum(1, keepdim=True)
    square, means = (design / size).T @ (design / size), torch.zeros(design.shape[1], w.shape[1], dtype=w.dtype)
    for _ in range(2):  # the second time nothing is left of what the ridge takes away
        means = means + _least_squares(square, (design / size).T @ ((w - design @ means) / size))
    variance = _variance(w - design @ means, counts, size)
    if design.shape[1] ** 2 * w.shape[1] > MOST_WEIGHTED:
        return means, variance
    for _ in range(2):
        squares = torch.einsum("np,nt,nq->tpq", design, 1 / variance, design)
        ridge = RIDGE * squares.diagonal(dim1=1, dim2=2).mean(1)[:, None, None] * torch.eye(len(means), dtype=w.dtype)
        product = design.T @ ((w - design @ means) / variance)
        means = means + torch.linalg.solve(squares + ridge, product.T[..., None])[..., 0].T
        variance = _variance(w - design @ means, counts, variance.mean(1, keepdim=True))
    return means, variance


def _variance(residual: Tensor, counts: Tensor, width: Tensor) -> Tensor:
    """Var W of each whole's values, (N, T): linear in n_c, 1 and K^2, by least squares of squares.

    residual: W - E W, (N, T).  counts: (N, C).  width: to which errors are in proportion, (N, 1).
    """
    size = counts.sum(1, keepdim=True)
    grown = torch.cat([with_whole(counts), size.square()], 1)
    terms = grown / width
    square = terms.T @ terms
    square = square + 1e-6 * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    each = torch.linalg.solve(square, terms.T @ (residual.square() / width))  # (C + 2, T)
    pooled = (residual.square() / size).mean(0)
    least = 1e-3 * pooled + LEAST_NOISE * pooled.mean() + 1e-300
    each = torch.cat([torch.maximum(each[:-1], least), each[-1:].clamp(min=0)])
    return grown @ each


def _match_variance(base: Base, w: Tensor, counts: Tensor, context: Tensor, known: bool) -> None:
    """Make the variance of each value that of the data: EM gets there slowly.  w: (N, T), in units of scale.

    known: what is shared was seen between wholes, and stays.
    """
    size = counts.sum(1, keepdim=True)
    shared = base.shared_loadings(counts).square().sum(2) * base.factor(context).square()
    held = (shared / size).mean(0) if known else torch.zeros_like(shared[0])
    real = ((w - base.mean(counts, context)).square() / size).mean(0)
    drawn = (base.spread(counts, context).square() / size).mean(0)
    ratio = ((real - held) / (drawn - held)).clamp(0.1, 10.0).to(base.noise.dtype)
    base.noise.mul_(ratio)
    base.loadings.mul_(ratio.sqrt()[:, None])
    if not known:
        base.shared.mul_(ratio.sqrt()[:, None])


@torch.no_grad()
def raise_noise_(base: Base, floor: float) -> None:
    """d_c at least floor^2 of each kind's variance: where wholes vary in fewer ways than they have values, the map sees
    noise of one and the same size at both of its ends, and leaves it as it is."""
    own = base.loadings.square().sum(2) + base.noise
    base.noise.copy_(torch.maximum(base.noise, floor**2 * own))


def _design(counts: Tensor, context: Tensor) -> Tensor:
    """n_c (1, a), flat, (N, (C + 1)(1 + E))."""
    told = torch.cat([torch.ones_like(counts[:, :1]), context], 1)
    return (with_whole(counts)[:, :, None] * told[:, None]).flatten(1)


def _least_squares(square: Tensor, product: Tensor) -> Tensor:
    """(P, P), (P, T) -> (P, T)."""
    ridge = RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    solved: Tensor = torch.linalg.solve(square + ridge, product)
    return solved


def _spread_by_context(square: Tensor, context: Tensor) -> Tensor:
    """g of Var ~ e^(2 g a), by regression of the logarithm, shrunk.  square: (N,).  context: (N, E) -> (E,)."""
    if not context.shape[1]:
        return context.new_zeros(0)
    target = square.clamp(min=1e-12).log()
    design, target = context - context.mean(0), target - target.mean()
    normal = design.T @ design + (1 + 0.01 * len(design)) * torch.eye(design.shape[1], dtype=design.dtype)
    solved: Tensor = torch.linalg.solve(normal, design.T @ target)
    return 0.5 * solved


def _start(base: Base, residual: Tensor, counts: Tensor, width: Tensor, groups: Shared | None) -> None:
    """Second moments of what the means leave, by least squares: Cov W = sum_c n_c S_c + S_0 + shared, cut to its axes.

    What wholes share is seen between those that share it; where none are known to, it is what grows with K^2.
    residual: (N, T), in units of scale.  counts: (N, C).  width: variance of each whole, (N, 1).
    """
    size = counts.sum(1, keepdim=True)
    between = None if groups is None else _between(residual, counts, width, groups, base.factors)
    terms = with_whole(counts) if between is not None else torch.cat([with_whole(counts), size**2], 1)
    terms = terms / width  # every row has errors of one size, over its variance
    square = terms.T @ terms
    square = square + 1e-4 * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    solver = torch.linalg.solve(square, terms.T) / width[:, 0]  # (C + 1 or C + 2, N)
    known = residual.new_zeros(len(residual), residual.shape[1], 0)  # what wholes share, of each
    if between is not None:
        base.shared.copy_(between)
        known = torch.einsum("bc,ctz->btz", counts, between)
    known_square = known.square().sum(2)
    pooled = (residual / size.sqrt()).square().mean(0)
    basis = _basis(residual / size.sqrt())
    seen, known = (residual, known) if basis is None else (residual @ basis, basis.T @ known)
    for kind, weights in enumerate(solver):
        covariance = (seen * weights[:, None]).T @ seen
        covariance = covariance - torch.einsum("b,btz,bsz->ts", weights, known, known)
        loadings = _axes(covariance, base.rank if kind <= base.kinds else base.factors)
        loadings = loadings if basis is None else basis @ loadings
        if kind > base.kinds:
            base.shared.copy_(loadings.expand_as(base.shared))
        else:
            base.loadings[kind] = loadings
            own = weights @ residual.square() - weights @ known_square
            base.noise[kind] = (own - loadings.square().sum(1)).clamp(min=1e-3 * pooled + LEAST_NOISE)


def _between(residual: Tensor, counts: Tensor, width: Tensor, groups: Shared, factors: int) -> Tensor | None:
    """B_c by least squares of products of two wholes with one z, (C, T, Z): E r r'^T = (sum n_c B_c)(sum n'_c B_c)^T.

    One side at a time: with the other side known it is a linear regression.  None where no two wholes share a z.
    residual: (N, T).  counts: (N, C).  width: variance of each whole, (N, 1).
    """
    values = residual.shape[1]
    first = (groups.group[1:] == groups.group[:-1]).nonzero()[: PAIR_NUMBERS // values, 0]
    if not len(first) or not factors:
        return None
    rows, others = torch.cat([first, first + 1]), torch.cat([first + 1, first])
    here, there, n, m = residual[rows], residual[others], counts[rows], counts[others]
    weight = 1 / (width[rows, 0] * width[others, 0])  # over the variance of a product
    sizes = n.sum(1) * m.sum(1)
    pooled = (here * (weight * sizes)[:, None]).T @ there / (weight * sizes.square()).sum()
    found = _axes(pooled, factors).expand(counts.shape[1], values, factors)
    for _ in range(PAIR_ROUNDS):
        loading = torch.einsum("pc,ctz->ptz", m, found)
        gram, seen = loading.mT @ loading, (there[:, None] @ loading)[:, 0]
        square = torch.einsum("p,pc,pd,pyz->cydz", weight, n, n, gram).reshape(n.shape[1] * factors, -1)
        product = torch.einsum("p,pc,pz,pt->czt", weight, n, seen, here).flatten(0, 1)
        square = square + 1e-3 * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
        solved = torch.linalg.solve(square, product).view(n.shape[1], factors, values).mT
        found = (found + solved) / 2  # both sides are one and the same: half a step does not overshoot
    return found


def _axes(covariance: Tensor, columns: int) -> Tensor:
    """L with L L' the nearest covariance of so many factors.  covariance: (T, T) -> (T, columns)."""
    values, axes = torch.linalg.eigh((covariance + covariance.T) / 2)
    return _padded(axes.flip(1)[:, :columns] * values.flip(0)[:columns].clamp(min=0).sqrt(), columns)


def _basis(residual: Tensor) -> Tensor | None:
    """Directions in which wide wholes vary, (T, A): covariances of all their values are too large to be taken apart.

    residual: (N, T).  None where there are few values.
    """
    if residual.shape[1] <= MOST_AXES:
        return None
    rows = residual[:: -(-len(residual) // MOST_AXES)]
    axes: Tensor = torch.linalg.svd(rows, full_matrices=False)[2]
    return axes.T


def _padded(loadings: Tensor, columns: int) -> Tensor:
    """(T, R') -> (T, columns): with zeros where there are fewer values than factors."""
    return torch.cat([loadings, loadings.new_zeros(len(loadings), columns - loadings.shape[1])], 1)


def _round(base: Base, w: Tensor, counts: Tensor, context: Tensor, variance: Tensor, groups: Shared | None) -> None:
    """One E-step and one M-step.  w: (N, T), in units of scale.  variance: of each whole, (N, 1)."""
    kinds, rank, factors = base.kinds, base.rank, base.factors
    values, width = w.shape[1], (kinds + 1) * rank
    expanded = torch.cat([torch.arange(width), width + torch.arange(factors).repeat(kinds)])
    designs = _design(counts, context) / base.factor(context)
    w, fixed = w / base.factor(context), designs.shape[1]
    square = torch.zeros(fixed + len(expanded), fixed + len(expanded), dtype=w.dtype)
    product = torch.zeros(len(square), values, dtype=w.dtype)
    noise, seen = torch.zeros(kinds + 1, values, dtype=w.dtype), torch.zeros(kinds + 1, dtype=w.dtype)
    means = base.means.double().flatten(0, 1)
    together = None if groups is None else _z_of_all(base, w - designs @ means, counts, groups)
    for rows in _chunks(len(w), values * (width + factors + 1)):
        n, design = with_whole(counts[rows]), designs[rows]
        residual = w[rows] - design @ means
        parts = base.factorised(counts[rows])
        if together is None:
            z, z_covariance = parts.z_given(residual[..., None], None)
        else:
            z, z_covariance = together[0][rows], together[1][rows]
        gain = parts.inverse @ (parts.loadings / parts.noise[..., None]).mT  # (B, F, T)
        of_z = gain @ parts.shared
        own = (gain @ (residual - (parts.shared @ z[..., None])[..., 0])[..., None])[..., 0]
        mean = torch.cat([own, z], 1)
        cross = -of_z @ z_covariance
        covariance = torch.cat(
            [
                torch.cat([parts.inverse - cross @ of_z.mT, cross], 2),
                torch.cat([cross.mT, z_covariance], 2),
            ],
            1,
        )
        moments = covariance + mean[:, :, None] * mean[:, None]
        weights = torch.cat([n.sqrt().repeat_interleave(rank, 1), counts[rows].repeat_interleave(factors, 1)], 1)
        inverse = 1 / variance[rows]
        regressors = mean[:, expanded] * weights
        scaled = weights * inverse.sqrt()
        square[:fixed, :fixed] += (design * inverse).T @ design
        square[:fixed, fixed:] += (design * inverse).T @ regressors
        square[fixed:, fixed:] += (moments[:, expanded][:, :, expanded] * scaled[:, :, None] * scaled[:, None]).sum(0)
        product += torch.cat([design, regressors], 1).mul(inverse).T @ residual
        loadings = torch.cat([parts.loadings, parts.shared], 2)
        left = (residual - (loadings @ mean[..., None])[..., 0]).square() + ((loadings @ covariance) * loadings).sum(2)
        share = n[..., None] * base.noise.double() / parts.noise[:, None]  # (B, C + 1, T)
        noise += (share.square() * left[:, None] + share * (1 - share) * parts.noise[:, None]).sum(0)
        seen += n.sum(0)
    square[fixed:, :fixed] = square[:fixed, fixed:].T
    solved = _least_squares(square, product)
    base.means.copy_((means + solved[:fixed]).view_as(base.means))  # a ridge on what changes: means may be large
    base.loadings.copy_(solved[fixed : fixed + width].view(kinds + 1, rank, values).mT)
    base.shared.copy_(solved[fixed + width :].view(kinds, factors, values).mT)
    pooled = noise.sum(0) / seen.sum()
    base.noise.copy_(((noise + pooled) / (seen + 1)[:, None]).clamp(min=LEAST_NOISE))


def _z_of_all(base: Base, residual: Tensor, counts: Tensor, groups: Shared) -> tuple[Tensor, Tensor]:
    """Mean (N, Z) and covariance (N, Z, Z) of each whole's z, given all wholes that share it.  residual: (N, T)."""
    information, score = [], []
    for rows in _chunks(len(residual), residual.shape[1] * ((base.kinds + 1) * base.rank + base.factors + 1)):
        found = base.factorised(counts[rows]).messages(residual[rows, :, None])
        information.append(found[0])
        score.append(found[1])
    precision, total = torch.cat(information), torch.cat(score)
    precision, total = groups.total(precision)[groups.group], groups.total(total)[groups.group]
    covariance = torch.linalg.inv(precision + torch.eye(base.factors, dtype=precision.dtype))
    return (covariance @ total[..., None])[..., 0], covariance


def _chunks(rows: int, numbers: int) -> list[slice]:
    """Rows a few at a time, each of so many numbers."""
    size = max(1, min(512, CHUNK_NUMBERS // max(1, numbers)))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
