"""Measures against closed forms, hand-computed values and double loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from compvae.errors import DataError
from compvae.measures import RelED, edit_ratio, period_violation, rel_ed, rel_ed_floor, rmse

VALUES = st.floats(-100, 100, width=32)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return math.sqrt(sum((float(u) - float(v)) ** 2 for u, v in zip(a.ravel(), b.ravel(), strict=True)))


def brute_force(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """relED and E|X-X'| by double loops, pairs of a sample with itself left out."""
    across = np.mean([distance(a, b) for a in x for b in y])
    within = [np.mean([distance(s[i], s[j]) for i in range(len(s)) for j in range(len(s)) if i != j]) for s in (x, y)]
    return (2 * across - within[0] - within[1]) / within[0], within[0]


def mean_gap(shift: float, sigma: float) -> float:
    """E|N(shift, sigma^2)|."""
    peak = sigma * math.sqrt(2 / math.pi) * math.exp(-(shift**2) / (2 * sigma**2))
    return peak + shift * math.erf(shift / (sigma * math.sqrt(2)))


def gaussian_rel_ed(shift: float, true: float, model: float) -> float:
    """relED of N(0, true^2) and N(shift, model^2) in closed form."""
    spread = mean_gap(0, math.sqrt(2) * true)
    across = mean_gap(shift, math.sqrt(true**2 + model**2))
    return (2 * across - spread - mean_gap(0, math.sqrt(2) * model)) / spread


# -- relED -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "true", "model"), [(0, 1, 1), (1, 1, 1), (3, 1, 1), (0.5, 2, 1), (0, 1, 3)])
def test_rel_ed_of_gaussians_agrees_with_the_closed_form(shift, true, model):
    n, seeds = 400, range(20)
    values = [
        rel_ed(true * rng(2 * s).normal(size=n), shift + model * rng(2 * s + 1).normal(size=n)).value for s in seeds
    ]
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    # The denominator is random too, which biases the ratio by O(1/n).
    expected = gaussian_rel_ed(shift, true, model)
    assert abs(np.mean(values) - expected) < 3.5 * error + 5 * expected / n


def test_rel_ed_grows_with_the_shift():
    x, y = rng(0).normal(size=(300, 2)), rng(1).normal(size=(300, 2))
    values = [rel_ed(x, y + shift).value for shift in (0.0, 0.5, 1.0, 2.0)]
    assert values == sorted(values)
    assert values[-1] > 0.5


def test_rel_ed_of_equal_distributions_is_within_the_floor():
    def true(seed: int) -> np.ndarray:
        return rng(seed).normal(size=(200, 3, 2))

    floor = rel_ed_floor(true)
    assert 0 < floor < 0.05
    fresh = [rel_ed(true(1000 + 2 * s), true(1001 + 2 * s)).value for s in range(40)]
    assert np.mean([value <= floor for value in fresh]) > 0.8
    assert rel_ed(true(2000), 0.5 + true(2001)).value > floor


def test_the_floor_is_the_quantile_over_pairs_of_true_samples():
    drawn = []

    def true(seed: int) -> np.ndarray:
        drawn.append(seed)
        return rng(seed).normal(size=(20, 2))

    floor = rel_ed_floor(true, pairs=11, quantile=0.5)
    assert sorted(drawn) == list(range(22))
    values = sorted(brute_force(rng(2 * pair).normal(size=(20, 2)), true(2 * pair + 1))[0] for pair in range(11))
    assert floor == pytest.approx(values[5], abs=1e-12)


def test_rel_ed_is_unbiased_for_equal_distributions():
    pairs = [(rng(2 * s).normal(size=(5, 2)), rng(2 * s + 1).normal(size=(7, 2))) for s in range(3000)]
    results = [rel_ed(x, y) for x, y in pairs]
    distances = np.array([result.value * result.spread for result in results])  # the numerator alone is unbiased
    assert abs(distances.mean()) < 3 * distances.std() / math.sqrt(len(distances))


def test_samples_that_are_biased_upward_would_be_noticed():
    """Diagonal terms, which the definition leaves out, would give a clearly positive mean for the same pairs."""
    biased = []
    for s in range(300):
        x, y = rng(2 * s).normal(size=(5, 2)), rng(2 * s + 1).normal(size=(7, 2))
        result = rel_ed(x, y)
        within_y = brute_force(y, x)[1]
        biased.append(result.value * result.spread + result.spread / 5 + within_y / 7)
    assert np.mean(biased) > 10 * np.std(biased) / math.sqrt(len(biased))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    x=arrays(np.float64, st.tuples(st.integers(2, 6), st.just(2), st.just(2)), elements=VALUES),
    y=arrays(np.float64, st.tuples(st.integers(2, 6), st.just(2), st.just(2)), elements=VALUES),
)
def test_rel_ed_is_what_double_loops_give(x, y):
    result = rel_ed(x, y)
    spread = np.mean([distance(x[i], x[j]) for i in range(len(x)) for j in range(len(x)) if i != j])
    assert result.spread == pytest.approx(spread, rel=1e-9, abs=1e-12)
    assert result.mean_rmse == pytest.approx(math.sqrt(np.mean((x.mean(0) - y.mean(0)) ** 2)), rel=1e-9, abs=1e-12)
    if spread < 1e-3 * math.sqrt(4):
        assert math.isnan(result.value)
    else:
        assert result.value == pytest.approx(brute_force(x, y)[0], rel=1e-6, abs=1e-9)


