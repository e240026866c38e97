"""The yardstick of the paper's training step is the same model: same weights, same noise, same loss and gradient."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from compvae import presets, problems
from compvae.bench.training import mixed
from compvae.config import ModelConfig
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.objective import elbo
from compvae.train.needs import operations

ROWS = 6


@pytest.fixture(scope="module")
def yardstick() -> ModuleType:
    path = Path(__file__).parent.parent / "benchmarks" / "textbook_paper.py"
    spec = importlib.util.spec_from_file_location("textbook_paper", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["textbook_paper"] = module
    spec.loader.exec_module(module)
    return module


def narrow() -> ModelConfig:
    """The paper's tables, a tenth as wide."""
    config = presets.preset(problems.get("sines"), "paper")
    posterior = config.posterior.model_copy(update={"channels": 16, "embedding": 24, "width": 40})
    decoder = config.decoder.model_copy(update={"channels": 16})
    latent = config.latent.model_copy(update={"w": 12, "z": 8})
    return config.model_copy(update={"latent": latent, "posterior": posterior, "decoder": decoder})


def test_the_loss_is_ours_for_the_same_weights_and_noise(yardstick: ModuleType) -> None:
    for seed in (0, 1, 2):
        ours, theirs = yardstick.losses(narrow(), ROWS, seed)
        assert abs(ours / theirs - 1) < 1e-5


def test_the_gradient_is_ours_too(yardstick: ModuleType) -> None:
    config, batch, noise = narrow(), mixed(problems.get("sines"), ROWS, 3), Noise(3, ROWS, 1)
    model = CompVAE.seeded(config, 3)
    other = yardstick.Textbook(config).take_over(model)
    (-elbo(model, batch, noise).total.mean()).backward()
    other(*yardstick.padded(batch, noise, config)).mean().backward()
    head = model.posterior.get_submodule("head").get_parameter("weight").grad
    torch.testing.assert_close(head, other.head.weight.grad, rtol=1e-3, atol=1e-4)
    mine = model.decoder.get_parameter("stem.join.weight").grad
    torch.testing.assert_close(mine, other.px[0].weight.grad, rtol=1e-3, atol=1e-4)


def test_the_full_yardstick_has_the_parameters_of_the_preset(yardstick: ModuleType) -> None:
    config = presets.preset(problems.get("sines"), "paper")
    with torch.device("meta"):
        sizes = [sum(p.numel() for p in build(config).parameters()) for build in (CompVAE, yardstick.Textbook)]
    assert sizes[0] == sizes[1] > 140e6


def test_padding_and_repetition_are_what_ours_does_not_compute(yardstick: ModuleType) -> None:
    config, batch, noise = narrow(), mixed(problems.get("sines"), 16, 0), Noise(0, 16, 1)
    model = CompVAE.seeded(config, 0)
    other = yardstick.Textbook(config)
    ours = operations(lambda: elbo(model, batch, noise).total.sum().backward())
    theirs = operations(lambda: other(*yardstick.padded(batch, noise, config)).sum().backward())
    filled = batch.parts.sizes.sum() / (16 * batch.parts.sizes.max())
    assert ours < (0.15 + filled) * theirs
