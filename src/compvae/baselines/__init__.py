"""Other ways to p(x | parts), by name: what our models are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from compvae.baselines.base import Baseline, Budget, Sampler
from compvae.baselines.cvae import ConditionalVAE
from compvae.baselines.flow import Flow
from compvae.baselines.gaussian import Gaussian
from compvae.baselines.independent import Independent
from compvae.baselines.matching import FlowMatching
from compvae.baselines.paper import Paper, parameters_of
from compvae.errors import ConfigError
from compvae.model import Model
from compvae.problems import Problem

__all__ = [
    "BASELINES",
    "Baseline",
    "Budget",
    "ConditionalVAE",
    "Flow",
    "FlowMatching",
    "Gaussian",
    "Independent",
    "Paper",
    "Sampler",
    "Unfitted",
    "fitted",
    "known_baselines",
]


class Unfitted(Sampler, Protocol):
    """What every baseline offers."""

    def fit(self, budget: Budget) -> Self:
        """Learn from draws of the problem."""


BASELINES: dict[str, Callable[[Problem, Model, int], Unfitted]] = {
    Independent.name: lambda problem, model, seed: Independent(problem, model),
    Gaussian.name: lambda problem, model, seed: Gaussian(problem),
    ConditionalVAE.name: lambda problem, model, seed: ConditionalVAE(problem, seed),
    Flow.name: lambda problem, model, seed: Flow(problem, seed),
    FlowMatching.name: lambda problem, model, seed: FlowMatching(problem, seed),
    Paper.name: lambda problem, model, seed: Paper(problem, parameters_of(model.network)),
}


def known_baselines(text: str, problem: Problem) -> list[str]:
    """Names separated by commas; "all" stands for all of them that suit the problem."""
    if text.strip() == "all":
        return [name for name in BASELINES if name != Gaussian.name or Gaussian.suits(problem)]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in BASELINES:
            raise ConfigError(f"baseline {name!r} is unknown, the baselines are {', '.join(BASELINES)}, or all")
    return list(dict.fromkeys(names))


def fitted(name: str, problem: Problem, model: Model, budget: Budget) -> Sampler:
    """The baseline of that name, fitted beside a model of the same problem."""
    return BASELINES[known_baselines(name, problem)[0]](problem, model, budget.seed).fit(budget)
