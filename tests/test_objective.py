"""The bound on a linear-Gaussian model, where ln p(x), the exact posterior and both sides of the collapse are known."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

from compvae.batch import Batch, CountedParts
from compvae.config import ModelConfig
from compvae.distributions import Bridge, Normal, SumControlled
from compvae.inference import infer
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.objective import elbo, importance_bound
from compvae.posterior import Posterior
from compvae.posterior.base import Given
from compvae.prior import TablePrior, members_of
from models import CONFIGS, build

pytestmark = pytest.mark.usefixtures("double")

ROWS = 20_000
SIGMA = 0.4
CONFIG = ModelConfig.read(
    {
        **CONFIGS["collapsed, linked, dense"].model_dump(mode="json"),
        "scale": "none",
        "latent": {"w": 2},
        "decoder": {"kind": "linked", "features": 2, "width": 4, "blocks": 0, "floor": 1e-6},
    }
)


class _Sum(Posterior):
    """q(W) given from outside."""

    of_sum: ClassVar[bool] = True
    reader = None
    z_network = None

    def __init__(self, whole: Normal) -> None:
        super().__init__()
        self.whole = whole

    def w(self, given: Given) -> Normal:
        return self.whole


class _Parts(_Sum):
    """The same q(W), completed to the parts by the bridge, in the form of the sum-controlled family."""

    of_sum: ClassVar[bool] = False

    def w(self, given: Given) -> SumControlled:
        members = members_of(given.batch.parts.padded(), CONFIG)
        bridge = Bridge(self.whole, given.prior, members)
        root = (self.whole.variance / bridge.prior_sum.variance).sqrt()
        rho = (1 - root) * bridge.share * members.mask[..., None]
        return SumControlled(members, bridge.mean, given.prior.variance.sqrt(), rho, root.log())


def linear_model() -> tuple[CompVAE, Tensor]:
    """x ~ N(A W / K, SIGMA^2): a decoder without its non-linearity.  -> model, A (T, 2)."""
    model = build(CONFIG)
    matrix = torch.zeros(6, 2)
    matrix[:3, 0], matrix[3:, 1] = torch.randn(3), torch.randn(3)  # W's coordinates stay independent given x
    link = nn.Linear(2, 12)
    with torch.no_grad():
        link.weight.copy_(torch.cat([matrix, torch.zeros(6, 2)]))
        link.bias.copy_(torch.cat([torch.zeros(6), torch.full((6,), 2 * torch.tensor(SIGMA).log())]))
        model.decoder.loading.copy_(torch.eye(2)[None])  # type: ignore[operator]
    model.decoder.link = link
    return model, matrix


def one_whole(rows: int) -> Batch:
    """One x with the parts (1, 0, 3), repeated."""
    counts = torch.tensor([[1.0, 0.0, 3.0]], dtype=torch.float64).expand(rows, -1)
    return Batch(torch.randn(1, 6).expand(rows, -1), CountedParts(counts))


def exact_posterior(model: CompVAE, matrix: Tensor, batch: Batch) -> tuple[Normal, Tensor]:
    """p(W | x) and ln p(x), by dense Gaussian algebra on the first row."""
    prior = model.prior.of_sum(batch.parts.rows(slice(0, 1)))
    a = matrix / 4
    mean, cov = prior.mean[0, 0], torch.diag(prior.variance[0, 0])
    evidence = MultivariateNormal(a @ mean, a @ cov @ a.T + SIGMA**2 * torch.eye(6))
    posterior_cov = torch.linalg.inv(torch.linalg.inv(cov) + a.T @ a / SIGMA**2)
    assert (posterior_cov - torch.diag(posterior_cov.diagonal())).abs().max() < 1e-12
    posterior_mean = posterior_cov @ (torch.linalg.inv(cov) @ mean + a.T @ batch.x[0] / SIGMA**2)
    n = len(batch)
    q = Normal(posterior_mean.detach().expand(n, 1, 2), posterior_cov.diagonal().detach().expand(n, 1, 2))
    return q, evidence.log_prob(batch.x[0]).detach()


@pytest.mark.parametrize("form", [_Sum, _Parts])
def test_the_weight_is_the_evidence_at_every_draw_when_q_is_the_true_posterior(form: type[_Sum]) -> None:
    model, matrix = linear_model()
    batch = one_whole(50)
    q, evidence = exact_posterior(model, matrix, batch)
    model.posterior = form(q)
    torch.testing.assert_close(importance_bound(model, batch, Noise(0, 50), 1), evidence.expand(50))


@pytest.mark.parametrize("form", [_Sum, _Parts])
def test_the_bound_equals_the_evidence_in_the_mean_when_q_is_the_true_posterior(form: type[_Sum]) -> None:
    model, matrix = linear_model()
    batch = one_whole(ROWS)
    q, evidence = exact_posterior(model, matrix, batch)
    model.posterior = form(q)
    total = elbo(model, batch, Noise(0, ROWS)).total.detach()
    assert (total.mean() - evidence).abs() < 4 * total.std() / ROWS**0.5


def test_a_worse_q_loses_exactly_its_divergence_from_the_posterior() -> None:
    model, matrix = linear_model()
    batch = one_whole(ROWS)
    exact, evidence = exact_posterior(model, matrix, batch)
    worse = Normal(exact.mean + 0.3, exact.variance * 0.5)
    model.posterior = _Sum(worse)
    total = elbo(model, batch, Noise(0, ROWS)).total.detach()
    expected = evidence - worse.kl(exact)[0]
    assert (total.mean() - expected).abs() < 4 * total.std() / ROWS**0.5


def test_graph_form_of_the_bridge_and_collapsed_have_the_same_bound() -> None:
    """ELBO(q(W) bridge) = ELBO_collapsed(q(W)): KLs equal exactly, the likelihoods in distribution."""
    model, matrix = linear_model()
    batch = one_whole(ROWS)
    exact, _ = exact_posterior(model, matrix, batch)
    q = Normal(exact.mean - 0.2, exact.variance * 0.7)
    bounds = []
    for form in (_Sum, _Parts):
        model.posterior = form(q)
        bounds.append(elbo(model, batch, Noise(1, ROWS)))
    torch.testing.assert_close(bounds[0].w, bounds[1].w)
    a, b = (bound.x.detach() for bound in bounds)
    assert (a.mean() - b.mean()).abs() < 4 * (a.var() + b.var()).sqrt() / ROWS**0.5
    assert (a.std() / b.std() - 1).abs() < 0.05


def test_terms_are_true_nats_and_total_is_x_minus_w_minus_z() -> None:
    model, _ = linear_model()
    batch = one_whole(4)
    bound = elbo(model, batch, Noise(0, 4))
    drawn = infer(model, batch, Noise(0, 4))
    mean = model.decoder(drawn.code, batch.parts, None, None).mean
    expected = torch.distributions.Normal(mean, SIGMA).log_prob(batch.x).sum(1)
    torch.testing.assert_close(bound.x, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(bound.total, bound.x - bound.w - bound.z)


# -- the M-step ----------------------------------------------------------------------------------------------------


def m_step_config(name: str) -> ModelConfig:
    data = CONFIGS[name].model_dump(mode="json")
    return ModelConfig.read({**data, "prior": {**data["prior"], "fit": "m_step"}})


def divergence(model: CompVAE, parts: CountedParts, q: Normal, of_sum: bool) -> Tensor:
    prior = model.prior.of_sum(parts) if of_sum else model.prior.of_parts(parts.padded())
    return q.kl(prior).sum()


@pytest.mark.parametrize("name", ["collapsed, linked, blocks", "graph, linked, dense"])
def test_a_full_m_step_lands_where_the_divergence_is_smallest(name: str) -> None:
    model = build(m_step_config(name))
    assert isinstance(model.prior, TablePrior)
    of_sum = model.posterior.of_sum
    parts = CountedParts(torch.randint(0, 4, (30, 3)).double() + 1)
    old = model.prior.of_sum(parts) if of_sum else model.prior.of_parts(parts.padded())
    q = Normal(old.mean + torch.randn_like(old.mean), old.variance * torch.rand_like(old.variance), old.mask)
    model.prior.m_step(model.prior.statistics(parts, q, of_sum), rate=1.0)
    for moments in (model.prior.mean, model.prior.log_variance):
        moments.requires_grad_()
    slopes = torch.autograd.grad(divergence(model, parts, q, of_sum), [model.prior.mean, model.prior.log_variance])
    for slope in slopes:
        assert slope.abs().max() < 1e-9


def test_an_m_step_on_mixed_kinds_never_raises_the_divergence() -> None:
    model = build(m_step_config("collapsed, linked, dense"))
    assert isinstance(model.prior, TablePrior)
    parts = CountedParts(torch.randint(0, 4, (30, 3)).double() + 1)
    old = model.prior.of_sum(parts)
    q = Normal(old.mean + 2 * torch.randn_like(old.mean), old.variance * torch.rand_like(old.variance))
    values = []
    for _ in range(20):
        values.append(float(divergence(model, parts, q, True)))
        model.prior.m_step(model.prior.statistics(parts, q, True), rate=1.0)
    assert all(b <= a + 1e-9 for a, b in pairwise(values))
    assert values[-1] < values[0] - 1


@pytest.mark.parametrize("name", ["collapsed, linked, blocks", "collapsed, linked, dense", "graph, linked, dense"])
def test_statistics_of_two_halves_add_up_to_those_of_the_batch(name: str) -> None:
    model = build(m_step_config(name))
    assert isinstance(model.prior, TablePrior)
    counts = torch.randint(0, 3, (8, 3)).double() + torch.tensor([1.0, 0, 0])
    batch = Batch(torch.randn(8, 6), CountedParts(counts))
    whole = elbo(model, batch, Noise(0, 8)).statistics
    halves = [
        elbo(model, Batch(batch.x[rows], batch.parts.rows(rows)), Noise(0, 8).at(rows)).statistics
        for rows in torch.arange(8).split(4)
    ]
    assert whole is not None
    for field in ("square", "deviation", "parts", "terms"):
        total = sum(getattr(half, field) for half in halves)
        torch.testing.assert_close(getattr(whole, field), total)


def test_kinds_that_were_not_seen_keep_their_moments() -> None:
    model = build(m_step_config("collapsed, linked, blocks"))
    assert isinstance(model.prior, TablePrior)
    before = model.prior.mean.clone(), model.prior.log_variance.clone()
    batch = Batch(torch.randn(4, 6), CountedParts(torch.tensor([[2.0, 0.0, 1.0]], dtype=torch.float64).expand(4, -1)))
    statistics = elbo(model, batch, Noise(0, 4)).statistics
    assert statistics is not None
    model.prior.m_step(statistics, rate=0.5)
    for old, new in zip(before, (model.prior.mean, model.prior.log_variance), strict=True):
        assert torch.equal(old[1], new[1])
        assert not torch.equal(old[0], new[0])
