"""Generated wholes of one composition, judged against exact ones by every measure that compares samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch

from compvae.evaluation.averages import Judged
from compvae.evaluation.hidden import Hidden, recover
from compvae.evaluation.plan import Plan
from compvae.measures import (
    Measured,
    c2st,
    distances_among,
    exceedance,
    moment_errors,
    rel_ed,
    rel_ed_splits,
    shadows,
    wasserstein_of_shadows,
)
from compvae.noise import Noise
from compvae.parts import Multiset
from compvae.problems import Problem

__all__ = ["Reference"]

QUANTILES = (0.9, 0.99)
FEW = 10  # pairs for the floor of a distance that has no short cut
PROJECTIONS = 100


class Reference:
    """The truth of one composition: exact samples, what is hidden in them, and what pairs of them give.

    Two pools of one half each: samples are compared with the first; floors come from random halves of both.
    """

    def __init__(self, problem: Problem, parts: Multiset, plan: Plan, seed: int) -> None:
        self.problem, self.parts, self.plan, self.seed = problem, parts, plan, seed
        self.pool = problem.truth(parts, 2 * plan.n, seed)

    @property
    def truth(self) -> np.ndarray:
        """Exact samples, (n, *shape)."""
        return self.pool[: self.plan.n]

    def judge(self, x: np.ndarray) -> dict[str, Judged]:
        """Every measure by name.  x: (n, *shape)."""
        distance = rel_ed(self.truth, x, self._among[: self.plan.n, : self.plan.n])
        judged = {"relED": Judged(distance.measured(), self._relative)}
        if math.isnan(distance.value):
            judged["RMSE of mean"] = Judged(Measured(distance.mean_rmse, math.nan, distance.n))
        far = wasserstein_of_shadows(self._shadows[: self.plan.n], shadows(x, PROJECTIONS))
        judged["sliced Wasserstein"] = Judged(far, self._far)
        moments = moment_errors(self.truth, x)
        judged |= {f"moment {name}": Judged(getattr(moments, name)) for name in ("mean", "std", "skew")}
        exceeded = _exceeded(self._scores[: self.plan.n], self._score(x))
        for quantile, found, null in zip(QUANTILES, exceeded, self._extreme, strict=True):
            judged[f"exceedance {quantile:g}"] = Judged(found, null)
        return judged | self._hidden_in(x)

    def _hidden_in(self, x: np.ndarray) -> dict[str, Judged]:
        found = self._recover(x)
        judged = {name: Judged(measured) for name, measured in found.measures().items()}
        usable = self._hidden.usable  # by the truth: what a model blurs must not drop out of sight
        if usable.any():
            told = c2st(self._hidden.features[:, usable], found.features[:, usable], self.seed)
            judged["C2ST"] = Judged(told.accuracy)
        return judged

    def _recover(self, x: np.ndarray) -> Hidden:
        return recover(self.problem, self.parts, x[: self.plan.recovered])

    def _score(self, x: np.ndarray) -> np.ndarray:
        """phi(x), (n,).  x: (n, *shape)."""
        return np.asarray(self.plan.statistic(x), np.float64)

    # -- the truth's own, computed once for all that are judged --------------------------------------------------

    @cached_property
    def _hidden(self) -> Hidden:
        return self._recover(self.truth)

    @cached_property
    def _relative(self) -> np.ndarray:
        return rel_ed_splits(self.pool, self.plan.splits, self.seed, self._among)

    @cached_property
    def _among(self) -> torch.Tensor:
        """Distances among the pool, (2 n, 2 n)."""
        return distances_among(self.pool)

    @cached_property
    def _shadows(self) -> np.ndarray:
        return shadows(self.pool, PROJECTIONS)

    @cached_property
    def _scores(self) -> np.ndarray:
        return self._score(self.pool)

    @cached_property
    def _far(self) -> np.ndarray:
        pairs = self._halves(self._shadows, min(FEW, self.plan.splits))
        return np.array([wasserstein_of_shadows(a, b).value for a, b in pairs])

    @cached_property
    def _extreme(self) -> np.ndarray:
        """(quantiles, splits)."""
        pairs = self._halves(self._scores, self.plan.splits)
        return np.array([[found.value for found in _exceeded(a, b)] for a, b in pairs]).T

    def _halves(self, pool: np.ndarray, splits: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """pool: what is known of each true sample, (2 n, *)."""
        order = Noise(self.seed, splits).uniform("halves", 2 * self.plan.n, dtype=torch.float64).argsort(1).numpy()
        for row in order:
            yield pool[row[: self.plan.n]], pool[row[self.plan.n :]]


def _exceeded(exact: np.ndarray, drawn: np.ndarray) -> list[Measured]:
    """|P(phi(x) >= t) - P(phi(truth) >= t)| at quantiles t of the truth.  exact, drawn: phi, (n,)."""
    found = exceedance(exact, drawn, np.quantile(exact, QUANTILES))
    return [Measured(abs(e.model.value - e.truth.value), math.hypot(e.model.se, e.truth.se), len(drawn)) for e in found]
