"""q(z | x_1..x_m) and wide Gaussians against dense computations."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import MultivariateNormal

from compvae.batch import Batch, Shared
from compvae.distributions import Normal
from compvae.distributions.dense import DenseNormal, ObservedNormal, damped_step, damped_step_wide
from compvae.inference import infer
from compvae.noise import Noise
from models import CONFIGS, build, random_batch

CONFIG = CONFIGS["newton, losses, mixture, z above"]


def test_wide_and_dense_gaussians_are_the_same() -> None:
    torch.manual_seed(0)
    prior = Normal(torch.randn(2, 3, 4), torch.rand(2, 3, 4) + 0.1)
    seen, shift = torch.randn(2, 5, 12, dtype=torch.float64), torch.randn(2, 12)
    precision = seen.mT @ seen + torch.eye(12, dtype=torch.float64)
    wide, dense = ObservedNormal(prior, shift, seen), DenseNormal(prior, shift, precision)
    value = torch.randn(2, 3, 4)
    pairs = (
        (wide.mean, dense.mean),
        (wide.variance, dense.variance),
        (wide.covariances(), dense.covariances()),
        (wide.kl(prior), dense.kl(prior)),
        (wide.log_prob(value), dense.log_prob(value)),
    )
    for one, other in pairs:
        assert torch.allclose(one, other, atol=1e-4)


def test_draws_of_a_wide_gaussian_have_its_covariance() -> None:
    torch.manual_seed(1)
    n, seen = 50_000, torch.randn(1, 3, 5, dtype=torch.float64)
    prior = Normal(torch.zeros(n, 5), torch.ones(n, 5))
    drawn = ObservedNormal(prior, torch.zeros(n, 5), seen.expand(n, -1, -1)).rsample(Noise(0, n), "w")
    exact = torch.linalg.inv(seen[0].T @ seen[0] + torch.eye(5, dtype=torch.float64)).float()
    assert torch.allclose(torch.cov(drawn.T), exact, atol=0.02)


def test_damped_steps_solve_their_system() -> None:
    torch.manual_seed(2)
    seen, slope = torch.randn(2, 3, 7, dtype=torch.float64), torch.randn(2, 7, dtype=torch.float64)
    damping = torch.tensor([0.0, 0.4], dtype=torch.float64)
    matrix = seen.mT @ seen + (1 + damping)[:, None, None] * torch.eye(7, dtype=torch.float64)
    assert torch.allclose(damped_step_wide(seen, slope, damping), torch.linalg.solve(matrix, slope), atol=1e-10)
    precision = seen.mT @ seen + torch.eye(7, dtype=torch.float64)
    matrix = precision + damping[:, None, None] * torch.diag_embed(precision.diagonal(dim1=1, dim2=2))
    assert torch.allclose(damped_step(precision, slope, damping), torch.linalg.solve(matrix, slope), atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_z_is_the_exact_posterior_where_the_model_is_linear(dtype: torch.dtype) -> None:
    """With m(z) linear, p fixed and no losses, p(z, x_1, x_2) is one Gaussian; condition it by brute force in float64.

    The climb compares costs -log p(x, z).  Each is known to rounding, at most eps per term of its sum, and a z that is
    off by delta costs delta^2 / (2 var z).  So z is known to the delta whose cost cannot be seen, and no better.  The
    variance comes from one product of matrices, without a climb.
    """
    torch.set_default_dtype(dtype)
    model, slope = linear_model()
    batch = random_batch(CONFIG, [3, 5])
    shared = Batch(batch.x, batch.parts, None, Shared.of(torch.tensor([4, 4])))
    found = infer(model, shared, Noise(0, 2)).z
    assert found is not None

    counts, loading = batch.parts.counts.double(), model.decoder.loading.double()  # (2, C), (C, d, T)
    effect = torch.einsum("bc,cdz,cdt->btz", counts, slope.double(), loading).flatten(0, 1)  # dx/dz, (2 T, Z)
    mean, variance = (moment[0].double() for moment in model.prior.moments(torch.zeros(1, 3)))
    within = torch.einsum("bc,cd,cds,cdt->bst", counts, variance, loading, loading)
    noise = model.decoder(torch.zeros(2, 3, 5), batch.parts, None, None).variance.double()
    covariance = torch.block_diag(*(within + torch.diag_embed(noise)))
    centre = torch.einsum("bc,cd,cdt->bt", counts, mean, loading).flatten()
    x, values = MultivariateNormal(centre, covariance + effect @ effect.T), batch.x.flatten().double()
    gain = effect.T @ x.precision_matrix
    exact, exact_variance = gain @ (values - centre), 1 - (gain @ effect).diagonal()

    eps = torch.finfo(dtype).eps
    unseen = len(values) * eps * x.log_prob(values).abs()  # nats
    for row in range(2):
        assert ((found.q.mean[row].double() - exact).abs() < (2 * unseen * exact_variance).sqrt()).all()
        assert ((found.q.variance[row].double() - exact_variance).abs() < len(values) * eps).all()
    assert torch.equal(found.value[0], found.value[1])


def linear_model() -> tuple[torch.nn.Module, torch.Tensor]:
    """A model with m_c(z) = m_c + B_c z and p_c fixed; B, (C, d, Z)."""
    model = build(CONFIG).eval()
    kinds, size, z = *model.prior.mean.shape, CONFIG.latent.z
    matrix = 0.3 * torch.randn(2 * kinds * size, z, generator=torch.Generator().manual_seed(0))
    matrix[kinds * size :] = 0
    model.prior.shift = torch.nn.Linear(z, len(matrix), bias=False)
    model.prior.shift.weight.data.copy_(matrix)
    return model, matrix[: kinds * size].view(kinds, size, z)
