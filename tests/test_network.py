"""Every combination of pieces: finite, differentiable, padding-safe, order-invariant, K = 1 and K = 200."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from compvae.batch import Batch, CountedParts, PaddedParts
from compvae.composing.generation import generate
from compvae.config import ModelConfig
from compvae.inference import infer
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.objective import elbo, importance_bound
from models import CONFIGS, WEATHER, build, random_batch, random_parts, widened

every = pytest.mark.parametrize("name", CONFIGS)


@every
def test_forward_and_backward_are_finite_and_reach_every_parameter(name: str) -> None:
    model = build(CONFIGS[name]).train()
    batch = random_batch(CONFIGS[name], [1, 3, 5])
    bound = elbo(model, batch, Noise(0, 3))
    (-bound.total.mean()).backward()
    for term in (bound.w, bound.z, bound.x, bound.total):
        assert term.shape == (3,)
        assert torch.isfinite(term).all()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert torch.isfinite(value.grad).all(), parameter


@every
@pytest.mark.usefixtures("double")
def test_padding_changes_nothing(name: str) -> None:
    model, noise = build(CONFIGS[name]), Noise(0, 3)
    batch = random_batch(CONFIGS[name], [1, 3, 4])
    wide = widened(batch, 5)
    a, b = elbo(model, batch, noise), elbo(model, wide, noise)
    for term in ("w", "z", "x"):
        torch.testing.assert_close(getattr(a, term), getattr(b, term))
    drawn, padded = (generate(model, parts, noise) for parts in (batch.parts, wide.parts))
    torch.testing.assert_close(drawn.x.mean, padded.x.mean)
    torch.testing.assert_close(drawn.x.variance, padded.x.variance)


@every
@pytest.mark.usefixtures("double")
def test_permuted_parts_give_permuted_latents_and_the_same_whole(name: str) -> None:
    config = _without_embedding_noise(CONFIGS[name])
    model, batch = build(config), random_batch(config, [5, 5])
    parts = batch.parts.padded()
    order = torch.tensor([3, 0, 4, 1, 2])
    turned = Batch(batch.x, PaddedParts(parts.kind[:, order], parts.features[:, order], parts.mask, parts.n_kinds))
    a, b = (infer(model, each, Noise(0, 2)) for each in (batch, turned))
    if model.posterior.of_sum:
        torch.testing.assert_close(a.q.mean, b.q.mean)
    else:
        torch.testing.assert_close(a.q.mean[:, order], b.q.mean)
        torch.testing.assert_close(a.q.variance[:, order], b.q.variance)
    torch.testing.assert_close(a.q.kl(a.prior), b.q.kl(b.prior))


def _without_embedding_noise(config: ModelConfig) -> ModelConfig:
    if config.posterior.kind != "graph":
        return config
    return config.model_copy(update={"posterior": config.posterior.model_copy(update={"embedding_noise": 0.0})})


@every
@pytest.mark.parametrize("size", [1, 200])
def test_one_part_and_two_hundred_parts_work(name: str, size: int) -> None:
    model, batch = build(CONFIGS[name]), random_batch(CONFIGS[name], [size, size])
    assert torch.isfinite(elbo(model, batch, Noise(0, 2)).total).all()
    assert torch.isfinite(generate(model, batch.parts, Noise(0, 2)).x.mean).all()


@every
@pytest.mark.usefixtures("double")
def test_the_counted_and_the_padded_view_give_the_same_numbers(name: str) -> None:
    config = CONFIGS[name]
    if not config.parts.countable:
        return
    model = build(config)
    counted = CountedParts(torch.tensor([[1, 0, 2], [0, 4, 1]], dtype=torch.float64))
    x = torch.randn(2, *config.shape)
    a, b = (elbo(model, Batch(x, parts), Noise(0, 2)) for parts in (counted, counted.padded()))
    torch.testing.assert_close(a.total, b.total)
    for noise in (Noise(0, 2), Noise(5, 2)):
        drawn, padded = (generate(model, parts, noise).x.mean for parts in (counted, counted.padded()))
        torch.testing.assert_close(drawn, padded)


@every
@pytest.mark.usefixtures("double")
def test_rows_do_not_see_each_other(name: str) -> None:
    model, batch = build(CONFIGS[name]), random_batch(CONFIGS[name], [4, 2, 3])
    alone = Batch(batch.x[1:2], batch.parts.rows(slice(1, 2)))
    noise = Noise(0, 3)
    torch.testing.assert_close(
        elbo(model, batch, noise).total[1:2], elbo(model, alone, noise.at(torch.tensor([1]))).total
    )


@every
@pytest.mark.usefixtures("double")
def test_the_importance_weighted_bound_is_tighter_in_the_mean(name: str) -> None:
    model, batch, noise = build(CONFIGS[name]), random_batch(CONFIGS[name], [2] * 40), Noise(3, 40)
    with torch.no_grad():
        loose = torch.stack([elbo(model, batch, noise.fold(i)).total for i in range(16)]).mean(0)
        tight = importance_bound(model, batch, noise, 16)
    assert tight.mean() > loose.mean() - 1e-9
    assert torch.isfinite(tight).all()


class _Sizes(TorchDispatchMode):
    """Counts operations and the largest tensor they make."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.largest = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        self.calls += 1
        if isinstance(out, torch.Tensor):
            self.largest = max(self.largest, out.numel())
        return out


