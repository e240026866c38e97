"""The shape of parts: sums keep the moments whatever the shape, and a fit finds what is there."""

from __future__ import annotations

import pytest
import torch

from compvae.noise import Noise
from compvae.prior.mixture import COUNTED, PartMixture

ROWS = 40_000


def lopsided(z: int = 0) -> PartMixture:
    """Two kinds, three components each, with means and covariances of no symmetry."""
    torch.manual_seed(3)
    mixture = PartMixture(2, 3, 2, z)
    mixture.gate.copy_(torch.randn(2, 3, 1 + z))
    mixture.mean.copy_(2 * torch.randn(2, 3, 2))
    mixture.root.copy_(torch.tril(0.3 * torch.randn(2, 3, 2, 2)) + 0.5 * torch.eye(2))
    return mixture


@pytest.mark.parametrize("count", [1, 2, 7, COUNTED, COUNTED + 1, 100_000])
def test_sums_have_mean_0_and_covariance_n(count: int) -> None:
    counts = torch.tensor([[count, 0]], dtype=torch.float64).expand(ROWS, 2)
    total = lopsided().draw_sum(counts, None, Noise(0, ROWS), "w")
    assert (total[:, 1] == 0).all()
    scaled = total[:, 0] / count**0.5
    assert torch.allclose(scaled.mean(0), torch.zeros(2), atol=0.03)
    assert torch.allclose(torch.cov(scaled.T), torch.eye(2), atol=0.05)


def test_weights_that_move_with_z_leave_the_moments_alone() -> None:
    mixture = lopsided(z=1)
    for value in (-2.0, 0.0, 2.0):
        z = torch.full((ROWS, 1), value)
        drawn = mixture.draw_sum(torch.tensor([[0, 3]]).expand(ROWS, 2), z, Noise(1, ROWS), "w")[:, 1]
        assert torch.allclose(drawn.mean(0), torch.zeros(2), atol=0.06)
        assert torch.allclose(torch.cov(drawn.T), 3 * torch.eye(2), atol=0.15)


def test_one_part_has_the_skewness_of_the_mixture_and_many_parts_lose_it() -> None:
    mixture = PartMixture(1, 2, 1, 0)
    mixture.gate.copy_(torch.tensor([0.8, 0.2]).log()[None, :, None])
    mixture.mean.copy_(torch.tensor([[[0.0], [5.0]]]))

    def skewness(count: int) -> float:
        drawn = mixture.draw_sum(torch.full((ROWS, 1), count), None, Noise(2, ROWS), "w")[:, 0, 0] / count**0.5
        return float((drawn**3).mean())

    # of .8 N(0, 1) + .2 N(5, 1): third central moment 25 * 5 * p (1 - p) (1 - 2 p), variance 1 + 25 p (1 - p)
    exact = 125 * 0.16 * 0.6 / (1 + 25 * 0.16) ** 1.5
    assert skewness(1) == pytest.approx(exact, abs=0.05)
    assert skewness(16) == pytest.approx(exact / 4, abs=0.06)


def test_rows_do_not_depend_on_the_rows_beside_them() -> None:
    mixture, noise = lopsided(), Noise(5, 6)
    counts = torch.tensor([[1, 2], [3, 0], [0, 9], [60, 1], [2, 2], [1, 0]])
    together = mixture.draw_sum(counts, None, noise, "w")
    alone = torch.cat([mixture.draw_sum(counts[[r]], None, noise.at(torch.tensor([r])), "w") for r in range(6)])
    assert torch.allclose(together, alone, atol=1e-5)


def test_a_fit_finds_two_humps_whose_weight_moves_with_z() -> None:
    torch.manual_seed(0)
    z = torch.randn(6000, 1)
    high = torch.rand(6000, 1) < torch.sigmoid(2 * z)
    v = torch.where(high, 1.0, -1.0) + 0.2 * torch.randn(6000, 2)
    mixture = PartMixture(1, 2, 2, 1)
    mixture.fit(0, v, z)
    assert mixture.mean[0].sort(0).values.flatten().tolist() == pytest.approx([-1, -1, 1, 1], abs=0.05)
    assert mixture.root[0].diagonal(dim1=1, dim2=2).flatten().tolist() == pytest.approx([0.2] * 4, abs=0.03)
    up = int(mixture.mean[0, :, 0].argmax())
    found = mixture.weights(torch.tensor([[-1.0], [0.0], [1.0]]), 3)[:, 0, up]
    assert found.tolist() == pytest.approx(torch.sigmoid(torch.tensor([-2.0, 0.0, 2.0])).tolist(), abs=0.05)


def test_too_few_parts_leave_the_gaussian() -> None:
    mixture = PartMixture(1, 2, 3, 0)
    mixture.fit(0, torch.randn(5, 3), torch.zeros(5, 0))
    assert (mixture.mean == 0).all()
