"""One harness for whatever samples p(x | parts): a model, its baselines, the truth itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from compvae import problems
from compvae.baselines import Budget, Independent, Paper, Sampler, fitted
from compvae.baselines.base import Context, Watch, unwatched
from compvae.errors import ConfigError
from compvae.evaluation.averages import Judged, compare, row_of
from compvae.evaluation.edits import judge_edits
from compvae.evaluation.observed import shown_parts
from compvae.evaluation.plan import Plan, compositions, derived
from compvae.evaluation.properties import departures, order
from compvae.evaluation.rows import MODEL, Evaluation
from compvae.evaluation.samples import Reference
from compvae.measures import Measured, bits
from compvae.measures.measured import mean_of
from compvae.model import Model
from compvae.network import CompVAE
from compvae.problems import Problem

__all__ = ["Truth", "evaluate", "evaluate_samplers", "problem_of"]

TRUTH = "truth"
MOST_SUMMED = 100  # parts drawn one by one
COMPARED = ("relED", "C2ST", "off-manifold")
NOT_FINITE = "not finite"  # share of samples with a NaN or an infinity; such a composition has no other measure
INFORMATION = 256  # wholes for the bits in w and z
TRAINED = ("step", "w_bits", "z_bits", "x", "bound")  # of a line of metrics.jsonl
LINES = 100  # of them, about
SAMPLED, TRUE, EDITED, INFORMED = range(4)  # what seeds are derived for

Cases = dict[str, list[Judged]]


class Truth:
    """The exact generator as a sampler: what a perfect model would get."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def sample(self, parts: object, n: int, seed: int, context: Context | None = None) -> np.ndarray:
        """-> (n, *shape) float32."""
        return self.problem.truth(parts, n, seed, context)


def problem_of(model: Model) -> Problem:
    """The problem a model was trained on, whose truth it is judged by."""
    about = model.provenance
    if about.problem is None:
        raise ConfigError("this model was trained on data whose truth is not known; only problems have one")
    if about.problem not in problems.PROBLEMS:
        module = about.notes.get("registered by", "the module that registers it")
        raise ConfigError(
            f"this model was trained on the problem {about.problem!r}, which is not registered here: import {module} "
            f"first (compvae evaluate and report: --import MODULE)"
        )
    return problems.get(about.problem, **dict(about.settings))


def evaluate(
    model: Model,
    plan: Plan,
    against: Mapping[str, Budget] | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
    into: Evaluation | None = None,
) -> Evaluation:
    """All measures of a model; with baselines, fitted each in its budget, theirs too, and paired comparisons.

    Parts one by one (``independent``) are summed up to K = 100.  into: collects the rows as they come.
    """
    problem = problem_of(model)
    samplers: dict[str, Sampler] = {MODEL: model}
    for name, budget in (against or {}).items():
        samplers[name] = fitted(name, problem, model, budget)
    result = Evaluation() if into is None else into
    evaluate_samplers(samplers, problem, plan, seed, watch, result)
    _evaluate_edits(model, problem, plan, seed, watch, result)
    for number, (name, sampler) in enumerate(samplers.items(), 1):
        _inform(result, name, sampler, problem, derived(seed, INFORMED))
        watch("bits in w and z", number, len(samplers))
    size = len(shown_parts(problem))
    _add(result, MODEL, size, {"order": [order(model, problem, derived(seed, INFORMED))]})
    _add(result, TRUTH, size, {name: [found] for name, found in departures(problem, seed).items()})
    return result


def evaluate_samplers(
    samplers: Mapping[str, Sampler],
    problem: Problem,
    plan: Plan,
    seed: int = 0,
    watch: Watch = unwatched,
    into: Evaluation | None = None,
) -> Evaluation:
    """Judge samples K by K against one truth; whoever comes after the first is compared with the first."""
    result = Evaluation() if into is None else into
    total, done = len(plan.sizes) * plan.compositions * len(samplers), 0
    for size in plan.sizes:
        cases: dict[str, Cases] = {name: defaultdict(list) for name in samplers}
        for index, parts in enumerate(compositions(problem, size, plan, seed)):
            reference = Reference(problem, parts, plan, derived(seed, TRUE, size, index))
            for number, (name, sampler) in enumerate(samplers.items()):
                if isinstance(sampler, Independent) and size > MOST_SUMMED:
                    continue
                watch(f"K = {size}, composition {index + 1} of {plan.compositions}, {name}", done + number, total)
                x = sampler.sample(parts, plan.n, derived(seed, SAMPLED, size, index, number))
                for measure, judged in _judged(reference, x).items():
                    cases[name][measure].append(judged)
            done += len(samplers)
        for name in samplers:
            _add(result, name, size, cases[name])
        _compare(result, size, cases)
    watch("samples judged", total, total)
    return result


def _judged(reference: Reference, x: np.ndarray) -> Mapping[str, Judged]:
    """Every measure of these samples; where some are not numbers, only the share of them.  x: (n, *shape)."""
    broken = ~np.isfinite(x).reshape(len(x), -1).all(1)
    if not broken.any():
        return reference.judge(x)
    undefined = Judged(Measured(math.nan, math.nan, len(x)))
    return {NOT_FINITE: Judged(mean_of(broken)), **dict.fromkeys(COMPARED, undefined)}


def _inform(result: Evaluation, name: str, sampler: Sampler, problem: Problem, seed: int) -> None:
    """Bits in the latents of whoever has them; of one that was trained here, along its training too."""
    if isinstance(sampler, Paper):
        kept = sampler.metrics[:: max(1, len(sampler.metrics) // LINES)]
        result.training[name] = [{key: line[key] for key in TRAINED if key in line} for line in kept]
        sampler = sampler.trained
    if isinstance(sampler, Model) and isinstance(sampler.network, CompVAE):  # an invertible model has no such bits
        found = bits(sampler.network, problem, INFORMATION, seed)
        _add(result, name, None, {"bits in w": [Judged(found.w)], "bits in z": [Judged(found.z)]})


def _add(result: Evaluation, of: str, size: int | None, cases: Mapping[str, Sequence[Judged]]) -> None:
    """The rows of one K: means over compositions."""
    rows = (row_of(name, size, judged, of) for name, judged in cases.items())
    result.measures += [row for row in rows if row is not None]


def _compare(result: Evaluation, size: int, cases: Mapping[str, Cases]) -> None:
    first, *others = cases
    for other in others:
        for name in COMPARED:
            if name in cases[first] and name in cases[other]:
                found = compare(other, name, size, cases[first][name], cases[other][name])
                result.comparisons += [found] if found else []


def _evaluate_edits(model: Model, problem: Problem, plan: Plan, seed: int, watch: Watch, result: Evaluation) -> None:
    total, done = len(plan.edited) * plan.compositions, 0
    for size in plan.edited:
        cases: Cases = defaultdict(list)

        for index, parts in enumerate(compositions(problem, size, plan, seed, single=True)):
            watch(f"edits, K = {size}, composition {index + 1} of {plan.compositions}", done, total)
            for name, judged in judge_edits(model, problem, parts, plan, derived(seed, EDITED, size, index)).items():
                cases[name].append(judged)
            done += 1
        _add(result, MODEL, size, cases)
    watch("edits judged", total, total)