def test_rel_ed_of_many_samples_is_what_double_loops_give():
    x, y = rng(0).normal(size=(60, 3)), rng(1).normal(size=(50, 3)) + 0.2
    assert rel_ed(x, y).value == pytest.approx(brute_force(x, y)[0], rel=1e-9)


def test_rel_ed_does_not_lose_its_digits_far_from_zero():
    x, y = 0.01 * rng(0).normal(size=(60, 3)), 0.01 * rng(1).normal(size=(50, 3))
    near, far = rel_ed(x, y).value, rel_ed(x + 1e6, y + 1e6).value
    assert far == pytest.approx(near, abs=1e-4)


def test_rel_ed_of_point_masses_is_exact():
    # E|X-X'| = 2 for {0, 2}; across: (1 + 1)/2 = 1; within the model {1, 1}: 0.
    assert rel_ed(np.array([0.0, 2.0]), np.array([1.0, 1.0])) == RelED(0.0, 2.0, 0.0)
    # across from {0, 2} to {5, 5}: (5 + 3)/2 = 4, so (8 - 2 - 0)/2 = 3.
    assert rel_ed(np.array([0.0, 2.0]), np.array([5.0, 5.0])) == RelED(3.0, 2.0, 4.0)
    # {0, 0, 3}: pairs 0, 3, 3 give 2; the model {(3, 4), (3, 4)} stands at 5, 5 and 4 from (0, 0), (0, 0), (3, 0).
    truth, model = np.array([[0.0, 0], [0, 0], [3, 0]]), np.array([[3.0, 4], [3, 4]])
    result = rel_ed(truth, model)
    assert result.value == pytest.approx((2 * 14 / 3 - 2) / 2, rel=1e-12)
    assert result.mean_rmse == pytest.approx(math.sqrt((2**2 + 4**2) / 2), rel=1e-12)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(scale=st.floats(0.01, 1000), seed=st.integers(0, 10**6))
def test_rel_ed_does_not_depend_on_the_unit_of_x(scale, seed):
    x, y = rng(seed).normal(size=(20, 4)), 0.5 + rng(seed + 1).normal(size=(20, 4))
    assert rel_ed(scale * x, scale * y).value == pytest.approx(rel_ed(x, y).value, rel=1e-9)


def test_float32_samples_are_compared_in_double_precision():
    x, y = rng(0).normal(size=(40, 3)).astype(np.float32), rng(1).normal(size=(40, 3)).astype(np.float32)
    assert rel_ed(x, y) == rel_ed(x.astype(np.float64), y.astype(np.float64))


@pytest.mark.parametrize("wobble", [0.0, 1e-5])
def test_a_truth_that_hardly_varies_gives_nan_and_the_error_of_the_mean(wobble):
    truth = np.full((10, 3, 4, 4), 0.25) + wobble * rng(0).normal(size=(10, 3, 4, 4))
    model = 0.75 + 0.1 * rng(1).normal(size=(30, 3, 4, 4))
    result = rel_ed(truth, model)
    assert math.isnan(result.value)
    assert result.spread < 1e-3 * math.sqrt(48)
    assert result.mean_rmse == pytest.approx(math.sqrt(np.mean((truth.mean(0) - model.mean(0)) ** 2)), rel=1e-12)
    assert result.mean_rmse == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("spread", "degenerate"), [(0.99e-3, True), (1.01e-3, False)])
def test_the_truth_counts_as_degenerate_below_a_thousandth_for_each_root_of_a_dimension(spread, degenerate):
    truth = np.array([[0.0] * 4, [spread] * 4])  # |X - X'| = 2 spread = spread sqrt(4)
    assert math.isnan(rel_ed(truth, truth + 1).value) == degenerate


