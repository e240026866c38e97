"""The models that are served: by name, with what a page needs to know of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import torch

import compvae
from compvae import problems
from compvae.api import load, shipped
from compvae.batch import unpad
from compvae.errors import CompVAEError, ConfigError
from compvae.model import Model
from compvae.noise import Noise
from compvae.parts import Multiset, Part
from compvae.problems import Problem
from compvae.server.faults import UnknownNameError
from compvae.server.joining import may_join
from compvae.server.limits import Limits
from compvae.server.schemas import Example, ModelOut, ModelsOut
from compvae.tails import EVENTS

__all__ = ["Catalogue", "Served"]

EXAMPLE_SIZES = (3, 2, 4, 6)
MANY_KINDS = 4  # up to so many parts of an example are all different
TOLD = ("parts", "placed", "n", "tail_n", "edits", "quantile", "seconds")  # of the limits, for the page


@dataclass(frozen=True)
class Served:
    """A model under the name it is asked for.

    source: as it was named to the server.  joins: its small requests can be run together.
    """

    name: str
    source: str
    model: Model
    problem: Problem | None
    joins: bool

    @classmethod
    def of(cls, source: str, limits: Limits) -> Served:
        """source: a shipped name, or a run or model directory; then it is called by the directory's name."""
        model = load(source)
        path = Path(source).resolve()
        name = source if source in shipped() else path.parent.name if path.name == "model" else path.name
        return cls(name, source, model, _problem(model), may_join(model, limits.joined))

    @cached_property
    def start(self) -> Multiset:
        """Parts to begin with."""
        kinds = self.model.parts.n_kinds
        if self.problem is None:
            part = Part(0, tuple((a.low + a.high) / 2 for a in self.model.parts.continuous))
            return Multiset(self.model.parts, ((part, 2 if kinds == 1 else 1),))
        return _drawn(self.problem, 3, seed=40)

    @cached_property
    def examples(self) -> list[Example]:
        """Exact wholes to edit."""
        if self.problem is None:
            return []
        drawn = [_drawn(self.problem, size, seed=0) for size in EXAMPLE_SIZES]
        return [
            Example(title=f"{parts.size} parts", parts=parts.counted(), drawn=100 + number)
            for number, parts in enumerate(drawn)
        ]

    def describe(self, limits: Limits) -> ModelOut:
        """For the page."""
        told = {name: value for name, value in asdict(limits).items() if name in TOLD}
        config, problem = self.model.config, self.problem
        return ModelOut(
            name=self.name,
            source=self.source,
            problem=None if problem is None else problem.name,
            summary="a model of your own data" if problem is None else _summary(self.model, problem),
            shape=list(config.shape),
            attributes=[attribute.model_dump() for attribute in config.parts.attributes],
            context=[attribute.model_dump() for attribute in config.context],
            countable=config.parts.countable,
            truth=problem is not None,
            trained_parts=None if problem is None else problem.max_parts,
            unit="kW" if problem is not None and problem.name == "households" else "",
            start=self.start.counted(),
            examples=self.examples,
            events=list(EVENTS),
            limits=told,
        )


class Catalogue:
    """All of them."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = {one.name: one for one in served}
        if len(self.served) < len(served):
            names = ", ".join(one.name for one in served)
            raise ConfigError(f"two models have one name ({names}); rename a directory")

    @classmethod
    def of(cls, sources: Sequence[str], limits: Limits) -> Catalogue:
        """The models of these names or directories."""
        return cls([Served.of(source, limits) for source in sources])

    def get(self, name: str) -> Served:
        """The model of this name."""
        if name not in self.served:
            raise UnknownNameError(f"this server has no such model; its models are {', '.join(self.served)}")
        return self.served[name]

    def describe(self, limits: Limits) -> ModelsOut:
        """For the page."""
        return ModelsOut(version=compvae.__version__, models=[one.describe(limits) for one in self.served.values()])


def _summary(model: Model, problem: Problem) -> str:
    """What the problem is; of a model in the paper's form, that it is one."""
    return f"{problem.summary}; by the paper's networks" if model.provenance.of_paper else problem.summary


def _problem(model: Model) -> Problem | None:
    """The problem a model was trained on, where it is one of ours and still has the same parts."""
    provenance = model.provenance
    if provenance.problem not in problems.PROBLEMS:
        return None
    try:
        problem = problems.get(provenance.problem, **provenance.settings)
    except CompVAEError:
        return None
    return problem if problem.schema == model.parts and problem.shape == model.shape else None


def _drawn(problem: Problem, size: int, seed: int) -> Multiset:
    """The first composition from this seed on with as many kinds as it can have, places rounded to be read easily."""
    kinds = min(size, problem.schema.n_kinds) if size <= MANY_KINDS else 1
    while True:
        drawn = unpad(problem.draw_parts(torch.tensor([size]), Noise(seed, 1)), problem.schema)[0]
        if len({part.kind for part, _ in drawn.runs}) >= kinds:
            break
        seed += 1
    rounded = tuple((Part(part.kind, tuple(round(v, 2) for v in part.features)), count) for part, count in drawn.runs)
    composition = Multiset(problem.schema, rounded)
    return composition.canonical() if problem.schema.countable else composition
