"""What is hidden in a whole comes back exactly from true wholes, and by known amounts from spoilt ones."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from compvae import problems
from compvae.errors import DataError, PartsError
from compvae.measures import (
    glitch_fraction,
    ks_amplitude,
    ks_phase,
    ks_uniform,
    off_manifold,
    recover_phasors,
    recover_sharpness,
    specifics_error,
)
from compvae.measures.fitting import nearest
from compvae.problems.colours import SHARPNESS

SINES, COLOURS = problems.get("sines"), problems.get("colours")
SITES = [
    {"colour": "red", "x": 0.5, "y": -0.4},
    {"colour": "black", "x": -0.6, "y": -0.5},
    {"colour": "white", "x": -0.2, "y": 0.7},
    {"colour": "blue", "x": 0.6, "y": 0.5},
]


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def phasors_of(specifics: np.ndarray) -> np.ndarray:
    """(n, K, 2) amplitudes and phases -> (n, K, 2)."""
    amplitude, phase = specifics[..., 0].astype(np.float64), specifics[..., 1]
    return np.stack([amplitude * np.cos(phase), amplitude * np.sin(phase)], -1)


# -- the fit itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("high", [10.0, 0.9])
def test_the_batched_fit_is_scipys_row_by_row_also_at_its_bounds(high):
    t = torch.linspace(0, 3, 30, dtype=torch.float64)

    def reach(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fall = torch.exp(-p[:, 1:] * t)
        return p[:, :1] * fall, torch.stack([fall, -p[:, :1] * t * fall], 2)

    true = torch.tensor(np.random.default_rng(0).uniform(0.3, 2.0, (20, 2)))
    x = reach(true)[0] + 0.1 * torch.tensor(noise(1, 20, 30))
    fit = nearest(reach, x, torch.full((20, 2), 0.5, dtype=torch.float64), 0.1, high)
    for row in range(20):
        whole = lambda p, row=row: (reach(torch.tensor(p)[None])[0] - x[row]).numpy()[0]  # noqa: E731
        exact = least_squares(whole, [0.5, 0.5], bounds=(0.1, high), xtol=1e-12, ftol=1e-12, gtol=1e-12)
        assert float(fit.cost[row]) <= 2 * exact.cost * (1 + 1e-6)
        np.testing.assert_allclose(fit.parameters[row], exact.x, atol=2e-4)
    assert (fit.parameters == high).any() == (high < 1)


def test_rows_do_not_know_each_other():
    x = SINES.truth({"2": 1, "5": 1}, 7) + 0.1 * noise(0, 7, 200)
    together = recover_phasors(SINES, {"2": 1, "5": 1}, x).value
    alone = np.concatenate([recover_phasors(SINES, {"2": 1, "5": 1}, row[None]).value for row in x])
    np.testing.assert_allclose(together, alone, atol=1e-6)


# -- curves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frequencies", [(1,), (10,), (2, 3), (1, 4, 9, 10), tuple(range(1, 9))])
def test_amplitudes_and_phases_of_true_curves_come_back_exactly(frequencies):
    parts = {str(f): 1 for f in frequencies}
    hidden = SINES.specifics(parts, 300, seed=1)
    found = recover_phasors(SINES, parts, SINES.whole(parts, hidden))
    np.testing.assert_allclose(found.value, phasors_of(hidden), atol=2e-5)
    upright = hidden[..., 0] > 0  # a negative amplitude looks like a positive one half a turn on
    np.testing.assert_allclose(found.amplitude, np.abs(hidden[..., 0]), atol=2e-5)
    turn = found.phase - hidden[..., 1] + np.pi * ~upright
    np.testing.assert_allclose(np.exp(1j * turn), 1, atol=1e-3)
    assert upright.mean() > 0.99
    assert found.unique.all()
    assert found.features.shape == (300, 2 * len(frequencies))


@settings(derandomize=True, deadline=None, max_examples=25)
@given(parts=st.dictionaries(st.sampled_from([str(f) for f in range(1, 11)]), st.integers(1, 20), min_size=1))
def test_every_true_curve_is_reachable(parts):
    x = SINES.truth(parts, 20, seed=4)
    assert off_manifold(x, recover_phasors(SINES, parts, x).reachable).value < 1e-6


@pytest.mark.parametrize("times", [1, 3, 100])
def test_of_alike_parts_the_sum_of_phasors_comes_back(times):
    parts = {"3": 2 * times, "7": times, "9": 1}
    hidden = SINES.specifics(parts, 50, seed=2)
    found = recover_phasors(SINES, parts, SINES.whole(parts, hidden))
    sums = np.add.reduceat(phasors_of(hidden), [0, 2 * times, 3 * times], 1)
    np.testing.assert_allclose(found.value, sums, atol=1e-4 * times)
    assert found.unique.tolist() == [False, times == 1, True]
    assert off_manifold(SINES.whole(parts, hidden), found.reachable).value < 1e-6


@pytest.mark.parametrize("parts", [{"4": 1}, {"1": 1, "5": 1, "10": 1}, {str(f): 2 for f in range(1, 9)}])
def test_white_noise_leaves_a_residual_of_its_own_size(parts):
    x = SINES.truth(parts, 400, seed=3).astype(np.float64)
    spoilt = x + 0.05 * np.sqrt((x**2).mean()) * noise(4, *x.shape)
    found = off_manifold(spoilt, recover_phasors(SINES, parts, spoilt).reachable)
    # the fit takes up one degree of freedom for each unknown, of 200 points
    expected = 0.05 / math.sqrt(1 + 0.05**2) * math.sqrt(1 - 2 * len(parts) / 200)
    assert found.value == pytest.approx(expected, rel=0.015)
    assert found.se == pytest.approx(0, abs=0.02 * expected)


def test_the_nearest_curve_is_as_near_as_any_start_of_scipy_finds():
    parts, x = {"2": 1, "3": 1}, SINES.truth({"2": 1, "4": 1}, 6, seed=5).astype(np.float64)  # not reachable
    found = recover_phasors(SINES, parts, x)
    time = np.arange(200) / 100

    def curve(p: np.ndarray) -> np.ndarray:
        return 2 * np.tanh(
            1.5 * sum(p[2 * i] * np.cos(2 * np.pi * f * time + p[2 * i + 1]) for i, f in enumerate((2, 3)))
        )

    for row in range(6):
        costs = [
            least_squares(lambda p, row=row: curve(p) - x[row], start).cost
            for start in np.random.default_rng(row).normal(size=(10, 4)) + 0.5
        ]
        assert ((x[row] - found.reachable[row]) ** 2).sum() <= 2 * min(costs) * (1 + 1e-4)


def test_a_curve_that_no_sum_reaches_gives_finite_numbers():
    loud = 3 * SINES.truth({"2": 1}, 20)  # true curves stay within -1..1
    found = recover_phasors(SINES, {"2": 1}, loud)
    assert np.isfinite(found.value).all()
    assert 0.5 < off_manifold(loud, found.reachable).value < 0.75
    assert off_manifold(np.zeros((3, 200)), np.zeros((3, 200))).n == 3


def test_amplitudes_and_phases_of_the_truth_have_its_distribution():
    for std in (0.8, 2.0):
        problem = problems.get("sines", phase_std=std)
        found = recover_phasors(problem, {"2": 1, "5": 1, "6": 3}, problem.truth({"2": 1, "5": 1, "6": 3}, 400, seed=2))
        for result in (ks_amplitude(found), ks_phase(found, std)):
            assert result.n == 800  # two unique frequencies
            assert result.value < result.floor


def test_the_distribution_of_phases_knows_that_they_wrap_and_flip():
    hidden = np.random.default_rng(0).normal((1, 0), (0.3, 2.5), (200_000, 2))
    hidden[:100, 0] *= -1
    wrapped = np.angle(np.abs(hidden[:, 0]) * np.exp(1j * (hidden[:, 1] + np.pi * (hidden[:, 0] < 0))))
    found = recover_phasors(SINES, {"1": 1}, SINES.truth({"1": 1}, 1))
    value = np.stack([np.cos(wrapped), np.sin(wrapped)], -1)[:, None]
    assert ks_phase(type(found)(found.counts, value, found.reachable), 2.5).value < 0.005


def test_amplitudes_and_phases_that_are_off_are_noticed():
    parts = {"2": 1, "5": 1}
    hidden = SINES.specifics(parts, 300, seed=3)
    narrow = recover_phasors(SINES, parts, SINES.whole(parts, (hidden - [1, 0]) * [0.5, 1] + [1, 0]))
    assert ks_amplitude(narrow).value > 2 * ks_amplitude(narrow).floor
    assert ks_phase(narrow, 0.8).value < ks_phase(narrow, 0.8).floor
    turned = recover_phasors(SINES, parts, SINES.whole(parts, hidden + np.array([0, 0.5])))
    assert ks_phase(turned, 0.8).value > 2 * ks_phase(turned, 0.8).floor


def test_what_curves_cannot_tell_is_refused():
    twice = recover_phasors(SINES, {"3": 2}, SINES.truth({"3": 2}, 3))
    with pytest.raises(DataError, match="every frequency stands several times"):
        ks_amplitude(twice)
    with pytest.raises(DataError, match="phase_std is 0"):
        ks_phase(recover_phasors(SINES, {"3": 1}, SINES.truth({"3": 1}, 3)), 0.0)
    for x in (np.zeros((3, 100)), np.zeros(200), np.full((2, 200), np.nan)):
        with pytest.raises(DataError):
            recover_phasors(SINES, {"3": 1}, x)
    with pytest.raises(PartsError):
        recover_phasors(SINES, {"11": 1}, np.zeros((3, 200)))
    with pytest.raises(DataError, match="same shape"):
        off_manifold(np.zeros((3, 2)), np.zeros((2, 2)))


# -- images ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sites", [2, 4])
@pytest.mark.parametrize("bounds", [(1e-2, 1e3), SHARPNESS])
def test_the_sharpness_of_true_images_comes_back_exactly(sites, bounds):
    hidden = COLOURS.specifics(SITES[:sites], 60, seed=1)
    x = COLOURS.whole(SITES[:sites], hidden)
    found = recover_sharpness(COLOURS, SITES[:sites], x, bounds)
    np.testing.assert_allclose(found.value, hidden[..., 0], atol=1e-4)
    assert found.identified.all()
    assert off_manifold(x, found.reachable).value < 1e-6
    assert glitch_fraction(x, found.reachable).value == 0


def test_many_sites_come_back_too():
    crowd = SITES + [{**site, "x": -site["x"], "y": site["y"] / 2, "colour": "green"} for site in SITES]
    hidden = COLOURS.specifics(crowd, 20, seed=2)
    found = recover_sharpness(COLOURS, crowd, COLOURS.whole(crowd, hidden))
    assert np.abs(found.value - hidden[..., 0])[found.identified].max() < 1e-3
    assert found.identified.mean() > 0.8


def test_the_lowest_of_several_minima_is_found():
    shadowed = [  # from a single start, one image in a hundred ends in another minimum
        {"colour": "red", "x": 0.8, "y": 0.85},
        {"colour": "green", "x": 0.73, "y": -0.39},
        {"colour": "red", "x": -0.45, "y": 0.73},
        {"colour": "red", "x": 0.02, "y": 0.22},
    ]
    x = COLOURS.truth(shadowed, 200, seed=5)
    gaps = ((x - recover_sharpness(COLOURS, shadowed, x).reachable) ** 2).mean((1, 2, 3))
    assert gaps.max() < 1e-8


def test_sites_among_their_own_colour_are_not_identified():
    same = [{**site, "colour": "red"} for site in SITES]
    assert not recover_sharpness(COLOURS, same, COLOURS.truth(same, 3)).identified.any()
    mixed = [*same[:3], SITES[1]]
    assert recover_sharpness(COLOURS, mixed, COLOURS.truth(mixed, 20)).usual[3]


def test_sites_at_one_place_come_back_up_to_their_order():
    twins = [SITES[0], SITES[0], SITES[1]]
    hidden = COLOURS.specifics(twins, 5, seed=1)[..., 0]
    found = recover_sharpness(COLOURS, twins, COLOURS.whole(twins, hidden[..., None])).value
    np.testing.assert_allclose(np.sort(found[:, :2]), np.sort(hidden[:, :2]), atol=0.01)


def test_noise_moves_the_sharpness_by_what_the_curvature_says():
    hidden = COLOURS.specifics(SITES[:2], 200, seed=3)
    x = COLOURS.whole(SITES[:2], hidden) + 0.02 * noise(5, 200, 3, 32, 32)
    found = recover_sharpness(COLOURS, SITES[:2], x)
    result = specifics_error(found.value, hidden[..., 0], found.identified)
    assert result.spread == pytest.approx(5 / math.sqrt(12), rel=0.1)
    assert 0.01 < result.rmse.value < 0.2
    rms = math.sqrt((x**2).mean())
    residual = off_manifold(x, found.reachable)
    assert residual.value == pytest.approx(0.02 * math.sqrt(1 - 2 / 3072) / rms, rel=0.01)


def test_sharpness_beyond_the_range_is_seen_and_held_at_the_bounds():
    hidden = COLOURS.specifics(SITES, 30, seed=4)
    hidden[:, 0], hidden[:, 1] = 20.0, 2.0
    x = COLOURS.whole(SITES, hidden)
    free = recover_sharpness(COLOURS, SITES, x)
    np.testing.assert_allclose(free.value, hidden[..., 0], atol=1e-3)
    held = recover_sharpness(COLOURS, SITES, x, SHARPNESS)
    assert held.value.min() >= 5
    assert held.value.max() <= 10
    np.testing.assert_allclose(held.value[:, 0], 10)
    assert off_manifold(x, held.reachable).value > 0.1 > off_manifold(x, free.reachable).value


def test_the_nearest_image_within_the_range_is_as_near_as_scipy_finds():
    small = problems.get("colours", size=12)
    x = small.truth([{**SITES[0], "colour": "green"}, *SITES[1:]], 3, seed=6).astype(np.float64)
    found = recover_sharpness(small, SITES, x, SHARPNESS)

    def gap(sharpness: np.ndarray, image: np.ndarray) -> np.ndarray:
        return (small.whole(SITES, sharpness[None, :, None])[0] - image).ravel()

    for image, near in zip(x, found.reachable, strict=True):
        costs = [
            least_squares(gap, np.full(4, start), bounds=SHARPNESS, diff_step=1e-3, args=(image,)).cost
            for start in (6.0, 9.0)
        ]
        assert ((near - image) ** 2).sum() <= 2 * min(costs) * (1 + 1e-4)


def test_glitches_are_counted_pixel_by_pixel():
    x = COLOURS.truth(SITES, 20, seed=7)
    spoilt, where = x.copy(), np.random.default_rng(8).uniform(size=(20, 32, 32)) < 0.02
    flipped = np.where(x > 0.5, 0.0, 1.0)  # at least a half off
    spoilt[:, 1][where] = flipped[:, 1][where]
    found = recover_sharpness(COLOURS, SITES, spoilt, SHARPNESS)
    fraction = glitch_fraction(spoilt, found.reachable)
    assert fraction.value == pytest.approx(where.mean(), rel=0.01)
    assert glitch_fraction(x + 0.29, x).value == 0
    assert glitch_fraction(x + 0.31, x).value == 1


def test_the_sharpness_of_the_truth_is_uniform_on_its_range():
    found = recover_sharpness(COLOURS, SITES[:2], COLOURS.truth(SITES[:2], 200, seed=9))
    for site in range(2):
        result = ks_uniform(found.value[:, site], *SHARPNESS)
        assert result.value < result.floor


def test_images_that_cannot_be_read_are_refused():
    for x in (np.zeros((2, 3, 16, 16)), np.zeros((3, 32, 32)), np.full((1, 3, 32, 32), np.inf)):
        with pytest.raises(DataError):
            recover_sharpness(COLOURS, SITES, x)
    with pytest.raises(DataError, match="bounds"):
        recover_sharpness(COLOURS, SITES, np.zeros((1, 3, 32, 32)), (10.0, 5.0))
    with pytest.raises(DataError, match="must be images"):
        glitch_fraction(np.zeros((2, 3, 4, 4)), np.zeros((1, 3, 4, 4)))


# -- recovered specifics -----------------------------------------------------------------------------------------


def test_errors_of_specifics_are_what_is_computed_by_hand():
    true, found = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 5.0], [3.0, 4.5]])
    result = specifics_error(found, true)
    assert result.rmse.value == pytest.approx(math.sqrt((9 + 0.25) / 4), rel=1e-12)
    assert result.spread == pytest.approx(math.sqrt(1.25), rel=1e-12)
    some = specifics_error(found, true, np.array([[True, False], [True, True]]))
    assert some.rmse.value == pytest.approx(math.sqrt(0.25 / 3), rel=1e-12)
    assert some.spread == pytest.approx(np.std([1, 3, 4]), rel=1e-12)


def test_phases_are_compared_the_short_way_round():
    result = specifics_error(np.array([[3.1, 0.0]]), np.array([[-3.1, 0.0]]), period=2 * math.pi)
    assert result.rmse.value == pytest.approx((2 * math.pi - 6.2) / math.sqrt(2), rel=1e-9)


@pytest.mark.parametrize("where", [np.zeros((2, 2), bool), np.ones((2, 1), bool), np.ones((2, 2))])
def test_a_mask_that_selects_nothing_or_does_not_fit_is_refused(where):
    with pytest.raises(DataError, match="where the same with some True"):
        specifics_error(np.zeros((2, 2)), np.zeros((2, 2)), where)
