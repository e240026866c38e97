"""The Gaussian with all correlations, the linearised decoders, and the posterior at the peak, against dense algebra."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

from compvae.decoder.base import Decoder
from compvae.distributions import Normal
from compvae.distributions.dense import DenseNormal
from compvae.inference import infer
from compvae.noise import Noise
from models import CONFIGS, build, random_batch

pytestmark = pytest.mark.usefixtures("double")

ROWS, BLOCKS, SIZE = 3, 2, 2


def dense(masked: bool, copies: int = 1) -> tuple[DenseNormal, list[MultivariateNormal], list[Tensor], Normal]:
    """A DenseNormal over (3 copies, 2, 2), and torch's own of the coordinates that exist, row by row."""
    generator = torch.Generator().manual_seed(5)
    mean = torch.randn(ROWS, BLOCKS, SIZE, generator=generator)
    variance = torch.rand(ROWS, BLOCKS, SIZE, generator=generator) + 0.2
    mask = torch.ones(ROWS, BLOCKS, 1, dtype=torch.bool)
    if masked:
        mask[0, 1] = mask[2, 0] = False
    there = mask.expand_as(mean).flatten(1)
    root = torch.randn(ROWS, 4, 4, generator=generator) * (there[:, :, None] & there[:, None])
    precision = torch.eye(4) + root @ root.mT
    shift = torch.randn(ROWS, 4, generator=generator) * there
    prior = Normal(mean, variance, mask)
    own = []
    for row in range(ROWS):
        keep = there[row]
        scale = variance.flatten(1)[row].sqrt()
        covariance = scale[:, None] * torch.linalg.inv(precision[row]) * scale
        centre = mean.flatten(1)[row] + scale * shift[row]
        own.append(MultivariateNormal(centre[keep], covariance[keep][:, keep]))
    many = Normal(*(value.repeat(copies, 1, 1) for value in (mean, variance, mask)))
    return DenseNormal(many, shift.repeat(copies, 1), precision.repeat(copies, 1, 1)), own, list(there), prior


@pytest.mark.parametrize("masked", [False, True])
def test_density_moments_and_kl_are_those_of_a_multivariate_normal(masked: bool) -> None:
    found, own, there, prior = dense(masked)
    value = torch.randn(ROWS, BLOCKS, SIZE, generator=torch.Generator().manual_seed(1))
    for row in range(ROWS):
        keep = there[row]
        torch.testing.assert_close(found.mean.flatten(1)[row][keep], own[row].mean)
        torch.testing.assert_close(found.variance.flatten(1)[row][keep], own[row].variance)
        torch.testing.assert_close(found.log_prob(value)[row], own[row].log_prob(value[row].flatten()[keep]))
        p = MultivariateNormal(prior.mean[row].flatten()[keep], prior.variance[row].flatten()[keep].diag())
        torch.testing.assert_close(found.kl(prior)[row], torch.distributions.kl_divergence(own[row], p))
    assert (found.variance.flatten(1)[~torch.stack(there)] == 0).all()


@pytest.mark.parametrize("masked", [False, True])
def test_draws_have_the_mean_and_the_covariance(masked: bool) -> None:
    n = 20_000
    found, own, there, _ = dense(masked, n)
    draws = found.rsample(Noise(0, ROWS * n), "w").view(n, ROWS, -1)
    for row in range(ROWS):
        kept = draws[:, row][:, there[row]]
        spread = own[row].variance.sqrt()
        assert ((kept.mean(0) - own[row].mean).abs() < 5 * spread / n**0.5).all()
        error = (kept.T.cov() - own[row].covariance_matrix).abs() / (spread[:, None] * spread)
        assert (error < 8 / n**0.5).all()
        assert (draws[:, row][:, ~there[row]] == 0).all()


LINEARISED = [name for name in CONFIGS if name.startswith("newton, p") and "paper" not in name]


@pytest.mark.parametrize("name", LINEARISED)
def test_the_fast_jacobian_is_the_generic_one(name: str) -> None:
    model, batch = build(CONFIGS[name]), random_batch(CONFIGS[name], [1, 3])
    latent = infer(model, batch, Noise(0, 2))
    arguments = (latent.w.detach(), batch.parts, latent.z_value, None)
    for pixels in (None, torch.tensor([0, 3])) if model.decoder.n_pixels else (None,):
        fast = model.decoder.linearise(*arguments, pixels)
        generic = Decoder.linearise(model.decoder, *arguments, pixels)
        for field in ("mean", "variance", "jacobian"):
            torch.testing.assert_close(getattr(fast, field), getattr(generic, field))
        assert fast.jacobian.abs().max() > 0


class Adding(nn.Module):
    """g(a) = (sum of a, constant log-variance): with it x is linear in W."""

    def forward(self, features: Tensor) -> Tensor:
        """features: (B, points, F) -> (B, points, 2)."""
        return torch.stack([features.sum(-1), torch.full(features.shape[:-1], -1.0)], -1)


@pytest.mark.parametrize("name", ["newton, pointwise, dense", "newton, pointwise, blocks"])
def test_for_a_linear_decoder_q_is_the_exact_posterior(name: str) -> None:
    model, batch = build(CONFIGS[name]), random_batch(CONFIGS[name], [1, 2, 5])
    model.decoder.link = Adding()
    latent = infer(model, batch, Noise(0, 3))
    sizes, loading = batch.parts.sizes, model.decoder.loading.detach().flatten(0, 1)
    design = loading.view(len(loading), model.decoder.points, -1).sum(-1).T  # x = K (A W / K) = design W
    whole = model.decoder(latent.code, batch.parts, None, None)
    value = torch.randn(latent.prior.mean.shape, generator=torch.Generator().manual_seed(2))
    for row in range(3):
        mask = latent.prior.mask[row].expand_as(latent.prior.mean[row]).flatten()
        m, s = latent.prior.mean[row].flatten()[mask], latent.prior.variance[row].flatten()[mask]
        h, r = design[:, mask], whole.variance[row]
        assert torch.allclose(r, r[0] * torch.ones_like(r))
        assert r[0] > 0.3 * sizes[row] ** 2
        precision = torch.diag(1 / s) + h.T @ torch.diag(1 / r) @ h
        mean = torch.linalg.solve(precision, m / s + h.T @ (batch.x[row] / r))
        exact = MultivariateNormal(mean, precision_matrix=precision)
        torch.testing.assert_close(latent.q.mean[row].flatten()[mask], mean)
        torch.testing.assert_close(latent.q.log_prob(value)[row], exact.log_prob(value[row].flatten()[mask]))


@pytest.mark.parametrize("name", ["newton, paper, dense", "newton, linked, blocks", "newton, placed"])
def test_the_peak_is_no_lower_than_where_the_climb_began(name: str) -> None:
    config = CONFIGS[name]
    model = build(config.model_copy(update={"posterior": config.posterior.model_copy(update={"rounds": 16})}))
    batch = random_batch(config, [2, 3])

    def height(w: Tensor) -> Tensor:
        """ln p(x | w) p(w), (B,)."""
        code = w if model.posterior.of_sum else model.aggregate(w, batch.parts)
        return model.decoder(code, batch.parts, None, None).log_prob(batch.x) + latent.prior.log_prob(w)

    with torch.no_grad():
        latent = infer(model, batch, Noise(0, 2))
        peak = height(latent.q.mean)
        start = latent.prior.mean if latent.prior.mask is None else latent.prior.mean * latent.prior.mask
        assert (peak >= height(start) - 1e-9).all()
