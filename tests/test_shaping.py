"""What is fitted when training is done: the prior of z, and the moments of the parts that made the data."""

from __future__ import annotations

import copy

import pytest
import torch

from compvae.batch import Batch
from compvae.composing.generation import generate
from compvae.config import ZNetworkConfig
from compvae.fitting.seen import look
from compvae.fitting.shaping import _fit_noise, shape_parts
from compvae.noise import Noise, Still
from compvae.prior.given_context import ContextPrior
from models import CONFIGS, build, random_parts

ROWS = 20_000


def two_seasons() -> tuple[ContextPrior, torch.Tensor, torch.Tensor]:
    """z = -1.5 or 1.5, .3 wide; the context (a flag and a value) says which, for half of the days."""
    torch.manual_seed(0)
    cold = (torch.rand(4000, 1) < 0.3).float()
    z = 3 * cold - 1.5 + 0.3 * torch.randn(4000, 2)
    known = (torch.rand(4000, 1) < 0.5).float()
    return ContextPrior(2, 2, ZNetworkConfig(width=16, blocks=1)), z, torch.cat([known, known * cold], 1)


def test_the_prior_of_z_is_standard_until_it_is_fitted() -> None:
    prior, _, _ = two_seasons()
    unknown = prior(torch.zeros(3, 2))
    assert (unknown.mean == 0).all()
    assert (unknown.variance == 1).all()
    assert (prior(torch.ones(1, 2)).variance == 1).all()


def test_the_prior_of_z_finds_both_humps_and_what_context_says() -> None:
    prior, z, context = two_seasons()
    prior.fit(z, context)
    drawn = prior.draw(torch.zeros(ROWS, 2), Noise(0, ROWS), "z")
    assert float((drawn[:, 0] > 0).float().mean()) == pytest.approx(0.3, abs=0.04)
    assert float((drawn[:, 0].abs() - 1.5).std()) == pytest.approx(0.3, abs=0.06)
    told = prior.draw(torch.ones(ROWS, 2), Noise(0, ROWS), "z")
    assert float((told > 0).float().mean()) > 0.97
    gaussian = prior(torch.zeros(1, 2))
    assert torch.allclose(gaussian.mean[0], drawn.mean(0), atol=0.05)
    assert torch.allclose(gaussian.variance[0], drawn.var(0), atol=0.1)
    assert torch.allclose(prior.draw(torch.zeros(1, 2), Still(1), "z"), gaussian.mean)


def test_the_prior_of_z_finds_correlations() -> None:
    torch.manual_seed(0)
    root = torch.tensor([[0.6, 0.0], [0.5, 0.2]])
    z = torch.randn(4000, 2) @ root.T
    prior = ContextPrior(0, 2, ZNetworkConfig(width=16, blocks=1), components=1)
    prior.fit(z, z[:, :0])
    drawn = prior.draw(torch.zeros(ROWS, 0), Noise(0, ROWS), "z")
    assert torch.allclose(torch.cov(drawn.T), root @ root.T, atol=0.04)
    dense = torch.distributions.MultivariateNormal(drawn.mean(0), torch.cov(drawn.T))
    assert torch.allclose(prior.log_prob(z[:50], z[:50, :0]), dense.log_prob(z[:50]), atol=0.15)


def test_a_component_without_weight_leaves_the_fit_finite() -> None:
    """With few days a weight underflows to 0; its logarithm must not turn gradients to NaN."""
    prior, z, context = two_seasons()
    last = prior.mixture[-1]
    with torch.no_grad():
        last.bias.view(prior.components, -1)[0, 0] = -300.0
    last.requires_grad_(True)
    prior.log_prob(z[:20], context[:20]).sum().backward()
    assert torch.isfinite(last.weight.grad).all()


def test_turning_z_changes_nothing_that_hangs_on_it() -> None:
    model = build(CONFIGS["newton, losses, mixture, z above"])
    prior = model.prior
    assert prior.mixture is not None
    size = model.config.latent.z
    torch.manual_seed(1)
    prior.mixture.gate.normal_()
    u, centre, root = torch.randn(5, size), torch.randn(size), torch.randn(size, size).tril()
    z = centre + u @ root.T
    before = (*prior.moments(z), prior.mixture.weights(z, 5))
    prior.turn_z(centre, root)
    after = (*prior.moments(u), prior.mixture.weights(u, 5))
    for a, b in zip(before, after, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_noise_of_the_parts_becomes_that_which_made_the_data() -> None:
    """W is known (its variance is tiny), kinds are mixed: EM has to find whose noise it is."""
    config = CONFIGS["newton, losses, mixture"]
    right = build(config)
    with torch.no_grad():
        right.prior.log_variance.fill_(-12.0)
        true = torch.linspace(-2.0, 1.0, right.decoder.log_noise.numel()).view_as(right.decoder.log_noise)
        right.decoder.log_noise.copy_(true)
    wrong = copy.deepcopy(right)
    with torch.no_grad():
        wrong.decoder.log_noise.fill_(0.5)

    def draw(noise: Noise) -> Batch:
        parts = random_parts(config, [1, 2, 3, 4] * (len(noise) // 4), seed=int(noise.fold_keys[-1])).counted()
        still = generate(right, parts, noise).x
        return Batch(still.rsample(noise, "x"), parts)

    for round_ in range(15):
        _fit_noise(wrong, look(wrong, draw, 0, round_, 6))
    off = (wrong.decoder.noise_of_part() / right.decoder.noise_of_part()).detach().log().abs()
    assert float(off.max()) < 0.2


def test_moments_of_the_parts_become_those_that_made_the_data() -> None:
    """The prior is made wrong by a shift and a factor; wholes of the right model bring it back."""
    config = CONFIGS["newton, losses, mixture"]
    right = build(config)
    with torch.no_grad():
        right.decoder.log_noise.fill_(-6.0)
    wrong = copy.deepcopy(right)
    with torch.no_grad():
        wrong.prior.mean += 0.5
        wrong.prior.log_variance += 0.7

    first = copy.deepcopy(wrong)

    def draw(noise: Noise) -> Batch:
        sizes = noise.integers("sizes", 1, 6).tolist()
        parts = random_parts(config, sizes, seed=int(noise.fold_keys[-1])).counted()
        return Batch(generate(right, parts, noise).x.rsample(noise, "x"), parts)

    for round_ in range(6):  # EM: x does not show all of W, so each round goes a part of the way
        shape_parts(wrong, draw, seed=round_, batches=6)
    parts = random_parts(config, [2] * 2000).counted()
    true, before, found = (generate(model, parts, Noise(5, 2000)).x.mean for model in (right, first, wrong))
    bias, was = ((some.mean(0) - true.mean(0)).abs().mean() for some in (found, before))
    assert float(bias) < 0.2 * float(was)
    assert float(found.var(0).sum() / true.var(0).sum()) == pytest.approx(1, abs=0.15)