SUMS = [name for name, config in CONFIGS.items() if config.parts.countable]


@pytest.mark.parametrize("name", SUMS)
def test_sampling_a_million_parts_costs_what_ten_cost(name: str) -> None:
    model, costs = build(CONFIGS[name]), []
    for size in (10, 1_000_000):
        counts = torch.tensor([[size * 0.5, size * 0.2, size * 0.3]], dtype=torch.float64).expand(4, -1)
        with _Sizes() as seen:
            x = generate(model, CountedParts(counts), Noise(0, 4)).x.mean
        assert torch.isfinite(x).all()
        costs.append((seen.calls, seen.largest))
    assert costs[0] == costs[1]


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.usefixtures("double")
def test_the_sum_from_counts_has_the_distribution_of_summed_parts(name: str) -> None:
    model, n = build(CONFIGS[name]), 40_000
    parts = CountedParts(torch.tensor([[1, 0, 3]], dtype=torch.float64).expand(n, -1))
    with torch.no_grad():
        exact = model.prior.of_sum(parts)
        draws = model.aggregate(model.prior.of_parts(parts.padded()).rsample(Noise(0, n), "w"), parts)
    deviation = exact.variance[0].sqrt()
    assert ((draws.mean(0) - exact.mean[0]).abs() <= 5 * deviation / n**0.5).all()
    assert ((draws.var(0) - exact.variance[0]).abs() <= 7 * exact.variance[0] / n**0.5 + 1e-12).all()
    # normality, by the third and fourth moments
    unit = (draws - exact.mean[0]) / deviation.clamp(min=1e-12)
    present = deviation > 0
    assert (unit.pow(3).mean(0)[present].abs() < 10 / n**0.5 * 2).all()
    assert ((unit.pow(4).mean(0)[present] - 3).abs() < 30 / n**0.5 * 2).all()


@pytest.mark.parametrize(
    "name", ["collapsed, linked, blocks", "graph, paper, z below", "newton, placed", "graph, paper, dense"]
)
def test_context_conditions_encoder_and_decoder_and_may_be_unknown(name: str) -> None:
    config = ModelConfig.read({**CONFIGS[name].model_dump(mode="json"), "context": [a.model_dump() for a in WEATHER]})
    model, batch = build(config), random_batch(config, [2, 3])
    cold, warm = (torch.tensor([[1.0, t, 1, 1, 0]]).expand(2, -1) for t in (-0.5, 0.9))
    unknown = torch.zeros(2, 5)
    noise = Noise(0, 2)
    bounds = [elbo(model, Batch(batch.x, batch.parts, c), noise).total for c in (cold, warm, unknown, None)]
    assert not torch.allclose(bounds[0], bounds[1])
    torch.testing.assert_close(bounds[2], bounds[3])
    a, b = (generate(model, batch.parts, noise, c).x.mean for c in (cold, warm))
    assert not torch.allclose(a, b)


def test_pixel_subsets_are_an_unbiased_estimate_of_the_likelihood() -> None:
    config = CONFIGS["graph, placed"]
    some = config.model_copy(update={"decoder": config.decoder.model_copy(update={"pixels": 10})})
    model, batch = build(some), random_batch(some, [3] * 4)
    with torch.no_grad():
        exact = elbo(model.eval(), batch, Noise(0, 4)).x
        model.train()
        estimates = torch.stack([_subset(model, batch, step) for step in range(600)])
    error = estimates.std(0) / math.sqrt(len(estimates))
    assert ((estimates.mean(0) - exact).abs() < 4.5 * error).all()


def _subset(model: CompVAE, batch: Batch, step: int) -> torch.Tensor:
    """The training estimate with the latents of step 0 and the pixels of this step."""
    from compvae.objective import _log_likelihood

    latent = infer(model, batch, Noise(0, 4))
    return _log_likelihood(model, batch, latent, Noise(0, 4, step))


def test_larger_compositions_than_any_seen_keep_the_scale_of_x() -> None:
    """x = K g(A W / K): with counts in proportion, the mean of x/K does not depend on K."""
    model = build(CONFIGS["collapsed, linked, blocks"])
    means = []
    for size in (100, 1_000_000):
        counts = torch.tensor([[0.5, 0.2, 0.3]], dtype=torch.float64).expand(4000, -1) * size
        means.append(generate(model, CountedParts(counts), Noise(0, 4000)).x.mean.mean(0) / size)
    torch.testing.assert_close(means[0], means[1], rtol=0.05, atol=0.02)


def test_parts_of_many_kinds_are_gathered_from_the_right_rows_of_the_table() -> None:
    model = build(CONFIGS["graph, paper, dense"])
    parts = random_parts(model.config, [3, 2])
    prior = model.prior.of_parts(parts)
    table = model.prior.mean
    assert isinstance(table, torch.Tensor)
    for row, column in parts.mask.nonzero().tolist():
        torch.testing.assert_close(prior.mean[row, column], table[parts.kind[row, column]])
