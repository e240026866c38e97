"""Exceedances, coverage and PIT on forecasts whose calibration is known."""

import numpy as np
import pytest
from scipy import stats

from compvae.errors import DataError
from compvae.measures import coverage, exceedance, ks_uniform, pit


def normals(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_exceedances_are_shares_with_binomial_errors():
    truth, model = normals(0, 20_000), 0.2 + normals(1, 10_000)
    found = exceedance(truth, model, np.array([1.0, 2.0, 9.0]))
    for one in found[:2]:
        for side, shift, n in ((one.truth, 0.0, 20_000), (one.model, 0.2, 10_000)):
            exact = stats.norm.sf(one.threshold - shift)
            assert side.value == pytest.approx(exact, abs=3.5 * np.sqrt(exact * (1 - exact) / n))
            assert side.se == pytest.approx(np.sqrt(exact * (1 - exact) / n), rel=0.1)
        assert one.z_score > 3
    assert found[2].model.value == 0
    assert 0 < found[2].model.se < 2e-4  # none of 10,000 is not certainty
    assert abs(found[2].z_score) < 1


def test_a_value_on_the_threshold_reaches_it():
    found = exceedance(np.array([1.0, 2.0]), np.array([3.0, 2.0]), np.array([2.0]))[0]
    assert (found.truth.value, found.model.value) == (0.5, 1.0)


@pytest.mark.parametrize("shapes", [((3, 2), (3,), (1,)), ((3,), (), (1,)), ((3,), (3,), ())])
def test_statistics_are_one_number_a_whole(shapes):
    with pytest.raises(DataError, match=r"must be numbers \(n,\)"):
        exceedance(*(np.zeros(shape) for shape in shapes))


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_exact_forecasts_cover_their_level(level):
    found = coverage(normals(0, 3000, 39, 3), normals(1, 3000, 3), level)  # 40 (1 - level) / 2 is whole: exact
    assert abs(found.value - level) < 3 * found.se
    assert found.se == pytest.approx(np.sqrt(level * (1 - level) / 9000), rel=0.1)


def test_forecasts_of_the_wrong_width_cover_what_their_width_says():
    wide = coverage(2 * normals(0, 2000, 199, 1), normals(1, 2000, 1), 0.9)
    exact = 1 - 2 * stats.norm.sf(2 * stats.norm.isf(0.05))
    assert abs(wide.value - exact) < 4 * wide.se + 0.002  # the ends of 199 draws move a little
    assert coverage(0.5 * normals(0, 2000, 199, 1), normals(1, 2000, 1), 0.9).value < 0.7


def test_coordinates_that_move_together_count_once():
    common = normals(0, 500, 39, 1).repeat(50, 2)
    together = coverage(common, normals(1, 500, 1).repeat(50, 1), 0.5)
    assert together.se == pytest.approx(np.sqrt(0.25 / 500), rel=0.1)


@pytest.mark.parametrize("level", [0.0, 1.0, 0.96, float("nan")])
def test_a_level_that_the_draws_cannot_show_is_refused(level):
    with pytest.raises(DataError, match=r"between 0 and 0\.95 with 39 draws"):
        coverage(np.zeros((2, 39, 1)), np.zeros((2, 1)), level)


@pytest.mark.parametrize("draws", [1, 10])
def test_pit_of_exact_forecasts_is_uniform_ties_included(draws):
    smooth = pit(normals(0, 1500, draws), normals(1, 1500), seed=3)
    assert ks_uniform(smooth).value < ks_uniform(smooth).floor
    generator = np.random.default_rng(5)
    coarse = pit(generator.integers(0, 3, (1500, draws)), generator.integers(0, 3, 1500))
    assert ks_uniform(coarse).value < ks_uniform(coarse).floor
    assert coarse.min() > 0
    assert coarse.max() < 1


@pytest.mark.parametrize(("shift", "scale"), [(0.3, 1.0), (0.0, 0.5), (0.0, 2.0)])
def test_pit_of_wrong_forecasts_is_not_uniform(shift, scale):
    found = ks_uniform(pit(shift + scale * normals(0, 1000, 50), normals(1, 1000)))
    assert found.value > 1.5 * found.floor


def test_pit_keeps_the_shape_and_is_a_rank():
    forecast = np.arange(9.0).reshape(1, 9, 1).repeat(2, 2)
    found = pit(forecast, np.array([[3.5, -1.0]]))
    assert found.shape == (1, 2)
    assert 0.4 < found[0, 0] < 0.5  # 4 of 9 below: within (4/10, 5/10)
    assert 0.0 < found[0, 1] < 0.1
