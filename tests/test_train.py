"""Schedules against the paper's numbers, and one step."""

from __future__ import annotations

import pytest
import torch

from compvae.batch import Batch
from compvae.config import ModelConfig
from compvae.noise import Noise
from compvae.train.schedule import RECIPES, Recipe, kl_weight, largest_size, learning_rate
from compvae.train.step import optimiser_for, train_step
from models import CONFIGS, build, random_batch

PAPER = RECIPES["sines", "paper"]


@pytest.mark.parametrize(("step", "size", "rate"), [
    (0, 2, 1e-4), (2999, 2, 1e-4), (3000, 3, 1e-4), (20_000, 8, 5e-5), (41_999, 15, 2.5e-5), (42_000, 16, 2.5e-5),
    (499_999, 16, 1e-6),
])  # fmt: skip
def test_the_papers_curriculum_and_rate(step: int, size: int, rate: float) -> None:
    assert largest_size(PAPER, step, 16) == size
    assert learning_rate(PAPER, step) == pytest.approx(rate)
    assert kl_weight(PAPER, step) == 1.0
    assert PAPER.betas == (0.5, 0.9)
    assert PAPER.batch == 256


def test_ours_grows_over_thirty_percent_and_warms_up_over_half() -> None:
    recipe = Recipe(steps=1000, kl_from=0.02, rate=1e-3)
    assert [largest_size(recipe, s, 16) for s in (0, 150, 300, 999)] == [2, 9, 16, 16]
    assert kl_weight(recipe, 0) == 0.02
    assert kl_weight(recipe, 250) == pytest.approx(0.51)
    assert kl_weight(recipe, 500) == kl_weight(recipe, 999) == 1.0
    assert learning_rate(recipe, 0) == pytest.approx(1e-3 / 200)
    assert learning_rate(recipe, 999) == pytest.approx(1e-5, rel=0.01)


def m_step_model() -> ModelConfig:
    data = CONFIGS["collapsed, linked, blocks"].model_dump(mode="json")
    return ModelConfig.read({**data, "prior": {**data["prior"], "fit": "m_step"}})


def test_what_is_not_finite_reaches_neither_weights_nor_prior() -> None:
    model = build(m_step_model())
    recipe = Recipe(steps=10)
    optimiser = optimiser_for(model, recipe)
    batch = random_batch(model.config, [2, 3])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    spoiled = Batch(batch.x.clone().index_fill_(1, torch.tensor([0]), float("nan")), batch.parts)
    assert not train_step(model, optimiser, recipe, spoiled, Noise(0, 2), 0).applied
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert train_step(model, optimiser, recipe, batch, Noise(0, 2), 0).applied
    assert not torch.equal(before["prior.mean"], model.state_dict()["prior.mean"])


def test_the_m_step_waits_for_its_share_of_the_budget() -> None:
    model = build(m_step_model())
    recipe = Recipe(steps=10, m_step_from=0.5)
    optimiser, batch = optimiser_for(model, recipe), random_batch(model.config, [2, 3])
    before = model.state_dict()["prior.mean"].clone()
    train_step(model, optimiser, recipe, batch, Noise(0, 2), 4)
    assert torch.equal(before, model.state_dict()["prior.mean"])
    train_step(model, optimiser, recipe, batch, Noise(0, 2), 5)
    assert not torch.equal(before, model.state_dict()["prior.mean"])
