"""Observation noise under edits: that of the parts which stay is held, and in a mixture as far as its parts stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from compvae.batch import collate
from compvae.composing.generation import generate
from compvae.model import Model
from compvae.noise import Noise
from models import CONFIGS, build, random_parts

LOSSES = "newton, losses, blocks"


def observed(name: str) -> tuple[Model, np.ndarray, dict[str, int]]:
    """A model, a whole of it and its parts."""
    network = build(CONFIGS[name])
    model = Model(network)
    names = model.parts.categories
    parts = {names[0]: 3, names[1]: 2}
    return model, model.sample(parts, 1, seed=4)[0], parts


def noise_of_a_part(model: Model) -> np.ndarray:
    """Its variance, (C, T)."""
    alone = collate([model.parts.parse({name: 1}) for name in model.parts.categories])
    found = model.network.decoder.noise_of_parts(alone, torch.zeros(len(alone), 1))
    return found.detach().numpy()


def test_without_an_edit_noise_gives_the_whole_back() -> None:
    model, x, parts = observed(LOSSES)
    again = model.infer(x, parts).decode(5, seed=1, noise=True)
    assert np.allclose(again, x, rtol=1e-4, atol=1e-4 * np.abs(x).max())
    assert not np.allclose(model.infer(x, parts).decode(5, seed=1), x, rtol=1e-3)


def test_a_part_put_in_and_taken_out_again_gives_the_whole_back() -> None:
    model, x, parts = observed(LOSSES)
    other = model.parts.categories[2]
    there_and_back = model.infer(x, parts).add({other: 2}).remove({other: 2}).decode(3, noise=True)
    assert np.allclose(there_and_back, x, rtol=1e-4, atol=1e-4 * np.abs(x).max())


def test_noise_of_what_is_left_has_the_moments_of_the_bridge() -> None:
    """With W known exactly (no spread of the parts), what is left is x(W_rest) + R_rest/R e, and its variance."""
    model, x, parts = observed(LOSSES)
    decoder, prior = model.network.decoder, model.network.prior
    with torch.no_grad():
        prior.log_variance.fill_(-30.0)
        decoder.log_noise.copy_(torch.linspace(-1, 1, decoder.log_noise.numel()).view_as(decoder.log_noise))
    second = list(parts)[1]
    left = model.infer(x, parts).remove({second: 1})
    drawn = left.decode(20_000, noise=True)
    each = noise_of_a_part(model)
    whole, rest = 3 * each[0] + 2 * each[1], 3 * each[0] + each[1]
    error = x - model.infer(x, parts).decode()
    share = rest / whole
    assert np.allclose(drawn.mean(0), left.decode() + share * error, atol=4 * np.sqrt(rest.max() / 20_000))
    assert np.allclose(drawn.var(0), rest * (1 - share), rtol=0.06)


def test_noise_of_parts_put_in_is_drawn() -> None:
    model, x, parts = observed(LOSSES)
    with torch.no_grad():
        model.network.prior.log_variance.fill_(-30.0)
    name = next(iter(parts))
    drawn = model.infer(x, parts).add({name: 4}).decode(20_000, noise=True)
    each = noise_of_a_part(model)[0]
    assert np.allclose(drawn.var(0), 4 * each, rtol=0.06)


def test_noise_of_the_whole_is_drawn_anew() -> None:
    """Where the noise does not belong to parts, nothing of it is held."""
    network = next(build(c) for c in CONFIGS.values() if c.decoder.kind == "linked" and not c.decoder.part_noise)
    parts = random_parts(network.config, [2]).counted()
    whole = generate(network, parts, Noise(0, 1))
    assert network.decoder.noise_of_parts(parts, whole.x.mean) is None
    assert network.decoder.shares(whole.code, parts) is None


RED, GREEN, NEW = (
    {"colour": c, "x": x, "y": y} for c, x, y in (("red", -0.6, 0.4), ("green", 0.5, 0.1), ("red", 0.3, -0.7))
)
PLACED = [name for name, config in CONFIGS.items() if config.decoder.kind == "placed" and not config.context]


@pytest.mark.parametrize("name", PLACED)
def test_without_an_edit_an_image_is_given_back(name: str) -> None:
    model = Model(build(CONFIGS[name]))
    x = model.sample([RED, GREEN], 3, seed=4)
    seen = model.infer(x, [RED, GREEN])
    assert np.allclose(seen.decode(5, seed=1, noise=True), x, atol=1e-5)
    there_and_back = seen.add([NEW]).remove([NEW])
    assert np.allclose(there_and_back.decode(5, seed=1, noise=True), x, atol=1e-5)
    assert not np.allclose(seen.replace([RED, GREEN], [NEW]).decode(5, seed=1, noise=True), x, atol=1e-2)


def test_noise_of_a_pixel_stays_as_far_as_its_parts_do() -> None:
    """With the codes known exactly: mean x(W') + o s'/s e, variance (1 - o^2) s'^2, o by shares computed here."""
    model = Model(build(CONFIGS["newton, placed"]))
    decoder, prior = model.network.decoder, model.network.prior
    with torch.no_grad():
        prior.log_variance.fill_(-30.0)
    x = model.sample([RED, GREEN], 1, seed=4)[0]
    seen = model.infer(x, [RED, GREEN])
    changed = seen.replace([GREEN], [NEW])
    drawn = changed.decode(4_000, noise=True)

    def at_means(*parts: dict[str, object]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Share of the red site, mean and deviation of x, with every code at its prior mean."""
        found = collate([model.parts.parse(list(parts)).canonical()]).padded()
        code = prior.of_parts(found).mean
        with torch.no_grad():
            logits = decoder.logits(code, found, decoder.places(code))[0].numpy()
            whole = decoder(code, found, None, None)
        red = int((found.features[0, :, 0] - RED["x"]).abs().argmin())
        share = np.exp(logits[red] - np.logaddexp.reduce(logits, 0)).reshape(x.shape[-2:])
        return share, whole.mean[0].numpy(), whole.variance[0].sqrt().numpy()

    before, mean, deviation = at_means(RED, GREEN)
    after, new_mean, new_deviation = at_means(RED, NEW)
    stays = np.minimum(before, after)
    expected = new_mean + stays * new_deviation / deviation * (x - mean)
    spread = np.sqrt(1 - stays**2) * new_deviation
    assert 0.05 < stays.min() < 0.5 < stays.max() < 0.99  # the test sees both
    assert np.allclose(drawn.mean(0), expected, atol=5 * spread.max() / np.sqrt(4_000) + 1e-3)
    assert np.allclose(drawn.std(0), spread, rtol=0.1)
