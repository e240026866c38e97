"""What data shows before anything is trained: its limits, whole numbers, link, growth with K, numbers of factors.

Links and growths are compared by the base alone, fitted to wholes with few parts: by the energy score, in the units of
x, of wholes with as many parts and of wholes with more.  Numbers of factors are compared by the base's likelihood.
Both on wholes that the fit has not seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from compvae.batch import Batch, Shared
from compvae.context import context_size
from compvae.errors import DataError
from compvae.noise import Noise
from compvae.transport.base import Base
from compvae.transport.config import LinkName, TransportConfig
from compvae.transport.expectation import fit_base
from compvae.transport.link import Link, within
from compvae.transport.network import base_of

__all__ = [
    "Candidate",
    "Structure",
    "best_of",
    "find_structure",
    "limits_of",
    "nonnegative_kinds",
    "undetermined_kinds",
]

ATOM = 0.005  # share of values on one limit that makes it a limit
FEWEST_ALONE = 100  # wholes of one kind that show in how many directions it varies
FEWEST_NONNEGATIVE = 30  # wholes of such kinds alone, that show that they are never below 0
FEW_ROWS, FEW_ROUNDS = 1000, 1  # of EM in a comparison
DRAWS = 32  # of the base, for each whole that is scored
SCORED, SCORED_NUMBERS = 400, 2**24  # wholes, and numbers drawn for them at most
FEWEST_SCORED = 20
RANKS = (3, 8)
MOST_SHARED = 6  # factors that wholes share, where some are known to
MOST_FACTORS = 96  # of all kinds together: the cost of EM grows with their square
CLEARLY = 0.1  # of the logarithm of a score, by which a link must beat none: a limit on x is a strong claim
BARELY = 0.02  # the same of the bend: that nothing is below 0 is said without it too, and it fades with K
GAIN = 0.002  # nats a value that more factors must bring on unseen wholes
THICK, THICK_VALUES, THICK_FLOOR = 0.05, 16, 0.02  # few values that all vary on their own by so much need less noise


@dataclass(frozen=True)
class Candidate:
    """A link and a growth, with their scores: energy score over the best one's, in and beyond the fitted sizes."""

    link: LinkName
    extensive: bool
    inside: float
    beyond: float

    @property
    def total(self) -> float:
        """Lower is better; one scored on sizes within alone has no beyond."""
        parts = [math.log(score) for score in (self.inside, self.beyond) if math.isfinite(score)]
        return sum(parts) if parts else math.inf


@dataclass(frozen=True)
class Structure:
    """config: what was chosen.  candidates: what it was chosen from, best first."""

    config: TransportConfig
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class _Wholes:
    """x: (N, T).  counts: (N, C).  sizes: K, (N, 1).  context: (N, E), all float64.  groups: which have one z."""

    x: Tensor
    counts: Tensor
    sizes: Tensor
    context: Tensor
    groups: Shared | None

    @classmethod
    def of(cls, batch: Batch, covariates: int) -> _Wholes:
        """A batch, flat."""
        counts = batch.parts.counts.double()
        context = counts.new_zeros(len(counts), covariates) if batch.all_told is None else batch.all_told.double()
        return cls(batch.x.flatten(1).double(), counts, counts.sum(1, keepdim=True), context, batch.shared)

    def at(self, rows: Tensor) -> _Wholes:
        """Some of them.  rows: (R,) int64."""
        groups = None if self.groups is None else Shared.of(self.groups.group[rows])
        return _Wholes(self.x[rows], self.counts[rows], self.sizes[rows], self.context[rows], groups)


