"""Observation noise under edits, where every part brings its own: that of the parts which stay is held."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from compvae.composing.generation import generate
from compvae.model import Model
from compvae.noise import Noise
from models import CONFIGS, build, random_parts

NAMES = ("newton, losses, mixture", "newton, losses, mixture, z above")


def observed(name: str) -> tuple[Model, np.ndarray, dict[str, int]]:
    """A model, a whole of it and its parts."""
    network = build(CONFIGS[name])
    model = Model(network)
    names = model.parts.categories
    parts = {names[0]: 3, names[1]: 2}
    return model, model.sample(parts, 1, seed=4)[0], parts


@pytest.mark.parametrize("name", NAMES)
def test_without_an_edit_noise_gives_the_whole_back(name: str) -> None:
    model, x, parts = observed(name)
    again = model.infer(x, parts).decode(5, seed=1, noise=True)
    assert np.allclose(again, x, rtol=1e-4, atol=1e-4 * np.abs(x).max())
    assert not np.allclose(model.infer(x, parts).decode(5, seed=1), x, rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_part_put_in_and_taken_out_again_gives_the_whole_back(name: str) -> None:
    model, x, parts = observed(name)
    other = model.parts.categories[2]
    there_and_back = model.infer(x, parts).add({other: 2}).remove({other: 2}).decode(3, noise=True)
    assert np.allclose(there_and_back, x, rtol=1e-4, atol=1e-4 * np.abs(x).max())


def test_noise_of_what_is_left_has_the_moments_of_the_bridge() -> None:
    """With W known exactly (no spread of the parts), what is left is x(W_rest) + R_rest/R e, and its variance."""
    model, x, parts = observed("newton, losses, mixture")
    decoder, prior = model.network.decoder, model.network.prior
    with torch.no_grad():
        prior.log_variance.fill_(-30.0)
        decoder.log_noise.copy_(torch.linspace(-1, 1, decoder.log_noise.numel()).view_as(decoder.log_noise))
    second = list(parts)[1]
    left = model.infer(x, parts).remove({second: 1})
    drawn = left.decode(20_000, noise=True)
    each = decoder.noise_of_part().detach().numpy() * model.config.unit**2
    whole, rest = 3 * each[0] + 2 * each[1], 3 * each[0] + each[1]
    error = x - model.infer(x, parts).decode()
    share = rest / whole
    assert np.allclose(drawn.mean(0), left.decode() + share * error, atol=4 * np.sqrt(rest.max() / 20_000))
    assert np.allclose(drawn.var(0), rest * (1 - share), rtol=0.06)


def test_noise_of_parts_put_in_is_drawn() -> None:
    model, x, parts = observed("newton, losses, mixture")
    with torch.no_grad():
        model.network.prior.log_variance.fill_(-30.0)
    name = next(iter(parts))
    drawn = model.infer(x, parts).add({name: 4}).decode(20_000, noise=True)
    each = model.network.decoder.noise_of_part().detach().numpy()[0] * model.config.unit**2
    assert np.allclose(drawn.var(0), 4 * each, rtol=0.06)


def test_noise_of_the_whole_is_drawn_anew() -> None:
    """Where the noise does not belong to parts, nothing of it is held."""
    network = next(build(c) for c in CONFIGS.values() if c.decoder.kind == "linked" and not c.decoder.part_noise)
    parts = random_parts(network.config, [2]).counted()
    assert network.decoder.noise_of_parts(parts, generate(network, parts, Noise(0, 1)).x.mean) is None
