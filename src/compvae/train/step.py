"""One step: theta, phi climb the gradient of the bound, the prior's moments take their M-step  (paper, Alg. 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.utils import clip_grad_norm_

from compvae.batch import Batch
from compvae.model import CompVAE
from compvae.noise import Noise
from compvae.objective import Bound, elbo
from compvae.prior import TablePrior
from compvae.train.schedule import Recipe, kl_weight, learning_rate

__all__ = ["Step", "optimiser_for", "train_step"]


@dataclass(frozen=True)
class Step:
    """What a step did.  bound: at the weights before it.  applied: False if it was skipped as not finite."""

    bound: Bound
    applied: bool


def optimiser_for(model: CompVAE, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam, as the paper uses it, with the recipe's settings."""
    return torch.optim.Adam(model.parameters(), recipe.rate, recipe.betas, fused=True)


def train_step(
    model: CompVAE, optimiser: torch.optim.Optimizer, recipe: Recipe, batch: Batch, noise: Noise, step: int
) -> Step:
    """Climb the bound once.  What is not finite (loss, gradient, statistics) never reaches weights or prior."""
    model.train()
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(recipe, step)
    bound = elbo(model, batch, noise)
    optimiser.zero_grad()
    loss = -bound.weighted(kl_weight(recipe, step)).mean()
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), recipe.clip)
    sound = bool(torch.isfinite(loss) & torch.isfinite(norm))
    if not sound or (bound.statistics is not None and not bound.statistics.finite()):
        return Step(bound, applied=False)
    optimiser.step()
    if bound.statistics is not None and step >= recipe.m_step_from * recipe.steps:
        assert isinstance(model.prior, TablePrior)
        model.prior.m_step(bound.statistics)
    return Step(bound, applied=True)