@torch.no_grad()
def find_structure(plain: TransportConfig, training: Batch, unseen: Batch) -> Structure:
    """Look at training wholes and wholes that are held out, and choose.  plain: what is not a matter of choice."""
    covariates = context_size(plain.context)
    fitted, judged = _Wholes.of(training, covariates), _Wholes.of(unseen, covariates)
    _require_variation(fitted)
    lower, upper, integers = limits_of(fitted.x)
    config = plain.with_changes(
        lower=lower, upper=upper, integers=integers, nonnegative=nonnegative_kinds(fitted.x, fitted.counts)
    )
    ranked = sorted(_scored(config, fitted, judged), key=lambda candidate: candidate.total)
    best = best_of(ranked)
    changes: dict[str, object] = {"link": best.link, "extensive": best.extensive}
    if best.link in ("saturation", "logit") and upper is None:
        link = Link(best.link, fitted.x.shape[1], best.extensive).fit_(fitted.x, fitted.sizes)
        changes["upper"] = float(link.low + link.unit[0])
    config = config.with_changes(**changes)
    rank, factors = _ranks(config, fitted, judged)
    config = config.with_changes(rank=rank, factors=factors)
    if _thickness(config, fitted) > THICK:
        on_limits = any(bool((fitted.x == end).any()) for end in (config.lower, config.upper) if end is not None)
        config = config.with_changes(floor=min(config.floor, THICK_FLOOR), whitened=not on_limits)
    return Structure(config, tuple(ranked))


def best_of(ranked: list[Candidate]) -> Candidate:
    """The best of those that beat the best one without a link by their margin; it itself where none does."""
    unlinked = next(candidate for candidate in ranked if candidate.link == "identity")
    margins = [BARELY if candidate.link == "bend" else CLEARLY for candidate in ranked]
    beating = (c for c, margin in zip(ranked, margins, strict=True) if c.total < unlinked.total - margin)
    return next(beating, unlinked)


def _thickness(config: TransportConfig, wholes: _Wholes) -> float:
    """Least standard deviation in any direction, values in units of their spread: of all wholes and of each kind alone.

    0 where there are many values: then it is hardly ever more, and noise fills what is missing.
    """
    if wholes.x.shape[1] > THICK_VALUES or config.integers:
        return 0.0
    base, link = _fitted(config, wholes, FEW_ROUNDS)
    y = link(wholes.x, wholes.sizes)
    w = (y if config.extensive else y * wholes.sizes) / base.scale.double()
    residual = (w - base.mean(wholes.counts, wholes.context)) / wholes.sizes.sqrt()
    alone = (wholes.counts == wholes.sizes).T
    clouds = [residual, *(residual[rows] for rows in alone if int(rows.sum()) >= FEWEST_ALONE)]
    return min(_least_spread(cloud) for cloud in clouds)


def _least_spread(cloud: Tensor) -> float:
    """Least standard deviation in any direction, each value in units of its own.  cloud: (N, T)."""
    away = cloud - cloud.mean(0)
    away = away / away.square().mean(0).sqrt().clamp(min=1e-300)
    return float(torch.linalg.eigvalsh(away.T @ away / len(away))[0].clamp(min=0).sqrt())


def _require_variation(wholes: _Wholes) -> None:
    """Complain where there is nothing to be learnt."""
    if bool((wholes.x == wholes.x[0]).all()):
        raise DataError(
            "all training wholes are alike, so there is nothing to learn from them: give wholes that differ, or more "
            "than one"
        )


