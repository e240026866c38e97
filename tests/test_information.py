"""Bits in the latents against the bound's terms and against closed forms."""

import math

import numpy as np
import pytest
import torch

from compvae import problems
from compvae.config import PriorConfig
from compvae.inference import infer
from compvae.measures import bits
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.objective import elbo
from compvae.presets import structured_preset
from models import DECODERS, LATENTS, POSTERIORS, SMALL_Z, without_idle

SINES, COLOURS = problems.get("sines", timesteps=20, resolution=10), problems.get("colours", size=5)
COMBINATIONS = [
    ("collapsed", "linked", "dense"),
    ("collapsed", "linked", "blocks"),
    ("collapsed", "paper", "z below"),
    ("graph", "paper", "z below"),
    ("graph sum_controlled", "linked", "blocks"),
    ("newton", "linked", "blocks"),
]


def curve_model(posterior: str, decoder: str, latent: str) -> CompVAE:
    config = without_idle({
        "parts": SINES.schema, "shape": SINES.shape, "scale": "size", "latent": LATENTS[latent],
        "prior": PriorConfig(z_network=SMALL_Z), "posterior": POSTERIORS[posterior], "decoder": DECODERS[decoder],
    })  # fmt: skip
    return CompVAE.seeded(config, 0).eval()


@pytest.mark.parametrize(("posterior", "decoder", "latent"), COMBINATIONS)
def test_bits_are_the_terms_of_the_bound_whatever_the_tiles(posterior, decoder, latent):
    model = curve_model(posterior, decoder, latent)
    found = bits(model, SINES, n=100, seed=3)
    noise = Noise(3, 100)
    with torch.no_grad():
        bound = elbo(model, SINES.draw(SINES.max_parts, noise), noise)
    assert found.w.value == pytest.approx(float(bound.w.mean()) / math.log(2), rel=1e-4)
    assert found.z.value == pytest.approx(float(bound.z.mean()) / math.log(2), rel=1e-3, abs=1e-6)
    assert found.w.se == pytest.approx(float(bound.w.std()) / 10 / math.log(2), rel=1e-3)
    assert found.z_by_coordinate.sum() == pytest.approx(found.z.value, rel=1e-3, abs=1e-6)
    assert found.z_by_coordinate.shape == (model.config.latent.z,)


@pytest.mark.parametrize("latent", ["dense", "blocks"])
def test_coordinates_of_a_collapsed_model_add_up_to_the_whole(latent):
    found = bits(curve_model("collapsed", "linked", latent), SINES, n=64, seed=1)
    kinds = 10 if latent == "blocks" else 1
    assert found.by_coordinate.shape == (kinds, LATENTS[latent].w)
    noise = Noise(1, 64)
    counts = SINES.draw(SINES.max_parts, noise).parts.counts.numpy()
    present = (counts > 0).mean(0) if latent == "blocks" else np.ones(1)
    assert (present[:, None] * found.by_coordinate).sum() == pytest.approx(found.w.value, rel=1e-5)


def test_what_the_sum_holds_is_no_more_than_what_the_parts_hold():
    found = bits(curve_model("graph", "paper", "z below"), SINES, n=64, seed=2)
    assert 0 < found.by_coordinate.sum() <= found.w.value


def test_parts_that_are_seen_one_by_one_are_counted_by_kind():
    model = CompVAE.seeded(structured_preset(problems.get("colours"), "small"), 0).eval()
    found = bits(model, problems.get("colours"), n=8, max_parts=3)
    assert found.by_coordinate.shape == (5, 1)
    noise = Noise(0, 8)
    batch = problems.get("colours").draw(3, noise)
    latent = infer(model, batch, noise)
    parts, nats = batch.parts.padded(), np.zeros(5)
    for row, column in parts.mask.nonzero().tolist():  # KL of each part's marginal to its prior
        mean, variance = (float(m[row, column, 0]) for m in (latent.q.mean, latent.q.variance))
        centre, unit = (float(m[row, column, 0]) for m in (latent.prior.mean, latent.prior.variance))
        kl = 0.5 * ((variance + (mean - centre) ** 2) / unit - 1 + math.log(unit / variance))
        nats[int(parts.kind[row, column])] += kl
    counts = parts.counts.numpy().sum(0)
    np.testing.assert_allclose(found.by_coordinate[counts > 0, 0], (nats / counts)[counts > 0] / math.log(2), rtol=1e-3)
    assert nats.sum() / 8 / math.log(2) <= found.w.value + 1e-6  # what is known of several together adds to it


def test_a_posterior_equal_to_the_prior_holds_nothing_and_a_known_shift_its_bits():
    model = curve_model("collapsed", "linked", "blocks")
    with torch.no_grad():
        for parameter in model.posterior.parameters():
            parameter.zero_()
        head = [m for m in model.posterior.modules() if isinstance(m, torch.nn.Linear)][-1]
    found = bits(model, SINES, n=64, max_parts=1)
    # A message N(m, 1) on a prior N(m, 1), where all weights are 0: q = N(m, 1/2), and the KL is (1/2 - 1 + ln 2)/2.
    exact = 0.5 * (0.5 - 1 + math.log(2)) / math.log(2)
    assert head.bias is not None
    np.testing.assert_allclose(found.by_coordinate[~np.isnan(found.by_coordinate)], exact, rtol=1e-2)
    assert found.w.value == pytest.approx(2 * exact, rel=1e-2)
    assert found.live.max() == 2
