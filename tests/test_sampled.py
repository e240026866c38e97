"""Steps that descend the energy score of samples: the score itself, whom it teaches, resuming, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from compvae.composing.generation import generate
from compvae.errors import ConfigError
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.presets import preset
from compvae.problems import get
from compvae.train.loop import Trainer
from compvae.train.sampled import DRAWS, SMALLEST, energy_loss
from compvae.train.schedule import Recipe, kl_weight, largest_size
from compvae.train.settings import resolve

COLOURS = {"problem": "colours", "preset": "small", "settings": {"size": 6}, "threads": 1, "batch": 4}


def colours_model() -> CompVAE:
    config = preset(get("colours", size=6), "small")
    return CompVAE.seeded(config, 3).eval()  # type: ignore[arg-type]


def test_the_loss_is_the_energy_score_of_its_draws() -> None:
    model, batch, noise = colours_model(), get("colours", size=6).draw(4, Noise(1, 3)), Noise(2, 3)
    rows = torch.arange(3).repeat_interleave(DRAWS)
    own = noise.of_rows(noise.rows[rows] * DRAWS + torch.arange(DRAWS).repeat(3))
    drawn = generate(model, batch.parts.rows(rows), own).x.rsample(own, "x").flatten(1).double().detach()
    found = energy_loss(model, batch, noise).detach()
    for row in range(3):
        x, mine = batch.x[row].flatten().double(), drawn[DRAWS * row : DRAWS * (row + 1)]
        near = sum(((one - x).square().sum() + SMALLEST).sqrt() for one in mine) / DRAWS
        pairs = [(i, j) for i in range(DRAWS) for j in range(i)]
        apart = sum(((mine[i] - mine[j]).square().sum() + SMALLEST).sqrt() for i, j in pairs) / len(pairs)
        assert float(found[row]) == pytest.approx(float((near - apart / 2) / x.numel() ** 0.5), rel=1e-5)


def test_it_teaches_the_decoder_and_holds_a_prior_that_an_m_step_fits() -> None:
    model = colours_model()
    energy_loss(model, get("colours", size=6).draw(4, Noise(1, 4)), Noise(2, 4)).sum().backward()
    taught = {name.split(".")[0] for name, value in model.named_parameters() if value.grad is not None}
    assert taught == {"decoder"}


def test_the_schedules_of_the_bound_end_where_its_steps_do() -> None:
    recipe = Recipe(steps=2000, sampled=0.5, kl_from=0.02)
    plain = Recipe(steps=1000, kl_from=0.02)
    assert recipe.bound_steps == 1000
    for step in (0, 100, 250, 500, 999):
        assert largest_size(recipe, step, 16) == largest_size(plain, step, 16)
        assert kl_weight(recipe, step) == kl_weight(plain, step)


def test_the_score_falls_and_the_prior_is_fitted_once_before() -> None:
    trainer = Trainer(resolve({**COLOURS, "steps": 60, "sampled": 0.7, "rate": 5e-3}))
    source, checked = get("colours", size=6), Noise(8, 64)
    scores = []
    for _ in range(60):
        if trainer.state.step in (19, 59):
            with torch.no_grad():
                scores.append(float(energy_loss(trainer.model, source.draw(8, checked), checked).mean()))  # type: ignore[arg-type]
        trainer.advance()
        if trainer.state.step == 18:
            assert not trainer.prior_fitted
            before = trainer.model.state_dict()["prior.mean"].clone()
        if trainer.state.step == 20:
            assert trainer.prior_fitted
            held = trainer.model.state_dict()["prior.mean"].clone()
            assert not torch.equal(before, held)
    assert torch.equal(trainer.model.state_dict()["prior.mean"], held)
    assert scores[1] < scores[0]


def test_an_invertible_model_has_no_such_steps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sampled does nothing unless the model is a structured one"):
        resolve({"problem": "sines", "preset": "transport", "sampled": 0.5})
