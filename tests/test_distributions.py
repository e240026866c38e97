"""Every Gaussian over parts against the dense multivariate normal it stands for (theory, sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from compvae.distributions import (
    Bridge,
    Members,
    Normal,
    PaperCorrelated,
    PartsGaussian,
    SumControlled,
    correlations,
    soft_floor,
)
from compvae.noise import Noise

pytestmark = pytest.mark.usefixtures("double")

D = 3
Dense = tuple[Tensor, Tensor]
"""Mean (K,) and covariance (K, K) of one coordinate over the parts that exist."""


def members(size: int, padding: int, blocks: int = 1) -> Members:
    mask = torch.zeros(2, size + padding, dtype=torch.bool)
    mask[:, :size] = True
    if blocks == 1:
        return Members(mask)
    return Members(mask, torch.randint(0, blocks, mask.shape), blocks)


def same_sum(group: Members, row: int, size: int) -> Tensor:
    """(K, K) of 0 and 1: which parts enter the same sum."""
    if group.block is None:
        return torch.ones(size, size)
    block = group.block[row, :size]
    return (block[:, None] == block[None]).double()


def random_prior(group: Members) -> Normal:
    shape = (*group.mask.shape, D)
    return Normal(torch.randn(shape), torch.rand(shape) * 3 + 0.05, group.mask[..., None])


def paper(group: Members) -> tuple[PartsGaussian, Callable[[int, int], Dense]]:
    shape = (*group.mask.shape, D)
    q = PaperCorrelated.of(group, torch.randn(shape), torch.randn(shape), torch.randn(shape))

    def dense(row: int, d: int) -> Dense:
        size = int(group.mask[row].sum())
        scale, rho = torch.diag(q.scale[row, :size, d]), q.rho[row, :size, d]
        factor = scale @ (torch.eye(size) - rho[:, None] * same_sum(group, row, size))
        return q.mean[row, :size, d], factor @ factor.T

    return q, dense


def sum_controlled(group: Members) -> tuple[PartsGaussian, Callable[[int, int], Dense]]:
    shape = (*group.mask.shape, D)
    q = SumControlled.of(group, torch.randn(shape), torch.randn(shape), torch.randn(shape))

    def dense(row: int, d: int) -> Dense:
        size = int(group.mask[row].sum())
        scale, rho = torch.diag(q.scale[row, :size, d]), q.rho[row, :size, d]
        factor = (torch.eye(size) - rho[:, None] * same_sum(group, row, size)) @ scale
        return q.mean[row, :size, d], factor @ factor.T

    return q, dense


def bridge(group: Members) -> tuple[PartsGaussian, Callable[[int, int], Dense]]:
    prior = random_prior(group)
    total = prior.sum(group)
    whole = Normal(
        torch.randn_like(total.mean) * total.mask, total.variance * torch.rand_like(total.mean) * 2, total.mask
    )
    q = Bridge(whole, prior, group)

    def dense(row: int, d: int) -> Dense:
        """E over W of the dense conditional: mean and covariance by the law of total covariance."""
        size = int(group.mask[row].sum())
        cov, mean = torch.diag(prior.variance[row, :size, d]), prior.mean[row, :size, d].clone()
        for g in range(group.blocks):
            inside = (torch.ones(size) if group.block is None else (group.block[row, :size] == g).double())[:, None]
            if not inside.any():
                continue
            p2, spread = torch.diag(prior.variance[row, :size, d]), whole.variance[row, g, d]
            gain = p2 @ inside / (inside.T @ p2 @ inside)
            mean = mean + gain[:, 0] * (whole.mean[row, g, d] - (inside.T @ prior.mean[row, :size, d, None])[0, 0])
            cov = cov - gain @ inside.T @ p2 + spread * gain @ gain.T
        return mean, cov

    return q, dense


FAMILIES = {"paper": paper, "sum_controlled": sum_controlled, "bridge": bridge}
CASES = [(k, padding, blocks) for k in range(1, 13) for padding, blocks in ((0, 1), (3, 1), (2, 3))]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("size", "padding", "blocks"), CASES)
def test_density_kl_and_moments_equal_the_dense_normal(family: str, size: int, padding: int, blocks: int) -> None:
    torch.manual_seed(size)
    group = members(size, padding, blocks)
    q, dense = FAMILIES[family](group)
    prior, w = random_prior(group), torch.randn(*group.mask.shape, D)
    log_prob, kl, variance, total = q.log_prob(w), q.kl(prior), q.variance, q.sum()
    for row in range(2):
        normals = [MultivariateNormal(*dense(row, d)) for d in range(D)]
        others = [
            MultivariateNormal(prior.mean[row, :size, d], torch.diag(prior.variance[row, :size, d])) for d in range(D)
        ]
        expected = sum(normal.log_prob(w[row, :size, d]) for d, normal in enumerate(normals))
        torch.testing.assert_close(log_prob[row], expected, rtol=1e-6, atol=1e-6)
        divergence = sum(kl_divergence(a, b) for a, b in zip(normals, others, strict=True))
        torch.testing.assert_close(kl[row], divergence, rtol=1e-6, atol=1e-6)
        for d, normal in enumerate(normals):
            torch.testing.assert_close(q.mean[row, :size, d], normal.mean, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(variance[row, :size, d], normal.variance, rtol=1e-6, atol=1e-6)
            for g in range(group.blocks):
                inside = torch.ones(size) if group.block is None else (group.block[row, :size] == g).double()
                assert (total.mean[row, g, d] - inside @ normal.mean).abs() < 1e-6
                assert (total.variance[row, g, d] - inside @ normal.covariance_matrix @ inside).abs() < 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_have_the_dense_moments_and_are_zero_where_padded(family: str) -> None:
    group = members(4, 2, 2)
    group = Members(group.mask[:1], group.block[:1] if group.block is not None else None, 2)
    q, dense = FAMILIES[family](group)
    n = 200_000
    noise = Noise(3, n)
    many = _tiled(q, n)
    w = many.rsample(noise, "w")
    assert (w[:, 4:] == 0).all()
    for d in range(D):
        mean, covariance = dense(0, d)
        error = covariance.diagonal().max() * 5 / n**0.5
        assert (w[:, :4, d].mean(0) - mean).abs().max() < covariance.diagonal().max().sqrt() * 5 / n**0.5
        assert (torch.cov(w[:, :4, d].T) - covariance).abs().max() < 3 * error


def _tiled(q: PartsGaussian, n: int) -> PartsGaussian:
    """The same distribution in n rows."""

    def rows(t: Tensor) -> Tensor:
        return t.expand(n, *t.shape[1:])

    group = Members(rows(q.members.mask), None if q.members.block is None else rows(q.members.block), q.members.blocks)
    if isinstance(q, Bridge):
        mask = q.whole.mask
        whole = Normal(rows(q.whole.mean), rows(q.whole.variance), None if mask is None else rows(mask))
        return Bridge(whole, Normal(rows(q.prior.mean), rows(q.prior.variance), rows(q.members.mask)[..., None]), group)
    assert isinstance(q, PaperCorrelated | SumControlled)
    return type(q)(group, rows(q.mean), rows(q.scale), rows(q.rho), rows(q.log_slack))


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_nothing(family: str) -> None:
    group = members(5, 0, 2)
    q, _ = FAMILIES[family](group)
    prior, w = random_prior(group), torch.randn(2, 5, D)

    def pad(t: Tensor) -> Tensor:
        junk = torch.rand(2, 4, *t.shape[2:]) + 1
        return torch.cat([t, junk if t.dtype.is_floating_point else torch.zeros_like(junk, dtype=t.dtype)], 1)

    assert group.block is not None
    wide = Members(pad(group.mask), pad(group.block), 2)
    wide_prior = Normal(pad(prior.mean), pad(prior.variance), wide.mask[..., None])
    if isinstance(q, Bridge):
        padded: PartsGaussian = Bridge(
            q.whole, Normal(pad(q.prior.mean), pad(q.prior.variance), wide.mask[..., None]), wide
        )
    else:
        assert isinstance(q, PaperCorrelated | SumControlled)
        rho = torch.cat([q.rho, torch.zeros(2, 4, D)], 1)
        padded = type(q)(wide, pad(q.mean), pad(q.scale), rho, q.log_slack)
    torch.testing.assert_close(padded.kl(wide_prior), q.kl(prior))
    torch.testing.assert_close(padded.log_prob(pad(w)), q.log_prob(w))
    noise = Noise(1, 2)
    torch.testing.assert_close(padded.rsample(noise, "w")[:, :5], q.rsample(noise, "w"))
    torch.testing.assert_close(padded.sum().variance, q.sum().variance)


def _tight(unequal: bool, family: type[PaperCorrelated] | type[SumControlled]) -> Tensor:
    """The smallest Var(sum w) over rho, by minimising over the logits."""
    group = members(4, 0)
    group = Members(group.mask[:1])
    scale = torch.tensor([[[0.3], [1.0], [2.0], [4.0]]]) if unequal else torch.ones(1, 4, 1)
    logits = torch.zeros(1, 4, 1, requires_grad=True)
    optimiser = torch.optim.Adam([logits], 0.1)
    for _ in range(3000):
        rho, slack = correlations(logits, group)
        variance = family(group, torch.zeros_like(scale), scale, rho, slack).sum().variance.sum()
        optimiser.zero_grad()
        variance.backward()
        optimiser.step()
    return variance.detach()


def test_the_papers_family_cannot_control_the_sum_for_unequal_sigmas() -> None:
    # c = sum s rho < max s, so Var(sum) = sum (s_i - c)^2 is at least the spread of the sigmas around their mean
    sigmas = torch.tensor([0.3, 1.0, 2.0, 4.0])
    bound = ((sigmas - sigmas.mean()) ** 2).sum()
    assert _tight(True, PaperCorrelated) >= bound - 1e-9
    assert _tight(False, PaperCorrelated) < 1e-3


def test_the_sum_controlled_family_can_for_any_sigmas() -> None:
    assert _tight(True, SumControlled) < 1e-3
    assert _tight(False, SumControlled) < 1e-3


def test_the_sum_controlled_family_contains_the_bridge() -> None:
    group = members(6, 1)
    prior = random_prior(group)
    total = prior.sum(group)
    whole = Normal(torch.randn(2, 1, D), total.variance * torch.rand(2, 1, D), total.mask)
    q = Bridge(whole, prior, group)
    root = (whole.variance / total.variance).sqrt()
    rho = (1 - root) * q.share * group.mask[..., None]
    same = SumControlled(group, q.mean, prior.variance.sqrt(), rho, root.log())
    w = torch.randn(2, 7, D)
    torch.testing.assert_close(same.log_prob(w), q.log_prob(w))
    torch.testing.assert_close(same.kl(prior), q.kl(prior))
    torch.testing.assert_close(same.variance[:, :6], q.variance[:, :6])


def test_kl_of_the_bridge_is_the_kl_of_the_sum() -> None:
    group = members(5, 2, 2)
    prior = random_prior(group)
    total = prior.sum(group)
    whole = Normal(torch.randn_like(total.mean), total.variance * 0.3, total.mask)
    torch.testing.assert_close(Bridge(whole, prior, group).kl(prior), whole.kl(total))


def test_the_bridge_at_a_given_sum_is_the_dense_conditional() -> None:
    n, size = 200_000, 4
    group = Members(torch.ones(n, size, dtype=torch.bool))
    mean, variance = torch.randn(1, size, 1), torch.rand(1, size, 1) + 0.2
    prior = Normal(mean.expand(n, -1, -1), variance.expand(n, -1, -1), group.mask[..., None])
    target = torch.full((n, 1, 1), 3.0)
    w = Bridge(prior.sum(group), prior, group).rsample_given(target, Noise(0, n), "w")[..., 0]
    torch.testing.assert_close(w.sum(1), target[:, 0, 0])
    p2, ones = torch.diag(variance[0, :, 0]), torch.ones(size, 1)
    gain = p2 @ ones / (ones.T @ p2 @ ones)
    expected = mean[0, :, 0] + gain[:, 0] * (3.0 - mean.sum())
    assert (w.mean(0) - expected).abs().max() < 5 / n**0.5
    assert (torch.cov(w.T) - (p2 - gain @ ones.T @ p2)).abs().max() < 15 / n**0.5


def test_a_message_multiplies_the_prior_and_never_widens_it() -> None:
    prior = Normal(torch.randn(50, 2), torch.rand(50, 2) + 0.1)
    shift, log_variance = torch.randn(50, 2), 3 * torch.randn(50, 2)
    q = prior.times(shift, log_variance)
    precision = 1 / prior.variance + (-log_variance).exp()
    expected = (prior.mean / prior.variance + (prior.mean + shift) * (-log_variance).exp()) / precision
    torch.testing.assert_close(q.variance, 1 / precision)
    torch.testing.assert_close(q.mean, expected)
    assert (q.variance <= prior.variance).all()


def test_correlations_are_a_softmax_with_a_spare_unit_and_do_not_overflow() -> None:
    group = members(4, 1, 2)
    logits = torch.randn(2, 5, D) * 400
    rho, slack = correlations(logits, group)
    total = group.total(rho)
    assert torch.isfinite(slack).all()
    assert (rho[:, 4:] == 0).all()
    torch.testing.assert_close(1 - total, slack.exp(), rtol=0, atol=1e-12)


def test_the_floor_is_smooth_above_its_value_and_the_identity_far_above() -> None:
    value = torch.linspace(-40, 10, 2001, requires_grad=True)
    floored = soft_floor(value, 0.02)
    low = 2 * torch.log(torch.tensor(0.02))
    assert (floored >= low).all()
    (slope,) = torch.autograd.grad(floored.sum(), value)
    assert (slope >= 0).all()
    assert (slope.diff().abs() < 0.03).all()
    above = value > low + 1
    torch.testing.assert_close(floored[above], value[above])


def test_gradients_are_finite_where_a_block_is_empty() -> None:
    mean = torch.zeros(2, 3, 2, requires_grad=True)
    variance = torch.tensor([1.0, 0.0, 2.0])[None, :, None].expand(2, 3, 2).clone().requires_grad_()
    present = torch.tensor([True, False, True])[None, :, None].expand(2, 3, 1)
    prior = Normal(mean, variance, present)
    q = prior.times(torch.ones(2, 3, 2), torch.zeros(2, 3, 2))
    w = q.rsample(Noise(0, 2), "w")
    (q.kl(prior).sum() + q.log_prob(w).sum() + w.sum()).backward()
    assert mean.grad is not None
    assert variance.grad is not None
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(variance.grad).all()
    assert (w[:, 1] == 0).all()
