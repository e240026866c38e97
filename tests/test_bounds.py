"""What is exponentiated is bounded: whatever the weights, samples are finite, and nothing changes where models work."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import compvae
from compvae import problems
from compvae.baselines.paper import narrowed
from compvae.composing.generation import generate
from compvae.distributions.normal import LEAST, MOST, WIDEST, bounded, variance_of
from compvae.inference import infer
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.posterior.base import ZPosterior
from compvae.prior import TablePrior
from models import CONFIGS, build, random_batch, random_parts

SIZES = (1, 10, 100, 1000)
SOURCE = Path(compvae.__file__).parent


def heads(model: CompVAE) -> list[nn.Linear]:
    """The last layer of every network, as far as it makes log-variances or logits."""
    found = [layers[-1] for layers in model.modules() if isinstance(layers, nn.Sequential)]
    found.append(getattr(model.posterior, "head", None))
    found += [module.linear for module in model.modules() if hasattr(module, "linear")]
    return [layer for layer in found if isinstance(layer, nn.Linear)]


@torch.no_grad()
def spoiled(model: CompVAE, by: float) -> CompVAE:
    """Heads a hundred times as steep, with all their outputs moved by ``by``; learned log-variances there too."""
    for layer in heads(model):
        layer.weight.mul_(100.0)
        layer.bias.add_(by)
    if isinstance(model.prior, TablePrior):
        model.prior.log_variance.fill_(by)
    if hasattr(model.decoder, "log_noise"):
        model.decoder.log_noise.fill_(by)
    return model


def test_the_bound_is_the_identity_to_the_last_bit_where_models_work() -> None:
    low, high = 2 * math.log(LEAST) + 1, 2 * math.log(MOST) - 1
    v = torch.linspace(low, high, 10_001, dtype=torch.float32).clamp(low, high)
    assert torch.equal(bounded(v), v)
    assert torch.equal(variance_of(v), v.exp())
    # beyond: finite, in order, within the standard deviations that are named
    far = torch.tensor([-math.inf, -1e30, -40.0, 0.0, 40.0, 1e30, math.inf])
    deviation = variance_of(far).sqrt()
    assert (deviation.diff() >= 0).all()
    assert deviation[0] == pytest.approx(LEAST, rel=1e-5)
    assert deviation[-1] == pytest.approx(MOST, rel=1e-5)
    assert variance_of(far, 0.1, WIDEST).sqrt()[-1] == pytest.approx(WIDEST, rel=1e-5)
    assert variance_of(far, 0.1, WIDEST).sqrt()[0] == pytest.approx(0.1, rel=1e-5)


def test_the_bound_has_a_gradient_of_one_inside_and_a_finite_one_everywhere() -> None:
    v = torch.tensor([-1e30, -100.0, -20.0, 0.0, 20.0, 100.0, 1e30], requires_grad=True)
    bounded(v).sum().backward()
    assert v.grad is not None
    assert v.grad.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("by", [-1000.0, 1000.0])
@pytest.mark.parametrize("name", CONFIGS)
def test_samples_and_draws_of_q_are_finite_whatever_the_heads_say(name: str, by: float) -> None:
    model = spoiled(build(CONFIGS[name]), by)
    for size in SIZES:
        parts, noise = random_parts(model.config, [size, size]), Noise(0, 2)
        whole = generate(model, parts, noise)
        assert torch.isfinite(whole.x.rsample(noise, "x")).all(), size
    if model.config.posterior.kind == "newton":  # solves, and exponentiates nothing
        return
    with torch.no_grad():
        latent = infer(model, random_batch(model.config, [1, 10, 100]), Noise(0, 3))
        assert torch.isfinite(latent.w).all()
        assert torch.isfinite(latent.q.variance).all()
        assert latent.z is None or torch.isfinite(latent.z.value).all()


@pytest.mark.parametrize("problem", ["sines", "colours"])
def test_the_papers_networks_stay_near_the_data_when_their_log_variances_run_away(problem: str) -> None:
    """Before: infinite at +200, tens of thousands at +20."""
    source = problems.get(problem)
    for by in (20.0, 200.0):
        model = CompVAE.seeded(narrowed(source, 0), 0).eval()
        assert model.z_prior is not None
        with torch.no_grad():
            model.z_prior.network[-1].bias[model.z_prior.z :] += by  # type: ignore[union-attr, index, operator]
            network = model.posterior.z_network
            assert isinstance(network, ZPosterior)
            network.network[-1].bias[model.z_prior.z :] += by  # type: ignore[index, operator]
        for size in SIZES if problem == "sines" else SIZES[:3]:
            noise = Noise(0, 2)
            parts = source.draw_parts(torch.full((2,), size), noise)
            assert generate(model, parts, noise).x.rsample(noise, "x").abs().max() < 1000, size
        batch = source.draw(4, Noise(0, 4))
        with torch.no_grad():
            latent = infer(model, batch, Noise(0, 4))
            assert model.decoder(latent.code, batch.parts, latent.z_value, None).mean.abs().max() < 1000


ALLOWED = {  # exponentials of what is bounded above by 0, or of an argument that is not learned
    "distributions/normal.py": 1,  # variance_of itself
    "distributions/of_parts.py": 4,  # bounded logits
}


def test_exponentials_are_taken_in_one_place() -> None:
    found = {}
    for folder in ("distributions", "prior", "posterior", "decoder", "nn", "baselines", "composing", "fitting"):
        for path in sorted((SOURCE / folder).glob("*.py")):
            number = len(re.findall(r"\.exp\(|\.exp_\(|\.expm1\(|\bexp2\(", path.read_text()))
            if number:
                found[str(path.relative_to(SOURCE))] = number
    assert found == ALLOWED