def _scored_rows(values: int, each: int) -> int:
    """How many unseen wholes are scored.  each: numbers that are held for each of their values."""
    return max(FEWEST_SCORED, min(SCORED, SCORED_NUMBERS // (values * each)))


def limits_of(x: Tensor) -> tuple[float | None, float | None, bool]:
    """Lower limit, upper limit, whole numbers.  x: (N, T)."""
    low, high = float(x.min()), float(x.max())
    at_low, at_high = (float((x == end).double().mean()) for end in (low, high))
    lower = 0.0 if low >= 0 else low if at_low >= ATOM and low < high else None
    upper = 0.0 if high <= 0 else high if at_high >= ATOM and low < high else None
    integers = bool((x == x.round()).all()) and high > low
    return lower, None if integers else upper, integers


def nonnegative_kinds(x: Tensor, counts: Tensor) -> tuple[int, ...]:
    """Kinds that are never below 0, where others are.

    Kinds that are below 0 on their own are; of a whole below 0 without any of them, each part may be.  Empty where no
    value is below 0, and where too few wholes have parts of the other kinds alone.  x: (N, T).  counts: (N, C).
    """
    below, present = (x < 0).any(1), counts > 0
    pure = present.sum(1) == 1
    found = present[below & pure].any(0)
    unexplained = below & ~(present & found).any(1)
    found = found | present[unexplained].any(0)
    others = present.any(0) & ~found
    alone = (~(present & ~others).any(1)).nonzero()[:, 0]
    shown = present[alone].sum(0) >= FEWEST_NONNEGATIVE
    return tuple((others & shown).nonzero()[:, 0].tolist()) if bool(below.any()) else ()


def _links(config: TransportConfig, x: Tensor) -> Iterator[tuple[LinkName, bool]]:
    """Links and growths that the data's range allows."""
    low, high = float(x.min()), float(x.max())
    yield from (("identity", True), ("identity", False))
    if config.integers or low == high:
        return
    yield ("saturation", True)  # below 0 too: noise takes what saturates there
    if low >= 0:
        yield from (("bend", True), ("bend", False), ("logit", False))
    if low > 0 and high > math.e**2 * low:
        yield from (("log", True), ("log", False))


def _scored(config: TransportConfig, fitted: _Wholes, judged: _Wholes) -> list[Candidate]:
    """Every candidate by the energy score of its base."""
    cut = float(fitted.sizes.max()) / 2
    small, large = (fitted.sizes <= cut).flatten(), (judged.sizes > cut).flatten()
    several = bool(small.sum() >= 50) and bool(large.sum() >= 20)
    rows = small.nonzero()[:, 0] if several else torch.arange(len(fitted.x))
    training = fitted.at(rows)
    scored = _scored_rows(fitted.x.shape[1], DRAWS)
    inside = judged.at(((~large) if several else torch.ones_like(large)).nonzero()[:scored, 0])
    beyond = judged.at(large.nonzero()[:scored, 0]) if several else None
    found = []
    for link, extensive in _links(config, fitted.x):
        here = config.with_changes(link=link, extensive=extensive, rank=min(4, fitted.x.shape[1]), factors=1)
        base, units = _fitted(here, training, FEW_ROUNDS)
        scores = [math.nan if wholes is None else _score(here, base, units, wholes) for wholes in (inside, beyond)]
        found.append(Candidate(link, extensive, *scores))
    return found


def _fitted(config: TransportConfig, wholes: _Wholes, rounds: int) -> tuple[Base, Link]:
    values = wholes.x.shape[1]
    link = Link(config.link, values, config.extensive).fit_(wholes.x, wholes.sizes)
    y = link(wholes.x, wholes.sizes)
    base = base_of(config)
    w = y if config.extensive else y * wholes.sizes
    return fit_base(base, w, wholes.counts, wholes.context, wholes.groups, rounds, FEW_ROWS), link


def _score(config: TransportConfig, base: Base, link: Link, wholes: _Wholes) -> float:
    """Mean energy score of the base's draws, in the units of x; infinite where they are not finite."""
    count = len(wholes.x)
    rows = torch.arange(count).repeat_interleave(DRAWS)
    many = wholes.at(rows)
    w = base.mean(many.counts, many.context) + base.draw(many.counts, many.context, Noise(0, len(rows)))
    y = w * base.scale.double() / (1 if config.extensive else many.sizes)
    x = within(link.inverse(y, many.sizes), config.lower, config.upper).view(count, DRAWS, -1)
    if not torch.isfinite(x).all():
        return math.inf
    near = (x - wholes.x[:, None]).norm(dim=2).mean(1)
    apart = torch.cdist(x, x).sum((1, 2)) / (DRAWS * (DRAWS - 1))
    return float((near - apart / 2).mean().clamp(min=1e-30))


def _ranks(config: TransportConfig, fitted: _Wholes, judged: _Wholes) -> tuple[int, int]:
    """Factors of each kind and of z, by the likelihood of unseen wholes under the base."""
    values, kinds = fitted.x.shape[1], config.parts.n_kinds
    most = max(1, min(values, MOST_FACTORS // (kinds + 1)))
    training, unseen = (
        fitted,
        judged.at(torch.arange(min(len(judged.x), _scored_rows(values, MOST_FACTORS)))),
    )

    def score(rank: int, factors: int) -> float:
        base, link = _fitted(config.with_changes(rank=rank, factors=factors), training, FEW_ROUNDS)
        y = link(unseen.x, unseen.sizes)
        w = (y if config.extensive else y * unseen.sizes) / base.scale.double()
        deviation = w - base.mean(unseen.counts, unseen.context)
        return float(base.log_prob(deviation, unseen.counts, unseen.context, unseen.groups).mean()) / values

    ranks = sorted({min(rank, most) for rank in RANKS})
    factors = min(3, values)
    best, value = ranks[0], score(ranks[0], factors)
    for rank in ranks[1:]:
        new = score(rank, factors)
        if not new > value + GAIN:
            break
        best, value = rank, new
    if fitted.groups is not None:
        scores = [
            _pairs_score(config.with_changes(rank=best, factors=z), fitted, judged) for z in range(1, factors + 1)
        ]
        return best, 1 + scores.index(max(scores))
    return best, factors if value >= score(best, 0) else 0


def _pairs_score(config: TransportConfig, fitted: _Wholes, judged: _Wholes) -> float:
    """- E |r r'^T - B_n z z^T B_n'^T|^2 up to a constant, over unseen pairs r, r' with one z; higher is better.

    What wholes share is seen between them: factors that fit the noise of the training pairs do not predict others.
    """
    base, link = _fitted(config, fitted, FEW_ROUNDS)
    assert judged.groups is not None
    first = (judged.groups.group[1:] == judged.groups.group[:-1]).nonzero()[:, 0]
    y = link(judged.x, judged.sizes)
    w = (y if config.extensive else y * judged.sizes) / base.scale.double()
    width = base.spread(judged.counts, judged.context).square().mean(1, keepdim=True).sqrt()
    residual = (w - base.mean(judged.counts, judged.context)) / width
    loadings = base.shared_loadings(judged.counts) / width[..., None]
    one, other = loadings[first], loadings[first + 1]
    seen = (residual[first, None] @ one)[:, 0] * (residual[first + 1, None] @ other)[:, 0]  # (P, Z)
    fitted_square = ((one.mT @ one) * (other.mT @ other)).sum((1, 2))
    return float((2 * seen.sum(1) - fitted_square).sum())


def undetermined_kinds(schema_kinds: list[str], counts: Tensor, shared: bool) -> dict[str, str]:
    """Kinds whose own variation the data cannot tell from what parts share, each with the reason.

    counts: (N, C).  shared: whether some wholes are known to share what is drawn once.
    """
    found: dict[str, str] = {}
    sizes = counts.sum(1)
    centred = (counts - counts.mean(0)) / counts.std(0, unbiased=False).clamp(min=1e-12)
    alike = centred.T @ centred / len(counts)
    for kind, name in enumerate(schema_kinds):
        column = counts[:, kind]
        twins = [schema_kinds[j] for j in range(len(schema_kinds)) if j != kind and alike[kind, j] > 1 - 1e-9]
        if twins:
            found[name] = f"it always comes together with {twins[0]}"
        elif not bool((column > 0).any()):
            found[name] = "it does not occur"
        elif not shared and bool((sizes == sizes[0]).all()):
            found[name] = "all wholes have the same number of parts"
        elif not shared and float(column.max()) <= 1:
            found[name] = "no whole has two of it"
    return found
