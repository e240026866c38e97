"""Calibration: turning the code changes no whole, and the prior ends up with the posterior's own moments."""

import copy

import pytest
import torch

from compvae import problems
from compvae.config import ModelConfig
from compvae.fitting.calibration import _Moments, _moments, calibratable, calibrate
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.presets import preset
from compvae.problems import Problem
from compvae.train.watch import watch


def small(name: str, size: int) -> tuple[Problem, CompVAE]:
    """A `small` model with some decoder of its own, as it is before training, and ``size`` latents a part."""
    problem = problems.get(name)
    config = preset(problem, "small").model_dump(mode="json")
    config["latent"]["w"] = size
    return problem, CompVAE.seeded(ModelConfig.read(config), 3).eval()


@pytest.mark.parametrize("name", ["sines", "colours"])
def test_turning_the_code_changes_no_whole(name: str) -> None:
    problem, model = small(name, 3)
    batch = problem.draw(4, Noise(0, 5))
    code = torch.randn(5, *((model.config.n_blocks,) if name == "sines" else batch.parts.padded().kind.shape[1:]), 3)
    axes = torch.linalg.qr(torch.randn(problem.schema.n_kinds, 3, 3))[0]
    kind = torch.arange(10).expand(5, -1) if name == "sines" else batch.parts.padded().kind
    before = model.decoder(code, batch.parts, None, None)
    model.decoder.turn(axes)
    turned = torch.einsum("bkde,bkd->bke", axes[kind], code)
    after = model.decoder(turned, batch.parts, None, None)
    assert torch.allclose(before.mean, after.mean, atol=1e-4)
    assert torch.allclose(before.variance, after.variance, rtol=1e-3)


def test_the_prior_gets_the_moments_of_the_posterior_in_its_principal_axes() -> None:
    problem, model = small("sines", 3)
    assert calibratable(model)
    total = _Moments.zeros(10, 3)
    model.train()
    for number in range(4):
        noise = Noise(1, 256, 0, number)
        total = total.plus(_moments(model, problem.draw(8, noise), noise))
    mean, covariance = total.best()
    calibrate(model, lambda noise: problem.draw(8, noise), seed=1, batches=4, rounds=1)
    prior_mean, prior_variance = model.prior.moments()  # type: ignore[operator]
    # what a turn leaves: eigenvalues, and the mean's place relative to the covariance
    assert torch.allclose(prior_variance.double(), torch.linalg.eigvalsh(covariance), rtol=1e-3)
    distance = torch.einsum("cd,cde,ce->c", mean, torch.linalg.inv(covariance), mean)
    assert torch.allclose((prior_mean**2 / prior_variance).sum(1).double(), distance, rtol=1e-2)


def test_moments_of_blocks_are_those_of_a_brute_force_sum() -> None:
    problem, model = small("sines", 2)
    noise = Noise(4, 16)
    batch = problem.draw(6, noise)
    q = model_q(model, problem)
    mean, covariance = _moments(model, batch, noise).best()
    counts = batch.parts.counts
    for kind in range(10):
        rows = [row for row in range(16) if counts[row, kind]]
        n = counts[rows, kind]
        m = q.mean[rows, kind].double().sum(0) / n.sum()
        terms = []
        for row, number in zip(rows, n, strict=True):
            w = q.mean[row, kind].double()
            own = q.covariances()[row, kind].double()
            terms.append((torch.outer(w, w) + own) / number)
        expected = (torch.stack(terms).sum(0) - n.sum() * torch.outer(m, m)) / len(rows)
        assert torch.allclose(mean[kind], m, atol=1e-5)
        assert torch.allclose(covariance[kind], expected, atol=1e-4)


def model_q(model: CompVAE, problem: Problem):
    from compvae.inference import infer

    noise = Noise(4, 16)
    return infer(model, problem.draw(6, noise), noise).q


def test_kinds_that_were_never_seen_keep_their_prior() -> None:
    _, model = small("sines", 2)
    before = copy.deepcopy(model.prior.mean)
    seen = torch.zeros(10, dtype=torch.bool)
    seen[3] = True
    model.prior.set_moments(torch.ones(10, 2), torch.full((10, 2), 4.0), seen)  # type: ignore[operator]
    mean, variance = model.prior.moments()  # type: ignore[operator]
    assert torch.allclose(mean[3], torch.ones(2))
    assert torch.allclose(variance[3], torch.full((2,), 4.0))
    assert torch.equal(mean[4], before[4])


def test_variances_near_the_floor_are_met_exactly() -> None:
    _, model = small("sines", 2)
    floor = model.config.prior.floor
    wanted = torch.tensor([1.01, 1.5, 2.0, 3.0, 10.0]).repeat(2)[:, None].expand(10, 2) * floor**2
    model.prior.set_moments(torch.zeros(10, 2), wanted, torch.ones(10, dtype=torch.bool))  # type: ignore[operator]
    assert torch.allclose(model.prior.moments()[1], wanted, rtol=1e-3)  # type: ignore[operator]


def test_watching_measures_inside_and_beyond_the_range_and_changes_nothing() -> None:
    problem, model = small("sines", 2)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    found = watch(model, problem, seed=0, wholes=20).rel_ed
    assert list(found) == ["2", "16", "64"]
    assert all(value > 0.05 for value in found.values())  # an untrained model is far off
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