@pytest.mark.parametrize(
    ("truth", "model", "words"),
    [
        (np.zeros((5, 3)), np.zeros((5, 4)), "same shape"),
        (np.zeros((5, 2, 3)), np.zeros((5, 3, 2)), "same shape"),
        (np.zeros((1, 3)), np.zeros((5, 3)), "truth needs at least 2 samples"),
        (np.zeros((5, 3)), np.zeros((1, 3)), "model needs at least 2 samples"),
        (np.zeros((0, 3)), np.zeros((5, 3)), "truth needs at least 2 samples"),
        (np.float64(1), np.zeros(5), "truth needs at least 2 samples"),
        (np.array([1.0, math.nan]), np.zeros(5), "truth holds NaN or infinite"),
        (np.zeros(5), np.array([1.0, math.inf]), "model holds NaN or infinite"),
        (np.zeros((5, 0)), np.zeros((5, 0)), "truth"),
        (np.array(["a", "b"]), np.zeros(5), "truth"),
    ],
    ids=[
        "sizes", "axes exchanged", "one true", "one of the model", "none", "no axis", "nan", "infinite", "no values",
        "text",
    ],
)  # fmt: skip
def test_samples_that_cannot_be_compared_are_refused(truth, model, words):
    with pytest.raises(DataError, match=words):
        rel_ed(truth, model)


# -- edits -------------------------------------------------------------------------------------------------------


def test_an_exact_edit_has_ratio_0():
    exact = rng(0).normal(size=(6, 8))
    assert edit_ratio(exact, exact, rng(1).normal(size=(6, 8))) == 0


def test_an_edit_as_far_off_as_resampling_has_ratio_1():
    exact, resampled = rng(0).normal(size=(6, 8)), rng(1).normal(size=(6, 8))
    assert edit_ratio(resampled, exact, resampled) == 1
    assert edit_ratio(2 * exact - resampled, exact, resampled) == pytest.approx(1, rel=1e-12)


def test_the_edit_ratio_is_what_is_computed_by_hand():
    exact = np.array([[0.0, 0.0], [1.0, 1.0]])
    edited = np.array([[1.0, 1.0], [1.0, 2.0]])  # squares 1, 1, 0, 1: mean 3/4
    resampled = np.array([[3.0, 0.0], [1.0, -2.0]])  # squares 9, 0, 0, 9: mean 9/2
    assert edit_ratio(edited, exact, resampled) == pytest.approx(math.sqrt(1 / 6), rel=1e-12)


def test_the_edit_ratio_is_the_root_of_a_ratio_of_totals_and_not_a_mean_of_ratios():
    exact = np.zeros((2, 1))
    assert edit_ratio(np.array([[1.0], [0.0]]), exact, np.array([[1.0], [7.0]])) == pytest.approx(math.sqrt(1 / 50))


def test_an_edit_that_preserves_nothing_because_nothing_varies_is_refused():
    exact = np.ones((3, 2))
    with pytest.raises(DataError, match="nothing an edit could preserve"):
        edit_ratio(exact + 1, exact, exact)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_edits_of_different_shapes_are_refused(which):
    shapes = [(4, 3), (4, 3), (4, 3)]
    shapes[which] = (1, 3)  # would broadcast
    with pytest.raises(DataError, match=r"one shape, got"):
        edit_ratio(*(rng(i).normal(size=shape) for i, shape in enumerate(shapes)))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(a=arrays(np.float32, (3, 4), elements=VALUES), b=arrays(np.float32, (3, 4), elements=VALUES))
def test_rmse_is_the_distance_over_the_root_of_the_number_of_values(a, b):
    assert rmse(a, b) == pytest.approx(distance(a, b) / math.sqrt(12), rel=1e-9, abs=1e-12)


# -- periods -----------------------------------------------------------------------------------------------------


def test_a_curve_that_repeats_has_no_period_violation():
    cycle = rng(0).normal(size=(3, 10))
    assert period_violation(np.tile(cycle, 3), 10) == 0
    assert period_violation(np.tile(cycle, 3), 20) == 0
    assert period_violation(np.zeros((3, 20)), 10) == 0


def test_the_period_violation_is_what_is_computed_by_hand():
    # Differences x(t+2) - x(t): 2, 0; RMS sqrt(2).  RMS of x: sqrt((1 + 4 + 9 + 4) / 4).
    assert period_violation(np.array([[1.0, 2.0, 3.0, 2.0]]), 2) == pytest.approx(math.sqrt(2 / 4.5), rel=1e-12)


def test_the_period_violation_of_white_noise_is_the_root_of_two():
    x = rng(0).normal(size=(200, 200))
    assert period_violation(x, 100) == pytest.approx(math.sqrt(2), abs=0.03)
    assert period_violation(1000 * x, 100) == pytest.approx(period_violation(x, 100), rel=1e-12)


@pytest.mark.parametrize(("shape", "period"), [((3, 20), 20), ((3, 20), 0), ((3, 20), -1), ((20,), 10), ((2, 3, 4), 1)])
def test_curves_without_room_for_the_period_are_refused(shape, period):
    with pytest.raises(DataError, match=rf"longer than the period {period}"):
        period_violation(np.ones(shape), period)
