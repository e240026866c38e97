"""One step: theta, phi climb the gradient of the bound, the prior's moments take their M-step  (paper, Alg. 1).

Every process computes its rows of the global batch; one sum over the processes later all hold the same gradient, the
same statistics and the same verdict.  What is not finite never reaches the weights or the prior.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from compvae.batch import Batch
from compvae.network import CompVAE, Network
from compvae.noise import Noise
from compvae.objective import Bound, elbo
from compvae.prior import PriorStatistics, TablePrior
from compvae.train.engine import Engine
from compvae.train.sampled import energy_loss
from compvae.train.schedule import Recipe, in_phase, kl_weight, learning_rate
from compvae.transport.network import Transport, row_weights

__all__ = ["FAILED", "Step", "climbed", "first_phase", "optimiser_for", "train_step"]

SAMPLED_RATE = 0.2  # of the recipe's rate, in steps that descend the energy score
FAILED = -1  # in the place of a signal: a process cannot go on


@dataclass(frozen=True)
class Step:
    """What a step saw and did: means of the bound's terms over the global batch, nats, at the weights before it.

    applied: False where loss, gradient or statistics were not finite; fault then says which.
    stop: the signal by which some process was asked to stop, FAILED where one cannot go on, 0 for none.
    """

    w: float
    z: float
    x: float
    applied: bool
    fault: str = ""
    stop: int = 0

    @property
    def bound(self) -> float:
        """x - w - z."""
        return self.x - self.w - self.z


def optimiser_for(model: Network, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam, as the paper uses it, with the recipe's settings."""
    return torch.optim.Adam(model.parameters(), recipe.rate, recipe.betas, fused=True)


def train_step(
    model: Network,
    optimiser: torch.optim.Optimizer,
    recipe: Recipe,
    batch: Batch,
    noise: Noise,
    step: int,
    engine: Engine | None = None,
    slower: float = 1.0,
    stop: int = 0,
) -> Step:
    """Climb the bound once.  batch, noise: this process's rows.  slower: factor on the rate, after a rollback.

    stop: why this process wants to stop, as in :class:`Step`; all processes learn it by the sum they make anyway.
    """
    engine = engine or Engine()
    if not model.training:  # walks over all modules
        model.train()
    first = first_phase(model, recipe)
    sampled = isinstance(model, CompVAE) and 0 < first <= step
    rate = learning_rate(*in_phase(recipe, step, first)) * slower * (SAMPLED_RATE if sampled else 1.0)
    for group in optimiser.param_groups:
        group["lr"] = rate
    weight = kl_weight(recipe, step)
    with engine.autocast():
        bound = climbed(model, batch, noise, weight, step < first, sampled)
    optimiser.zero_grad()
    (-bound.weighted(weight).sum() / recipe.batch).backward()

    terms = _terms(bound, recipe.batch, stop)
    learned = [value for group in optimiser.param_groups for value in group["params"]]
    gradients = [value.grad for value in learned if value.grad is not None]
    statistics = _as_list(bound.statistics)
    if engine.world > 1 and isinstance(model, Transport):
        _sum_weighted(engine, terms, gradients, row_weights(batch.parts), recipe.batch)
    else:
        engine.sum_([terms, *gradients, *statistics])
    w, z, x, interrupted, terminated, failed = terms.tolist()
    asked = FAILED if failed else signal.SIGTERM if terminated else signal.SIGINT if interrupted else 0

    norm = get_total_norm(gradients)
    if norm > recipe.clip:  # most steps are spared a pass over all gradients
        clip_grads_with_norm_(learned, recipe.clip, norm)
    fault = _fault(terms, norm, bound.statistics)
    if not fault:
        optimiser.step()
        if bound.statistics is not None and step >= recipe.m_step_from * recipe.bound_steps:
            assert isinstance(model, CompVAE)
            assert isinstance(model.prior, TablePrior)
            model.prior.m_step(bound.statistics)
    return Step(w, z, x, not fault, fault, asked)


def _sum_weighted(engine: Engine, terms: Tensor, gradients: list[Tensor], weights: Tensor, batch: int) -> None:
    """Add up over the processes losses whose weights have mean 1 in each of them, so that they have mean 1 in all.

    weights: as they were before that, (B,).  batch: rows of all processes.
    """
    own = weights.mean()
    unit = own * len(weights) / batch
    for tensor in (terms[:3], *gradients):
        tensor.mul_(own.to(tensor.dtype))
    engine.sum_([terms, *gradients, unit])
    for tensor in (terms[:3], *gradients):
        tensor.div_(unit.to(tensor.dtype))


def first_phase(model: Network, recipe: Recipe) -> int:
    """How many steps there are of another kind before the others; 0 where all are of one kind.

    They fit the base of an invertible model; of a structured one they climb the bound, where others descend the energy
    score after them.
    """
    if isinstance(model, Transport):
        return model.base_steps(recipe.steps)
    return recipe.bound_steps if recipe.bound_steps < recipe.steps else 0


def climbed(
    model: Network, batch: Batch, noise: Noise, kl_weight: float = 1.0, early: bool = False, sampled: bool = False
) -> Bound:
    """What training climbs: the bound, or a negative loss as its x term.

    Of an invertible model it is that of flow matching, early that of its base; of a structured one where ``sampled``
    the energy score.
    """
    if isinstance(model, Transport):
        loss = model.base_loss(batch, noise) if early else model.matching_loss(batch, noise)
    elif sampled:
        loss = energy_loss(model, batch, noise)
    else:
        return elbo(model, batch, noise, kl_weight)
    return Bound(torch.zeros_like(loss), torch.zeros_like(loss), -loss)


def _terms(bound: Bound, batch: int, stop: int) -> Tensor:
    """This process's share of the means of w, z and x, and why it wants to stop, (6,) float64."""
    means = [term.detach().double().sum() / batch for term in (bound.w, bound.z, bound.x)]
    asked = [torch.full_like(means[0], stop == number) for number in (signal.SIGINT, signal.SIGTERM, FAILED)]
    return torch.stack([*means, *asked])


def _as_list(statistics: PriorStatistics | None) -> list[Tensor]:
    if statistics is None:
        return []
    return [statistics.square, statistics.deviation, statistics.parts, statistics.terms]


def _fault(terms: Tensor, norm: Tensor, statistics: PriorStatistics | None) -> str:
    """What is not finite, or nothing."""
    if not torch.isfinite(terms).all():
        return "loss"
    if not torch.isfinite(norm):
        return "gradient"
    return "" if statistics is None or statistics.finite() else "prior statistics"
